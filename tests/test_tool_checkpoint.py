"""checkpoint-session, rollback-session, list-checkpoints: a session's earlier states come back, and nothing is run again."""

import contextlib
import os
import pathlib
import random
import signal
import time

import pytest

from harness import alive, wait_until
from mcpschema import ALL_REVISIONS
from test_tool_history import history
from test_tool_sessions import NOBODY_S, failure, info, made

ROUNDS = int(os.environ.get("ROLLBACK_KILLS", "12"))
SEED = int(os.environ.get("ROLLBACK_SEED", "20261119"))
LATER = "rollback-session brings it back, as often as you like, until the session is reset, hibernated or deleted, or the " \
        "machine restarts."


def checkpoint(client, name, **arguments):
    answer = client.tool("checkpoint-session", name=name, **arguments)
    assert not answer.is_error, answer.text
    return answer


def rollback(client, to=None, **arguments):
    if to is not None:
        arguments["to"] = to
    answer = client.tool("rollback-session", **arguments)
    assert not answer.is_error, answer.text
    return answer


def checkpoints(client, **arguments):
    return client.tool("list-checkpoints", **arguments).structured


def names(client, **arguments):
    return [copy["name"] for copy in checkpoints(client, **arguments)["checkpoints"]]


def value_of(evaluation):
    return evaluation.text.split("=> ")[-1]


def value(client, code, **arguments):
    return value_of(client.evaluate(code, **arguments))


def protected(client, session):
    """Waits until the newest copy knows all that was answered."""
    wait_until(lambda: info(client, session).get("protected") == info(client, session)["evaluations"], "there is a copy")


def members(runtime, name="cl-mcp-snapshot"):
    """The sleeping copies, of all sessions of the runtime."""
    def command(pid):
        with contextlib.suppress(OSError):
            return pathlib.Path(f"/proc/{pid}/comm").read_text().strip()
    return [pid for pid in runtime.processes() if command(pid) == name and alive(pid)]


@pytest.mark.parametrize("revision", ALL_REVISIONS)
def test_a_checkpoint_brings_back_all_that_there_was_and_takes_away_what_came_since(client, revision):
    client.open(revision)
    session = made(client)
    client.evaluate("(defvar *list* (list 1 2)) (defun f () :old) (defpackage :mine (:use :cl))", session=session)
    client.evaluate("(in-package :mine)", session=session)
    answer = checkpoint(client, "before", session=session)
    assert answer.text == f'Checkpoint "before": the session as it is after evaluation 3. {LATER}'
    client.evaluate("(setf (first cl-user::*list*) 7)", session=session)
    client.evaluate("(defun cl-user::f () :new)", session=session)
    client.evaluate("(progn (defvar cl-user::*later* 1) (in-package :cl-user))", session=session)
    answer = rollback(client, "before", session=session)
    assert answer.text == (
        'Rolled back to the checkpoint "before": the session is as it was after evaluation 3. Evaluations 4 to 6 are undone, and '
        "not repeated: (setf (first cl-user::*list*) 7); (defun cl-user::f () :new); "
        "(progn (defvar cl-user::*later* 1) (in-package :cl-user))")
    answer = client.evaluate("(list (package-name *package*) cl-user::*list* (cl-user::f) (boundp 'cl-user::*later*))",
                             session=session)
    assert answer.text == '=> ("MINE" (1 2) :OLD NIL)'


