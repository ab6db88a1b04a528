"""list-definitions, reset-session and load-system as clients see them; what they do inside is tested with the worker."""

import contextlib
import os
import signal
import time

import pytest

from harness import alive, copies_of, wait_until
from mcpschema import ALL_REVISIONS

RESET = "Session reset. All definitions cleared.\nCurrent package: CL-USER"
DEFINITIONS = """(defvar *counter* 0) (defun square (x) (* x x)) (defmacro with-it (&body body) `(progn ,@body))
                 (defclass point () ())"""
LISTED = ("[Functions]\n- SQUARE (X)\n\n[Variables]\n- *COUNTER* = 0\n\n[Macros]\n- WITH-IT (&BODY BODY)\n\n"
          "[Classes]\n- POINT")


@pytest.mark.parametrize("revision", ALL_REVISIONS)
def test_definitions_are_listed_in_every_revision(client, revision):
    client.open(revision)
    assert client.tool("list-definitions").text == "No definitions."
    client.evaluate(DEFINITIONS)
    answer = client.tool("list-definitions")
    assert (answer.text, answer.is_error, answer.structured) == (LISTED, False, None)


@pytest.mark.parametrize("kind, text", [
    ("functions", "[Functions]\n- SQUARE (X)"), ("function", "[Functions]\n- SQUARE (X)"),
    ("variable", "[Variables]\n- *COUNTER* = 0"), ("macros", "[Macros]\n- WITH-IT (&BODY BODY)"),
    ("class", "[Classes]\n- POINT"), ("systems", "No definitions."), ("all", LISTED),
])
def test_one_kind_of_definitions_is_listed_alone(lisp, kind, text):
    lisp.evaluate(DEFINITIONS)
    assert lisp.tool("list-definitions", type=kind).text == text


def test_an_unknown_kind_is_an_argument_error_that_lists_the_kinds(lisp):
    answer = lisp.tool("list-definitions", type="methods")
    assert answer.is_error and "must be one of: all, functions, variables, macros, classes, systems" in answer.text


def session_of(client):
    return client.result("cl-mcpd/status")["sessions"][0]


def test_a_reset_leaves_nothing_of_the_user_s(own_runtime):
    client = own_runtime.client().open()
    client.evaluate(DEFINITIONS)
    client.evaluate("""(defpackage :mine (:use :cl)) (in-package :mine) (defmethod print-object :around ((x integer) s) (princ :int s))
                       (set-macro-character #\\! (lambda (s c) (declare (ignore s c)) 42))
                       (mp:process-run-function 'idle #'sleep 1000)""")
    before = session_of(client)
    processes = [before["pid"], *copies_of(before["pid"])]
    assert client.tool("reset-session").text == RESET
    assert client.tool("list-definitions").text == "No definitions."
    answer = client.evaluate("(list (package-name *package*) (find-package :mine) (length (mp:all-processes)) (boundp '*counter*) 7)")
    assert answer.text == '=> ("COMMON-LISP-USER" NIL 1 NIL 7)'
    after = session_of(client)
    assert (after["id"], after["directory"]) == (before["id"], before["directory"]) and after["pid"] != before["pid"]
    wait_until(lambda: not any(map(alive, processes)), "the old processes are gone")


def test_a_reset_waits_for_its_turn_and_those_behind_it_for_theirs(lisp):
    first = lisp.start_evaluation("(progn (defvar *a* 1) (sleep 0.3) *a*)")
    reset = lisp.start("tools/call", {"name": "reset-session", "arguments": {}})
    behind = lisp.start_evaluation("(boundp '*a*)")
    assert lisp.evaluation(first).text == "=> 1"
    assert lisp.evaluation(reset).text == RESET
    assert lisp.evaluation(behind).text == "=> NIL"


def test_a_session_can_be_reset_before_and_again_and_again(lisp):
    for turn in range(10):
        assert lisp.tool("reset-session").text == RESET
        assert lisp.evaluate(f"(defvar *n* {turn}) *n*").text == f"=> {turn}"


def test_numbers_of_evaluations_go_on_after_a_reset(lisp):
    one = lisp.evaluate("1").structured["evaluation"]
    lisp.tool("reset-session")
    assert lisp.evaluate("1").structured["evaluation"] > one


def test_a_session_whose_process_is_dead_can_be_reset(own_runtime):
    client = own_runtime.client().open()
    client.evaluate("(defvar *n* 1)")
    os.kill(session_of(client)["pid"], signal.SIGKILL)
    assert client.tool("reset-session").text == RESET
    assert client.evaluate("(boundp '*n*)").text == "=> NIL"


