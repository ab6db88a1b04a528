"""create-session, list-sessions, session-info, resume-session, rename-session and delete-session as clients see them."""

import os
import re
import signal
import sqlite3
import subprocess
import sys
import time

import pytest

from harness import alive, copies_of, kilobytes, wait_until
from mcpschema import ALL_REVISIONS, STATELESS

NOBODY_S = "session-20260120-143022-A4F2"


def made(client, **arguments):
    """The id of a new session."""
    answer = client.tool("create-session", **arguments)
    assert not answer.is_error, answer.text
    return re.search(r"session-\d{8}-\d{6}-[0-9A-F]{4}", answer.text).group()


def info(client, session):
    answer = client.tool("session-info", session=session)
    assert not answer.is_error, answer.text
    return answer.structured


def listed(client, **arguments):
    return client.tool("list-sessions", **arguments).structured


def present(client, **arguments):
    """The names of the clients that are there."""
    return [one["name"] for one in client.tool("session-info", **arguments).structured["clients"]]


def failure(answer):
    """The type of an error."""
    assert answer.is_error, answer.text
    return answer.text.split("\n")[0].removeprefix("[ERROR] ")


# ---- create-session

@pytest.mark.parametrize("revision", ALL_REVISIONS)
def test_a_session_is_created_and_used_by_id_and_by_name_in_every_revision(client, revision):
    client.open(revision)
    name = f"Under {revision}"
    session = made(client, name=name)
    assert client.evaluate("(defvar *x* 41)", session=session).text == "=> *X*"
    assert client.evaluate("(1+ *x*)", session=name).text == "=> 42"
    assert client.tool("list-sessions").text.count(session) == 1


def test_the_answer_tells_the_id_and_what_to_do_with_it(client):
    client.open()
    answer = client.tool("create-session", name="Debug Session")
    session = answer.structured["id"]
    assert answer.text == (f'Created {session} "Debug Session".\n'
                           "Pass it as `session`, or make it this connection's own with resume-session.")
    assert answer.structured == {"id": session, "name": "Debug Session"}


def test_what_it_was_created_with_is_told_by_session_info(lisp):
    metadata = {"provider": "anthropic", "deep": {"list": [1, 2.5, None, True, "ä\u2028\U0001F600"]}}
    session = made(lisp, name="Told", model="claude-sonnet-4-20250514", metadata=metadata)
    card = info(lisp, session)
    assert (card["id"], card["name"], card["model"], card["metadata"]) == (session, "Told", "claude-sonnet-4-20250514", metadata)
    assert card["state"] == "stored" and card["evaluations"] == card["messages"] == 0 and "pid" not in card
    assert card["created_at"] == card["updated_at"] > 3_976_000_000  # universal time


def test_creating_a_session_starts_no_process_until_it_is_used(own_runtime):
    client = own_runtime.client().open()
    session = made(client)
    assert own_runtime.status()["sessions"] == []
    client.evaluate("1", session=session)
    assert info(client, session)["state"] == "idle"


def test_the_connection_s_own_session_stays_its_own_when_another_is_created(lisp):
    lisp.evaluate("(defvar *here* t)")
    made(lisp)
    assert lisp.evaluate("*here*").text == "=> T"


def test_a_name_that_is_taken_is_refused_and_says_what_to_do(lisp):
    made(lisp, name="Taken")
    answer = lisp.tool("create-session", name="Taken")
    assert failure(answer) == "SESSION-EXISTS" and "resume-session" in answer.text


@pytest.mark.parametrize("name", ["session-1", "session-20260120-143022-A4F2", "two\nlines", "\x7f", "x" * 257, "ä" * 129])
def test_a_name_that_could_be_mistaken_is_refused(lisp, name):
    answer = lisp.tool("create-session", name=name)
    assert failure(answer) == "INVALID-ARGUMENTS" and "must be one line of at most 256 bytes" in answer.text


def test_metadata_beyond_64_kb_is_refused_and_no_session_is_made(lisp):
    before = listed(lisp)["total"]
    fitting = {"a": "x" * (65536 - len('{"a":""}'))}
    answer = lisp.tool("create-session", metadata={"a": fitting["a"] + "y"})
    assert failure(answer) == "METADATA-OVERFLOW" and "64 KB" in answer.text
    assert listed(lisp)["total"] == before
    assert info(lisp, made(lisp, metadata=fitting))["metadata"] == fitting


