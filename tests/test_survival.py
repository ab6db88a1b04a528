"""What a client sees when its session's process dies: an answer that says so, and a session that goes on."""

import contextlib
import os
import signal
import sqlite3

import pytest

from harness import alive, copies_of, fate, kill_for_good, wait_until


def session_pid(client):
    return client.result("cl-mcpd/status")["sessions"][0]["pid"]


def begin(client, code):
    """Starts an evaluation and waits until it runs; its last line of output is then `there`."""
    request = client.start_evaluation(f'(progn (write-line "there") {code})', token=f"t{begin.count}")
    token, begin.count = f"t{begin.count}", begin.count + 1
    wait_until(lambda: client.progress(token), "it runs")
    return request


begin.count = 0


def protect(client):
    """Waits until the session's process has a copy that knows of everything; returns its pid."""
    def protected():
        session = client.result("cl-mcpd/status")["sessions"][0]
        return session["protected"] == session["evaluations"] and session["pid"]
    client.evaluate("1")
    return wait_until(protected, "there is a copy")


DIED = ("[ERROR] WORKER-DIED\nThe Lisp process was ended by signal 9 (Killed). "
        "The evaluation was not completed and will not be repeated. ")
RESTORED = "[warnings]\nSESSION-RESTORED: The Lisp process was ended by signal 9 (Killed). "
NOTHING_LOST = "The session goes on with everything that was answered before."


def test_a_killed_evaluation_is_reported_and_the_definitions_remain(own_runtime):
    client = own_runtime.client().open()
    client.evaluate("(defun square (x) (* x x)) (defvar *n* 3)")
    pid = protect(client)
    request = begin(client, "(setf *n* 4) (sleep 1000)")
    os.kill(pid, signal.SIGKILL)
    assert client.evaluation(request).text == DIED + NOTHING_LOST
    assert client.evaluate("(list (square 5) *n*)").text == "=> (25 3)"
    assert session_pid(client) != pid


def test_a_session_killed_while_idle_says_so_once_and_goes_on(own_runtime):
    client = own_runtime.client().open()
    client.evaluate("(defun square (x) (* x x))")
    os.kill(protect(client), signal.SIGKILL)
    assert client.evaluate("(square 5)").text == RESTORED + NOTHING_LOST + "\n\n=> 25"
    assert client.evaluate("(square 6)").text == "=> 36"


def test_answered_evaluations_that_are_undone_are_named(own_runtime):
    client = own_runtime.client().open()
    client.evaluate("(defvar *n* 0)")
    pid = protect(client)
    client.evaluate("(defvar *t* (mp:process-run-function 'idle #'sleep 1000))")  # and so no copies are made
    client.evaluate("(incf *n*)")
    client.evaluate("(incf *n* 10)")
    reason = wait_until(lambda: client.result("cl-mcpd/status")["sessions"][0].get("unprotectedBecause"), "it is said why")
    assert reason == "threads are running"
    assert (b"its last 3 evaluations would be undone if its process died: threads are running\n"
            in own_runtime.control("status").stdout)
    os.kill(pid, signal.SIGKILL)
    assert client.evaluate("*n*").text == (
        RESTORED + "The session goes on as it was 3 evaluations before. Undone, and not repeated: "
        "(defvar *t* (mp:process-run-function 'idle #'sleep 1000)); (incf *n*); (incf *n* 10)\n\n=> 0")


def test_a_protected_call_is_never_undone(own_runtime):
    client = own_runtime.client().open()
    client.evaluate("(defvar *n* 0)", protect=True)
    for turn in range(1, 21):
        assert client.evaluate("(incf *n*)", protect=True).text.endswith(f"=> {turn}")
        os.kill(session_pid(client), signal.SIGKILL)
        restored = client.evaluate("*n*", protect=True).text
        assert restored == RESTORED + NOTHING_LOST + f"\n\n=> {turn}"


def test_an_answer_that_only_the_copy_has_is_delivered(own_runtime):
    """The process dies between making the copy and sending the answer: stopped, it cannot send what the copy knows."""
    client = own_runtime.client().open()
    client.evaluate("(defvar *n* 0)")
    from_heir = 0
    for turn in range(1, 200):
        pid = protect(client)
        old = wait_until(lambda: copies_of(pid), "it calls itself a copy")
        request = client.start_evaluation("(incf *n*)", protect=True)
        while copies_of(pid) == old and not client.answered(request):
            pass
        os.kill(pid, signal.SIGKILL)
        text = client.evaluation(request).text
        count = client.evaluate("(list *n* (setf *n* 0))").text
        if text.startswith("[ERROR] WORKER-DIED\n"):
            assert NOTHING_LOST in text and count.endswith("=> (0 0)")
        else:
            assert text.endswith("=> 1") and count.endswith("=> (1 0)")
            from_heir += "SESSION-RESTORED" in text
        if from_heir == 3:
            return
    raise AssertionError("the process was always faster")


