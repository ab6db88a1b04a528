"""create-session with `from`: a session begins as a clone of another one's memory, whole or not at all."""

import os
import random
import signal
import sqlite3
import time

import pytest

from harness import kill_for_good, wait_until
from mcpschema import ALL_REVISIONS, STATELESS
from test_tool_sessions import NOBODY_S, failure, info, listed, made, names_of

ROUNDS = int(os.environ.get("CLONE_KILLS", "8"))


def nothing_nameless(runtime, client):
    """What runs has a row, and no birth is left over."""
    def check():
        rows = {card["id"] for card in listed(client, limit=1000)["sessions"]}
        running = {session["id"] for session in runtime.status()["sessions"]}
        files = {name[:28] for name in names_of(runtime.directory, "session-")}
        with sqlite3.connect(runtime.database) as database:
            births = database.execute("SELECT count(*) FROM births").fetchone()[0]
        return running <= rows and files <= rows and births == 0
    wait_until(check, "every process has its row")


@pytest.mark.parametrize("revision", ALL_REVISIONS)
def test_a_clone_has_all_that_its_original_had_and_then_they_part(client, revision):
    client.open(revision)
    original, name = made(client), f"Copy under {revision}"
    client.evaluate("(defvar *list* (list 1 2)) (defpackage :mine (:use :cl)) (in-package :mine) (defun f () :old)", session=original)
    clone = made(client, name=name, **{"from": original})
    assert clone != original
    assert client.evaluate("(setf (first cl-user::*list*) (f))", session=name).text == "=> :OLD"
    client.evaluate("(defun f () :new)", session=original)
    assert client.evaluate("(list cl-user::*list* (f))", session=original).text == "=> ((1 2) :NEW)"
    assert client.evaluate("(list cl-user::*list* (f))", session=clone).text == "=> ((:OLD 2) :OLD)"


def test_a_clone_s_transcript_begins_empty_and_its_metadata_tells_where_it_comes_from(lisp):
    original = made(lisp, name="Original", model="a")
    lisp.evaluate("(defpackage :mine (:use :cl)) (in-package :mine)", session=original)
    answer = lisp.tool("create-session", **{"from": "Original"}, name="Clone", model="b", metadata={"k": [None]})
    source = {"session": original, "name": "Original", "evaluation": 1}
    assert answer.structured == {"id": answer.structured["id"], "name": "Clone", "cloned_from": source}
    assert answer.text == (f'Created {answer.structured["id"]} "Clone", a clone of {original} as it was after its evaluation 1.\n'
                           "Pass it as `session`, or make it this connection's own with resume-session.")
    card = info(lisp, "Clone")
    assert card["metadata"] == {"k": [None], "cloned_from": source} and card["model"] == "b"
    assert (card["evaluations"], card["messages"], card["package"]) == (0, 0, "MINE") and card["state"] in ("dialing", "idle")
    assert card["pid"] != info(lisp, original)["pid"] and card["directory"] == info(lisp, original)["directory"]
    assert lisp.evaluate("1", session="Clone").structured["evaluation"] == 1


def test_a_clone_goes_on_with_its_original_s_limits_and_without_history_if_so_asked(lisp):
    original = made(lisp)
    lisp.tool("configure-limits", session=original, timeout=77)
    clone = made(lisp, **{"from": original}, history=False) if lisp.evaluate("1", session=original) else None
    assert "77" in lisp.tool("configure-limits", session=clone).text
    lisp.evaluate("1", session=clone)
    assert (info(lisp, clone)["messages"], info(lisp, clone)["evaluations"]) == (0, 1)


def test_a_clone_waits_its_turn_among_the_evaluations(lisp):
    original = made(lisp)
    lisp.evaluate("(defvar *n* 0)", session=original)
    running = lisp.start_evaluation("(progn (sleep 0.2) (incf *n*))", session=original)
    waiting = lisp.start_evaluation("(incf *n*)", session=original)
    clone = lisp.start("tools/call", {"name": "create-session", "arguments": {"from": original}})
    later = lisp.start_evaluation("(incf *n*)", session=original)
    assert [lisp.evaluation(request).text for request in (running, waiting, later)] == ["=> 1", "=> 2", "=> 3"]
    answer = lisp.evaluation(clone)
    assert answer.structured["cloned_from"] == {"session": original, "evaluation": 3}
    assert lisp.evaluate("*n*", session=answer.structured["id"]).text == "=> 2"