def test_what_the_tools_answer_is_data_too(lisp):
    session = made(lisp)
    lisp.evaluate("(defvar *n* 0)", session=session)
    assert checkpoint(lisp, "a", session=session).structured == {
        "session": session, "checkpoint": "a", "evaluation": 2, "removed": False}
    lisp.evaluate("(incf *n*)", session=session)
    listed = checkpoints(lisp, session=session)
    assert [(copy["name"], copy["evaluation"], copy["back"]) for copy in listed["checkpoints"]] == [("a", 2, 1)]
    assert abs(listed["checkpoints"][0]["made_at"] - 2208988800 - time.time()) < 1000
    assert rollback(lisp, "a", session=session).structured == {
        "session": session, "checkpoint": "a", "restored": 2,
        "undone": {"first": 3, "last": 4, "evaluations": ["(incf *n*)", "list-checkpoints"]}}
    assert rollback(lisp, "a", session=session).structured["undone"] is None
    assert lisp.tool("checkpoint-session", name="a", remove=True, session=session).structured["removed"] is True
    assert names(lisp, session=session) == []


def test_one_can_go_back_to_a_checkpoint_again_and_again_and_forward_to_a_later_one(lisp):
    session = made(lisp)
    lisp.evaluate("(defvar *n* 0)", session=session)
    checkpoint(lisp, "zero", session=session)
    lisp.evaluate("(incf *n*)", session=session)
    checkpoint(lisp, "one", session=session)
    for _ in range(3):
        lisp.evaluate("(setf *n* 99)", session=session)
        rollback(lisp, "zero", session=session)
        assert value(lisp, "*n*", session=session) == "0"
        assert names(lisp, session=session) == ["zero", "one"]
        answer = lisp.tool("list-checkpoints", session=session).text
        assert '"one": after evaluation 4, on a branch that was rolled back\n' in answer
        rollback(lisp, "one", session=session)
        assert value(lisp, "*n*", session=session) == "1"


def test_a_rollback_has_its_turn_among_the_evaluations_that_are_sent_at_once(lisp):
    session = made(lisp)
    lisp.evaluate("(defvar *n* 0)", session=session)
    checkpoint(lisp, "a", session=session)
    for _ in range(5):
        one = lisp.start_evaluation("(incf *n*)", session=session)
        rolled_back = lisp.start("tools/call", {"name": "rollback-session", "arguments": {"to": "a", "session": session}})
        two = lisp.start_evaluation("(incf *n* 10)", session=session)
        assert value_of(lisp.evaluation(one)) in ("1", "11") and not lisp.evaluation(rolled_back).is_error
        assert value_of(lisp.evaluation(two)) == "10"


def test_a_name_is_given_once_unless_it_is_replaced(lisp):
    session = made(lisp)
    lisp.evaluate("(defvar *n* 0)", session=session)
    checkpoint(lisp, "a", session=session)
    lisp.evaluate("(incf *n*)", session=session)
    answer = lisp.tool("checkpoint-session", name="a", session=session)
    assert failure(answer) == "CHECKPOINT-EXISTS" and "made after evaluation 2" in answer.text and "`replace`" in answer.text
    checkpoint(lisp, "a", session=session, replace=True)
    lisp.evaluate("(incf *n*)", session=session)
    assert names(lisp, session=session) == ["a"]
    rollback(lisp, "a", session=session)
    assert value(lisp, "*n*", session=session) == "1"


def test_an_unknown_checkpoint_is_an_error_that_says_which_there_are(lisp):
    session = made(lisp)
    answer = lisp.tool("rollback-session", to="nowhere", session=session)
    assert failure(answer) == "CHECKPOINT-NOT-FOUND" and answer.text.endswith("There are no checkpoints.")
    checkpoint(lisp, "here", session=session)
    for tool, arguments in (("rollback-session", {"to": "nowhere"}), ("checkpoint-session", {"name": "nowhere", "remove": True})):
        answer = lisp.tool(tool, session=session, **arguments)
        assert failure(answer) == "CHECKPOINT-NOT-FOUND" and 'Checkpoints: "here" (after evaluation 2).' in answer.text
    assert failure(lisp.tool("rollback-session", to="here", session=NOBODY_S)) == "SESSION-NOT-FOUND"


@pytest.mark.parametrize("arguments", [{}, {"to": "a", "evaluations": 1}, {"to": ""}, {"to": "two\nlines"}, {"evaluations": 0}])
def test_a_rollback_needs_a_name_or_a_number(lisp, arguments):
    answer = lisp.tool("rollback-session", session=made(lisp), **arguments)
    assert answer.text.startswith("[ERROR] INVALID-ARGUMENTS")