def test_a_protected_call_says_when_it_could_not_be_protected(own_runtime):
    client = own_runtime.client().open()
    client.evaluate("(defvar *t* (mp:process-run-function 'idle #'sleep 1000))")
    answer = client.evaluate("(+ 1 2)", protect=True)
    assert answer.text == (
        "[warnings]\nNOT-PROTECTED: No copy of the session could be made: threads are running. If its process died, this "
        "call would be undone.\n\n=> 3")
    assert client.evaluate("(+ 1 2)").text == "=> 3"


def test_a_session_without_a_copy_is_made_again_from_its_transcript_and_says_so(own_runtime):
    client = own_runtime.client().open()
    client.evaluate("(defvar *n* 1) (setf *n* 2)")
    kill_for_good(session_pid(client))
    wait_until(lambda: client.result("cl-mcpd/status")["sessions"][0]["state"] == "empty", "its process is known to be dead")
    assert client.evaluate("*n*").text == (
        "[warnings]\nSESSION-RESTORED: The Lisp process was ended by signal 9 (Killed). It goes on in a new process, with the "
        "definitions of its transcript. Nothing else was evaluated again. Not kept: evaluation 1: (setf *n* 2)\n\n=> 1")


def test_what_waits_behind_a_killed_evaluation_runs_in_its_order(own_runtime):
    client = own_runtime.client().open()
    client.evaluate("(defvar *n* 0)")
    pid = protect(client)
    deadly = begin(client, "(sleep 1000)")
    waiting = [client.start_evaluation("(incf *n*)") for _ in range(20)]
    os.kill(pid, signal.SIGKILL)
    assert client.evaluation(deadly).text == DIED + NOTHING_LOST
    assert [client.evaluation(request).text for request in waiting] == [f"=> {n}" for n in range(1, 21)]


def test_a_loop_that_cannot_be_interrupted_costs_no_definition(own_runtime):
    client = own_runtime.client().open()
    client.evaluate("(defvar *n* 8)")
    protect(client)
    request = client.start_evaluation("(mp:without-interrupts (loop))", timeout=0.2)
    text = client.evaluation(request).text
    assert text.startswith("[ERROR] WORKER-DIED\nThe evaluation did not end within 2 seconds") and NOTHING_LOST in text
    assert client.evaluate("*n*").text == "=> 8"


def begin_and_trace(client, trace):
    """Starts an evaluation that leaves a line in a file each time it is run, and waits until it runs."""
    request = client.start_evaluation(f'(progn (with-open-file (s "{trace}" :direction :output :if-exists :append '
                                      ':if-does-not-exist :create) (write-line "ran" s)) (incf *n*) (sleep 1000))')
    wait_until(lambda: trace.exists() and trace.read_text() == "ran\n", "it runs")
    return request


def assert_interrupted_once(client, request, trace):
    answer = client.evaluation(request).text
    assert answer.startswith("[ERROR] WORKER-DIED\n") and NOTHING_LOST in answer
    assert client.evaluate("*n*").text == "=> 0"
    assert trace.read_text() == "ran\n"


def test_daemon_and_process_killed_together_the_evaluation_is_answered_once_and_not_repeated(own_runtime, tmp_path):
    client = own_runtime.client().open()
    client.evaluate("(defvar *n* 0)")
    for turn in range(5):
        pid = protect(client)
        trace = tmp_path / f"trace{turn}"
        request = begin_and_trace(client, trace)
        os.kill(own_runtime.daemon_pid(), signal.SIGKILL)
        os.kill(pid, signal.SIGKILL)
        assert_interrupted_once(client, request, trace)


def test_what_runs_behind_an_answer_that_did_not_leave_the_daemon_makes_nothing_run_twice(own_runtime, tmp_path):
    """Only of the last one that was begun the session's processes keep who had asked for it."""
    first, second, go = tmp_path / "first", tmp_path / "second", tmp_path / "go"
    client = own_runtime.client().open()
    client.tool("configure-limits", max_output=1_000_000)
    pid = protect(client)
    trace = '(with-open-file (s "{}" :direction :output :if-exists :append :if-does-not-exist :create) (write-line "ran" s))'
    requests = [begin(client, f'''(loop until (probe-file "{go}")) {trace.format(first)}
                                   (write-string (make-string 400000 :initial-element #\\x)) nil'''),
                client.start_evaluation(trace.format(second))]
    wait_until(lambda: own_runtime.status()["sessions"][0]["waiting"] == 1, "the second one waits")
    with sqlite3.connect(own_runtime.database, isolation_level=None) as database:
        database.execute("BEGIN IMMEDIATE")  # nothing more can be stored
        client.process.send_signal(signal.SIGSTOP)  # nor read
        go.touch()
        wait_until(lambda: second.exists() or own_runtime.status()["sessions"][0]["state"] == "idle", "the first one is over")
        os.kill(own_runtime.daemon_pid(), signal.SIGKILL)
        os.kill(pid, signal.SIGKILL)
    client.process.send_signal(signal.SIGCONT)
    for request in requests:
        client.answer(request)
    assert first.read_text() == "ran\n"