def test_a_clash_of_ids_draws_again(own_runtime):
    """Among 1,200 suffixes of one second there is a clash with a chance of 99.998 %."""
    client = own_runtime.client().open()
    requests = [client.start("tools/call", {"name": "create-session", "arguments": {}}) for _ in range(1200)]
    ids = {client.evaluation(request).structured["id"] for request in requests}
    assert len(ids) == 1200 and listed(client)["total"] == 1200


def test_a_create_that_is_sent_again_after_a_kill_makes_one_session(own_runtime):
    client = own_runtime.client().open()
    for turn in range(20):
        request = client.start("tools/call", {"name": "create-session", "arguments": {"name": f"n{turn}"}})
        os.kill(own_runtime.daemon_pid(), signal.SIGKILL)
        answer = client.evaluation(request)
        assert not answer.is_error and answer.structured["name"] == f"n{turn}"
    assert listed(client)["total"] == 20


# ---- list-sessions

def test_sessions_are_listed_last_used_first_with_counts_state_memory_and_clients(own_runtime):
    client = own_runtime.client().open()
    assert client.tool("list-sessions").text == "0 sessions"
    asleep = made(client, name="Asleep")
    client.evaluate("(+ 1 2)")
    page = listed(client)
    assert page["total"] == 2 and "next_cursor" not in page
    mine = next(card for card in page["sessions"] if card["id"] != asleep)
    assert (mine["state"], mine["evaluations"], mine["messages"]) == ("idle", 1, 2)
    assert mine["memory_kb"] > 1000 and [one["name"] for one in mine["clients"]] == ["tests"]
    text = client.tool("list-sessions").text
    assert re.search(rf'{mine["id"]}: idle, 1 evaluation, 2 messages, [\d.]+ MB, used \d{{4}}-.*, open in tests', text)
    assert f'{asleep} "Asleep": stored, 0 evaluations, 0 messages, used ' in text


def test_pages_hold_each_session_once_in_order(own_runtime):
    client = own_runtime.client().open()
    ids = {made(client) for _ in range(25)}
    seen, cursor, sizes = [], {}, []
    while True:
        page = listed(client, limit=10, **cursor)
        assert page["total"] == 25
        sizes.append(len(page["sessions"]))
        seen += page["sessions"]
        if "next_cursor" not in page:
            break
        cursor = {"cursor": page["next_cursor"]}
    assert sizes == [10, 10, 5] and {card["id"] for card in seen} == ids and len(seen) == 25
    assert seen == sorted(seen, key=lambda card: (card["updated_at"], card["id"]), reverse=True)


def test_a_page_that_ends_exactly_says_that_there_is_no_more(own_runtime):
    client = own_runtime.client().open()
    for _ in range(3):
        made(client)
    assert "next_cursor" not in listed(client, limit=3)
    assert len(listed(client, limit=2)["sessions"]) == 2


@pytest.mark.parametrize("cursor", ["", "1", "1/", "x/" + NOBODY_S, "/" + NOBODY_S, "12/session-1"])
def test_a_cursor_that_is_none_is_refused(lisp, cursor):
    assert "must be one that list-sessions has given" in lisp.tool("list-sessions", cursor=cursor).text


# ---- session-info

def test_session_info_without_an_argument_tells_of_the_connection_s_own(lisp):
    answer = lisp.tool("session-info")
    assert failure(answer) == "SESSION-NOT-FOUND" and "list-sessions" in answer.text
    lisp.evaluate("(defpackage :mine (:use :cl)) (in-package :mine)")
    card = lisp.tool("session-info").structured
    assert (card["package"], card["evaluations"], card["messages"]) == ("MINE", 1, 2) and present(lisp) == ["tests"]
    assert card["directory"] == str(lisp.runtime.directory) and card["pid"] and card["protected"] in (0, 1)


def test_two_clients_of_one_session_are_both_named_and_see_each_other_s_work(runtime, connect):
    first = connect("--session", "Shared work").open()
    second = connect("--session", "Shared work").open()
    first.evaluate("(defvar *n* 0)")
    requests = [(client, client.start_evaluation("(incf *n*)")) for client in (first, second) * 20]
    values = sorted(int(client.evaluation(request).text[3:]) for client, request in requests)
    assert values == list(range(1, 41))
    assert present(first) == ["tests", "tests"]
    second.finish()
    wait_until(lambda: present(first) == ["tests"], "one of them is left")