def test_a_session_has_sixteen_checkpoints_at_most(lisp):
    session = made(lisp)
    for number in range(16):
        checkpoint(lisp, f"c{number}", session=session)
    answer = lisp.tool("checkpoint-session", name="one more", session=session)
    assert failure(answer) == "CHECKPOINT-LIMIT" and '"c15"' in answer.text and "`remove`" in answer.text
    checkpoint(lisp, "c3", session=session, replace=True)
    checkpoint(lisp, "c3", session=session, remove=True)
    checkpoint(lisp, "one more", session=session)
    assert len(names(lisp, session=session)) == 16


def test_a_session_with_threads_gets_no_checkpoint_and_is_told_what_to_do(lisp):
    session = made(lisp)
    lisp.evaluate("(defvar *t* (mp:process-run-function 'busy (lambda () (loop (sleep 0.01)))))", session=session)
    answer = lisp.tool("checkpoint-session", name="a", session=session)
    assert failure(answer) == "CHECKPOINT-REFUSED" and "threads" in answer.text and "mp:process-kill" in answer.text
    assert names(lisp, session=session) == []
    lisp.evaluate("(progn (mp:process-kill *t*) (mp:process-join *t*))", session=session)
    checkpoint(lisp, "a", session=session)
    lisp.evaluate("(setf *t* (mp:process-run-function 'busy (lambda () (loop (sleep 0.01)))))", session=session)
    rollback(lisp, "a", session=session)  # which ends them
    assert value(lisp, "(mp:process-active-p *t*)", session=session) == "NIL"


def test_some_evaluations_back_and_what_is_not_kept_is_an_error_that_names_the_nearest(lisp):
    session = made(lisp)
    lisp.evaluate("(defvar *n* 0)", session=session)
    for _ in range(6):
        protected(lisp, session)
        lisp.evaluate("(incf *n*)", session=session)
    protected(lisp, session)
    kept = sorted(copy["back"] for copy in checkpoints(lisp, session=session)["kept"])
    assert [back for back in kept if back] == [1, 2, 3]
    answer = lisp.tool("rollback-session", evaluations=5, session=session)
    assert failure(answer) == "STATE-NOT-KEPT" and "so many evaluations back are kept: 1, 2, 3." in answer.text
    answer = rollback(lisp, evaluations=2, session=session)
    assert "Evaluations 6 to 9 are undone" in answer.text and answer.structured["restored"] == 5
    assert value(lisp, "*n*", session=session) == "4"
    answer = rollback(lisp, evaluations=2, session=session)  # from there
    assert value(lisp, "*n*", session=session) == "3"


def test_a_large_session_keeps_no_earlier_states_but_those_that_have_a_name(lisp):
    session = made(lisp)
    lisp.evaluate("(progn (defvar *big* (make-array 10000000 :initial-element 7)) (defvar *n* 0))", session=session)
    protected(lisp, session)
    checkpoint(lisp, "named", session=session)
    for _ in range(3):
        lisp.evaluate("(incf *n*)", session=session)
        protected(lisp, session)
    listed = checkpoints(lisp, session=session)
    assert [copy["back"] for copy in listed["kept"] if copy["back"]] == []
    answer = lisp.tool("rollback-session", evaluations=1, session=session)
    assert failure(answer) == "STATE-NOT-KEPT" and "more than 64 MB" in answer.text and '"named" (after evaluation 2)' in answer.text
    rollback(lisp, "named", session=session)
    assert value(lisp, "(list *n* (length *big*))", session=session) == "(0 10000000)"
    lisp.tool("delete-session", session=session)