@pytest.mark.slow
def test_a_process_that_is_stopped_keeps_neither_a_limit_nor_a_cancel_and_is_followed_by_its_copy(own_runtime):
    timed, cancelled = own_runtime.client().open(), own_runtime.client().open()
    timed.evaluate("(defvar *n* 3)", protect=True)
    cancelled.evaluate("(defvar *n* 3)", protect=True)
    limited = timed.start_evaluation('(ext:system "kill -STOP $PPID")', timeout=0.1)
    endless = cancelled.start_evaluation('(ext:system "kill -STOP $PPID")')
    wait_until(lambda: [list(fate(session["pid"]))[0].split()[1] for session in own_runtime.status()["sessions"]] == ["T", "T"],
               "both are stopped")
    cancelled.cancel(endless)
    assert cancelled.evaluate("*n*").text.endswith("=> 3")
    assert timed.evaluation(limited).text == (
        "[ERROR] WORKER-DIED\nThe Lisp process was stopped by a signal, and was killed. "
        "The evaluation was not completed and will not be repeated. " + NOTHING_LOST)
    assert timed.evaluate("*n*").text == "=> 3"


def test_a_copy_that_is_slow_to_take_over_is_waited_for_and_nothing_runs_twice(own_runtime, tmp_path):
    client = own_runtime.client().open()
    client.evaluate("(defvar *n* 0)")
    caught = 0
    for turn in range(20):
        pid = protect(client)
        copy = wait_until(lambda: copies_of(pid), "it calls itself a copy")[-1]  # one before it may not be gone yet
        trace = tmp_path / f"trace{turn}"
        request = begin_and_trace(client, trace)
        os.kill(own_runtime.daemon_pid(), signal.SIGKILL)
        os.kill(pid, signal.SIGKILL)
        while alive(pid):
            pass
        with contextlib.suppress(ProcessLookupError):  # a later copy has taken its place
            os.kill(copy, signal.SIGSTOP)  # perhaps before it listens
        # The new daemon goes on without the session after two seconds, and takes the line that the shim has sent again.
        with own_runtime.client().open() as other:
            caught += other.result("cl-mcpd/status")["sessions"][0]["state"] == "reviving"
        with contextlib.suppress(ProcessLookupError):
            os.kill(copy, signal.SIGCONT)
        assert_interrupted_once(client, request, trace)
        if caught == 2:
            return
    raise AssertionError("the copy was always faster")


def test_the_copy_takes_over_when_the_zygote_is_dead_too(own_runtime):
    client = own_runtime.client().open()
    client.evaluate("(defvar *n* 9)")
    pid = protect(client)
    os.kill(own_runtime.ready()["zygote"]["pid"], signal.SIGKILL)
    os.kill(pid, signal.SIGKILL)
    text = client.evaluate("*n*").text
    assert text.startswith("[warnings]\nSESSION-RESTORED: ") and text.endswith("=> 9")


def test_killed_again_and_again_the_session_goes_on(own_runtime):
    client = own_runtime.client().open()
    client.evaluate("(defvar *n* 0)")
    for turn in range(1, 16):
        assert client.evaluate("(incf *n*)").text.endswith(f"=> {turn}")
        pid = protect(client)
        request = begin(client, "(sleep 1000)")
        os.kill(pid, signal.SIGKILL)
        assert client.evaluation(request).text == DIED + NOTHING_LOST


def test_two_sessions_do_not_feel_each_others_death(own_runtime):
    one, other = own_runtime.client().open(), own_runtime.client().open()
    one.evaluate("(defvar *n* 1)")
    pid = protect(one)
    other.evaluate("(defvar *n* 2)")
    request = other.start_evaluation("(progn (sleep 0.3) *n*)")
    os.kill(pid, signal.SIGKILL)
    assert one.evaluate("*n*").text.endswith("=> 1")
    assert other.evaluation(request).text == "=> 2"


def test_a_cancel_while_the_process_dies_costs_nothing(own_runtime):
    client = own_runtime.client().open()
    client.evaluate("(defvar *n* 1)")
    daemon = own_runtime.daemon_pid()
    zygote = own_runtime.ready()["zygote"]["pid"]
    for turn in range(15):
        pid = protect(client)
        request = begin(client, "(loop)")
        if turn % 3 == 0:
            os.kill(zygote, signal.SIGSTOP)  # so that nobody can tell of the death
        os.kill(pid, signal.SIGKILL)
        if turn % 3 == 0:
            wait_until(lambda: client.result("cl-mcpd/status")["sessions"][0]["state"] == "dying", "the death is noticed")
        client.cancel(request, may_cross=turn % 3 != 0)
        client.result("ping")
        os.kill(zygote, signal.SIGCONT)
        assert client.evaluate("*n*").text.endswith("=> 1")
    assert own_runtime.daemon_pid() == daemon
