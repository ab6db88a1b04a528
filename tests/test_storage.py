"""Sessions without a process, and a store that cannot be written: everything is answered, and mended by itself."""

import contextlib
import os
import signal
import socket
import sqlite3
import subprocess
import time

import pytest

from harness import FAULTS, wait_until
from link_driver import frame


def state_directory(runtime):
    return runtime.database.parent


# The five invariants of the storage contract. Its error conditions are in test_tool_sessions.py (INVALID-SESSION-ID,
# SESSION-EXISTS), test_tool_transfer.py (MISSING-CONVERSATION, INVALID-TIMESTAMP) and test_tool_history.py (METADATA-OVERFLOW).


def now():
    return int(time.time()) + 2208988800


@pytest.fixture
def rows(runtime):
    """Runs a statement on the file itself, and says what it gives."""
    def run(statement, *values):
        with contextlib.closing(sqlite3.connect(runtime.database, timeout=30)) as database, database:
            database.execute("PRAGMA foreign_keys = ON")
            return database.execute(statement, values).fetchall()
    return run


def test_an_id_is_one_session_s_whoever_asks(lisp, rows):
    session = lisp.tool("create-session").structured["id"]
    with pytest.raises(sqlite3.IntegrityError, match="UNIQUE"):
        rows("INSERT INTO sessions (id, owner, directory, created_at, updated_at) VALUES (?, 4711, '/', 1, 1)", session)
    assert rows("SELECT owner FROM sessions WHERE id = ?", session) == [(os.getuid(),)]


def test_every_session_has_a_conversation_from_its_first_moment_on(lisp, rows):
    session = lisp.tool("create-session").structured["id"]
    assert lisp.tool("session-history", session=session).structured["messages"] == []
    assert lisp.tool("export-session", session=session).structured["conversation"] == {"messages": []}
    with pytest.raises(sqlite3.IntegrityError, match="FOREIGN KEY"):
        rows("INSERT INTO messages (session, number, role, content, created_at) "
             "VALUES ('session-20260120-143022-0000', 1, 'user', 'of no session', 1)")


def test_no_session_was_used_before_it_was_made(lisp, rows):
    session = lisp.tool("create-session").structured["id"]
    with pytest.raises(sqlite3.IntegrityError, match="updated_at"):
        rows("UPDATE sessions SET updated_at = created_at - 1 WHERE id = ?", session)
    rows("UPDATE sessions SET created_at = created_at + 3600, updated_at = updated_at + 3600 WHERE id = ?", session)
    lisp.tool("add-message", session=session, role="user", content="x", time=now() - 1000)
    lisp.evaluate("1", session=session)
    lisp.tool("set-session-metadata", session=session, set={"a": 1})
    card = lisp.tool("session-info", session=session).structured
    assert card["updated_at"] >= card["created_at"]


def test_metadata_takes_any_keys_and_values(lisp):
    metadata = {"provider": "x", "": [], "Ä b.c[0]$": {"deep": [None, True, -1.5, {"x": "\u2028\""}]}, "total_input_tokens": 7}
    session = lisp.tool("create-session", metadata=metadata).structured["id"]
    assert lisp.tool("session-info", session=session).structured["metadata"] == metadata
    lisp.tool("set-session-metadata", session=session, set={"more": {"a": 1}}, input_tokens=3)
    assert lisp.tool("session-info", session=session).structured["metadata"] == {
        **metadata, "more": {"a": 1}, "total_input_tokens": 10}


def test_what_the_daemon_remembers_of_a_session_is_what_the_disk_holds(own_runtime):
    client = own_runtime.client("--session", "one").open()
    client.evaluate("(defpackage :mine (:use :cl)) (in-package :mine)")
    client.tool("configure-limits", timeout=77)
    client.tool("rename-session", session="one", name="two")
    def remembered():
        card = client.tool("session-info").structured
        limits = client.tool("configure-limits").text
        return {key: card[key] for key in ("id", "name", "package", "directory", "evaluations", "created_at")}, limits
    wait_until(lambda: client.tool("session-info").structured["messages"] == 2, "it is stored")
    before = remembered()
    assert before[0]["name"] == "two" and before[0]["package"] == "MINE" and "timeout: 77" in before[1]
    os.kill(own_runtime.daemon_pid(), signal.SIGKILL)
    assert remembered() == before


# Clocks


