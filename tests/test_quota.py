"""What the administrator allows: live sessions and stored bytes for each user, and how long unused sessions are kept."""

import os
import re
import signal
import sqlite3
import time

import pytest

from harness import alive as process_lives, kill_for_good, wait_until
from test_tool_sessions import failure, info, listed, made

UNIVERSAL = 2208988800


@pytest.mark.parametrize("option, value", [("--quota", "sessions"), ("--quota", "people=3"), ("--quota", "storage=-1"),
                                           ("--quota", "storage=1x"), ("--quota", "sessions=nan"), ("--retain-days", "x"),
                                           ("--retain-days", "-1")])
def test_a_setting_that_makes_no_sense_is_refused(runtime, option, value):
    done = runtime.run("cl-mcpd", option, value)
    assert done.returncode == 2 and f"{option} {value}: it".encode() in done.stderr.replace(b"its value", b"it")


# ---- live sessions

def test_beyond_the_quota_of_live_sessions_none_is_started_and_those_that_live_go_on(own_runtime):
    with own_runtime.daemon("--quota", "sessions=2"):
        client = own_runtime.client().open()
        one, two, three = (made(client) for _ in range(3))
        client.evaluate("(defvar *x* 1)", session=one)
        client.evaluate("1", session=two)
        answer = client.evaluate("1", session=three)
        assert failure(answer) == "QUOTA-EXCEEDED" and "2 sessions of yours have a process" in answer.text
        assert "the administrator allows 2" in answer.text and "Delete sessions" in answer.text
        assert failure(client.tool("create-session", **{"from": one})) == "QUOTA-EXCEEDED"
        assert client.evaluate("*x*", session=one).text == "=> 1"
        assert not client.tool("reset-session", session=one).is_error  # its place is its own
        kill_for_good(info(client, two)["pid"])
        wait_until(lambda: info(client, two)["state"] == "empty", "its place is free")
        assert client.evaluate("3", session=three).text == "=> 3"
        assert failure(client.evaluate("1", session=two)) == "QUOTA-EXCEEDED"
        client.tool("delete-session", session=one)
        assert "=> 1" in client.evaluate("1", session=two).text
        assert listed(client)["total"] == 2
        client.finish()


def test_a_new_client_at_the_quota_is_told_so_and_served_when_there_is_room(own_runtime):
    with own_runtime.daemon("--quota", "sessions=1"):
        first, second = own_runtime.client().open(), own_runtime.client().open()
        first.evaluate("1")
        assert failure(second.evaluate("1")) == "QUOTA-EXCEEDED"
        first.tool("delete-session", session=info(first, first.evaluate("1").structured["session"])["id"])
        assert second.evaluate("2").text == "=> 2"
        first.finish()
        second.finish()


# ---- stored bytes

def stored(runtime):
    with sqlite3.connect(runtime.database) as database:
        (counted,) = database.execute("SELECT stored_bytes FROM owners WHERE owner = ?", (os.getuid(),)).fetchone()
        (added_up,) = database.execute(
            "SELECT (SELECT ifnull(sum(length(CAST(content AS BLOB))), 0) FROM messages)"
            " + (SELECT ifnull(sum(length(CAST(text AS BLOB))), 0) FROM outputs)").fetchone()
        (of_sessions,) = database.execute("SELECT sum(stored_bytes) FROM sessions").fetchone()
    assert counted == added_up == (of_sessions or 0)
    return counted


def test_at_the_quota_of_stored_bytes_evaluations_answer_and_say_that_they_are_not_kept(own_runtime):
    with own_runtime.daemon("--quota", "storage=0.5"):
        client = own_runtime.client().open()
        session = made(client)
        client.evaluate("(defvar *x* 41)", session=session)
        big = made(client, name="Big")
        client.tool("add-message", session=big, role="user", content="x" * 600_000)
        wait_until(lambda: "NOT-IN-TRANSCRIPT" in client.evaluate("1", session=session).text, "the quota is noticed")
        before = info(client, session)["messages"]
        answer = client.evaluate("(progn (format t \"printed\") (incf *x*))", session=session)
        assert not answer.is_error and answer.text.endswith("=> 42") and answer.structured["stdout"] == "printed"
        (warning,) = answer.structured["warnings"]
        assert re.search(r"takes 0\.6 MB, and the administrator allows 0\.5 MB", warning) and "Delete sessions" in warning
        assert failure(client.tool("add-message", session=session, role="user", content="x")) == "QUOTA-EXCEEDED"
        document = {"conversation": {"messages": []}}
        assert failure(client.tool("import-session", document=document)) == "QUOTA-EXCEEDED"
        seq = answer.structured["evaluation"]
        wait_until(lambda: info(client, session)["evaluations"] == seq, "its number is kept")
        assert info(client, session)["messages"] == before
        client.tool("delete-session", session=big)
        wait_until(lambda: "NOT-IN-TRANSCRIPT" not in client.evaluate("1", session=session).text, "there is room again")
        assert info(client, session)["messages"] > before
        client.finish()


def test_what_is_stored_is_counted_exactly(own_runtime):
    client = own_runtime.client().open()
    one, two = made(client), made(client)
    for session in (one, two):
        client.evaluate('(format t "ä~a" (make-string 200000 :initial-element #\\x))', session=session)
        client.tool("add-message", session=session, role="user", content="ö" * 1000)
    for _ in range(20):  # more than the sixteen whose output is kept
        client.evaluate('(format t "~a" (make-string 100010 :initial-element #\\y))', session=one)
    wait_until(lambda: info(client, one)["messages"] == 43 and info(client, two)["messages"] == 3, "all is stored")
    both = stored(own_runtime)
    assert both > 16 * 100_000
    client.tool("delete-session", session=one)
    assert 200_000 < stored(own_runtime) < both


# ---- retention

def age(runtime, session, days):
    with sqlite3.connect(runtime.database, timeout=10) as database:
        database.execute("UPDATE sessions SET created_at = ?1, updated_at = ?1 WHERE id = ?2",
                         (int(time.time()) + UNIVERSAL - days * 86400, session))


def test_sessions_that_nobody_has_used_for_long_are_deleted_and_no_others(own_runtime):
    with own_runtime.client().open() as client:
        old, young, alive, named = (made(client, name=name) for name in ("Old", "Young", "Alive", "Named"))
        many = [made(client) for _ in range(45)]
        client.tool("add-message", session=old, role="user", content="forgotten")
        client.evaluate("1", session=alive)
        wait_until(lambda: info(client, alive)["messages"] == 2, "it is stored")
    daemon = own_runtime.daemon_pid()
    os.kill(daemon, signal.SIGTERM)
    wait_until(lambda: not process_lives(daemon), "the daemon has left")
    for session in [old, alive, named, *many]:
        age(own_runtime, session, 31)
    age(own_runtime, young, 29)
    with own_runtime.daemon("--retain-days", "30"), own_runtime.client().open() as client:
        wait_until(lambda: {card["id"] for card in listed(client)["sessions"]} == {young, alive}, "the others are deleted")
        client.wait_for(lambda message: message.get("method") == "notifications/resources/list_changed", "it is told")
        assert info(client, alive)["updated_at"] == info(client, alive)["created_at"]  # as old as the others
        assert client.tool("search-sessions", query="forgotten").text == "Nothing found."