def test_the_transcript_keeps_everything_and_tells_what_is_undone(lisp):
    session = made(lisp)
    lisp.evaluate("(defvar *n* 0)", session=session)                       # 1
    checkpoint(lisp, "a", session=session)                                 # 2
    lisp.evaluate("(incf *n*)", session=session)                           # 3
    checkpoint(lisp, "b", session=session)                                 # 4
    lisp.evaluate("(incf *n* 10)", session=session)                        # 5
    rollback(lisp, "a", session=session)                                   # 6
    lisp.evaluate("(incf *n* 100)", session=session)                       # 7

    def undone():
        messages = history(lisp, session=session, limit=100)["messages"]
        return {message["evaluation"]: message["undone"] for message in messages if message["role"] == "tool"}
    wait_until(lambda: 7 in undone(), "all is stored")
    assert [seq for seq, is_undone in undone().items() if is_undone] == [3, 4, 5]
    rollback(lisp, "b", session=session)                                   # 8: forward again
    wait_until(lambda: 8 in undone(), "all is stored")
    assert [seq for seq, is_undone in undone().items() if is_undone] == [5, 6, 7]
    text = lisp.tool("session-history", session=session, limit=100).text
    assert ", evaluation 5, undone\n(incf *n* 10)\n" in text and ", evaluation 3\n(incf *n*)\n" in text
    assert 'Rolled back to the checkpoint "b": the session is as it was after evaluation 4.' in text


def test_the_transcript_tells_what_the_death_of_a_process_has_undone(own_runtime):
    client = own_runtime.client().open()
    session = made(client)
    client.evaluate("(defvar *n* 0)", session=session)                               # 1
    protected(client, session)
    client.evaluate("(defvar *t* (mp:process-run-function 'idle #'sleep 1000))", session=session)  # 2: no copies from now on
    client.evaluate("(incf *n*)", session=session)                                   # 3
    os.kill(info(client, session)["pid"], signal.SIGKILL)
    assert value(client, "(incf *n*)", session=session) == "1"                       # 4
    protected(client, session)
    client.evaluate("(setf *t* (mp:process-run-function 'idle #'sleep 1000))", session=session)  # 5
    begun = own_runtime.directory / "begun"
    running = client.start_evaluation(f'(progn (open "{begun}" :direction :output) (sleep 1000))', session=session)  # 6
    wait_until(begun.exists, "it runs")
    os.kill(info(client, session)["pid"], signal.SIGKILL)
    assert failure(client.evaluation(running)) == "WORKER-DIED"
    assert value(client, "(incf *n*)", session=session) == "2"                       # 7

    def undone():
        messages = history(client, session=session, limit=100)["messages"]
        return {message["evaluation"]: message["undone"] for message in messages if message["role"] == "tool"}
    wait_until(lambda: 7 in undone(), "all is stored")
    assert [seq for seq, is_undone in undone().items() if is_undone] == [2, 3, 5]


def test_an_exported_transcript_comes_back_with_its_branches(lisp):
    session = made(lisp)
    checkpoint(lisp, "a", session=session)
    lisp.evaluate("(defvar *n* 0)", session=session)
    rollback(lisp, "a", session=session)
    wait_until(lambda: history(lisp, session=session)["total"] == 6, "all is stored")
    document = lisp.tool("export-session", session=session).structured
    document = document.get("document", document)
    restored = [message.get("restored") for message in document["conversation"]["messages"]]
    assert restored == [None] * 5 + [1]
    lisp.tool("delete-session", session=session)
    answer = lisp.tool("import-session", document=document)
    assert not answer.is_error, answer.text
    assert [message["undone"] for message in history(lisp, session=session)["messages"]] == [False, False, True, True, False, False]


# ---- whoever dies