@pytest.mark.parametrize("offset", [-20 * 365 * 86400, 3 * 86400])
def test_times_of_a_wrong_clock_are_replaced_and_logged(own_runtime, offset):
    if not FAULTS.is_file():
        pytest.skip(f"{FAULTS} is not there: make unit-tests builds it")
    own_runtime.use_faults(CLOCK_OFFSET=str(offset))
    with own_runtime.client("--session", "work") as client:
        client.open().evaluate("(+ 1 2)")
        wait_until(lambda: client.tool("session-info").structured["messages"] == 2, "it is stored")
        created = client.tool("session-info").structured["created_at"]
    assert created >= 3786825600 and ("INVALID-TIMESTAMP" in own_runtime.log_tail()) == (offset < 0)
    own_runtime.end_daemon(signal.SIGTERM)
    own_runtime.use_faults(CLOCK_OFFSET="0")
    with own_runtime.client() as client:
        card = client.open().tool("session-info", session="work").structured
        messages = client.tool("session-history", session="work").structured["messages"]
    assert 3786825600 <= card["created_at"] <= card["updated_at"] <= now() + 60
    assert all(3786825600 <= message["created_at"] <= now() + 60 for message in messages)
    assert "INVALID-TIMESTAMP" in own_runtime.log_tail()


# Sessions


def test_a_named_session_comes_back_after_a_shutdown_and_says_so(own_runtime):
    with own_runtime.client("--session", "work") as client:
        client.open().evaluate("(defvar *mine* 1)")
        session = client.evaluate("*mine*").structured["session"]
    own_runtime.control("shutdown")
    with own_runtime.client("--session", "work") as client:
        back = client.open().evaluate("*mine*")
        assert back.structured["session"] == session and back.structured["values"] == ["1"]
        assert "SESSION-RESTORED" in back.text
        assert client.evaluate("(+ 1 2)").text == "=> 3"


def test_a_client_that_lives_through_a_shutdown_is_told_that_its_session_was_restored(own_runtime):
    client = own_runtime.client().open()
    session = client.evaluate("(defvar *mine* 1)").structured["session"]
    own_runtime.control("shutdown")
    back = client.evaluate("*mine*")
    assert back.structured["session"] == session and back.structured["values"] == ["1"]
    assert "SESSION-RESTORED" in back.text


@pytest.mark.parametrize("name, kind", [("session-20200101-000000-0000", "SESSION-NOT-FOUND"),
                                        ("nobody-has-this-name", "SESSION-NOT-FOUND"),
                                        ("session-1", "INVALID-SESSION-ID"), ("", "INVALID-SESSION-ID")])
def test_a_session_that_is_not_there_is_a_clear_error(lisp, name, kind):
    answer = lisp.evaluate("(+ 1 2)", session=name)
    assert answer.is_error and answer.text.startswith(f"[ERROR] {kind}\n")
    assert "list-sessions shows" in answer.text or "Leave `session` out" in answer.text
    assert lisp.evaluate("(+ 1 2)").text == "=> 3"


def test_a_zygote_that_dies_while_it_spawns_costs_a_pause_and_no_answer(own_runtime):
    own_runtime.ready()
    zygote = own_runtime.status()["zygote"]["pid"]
    os.kill(zygote, signal.SIGSTOP)
    client = own_runtime.client().open()
    request = client.start_evaluation("(+ 1 2)")
    wait_until(lambda: own_runtime.status()["sessions"][0]["state"] == "waiting", "the spawn was asked for")
    os.kill(zygote, signal.SIGKILL)
    assert client.evaluation(request).text == "=> 3"


def test_a_connection_that_replaces_an_older_one_takes_its_conversation_over(runtime):
    hello = {"version": 1, "nonce": os.urandom(16), "lines_read": 0, "lines_settled": 0, "directory": "/"}
    runtime.ready()
    with socket.socket(socket.AF_UNIX) as old, socket.socket(socket.AF_UNIX) as new:
        for link in (old, new):
            link.settimeout(10)
            link.connect(runtime.environment["CL_MCPD_SOCKET"])
            link.sendall(frame("H", **hello) + frame("E"))
            assert link.recv(4096)[4:5] == b"W"
        new.sendall(frame("L", line=1, text=b'{"jsonrpc":"2.0","id":1,"method":"ping"}'))
        assert b'"result":{}' in new.recv(4096)
        assert old.recv(4096) == b""