def test_a_clone_that_waits_can_be_cancelled(own_runtime):
    client = own_runtime.client().open()
    original = made(client)
    client.evaluate("1", session=original)
    running = client.start_evaluation("(loop)", session=original)
    clone = client.start("tools/call", {"name": "create-session", "arguments": {"from": original}})
    wait_until(lambda: info(client, original)["waiting"] == 1, "it waits")
    client.cancel(clone)
    wait_until(lambda: info(client, original)["waiting"] == 0, "it waits no longer")
    client.cancel(running)
    assert client.evaluate("1", session=original).text == "=> 1" and listed(client)["total"] == 1
    nothing_nameless(own_runtime, client)


def test_a_session_with_threads_is_not_cloned_and_says_what_to_do(own_runtime):
    client = own_runtime.client().open()
    original = made(client, name="Busy")
    client.evaluate("(defvar *t* (mp:process-run-function 'busy (lambda () (loop (sleep 0.01)))))", session=original)
    answer = client.tool("create-session", **{"from": "Busy"}, name="Clone")
    assert failure(answer) == "SESSION-NOT-CLONED" and "threads" in answer.text and "mp:process-kill" in answer.text
    nothing_nameless(own_runtime, client)
    assert listed(client)["total"] == 1
    client.evaluate("(progn (mp:process-kill *t*) (mp:process-join *t*))", session=original)
    made(client, **{"from": "Busy"}, name="Clone")


def test_a_session_without_a_process_is_not_cloned_and_says_what_to_do(lisp):
    original = made(lisp, name="Asleep")
    answer = lisp.tool("create-session", **{"from": "Asleep"})
    assert failure(answer) == "SESSION-NOT-CLONED" and "Evaluate something in that session first" in answer.text
    lisp.evaluate("(defvar *x* 1)", session=original)
    pid = info(lisp, original)["pid"]
    kill_for_good(pid)
    wait_until(lambda: info(lisp, original)["state"] == "empty", "its process is gone")
    assert failure(lisp.tool("create-session", **{"from": "Asleep"})) == "SESSION-NOT-CLONED"
    lisp.evaluate("(defparameter *x* 2)", session=original)
    assert lisp.evaluate("*x*", session=made(lisp, **{"from": "Asleep"})).text == "=> 2"


def test_an_unknown_and_a_foreign_original_answer_alike(own_runtime):
    client = own_runtime.client().open()
    session = made(client)
    with sqlite3.connect(own_runtime.database) as database:
        database.execute("UPDATE sessions SET owner = owner + 1 WHERE id = ?", (session,))
    foreign, unknown = (client.tool("create-session", **{"from": name}) for name in (session, NOBODY_S))
    assert failure(foreign) == "SESSION-NOT-FOUND" and foreign.text.replace(session, NOBODY_S) == unknown.text
    assert failure(client.tool("create-session", **{"from": "session-1"})) == "INVALID-SESSION-ID"


def test_what_cannot_be_a_session_leaves_no_clone(own_runtime):
    client = own_runtime.client().open()
    original = made(client, name="Original")
    client.evaluate("1", session=original)
    assert failure(client.tool("create-session", **{"from": original}, name="Original")) == "SESSION-EXISTS"
    assert failure(client.tool("create-session", **{"from": original}, metadata={"a": "x" * 65530})) == "METADATA-OVERFLOW"
    nothing_nameless(own_runtime, client)
    assert listed(client)["total"] == 1


def test_a_clone_s_name_that_is_taken_while_it_waits_is_refused(own_runtime):
    client = own_runtime.client().open()
    original = made(client)
    client.evaluate("1", session=original)
    running = client.start_evaluation("(loop)", session=original)
    clone = client.start("tools/call", {"name": "create-session", "arguments": {"from": original, "name": "Wanted"}})
    wait_until(lambda: info(client, original)["waiting"] == 1, "it waits")
    made(client, name="Wanted")
    client.cancel(running)
    assert failure(client.evaluation(clone)) == "SESSION-EXISTS"
    nothing_nameless(own_runtime, client)


def test_a_daemon_killed_at_any_moment_leaves_a_whole_clone_or_none(own_runtime):
    """The line comes again by itself, and one session is there in the end."""
    dice = random.Random(20261119)
    client = own_runtime.client().open()
    original = made(client)
    client.evaluate("(defvar *x* 7)", session=original)
    for turn in range(ROUNDS):
        name = f"n{turn}"
        clone = client.start("tools/call", {"name": "create-session", "arguments": {"from": original, "name": name}})
        time.sleep(dice.random() * 0.012)  # not to wait for anything: to die at any moment
        os.kill(own_runtime.daemon_pid(), signal.SIGKILL)
        assert not client.evaluation(clone).is_error, client.evaluation(clone)
        assert client.evaluate("*x*", session=name).text == "=> 7"
        nothing_nameless(own_runtime, client)
        assert listed(client)["total"] == turn + 2