def test_checkpoints_outlive_the_session_s_process_the_zygote_and_the_daemon(own_runtime):
    client = own_runtime.client().open()
    session = made(client)
    client.evaluate("(defvar *n* 0)", session=session)
    checkpoint(client, "a", session=session)
    client.evaluate("(incf *n*)", session=session)
    protected(client, session)
    os.kill(info(client, session)["pid"], signal.SIGKILL)
    assert value(client, "*n*", session=session) == "1"
    os.kill(own_runtime.daemon_pid(), signal.SIGKILL)
    assert value(client, "(incf *n*)", session=session) == "2"
    os.kill(own_runtime.status()["zygote"]["pid"], signal.SIGKILL)
    assert names(client, session=session) == ["a"]
    for _ in range(2):
        rollback(client, "a", session=session)
        assert value(client, "(incf *n*)", session=session) == "1"


def test_a_worker_that_dies_after_a_rollback_does_not_bring_back_what_was_undone(own_runtime):
    client = own_runtime.client().open()
    session = made(client)
    client.evaluate("(defvar *n* 0)", session=session)
    checkpoint(client, "a", session=session)
    client.evaluate("(incf *n*)", session=session)
    protected(client, session)
    rollback(client, "a", session=session)
    for _ in range(3):
        os.kill(info(client, session)["pid"], signal.SIGKILL)
        assert value(client, "*n*", session=session) == "0"
    assert names(client, session=session) == ["a"]


def test_a_checkpoint_whose_process_was_killed_is_gone_and_the_session_as_before(own_runtime):
    client = own_runtime.client().open()
    session = made(client)
    client.evaluate("(defvar *n* 0)", session=session)
    protected(client, session)
    before = set(members(own_runtime))
    checkpoint(client, "a", session=session)
    new, = set(members(own_runtime)) - before
    client.evaluate("(incf *n*)", session=session)
    os.kill(new, signal.SIGKILL)
    wait_until(lambda: not alive(new), "it is dead")
    assert failure(client.tool("rollback-session", to="a", session=session)) == "CHECKPOINT-NOT-FOUND"
    assert value(client, "*n*", session=session) == "1"


def test_when_the_chosen_copy_dies_as_it_is_to_take_over_nothing_is_rolled_back(own_runtime):
    """It must be hit between the end of the worker, which wakes it also if it is stopped, and its own beginning."""
    client = own_runtime.client().open()
    session = made(client)
    for turn in range(100):
        client.evaluate(f"(defparameter *n* {turn})", session=session)
        protected(client, session)
        before = set(members(own_runtime))
        checkpoint(client, f"a{turn}", session=session)
        chosen, = set(members(own_runtime)) - before
        worker = info(client, session)["pid"]
        addition = client.start_evaluation("(incf *n* 1000)", session=session)  # no copy knows of it when the rollback comes
        request = client.start("tools/call", {"name": "rollback-session", "arguments": {"to": f"a{turn}", "session": session}})
        while alive(worker):
            os.kill(chosen, signal.SIGSTOP)
        os.kill(chosen, signal.SIGKILL)
        assert value_of(client.evaluation(addition)) == str(turn + 1000)
        answer = client.evaluation(request)
        found = int(value(client, "*n*", session=session))
        if not answer.is_error:
            assert found == turn
            checkpoint(client, f"a{turn}", session=session, remove=True)
            continue
        assert failure(answer) == "NOT-ROLLED-BACK" and found == turn + 1000
        assert "Nothing was rolled back. The session goes on with everything that was answered before." in answer.text
        assert f"a{turn}" not in names(client, session=session)
        return
    raise AssertionError("the copy was always faster")


