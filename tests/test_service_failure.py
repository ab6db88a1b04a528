"""Daemon, zygote and workers may die or stall: each request is answered once, and sessions go on."""

import os
import signal
import time

import pytest

from harness import wait_until


def kill_daemon(runtime):
    pid = runtime.daemon_pid()
    os.kill(pid, signal.SIGKILL)
    return pid


def test_the_session_survives_the_death_of_the_daemon(own_runtime):
    client = own_runtime.client().open("2025-06-18")
    client.evaluate("(defun square (x) (* x x)) (defparameter *n* 7)")
    session = client.evaluate("1").structured["session"]
    for _ in range(3):
        old = kill_daemon(own_runtime)
        after = client.evaluate("(square *n*)")
        assert after.text == "=> 49" and after.structured["session"] == session
        assert client.result("cl-mcpd/status")["pid"] != old
    assert len(own_runtime.daemons()) == 1
    assert "outputSchema" in client.result("tools/list")["tools"][0]  # the revision is remembered
    assert client.error("initialize", {"protocolVersion": "2025-06-18", "capabilities": {},
                                       "clientInfo": {"name": "t", "version": "1"}})["code"] == -32600


def test_requests_sent_while_the_daemon_dies_are_answered_once_and_in_their_order(own_runtime):
    client = own_runtime.client().open()
    client.evaluate("(defparameter *n* 0)")
    for turn in range(1, 31):
        before = client.start_evaluation("(incf *n*)")
        kill_daemon(own_runtime)
        after = client.start_evaluation("(incf *n*)")
        ping = client.start("ping")
        assert client.evaluation(before).text == f"=> {2 * turn - 1}"
        assert client.evaluation(after).text == f"=> {2 * turn}"
        assert client.answer(ping)["result"] == {}
    assert client.evaluate("*n*").text == "=> 60"


def test_a_session_is_not_lost_when_the_daemon_dies_behind_its_first_answer(own_runtime):
    own_runtime.ready()
    for number in range(15):
        with own_runtime.client() as client:
            client.open().evaluate(f"(defparameter *mine* {number})")
            kill_daemon(own_runtime)
            assert client.evaluate("*mine*").text == f"=> {number}"


def test_a_running_evaluation_survives_the_death_of_the_daemon(own_runtime):
    client = own_runtime.client().open()
    client.evaluate("(defparameter *n* 0)")
    request = client.start_evaluation('(progn (incf *n*) (format t "begun~%") (sleep 1.5) *n*)', token="t")
    waiting = client.start_evaluation("(incf *n* 10)")
    wait_until(lambda: client.progress("t"), "it runs")
    kill_daemon(own_runtime)
    assert client.evaluation(request).text == "[stdout]\nbegun\n\n=> 1"
    assert client.evaluation(waiting).text == "=> 11"


def test_a_running_evaluation_can_be_cancelled_after_the_death_of_the_daemon(own_runtime):
    client = own_runtime.client().open()
    client.evaluate("(defparameter *n* 5)")
    request = client.start_evaluation("(loop)", token="t")
    wait_until(lambda: client.progress("t"), "it runs")
    kill_daemon(own_runtime)
    wait_until(lambda: own_runtime.daemons(), "there is a daemon again")
    client.cancel(request)
    assert client.evaluate("*n*").text == "=> 5"


def test_all_clients_find_the_new_daemon(own_runtime):
    clients = [own_runtime.client().open() for _ in range(5)]
    for number, client in enumerate(clients):
        client.evaluate(f"(defparameter *mine* {number})")
    kill_daemon(own_runtime)
    for number, client in enumerate(clients):
        assert client.evaluate("*mine*").text == f"=> {number}"
    assert len(own_runtime.daemons()) == 1


def test_a_daemon_that_was_told_to_leave_is_replaced_like_one_that_died(own_runtime):
    client = own_runtime.client().open()
    client.evaluate("(defparameter *n* 5)")
    pid = own_runtime.daemon_pid()
    os.kill(pid, signal.SIGTERM)
    wait_until(lambda: pid not in own_runtime.daemons(), "the daemon has left")
    assert client.evaluate("*n*").text == "=> 5"


def test_a_new_client_finds_an_old_session_after_the_death_of_the_daemon(own_runtime):
    with own_runtime.client() as client:
        client.open()
        session = client.evaluate("(defparameter *n* 5)").structured["session"]
    kill_daemon(own_runtime)
    with own_runtime.client("--session", session) as client:
        assert client.open().evaluate("*n*").text == "=> 5"


@pytest.mark.slow
def test_a_stalled_daemon_is_reported_and_used_again_when_it_wakes(own_runtime):
    client = own_runtime.client().open()
    client.evaluate("(defparameter *n* 0)")
    daemon = own_runtime.daemon_pid()
    os.kill(daemon, signal.SIGSTOP)
    try:
        request = client.start_evaluation("(incf *n*)")
        began = time.monotonic()
        error = client.answer(request, 15)["error"]
        print(f"told after {time.monotonic() - began:.1f} s: {error}")
        assert error["code"] == -32603
        assert "cl-mcpd" in error["message"] + str(error.get("data")) or "daemon" in error["message"]
    finally:
        os.kill(daemon, signal.SIGCONT)
    assert client.evaluate("(numberp *n*)").text == "=> T"
    assert client.result("ping") == {}
    # finish() makes sure that the late answer was dropped


@pytest.mark.slow
def test_a_client_that_leaves_a_stalled_daemon_is_told_what_became_of_its_requests(own_runtime):
    client = own_runtime.client().open()
    daemon = own_runtime.daemon_pid()
    os.kill(daemon, signal.SIGSTOP)
    try:
        request = client.start("ping")
        client.end_of_input()
        error = client.answer(request, 9)["error"]
        assert client.wait() == 0
    finally:
        os.kill(daemon, signal.SIGCONT)
    assert error["code"] == -32603 and "does not answer any more" in error["message"]


def test_the_death_of_a_worker_is_reported_and_the_client_goes_on(own_runtime):
    client = own_runtime.client().open()
    session = client.evaluate("1").structured["session"]
    pid = next(s["pid"] for s in client.result("cl-mcpd/status")["sessions"] if s["id"] == session)
    request = client.start_evaluation("(loop)", token="t")
    wait_until(lambda: client.progress("t"), "it runs")
    waiting = client.start_evaluation("(+ 1 2)")
    os.kill(pid, signal.SIGKILL)
    answer = client.answer(request)
    assert "error" in answer or answer["result"]["isError"]
    client.answer(waiting)
    wait_until(lambda: client.evaluate("(+ 1 2)").text == "=> 3", "evaluations work again")


def test_code_that_kills_its_process_is_reported(own_runtime):
    client = own_runtime.client().open()
    client.evaluate("1")
    answer = client.call("evaluate-lisp", {"code": '(ext:system "kill -9 $PPID")'})
    assert "error" in answer or answer["result"]["isError"]
    wait_until(lambda: client.evaluate("(+ 1 2)").text == "=> 3", "evaluations work again")


def test_the_death_of_the_zygote_harms_no_session(own_runtime):
    client = own_runtime.client().open()
    client.evaluate("(defparameter *n* 5)")
    zygote = client.result("cl-mcpd/status")["zygote"]["pid"]
    os.kill(zygote, signal.SIGKILL)
    assert client.evaluate("(incf *n*)").text == "=> 6"
    other = own_runtime.client().open()
    assert other.evaluate("(+ 1 2)").text == "=> 3"
    assert client.evaluate("(incf *n*)").text == "=> 7"