def test_a_daemon_killed_with_its_client_leaves_a_whole_clone_or_none(own_runtime):
    dice = random.Random(20261120)
    with own_runtime.client().open() as maker:
        original = made(maker)
        maker.evaluate("(defvar *x* 7)", session=original)
    for turn in range(ROUNDS):
        client = own_runtime.client().open()
        client.start("tools/call", {"name": "create-session", "arguments": {"from": original, "name": f"n{turn}"}})
        time.sleep(dice.random() * 0.012)
        os.kill(own_runtime.daemon_pid(), signal.SIGKILL)
        client.process.kill()
        client.abandon()
        with own_runtime.client().open() as witness:
            nothing_nameless(own_runtime, witness)
            for card in listed(witness)["sessions"]:
                assert witness.evaluate("*x*", session=card["id"]).text == "=> 7"


def test_an_original_killed_at_any_moment_leaves_a_whole_clone_or_none(own_runtime):
    dice = random.Random(20261121)
    client = own_runtime.client().open()
    original = made(client)
    client.evaluate("(defvar *x* 7)", session=original, protect=True)
    for turn in range(ROUNDS):
        clone = client.start("tools/call", {"name": "create-session", "arguments": {"from": original, "name": f"n{turn}"}})
        time.sleep(dice.random() * 0.008)
        os.kill(info(client, original)["pid"], signal.SIGKILL)
        answer = client.evaluation(clone)
        if answer.is_error:
            assert failure(answer) == "SESSION-NOT-CLONED" and "Try again." in answer.text
        else:
            assert client.evaluate("*x*", session=f"n{turn}").text == "=> 7"
        assert client.evaluate("*x*", session=original, protect=True).text.endswith("=> 7")
        nothing_nameless(own_runtime, client)


def test_a_clone_outlives_its_original(lisp):
    original = made(lisp)
    lisp.evaluate("(defvar *x* 7)", session=original)
    clone = made(lisp, **{"from": original})
    assert not lisp.tool("delete-session", session=original).is_error
    assert lisp.evaluate("*x*", session=clone, protect=True).text == "=> 7"
    os.kill(info(lisp, clone)["pid"], signal.SIGKILL)
    assert "=> 7" in lisp.evaluate("*x*", session=clone).text  # it has a copy of its own


# ---- fork-session: the same under the name that people look for


@pytest.mark.parametrize("revision", ALL_REVISIONS)
def test_a_fork_of_this_connection_s_own_session_has_all_that_it_had_and_then_they_part(client, revision):
    client.open(revision)
    name = f"forked under {revision}"
    made(client, name=name)
    client.evaluate("(defvar *list* (list 1 2)) (defun f () :old)", session=name)
    stateless = revision == STATELESS  # such a conversation has no session of its own
    if not stateless:
        client.tool("resume-session", session=name)
    arguments = {"session": name} if stateless else {}
    fork = f"fork under {revision}"
    answer = client.tool("fork-session", name=fork, **arguments)
    assert not answer.is_error and f'"{fork}", a clone of session-' in answer.text
    assert client.evaluate("(setf (first *list*) (f))", session=fork).text == "=> :OLD"
    assert client.evaluate("(list *list* (f))", **arguments).text == "=> ((1 2) :OLD)"


def test_fork_session_says_what_it_is_a_clone_of_and_keeps_what_it_is_given(lisp):
    original = made(lisp, name="Trunk")
    lisp.evaluate("(defvar *x* 1)", session="Trunk")
    answer = lisp.tool("fork-session", session="Trunk", name="Branch", model="m", metadata={"k": 1}, history=False)
    source = {"session": original, "name": "Trunk", "evaluation": 1}
    assert answer.structured == {"id": answer.structured["id"], "name": "Branch", "cloned_from": source}
    card = info(lisp, "Branch")
    assert (card["model"], card["metadata"], card["history"]) == ("m", {"k": 1, "cloned_from": source}, False)
    assert failure(lisp.tool("fork-session", session="Trunk", name="Branch")) == "SESSION-EXISTS"


def test_fork_session_without_anything_to_fork_says_what_to_do(own_runtime):
    client = own_runtime.client().open()
    assert failure(client.tool("fork-session")) == "SESSION-NOT-FOUND"
    made(client, name="Asleep")
    answer = client.tool("fork-session", session="Asleep")
    assert failure(answer) == "SESSION-NOT-CLONED" and '"Asleep" has no process now' in answer.text
    assert failure(client.tool("fork-session", session="Nobody's")) == "SESSION-NOT-FOUND"
    assert listed(client)["total"] == 1