def test_session_info_names_who_is_there_with_the_shim_s_pid_and_the_time(lisp, connect):
    lisp.evaluate("1")
    answer = lisp.tool("session-info")
    (client,) = answer.structured["clients"]
    assert client == {"name": "tests", "pid": lisp.process.pid, "since": client["since"]}
    assert 0 <= time.time() + 2208988800 - client["since"] < 60
    assert re.search(rf"\nopen in: tests \(pid {lisp.process.pid}\) since \d{{4}}-\d\d-\d\d \d\d:\d\d:\d\d$", answer.text, re.M)


def test_who_works_in_a_session_by_naming_it_is_there_until_it_works_elsewhere(lisp, connect):
    guest = connect().open(STATELESS)
    one, other = made(lisp), made(lisp)
    guest.evaluate("1", session=one)
    assert present(lisp, session=one) == ["tests"] and present(lisp, session=other) == []
    guest.evaluate("1", session=other)
    assert present(lisp, session=one) == [] and present(lisp, session=other) == ["tests"]
    guest.finish()
    wait_until(lambda: present(lisp, session=other) == [], "it is gone")


def test_the_memory_that_is_told_is_what_the_process_holds_beside_files(lisp):
    lisp.evaluate("(progn (defvar *big* (make-array 30000000 :element-type '(unsigned-byte 8) :initial-element 1)) t)")
    card = lisp.tool("session-info").structured
    anonymous = kilobytes(card["pid"], "RssAnon", file="status")
    assert anonymous > 29_000 and abs(card["memory_kb"] - anonymous) < 2_000


def test_session_info_answers_while_an_evaluation_runs(lisp):
    lisp.evaluate("1")
    running = lisp.start_evaluation("(sleep 1000)")
    waiting = lisp.start_evaluation("2")
    wait_until(lambda: lisp.tool("session-info").structured["waiting"] == 1, "one runs and one waits")
    assert lisp.tool("session-info").structured["state"] == "running"
    lisp.cancel(running)
    assert lisp.evaluation(waiting).text == "=> 2"


# ---- resume-session

@pytest.mark.parametrize("revision", ALL_REVISIONS)
def test_a_resumed_session_is_the_connection_s_own_or_a_handle(client, connect, revision):
    other = connect().open()
    other.evaluate("(defvar *picked-up* 7)")
    session = other.tool("session-info").structured["id"]
    client.open(revision)
    answer = client.tool("resume-session", session=session)
    assert not answer.is_error and session in answer.text
    if revision == STATELESS:
        assert "Pass the id as `session` in each call." in answer.text
        assert "UNBOUND-VARIABLE" in client.evaluate("*picked-up*").text
        assert client.evaluate("*picked-up*", session=session).text == "=> 7"
    else:
        assert answer.text.startswith("It is this connection's own session now.\n")
        assert client.evaluate("*picked-up*").text == "=> 7"


def test_a_session_is_resumed_by_name_and_the_daemon_s_death_does_not_undo_it(own_runtime):
    client = own_runtime.client().open()
    session = made(client, name="Named")
    client.evaluate("(defvar *x* 5)", session="Named")
    assert client.tool("resume-session", session="Named").structured["id"] == session
    os.kill(own_runtime.daemon_pid(), signal.SIGKILL)
    assert client.evaluate("*x*").text == "=> 5"


# ---- rename-session

def test_a_renamed_session_is_found_by_its_new_name_only(lisp):
    session = made(lisp, name="Before")
    lisp.evaluate("(defvar *x* 1)", session="Before")
    assert lisp.tool("rename-session", session="Before", name="After").text == f'{session} is called "After" now.'
    assert lisp.evaluate("*x*", session="After").text == "=> 1"
    assert failure(lisp.evaluate("*x*", session="Before")) == "SESSION-NOT-FOUND"
    assert lisp.tool("rename-session", session="After", name="").text == f"{session} has no name now."
    assert info(lisp, session)["name"] is None
    made(lisp, name="After")  # it is free


def test_a_rename_to_a_taken_name_changes_nothing(lisp):
    made(lisp, name="One")
    second = made(lisp, name="Two")
    assert failure(lisp.tool("rename-session", session="Two", name="One")) == "SESSION-EXISTS"
    assert info(lisp, second)["name"] == "Two"
    assert not lisp.tool("rename-session", session="Two", name="Two").is_error  # its own