def test_a_connection_that_is_lost_while_the_store_is_asked_loses_no_agreement(own_runtime):
    hello = {"version": 1, "nonce": os.urandom(16), "lines_settled": 0, "directory": "/"}
    handshake = b'{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-03-26"}}'
    address = own_runtime.environment["CL_MCPD_SOCKET"]

    def say(link, lines_read):
        link.settimeout(10)
        link.connect(address)
        link.sendall(frame("H", lines_read=lines_read, **hello))
        assert link.recv(4096)[4:5] == b"W"

    own_runtime.ready()
    with socket.socket(socket.AF_UNIX) as link:
        say(link, 0)
        link.sendall(frame("L", line=1, text=handshake))
        assert b'"2025-03-26"' in link.recv(4096)
        os.kill(own_runtime.daemon_pid(), signal.SIGKILL)
        assert link.recv(4096) == b""
    own_runtime.ready()
    with socket.socket(socket.AF_UNIX) as old, socket.socket(socket.AF_UNIX) as new:
        with sqlite3.connect(own_runtime.database, isolation_level=None) as database:
            database.execute("BEGIN IMMEDIATE")  # the store waits
            say(old, 1)
            say(new, 1)
            new.sendall(frame("L", line=2, text=b'{"jsonrpc":"2.0","id":2,"method":"tools/list"}'))
            new.sendall(frame("L", line=3, text=b'{"jsonrpc":"2.0","id":3,"method":"ping"}'))
            assert own_runtime.status()["pid"]  # what was sent before has come
        assert b'"tools":[' in new.recv(4096)


def test_a_batch_that_comes_again_is_answered_on_the_new_connection(runtime):
    """And with a sanitizer: nothing of the one before is left."""
    hello = {"version": 1, "nonce": os.urandom(16), "lines_read": 0, "lines_settled": 0, "directory": "/"}
    handshake = b'{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-03-26"}}'
    evaluation = (b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"evaluate-lisp",'
                  b'"arguments":{"code":"(progn (sleep 0.3) 1)"}}}')
    batch = b'[{"jsonrpc":"2.0","id":2,"method":"ping"},' + evaluation + b"]"
    runtime.ready()
    with socket.socket(socket.AF_UNIX) as old, socket.socket(socket.AF_UNIX) as new:
        for link in (old, new):
            link.settimeout(10)
            link.connect(runtime.environment["CL_MCPD_SOCKET"])
            link.sendall(frame("H", **hello))
            assert link.recv(4096)[4:5] == b"W"
            link.sendall(frame("L", line=1, text=handshake))
            assert b'"2025-03-26"' in link.recv(4096)
            link.sendall(frame("L", line=2, text=batch))
        answer = new.recv(65536)
        assert b'[{"jsonrpc":"2.0","id":2,"result":{}},{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"=> 1"}]' in answer


# The store


def test_a_state_directory_that_others_can_enter_is_refused_until_it_is_mended(own_runtime):
    state_directory(own_runtime).mkdir(parents=True)
    state_directory(own_runtime).chmod(0o755)
    client = own_runtime.client().open()
    refused = client.evaluate("(+ 1 2)")
    assert refused.is_error and refused.text.startswith("[ERROR] STORAGE-FAILED\n") and "0700" in refused.text
    state_directory(own_runtime).chmod(0o700)
    wait_until(lambda: client.evaluate("(+ 1 2)").text == "=> 3", "evaluation works again")


def test_a_full_disk_refuses_evaluations_and_is_forgotten_when_there_is_room_again(own_runtime):
    state = state_directory(own_runtime)
    state.mkdir(parents=True)
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m,mode=0700", "tmpfs", state],
                             capture_output=True, text=True)
    if mounted.returncode:
        pytest.skip(f"a small disk cannot be mounted here: {mounted.stderr.strip()}")
    try:
        client = own_runtime.client().open()
        assert client.evaluate("(defvar *kept* 42)").text == "=> *KEPT*"
        with open(state / "filler", "wb", buffering=0) as filler, pytest.raises(OSError):
            while True:
                filler.write(bytes(4096))
        wait_until(lambda: client.evaluate('(format nil "~1000d" 1)').text.startswith("[ERROR] STORAGE-FAILED\n"),
                   "the full disk is noticed")
        (state / "filler").unlink()
        wait_until(lambda: client.evaluate("*kept*").text == "=> 42", "evaluation works again")
        own_runtime.control("shutdown")
    finally:
        subprocess.run(["umount", "-l", state], check=True)


def test_answers_behind_a_request_that_stays_open_are_not_kept(own_runtime):
    client = own_runtime.client().open()
    other = client.tool("create-session").structured["id"]
    loop = client.start_evaluation("(loop)")

    def answers():
        with sqlite3.connect(own_runtime.database) as database:
            return database.execute("SELECT count(*) FROM answers").fetchone()[0]

    for _ in range(300):
        client.evaluate("1", session=other)
    wait_until(lambda: answers() < 150, "those that the client has are forgotten")
    os.kill(own_runtime.daemon_pid(), signal.SIGKILL)
    assert client.evaluate("2", session=other).text == "=> 2"
    client.cancel(loop)