def test_without_a_zygote_a_session_can_be_reset(own_runtime):
    client = own_runtime.client().open()
    client.evaluate("(defvar *n* 1)")
    os.kill(own_runtime.ready()["zygote"]["pid"], signal.SIGKILL)
    assert client.tool("reset-session").text == RESET
    assert client.evaluate("(boundp '*n*)").text == "=> NIL"


@pytest.mark.parametrize("victim", ["daemon", "worker"])
def test_whoever_dies_during_a_reset_it_is_done_and_answered_once(own_runtime, victim):
    client = own_runtime.client().open()
    for _ in range(15):
        client.evaluate("(defvar *n* 1)")
        pid = session_of(client)["pid"]
        request = client.start("tools/call", {"name": "reset-session", "arguments": {}})
        with contextlib.suppress(ProcessLookupError):  # the reset was faster
            os.kill(own_runtime.daemon_pid() if victim == "daemon" else pid, signal.SIGKILL)
        text = client.evaluation(request).text
        if text != RESET:
            assert victim == "worker" and text.startswith("[ERROR] WORKER-DIED\n"), text
            assert client.tool("reset-session").text == RESET
        assert client.evaluate("(boundp '*n*)").text.endswith("=> NIL")


def test_a_cancelled_reset_is_not_answered_and_the_session_lives(lisp):
    lisp.evaluate("(defvar *n* 1)")
    running = lisp.start_evaluation("(sleep 0.2)")
    reset = lisp.start("tools/call", {"name": "reset-session", "arguments": {}})
    lisp.cancel(reset)
    assert lisp.evaluation(running).text == "=> NIL"
    assert lisp.evaluate("*n*").text == "=> 1"


def test_a_reset_that_is_cancelled_half_way_is_finished_and_the_systems_remain(lisp):
    lisp.tool("load-system", system="alexandria")
    for delay in (0.0005, 0.002, 0.004, 0.01, 0.05, 0.15):
        lisp.evaluate("(defun foo () 1)")
        reset = lisp.start("tools/call", {"name": "reset-session", "arguments": {}})
        time.sleep(delay)  # not to wait for anything: to cancel at any moment
        if not lisp.answered(reset):
            lisp.notify("notifications/cancelled", {"requestId": reset})
        both = lisp.evaluate("(list (fboundp 'foo) (not (null (find-package :alexandria))))").text
        assert both in ("=> (NIL T)", "=> (T T)")  # the latter if the cancel came before anything was done
        assert lisp.tool("list-definitions", type="systems").text == "[Loaded Systems]\n- ALEXANDRIA"


def test_a_daemon_that_dies_during_a_reset_is_followed_by_one_that_loads_the_systems(own_runtime):
    client = own_runtime.client().open()
    client.tool("load-system", system="alexandria")
    for delay in (0.0003, 0.0005, 0.001, 0.0015, 0.002, 0.003, 0.004, 0.006, 0.01, 0.03):
        client.evaluate("(defun foo () 1)")
        reset = client.start("tools/call", {"name": "reset-session", "arguments": {}})
        time.sleep(delay)  # not to wait for anything: to die at any moment
        os.kill(own_runtime.daemon_pid(), signal.SIGKILL)
        assert client.evaluation(reset).text == RESET
        assert client.evaluate("(list (fboundp 'foo) (not (null (find-package :alexandria))))").text == "=> (NIL T)"
        assert client.tool("list-definitions", type="systems").text == "[Loaded Systems]\n- ALEXANDRIA"


def test_a_reset_that_nobody_waits_for_any_more_is_finished_by_the_next_daemon(own_runtime):
    with own_runtime.client("--session", "work") as client:
        client.open().tool("load-system", system="alexandria")
        for delay in (0.0005, 0.001, 0.002, 0.004):
            client.evaluate("(defun foo () 1)")
            reset = client.start("tools/call", {"name": "reset-session", "arguments": {}})
            time.sleep(delay)  # as above
            os.kill(own_runtime.daemon_pid(), signal.SIGKILL)
            with own_runtime.client("--session", "work") as other:
                assert other.open().evaluate("(not (null (find-package :alexandria)))").text.endswith("=> T")
            assert client.evaluation(reset).text == RESET


def test_a_session_whose_process_is_stopped_can_be_reset(own_runtime):
    client = own_runtime.client().open()
    for _ in range(5):
        client.evaluate("(defvar *n* 1)")
        pid = session_of(client)["pid"]
        reset = client.start("tools/call", {"name": "reset-session", "arguments": {}})
        wait_until(lambda: client.answered(reset) or session_of(client)["state"] == "ending", "it has begun")
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGSTOP)
            wait_until(lambda: client.answered(reset), "it is done")
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)
        assert client.evaluation(reset).text == RESET
        assert client.evaluate("(boundp '*n*)").text == "=> NIL"