# ---- delete-session

def names_of(directory, session):
    return [name for _, _, files in os.walk(directory) for name in files if session in name]


@pytest.mark.parametrize("code", ["(defvar *x* 1)", "(mp:process-run-function 'busy (lambda () (loop)))"])
def test_a_deleted_session_leaves_no_process_file_or_row(own_runtime, code):
    client = own_runtime.client().open()
    session = made(client, name="Gone")
    client.evaluate(code, session="Gone")
    client.evaluate('(ext:run-program "sleep" (list "1000") :wait nil)', session="Gone")
    pid = info(client, session)["pid"]
    processes = [pid, *copies_of(pid)]
    assert names_of(own_runtime.directory, session)
    answer = client.tool("delete-session", session=session)
    assert answer.text == f'Deleted {session} "Gone" with its process and 4 messages.'
    assert not any(map(alive, processes)) and not names_of(own_runtime.directory, session)
    assert listed(client) == {"total": 0, "sessions": []} and own_runtime.status()["sessions"] == []
    for tool in ("session-info", "resume-session", "delete-session"):
        assert failure(client.tool(tool, session=session)) == "SESSION-NOT-FOUND"
    assert failure(client.evaluate("1", session=session)) == "SESSION-NOT-FOUND"


def test_deleting_wants_the_id(lisp):
    made(lisp, name="Kept")
    answer = lisp.tool("delete-session", session="Kept")
    assert failure(answer) == "INVALID-SESSION-ID" and "wants the id" in answer.text
    assert info(lisp, "Kept")


def test_what_ran_and_waited_in_a_deleted_session_is_answered(lisp, connect):
    other = connect().open()
    session = made(lisp)
    running = lisp.start_evaluation("(loop)", session=session)
    wait_until(lambda: info(lisp, session)["state"] == "running", "it runs")
    waiting = [other.start_evaluation("1", session=session) for _ in range(3)]
    wait_until(lambda: info(lisp, session)["waiting"] == 3, "three wait")
    assert not lisp.tool("delete-session", session=session).is_error
    assert failure(lisp.evaluation(running)) == "SESSION-DELETED"
    assert [failure(other.evaluation(request)) for request in waiting] == ["SESSION-DELETED"] * 3


def test_a_client_whose_own_session_was_deleted_gets_a_new_one(lisp):
    lisp.evaluate("(defvar *x* 1)")
    session = lisp.tool("session-info").structured["id"]
    assert not lisp.tool("delete-session", session=session).is_error
    assert lisp.evaluate("(boundp '*x*)").text == "=> NIL"
    assert lisp.tool("session-info").structured["id"] != session


def test_a_deletion_that_is_cut_off_by_a_kill_is_finished(own_runtime):
    client = own_runtime.client().open()
    for _ in range(10):
        session = made(client)
        client.evaluate("1", session=session)
        request = client.start("tools/call", {"name": "delete-session", "arguments": {"session": session}})
        os.kill(own_runtime.daemon_pid(), signal.SIGKILL)
        assert not client.evaluation(request).is_error
    own_runtime.ready()
    assert listed(client)["total"] == 0 and own_runtime.status()["sessions"] == []
    assert not names_of(own_runtime.directory, "session-")


def test_a_session_that_is_opened_and_deleted_at_once_is_answered_for_and_leaves_nothing(own_runtime):
    one, other = own_runtime.client().open(), own_runtime.client().open()
    daemon = own_runtime.daemon_pid()
    for turn in range(60):
        session = made(one, name=f"n{turn}")
        which = session if turn % 2 else f"n{turn}"
        deletion = one.start("tools/call", {"name": "delete-session", "arguments": {"session": session}})
        evaluations = [other.start_evaluation("1", session=which) for _ in range(3)]
        assert not one.evaluation(deletion).is_error
        for answer in map(other.evaluation, evaluations):
            assert answer.text == "=> 1" or failure(answer) in ("SESSION-NOT-FOUND", "SESSION-DELETED")
    wait_until(lambda: own_runtime.status()["sessions"] == [], "no session is left")
    assert own_runtime.daemon_pid() == daemon and listed(one)["total"] == 0
    wait_until(lambda: not names_of(own_runtime.directory, "session-"), "nothing is left of their processes")