@pytest.mark.parametrize("victim", ["worker", "daemon", "zygote", "both"])
def test_killed_at_random_moments_a_rollback_has_one_answer_that_is_true(own_runtime, victim):
    """Rolled back or as before; and the next rollback to the same checkpoint works."""
    dice = random.Random(f"{SEED} {victim}")
    client = own_runtime.client().open()
    session = made(client)
    client.evaluate("(defvar *n* 0)", session=session)
    checkpoint(client, "a", session=session)
    rolled_back = 0
    rounds = ROUNDS // 3 if victim == "zygote" else ROUNDS  # the next one takes its time to boot
    for turn in range(1, rounds + 1):
        protected(client, session)
        count = 1
        assert value(client, "(setf *n* 1)", session=session) == "1"
        for count in range(2, 2 + dice.randrange(3)):
            assert value(client, "(incf *n*)", session=session) == str(count)
        worker, status = info(client, session)["pid"], client.result("cl-mcpd/status")
        daemon, zygote = own_runtime.daemon_pid(), status["zygote"]["pid"]
        request = client.start("tools/call", {"name": "rollback-session", "arguments": {"to": "a", "session": session}})
        time.sleep(dice.random() ** 2 * 0.012)  # not to wait for anything: to die at any moment
        for process in {"worker": [worker], "zygote": [zygote], "daemon": [daemon], "both": [worker, daemon]}[victim]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        answer = client.evaluation(request)
        found = int(value(client, "*n*", session=session))
        if answer.is_error:
            assert failure(answer) in ("NOT-ROLLED-BACK", "WORKER-DIED") and found in range(count + 1), (answer, found)
            assert found == count or "Undone" in answer.text, (answer.text, count, found)
        else:
            assert answer.text.startswith('Rolled back to the checkpoint "a"') and found == 0, (turn, answer, found)
            rolled_back += 1
        if "a" not in names(client, session=session):  # its process was killed itself, as it had just become the worker
            assert victim in ("worker", "both")
            client.evaluate("(setf *n* 0)", session=session)
            checkpoint(client, "a", session=session)
    print(f"{rolled_back} of {rounds} rolled back")
    assert victim in ("worker", "both") or rolled_back == rounds


@pytest.mark.parametrize("end", ["delete-session", "reset-session", "hibernate", "shutdown"])
def test_with_the_session_s_process_all_its_copies_end(own_runtime, end):
    client = own_runtime.client().open()
    session = made(client)
    client.evaluate("(defvar *n* 0)", session=session)
    checkpoint(client, "a", session=session)
    client.evaluate("(incf *n*)", session=session)
    checkpoint(client, "b", session=session)
    rollback(client, "a", session=session)  # so that copies have different parents
    protected(client, session)
    copies = members(own_runtime)
    assert len(copies) >= 2
    if end == "shutdown":
        assert own_runtime.control("shutdown").returncode == 0
    elif end == "hibernate":
        assert own_runtime.control("hibernate", session).returncode == 0
    else:
        answer = client.tool(end, session=session)
        assert not answer.is_error, answer.text
    wait_until(lambda: not any(alive(copy) for copy in copies), "all copies end")
    if end in ("delete-session", "hibernate"):
        assert not list(pathlib.Path(own_runtime.directory).glob("session-*"))
    if end == "reset-session":
        assert names(client, session=session) == []


def test_a_hibernated_session_names_the_checkpoints_that_it_has_lost(own_runtime):
    client = own_runtime.client().open()
    session = made(client)
    client.evaluate("(defvar *n* 5)", session=session)
    checkpoint(client, "before it", session=session)
    assert own_runtime.control("hibernate", session).returncode == 0
    answer = client.evaluate("*n*", session=session)
    assert 'Not kept: the checkpoint "before it"' in answer.text and answer.text.endswith("=> 5")
    assert names(client, session=session) == []


def test_a_rollback_that_waits_behind_a_running_evaluation_can_be_cancelled(own_runtime):
    client = own_runtime.client().open()
    session = made(client)
    client.evaluate("(defvar *n* 0)", session=session)
    checkpoint(client, "a", session=session)
    running = client.start_evaluation("(progn (sleep 0.3) (incf *n*))", session=session)
    waiting = client.start("tools/call", {"name": "rollback-session", "arguments": {"to": "a", "session": session}})
    wait_until(lambda: info(client, session)["waiting"] == 1, "it waits")
    client.cancel(waiting)
    assert client.evaluation(running).text == "=> 1"
    assert value(client, "*n*", session=session) == "1"