# ---- who may

# What a call of each tool that is for one session needs beside the session.
ONE_SESSION = {
    "add-message": {"role": "user", "content": "x"}, "checkpoint-session": {"name": "x"}, "configure-limits": {},
    "delete-session": {}, "evaluate-lisp": {"code": "1"}, "export-session": {}, "fork-session": {}, "list-checkpoints": {},
    "list-definitions": {}, "load-system": {"system": "x"}, "read-output": {}, "rename-session": {"name": "x"},
    "reset-session": {}, "resume-session": {}, "rollback-session": {"to": "x"}, "search-sessions": {"query": "x"},
    "session-history": {}, "session-info": {}, "set-session-metadata": {},
}
NO_SESSION = {"create-session", "import-session", "list-sessions"}


def test_every_tool_that_can_be_for_one_session_takes_its_id_or_name(lisp):
    tools = {tool["name"]: tool["inputSchema"]["properties"] for tool in lisp.result("tools/list")["tools"]}
    assert {name for name, properties in tools.items() if properties.get("session", {}).get("type") == "string"} == set(ONE_SESSION)
    assert set(tools) == set(ONE_SESSION) | NO_SESSION


@pytest.mark.parametrize("tool", sorted(ONE_SESSION))
def test_a_tool_finds_a_session_by_its_id_and_by_its_name(lisp, tool):
    arguments = dict(ONE_SESSION[tool])
    name = f"For {tool}"
    session = made(lisp, name=name)
    if tool == "rename-session":
        arguments["name"] = name
    if tool == "fork-session":  # of what has no process there is no clone
        lisp.evaluate("1", session=name)
    by_name = lisp.tool(tool, session=name, **arguments)
    if tool == "delete-session":
        assert failure(by_name) == "INVALID-SESSION-ID"
    else:
        assert "SESSION" not in by_name.text.split("\n")[0]
    assert "SESSION" not in lisp.tool(tool, session=session, **arguments).text.split("\n")[0]


@pytest.mark.parametrize("tool", sorted(ONE_SESSION))
def test_an_id_that_nobody_has_and_one_of_the_wrong_shape_are_told_apart(lisp, tool):
    unknown = lisp.tool(tool, session=NOBODY_S, **ONE_SESSION[tool])
    assert failure(unknown) == "SESSION-NOT-FOUND" and "list-sessions" in unknown.text
    assert failure(lisp.tool(tool, session="session-2026", **ONE_SESSION[tool])) == "INVALID-SESSION-ID"


def test_a_foreign_session_answers_every_tool_as_one_that_is_not_there(own_runtime):
    """The owner in its row is what decides."""
    client = own_runtime.client().open()
    session = made(client, name="Somebody's")
    with sqlite3.connect(own_runtime.database) as database:
        database.execute("UPDATE sessions SET owner = owner + 1 WHERE id = ?", (session,))
    for tool, more in ONE_SESSION.items():
        foreign, unknown = (client.tool(tool, session=name, **more) for name in (session, NOBODY_S))
        assert failure(foreign) == "SESSION-NOT-FOUND" and foreign.text.replace(session, NOBODY_S) == unknown.text, tool
    by_name = client.tool("session-info", session="Somebody's").text
    assert by_name == client.tool("session-info", session="Nobody's").text.replace("Nobody's", "Somebody's")
    assert listed(client)["total"] == 0
    assert made(client, name="Somebody's")  # names are unique per owner


def test_another_user_is_turned_away_even_where_files_would_let_him_in(own_runtime):
    if os.getuid() != 0:
        pytest.skip("only root can become another user")
    own_runtime.ready()
    for path, mode in ((own_runtime.directory, 0o711), (own_runtime.directory / "socket", 0o666)):
        path.chmod(mode)
    try_it = ("import socket, sys; s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]); s.settimeout(20);"
              "print(s.recv(1))")
    done = subprocess.run([sys.executable, "-c", try_it, str(own_runtime.directory / "socket")], user=65534, group=65534,
                          extra_groups=[], cwd="/", capture_output=True, text=True, timeout=30, check=False)
    own_runtime.directory.chmod(0o700)
    assert done.stdout == "b''\n", done.stderr
    assert "a client of another user was turned away" in own_runtime.log_tail()
