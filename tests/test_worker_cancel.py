"""Stopping evaluations: by cancel, by deadline, by force."""
import os
import random
import signal
import time

import pytest

from harness import copies_of
from worker_driver import SLEEPER, descendants, descriptors, is_alive, threads, wait_for, worker, zygote  # noqa: F401

BLOCKING = [
    "(loop)",
    "(loop (ignore-errors (loop)))",
    "(loop (handler-case (error \"x\") (t () nil)))",
    "(sleep 1000)",
    "(let ((lock (mp:make-lock))) (mp:process-run-function 'holder (lambda () (mp:with-lock (lock) (sleep 1000))))"
    " (sleep 0.05) (mp:with-lock (lock) 1))",
    "(mp:with-lock ((mp:make-lock)) (sleep 1000))",
    "(read-line (ext:run-program \"/bin/sleep\" '(\"1000\") :output :stream :wait nil))",
    "(ext:run-program \"/bin/sleep\" '(\"1000\") :wait t)",
    "(ext:system \"sleep 1000\")",
    "(loop (make-array 1000))",
    "(loop (let ((l nil)) (dotimes (i 20000) (push i l)) (setf l (nreverse l))))",
    "(loop (print 1))",
    "(loop (warn \"again\"))",
    "(defmacro slow () (loop)) (slow)",
    "(unwind-protect (loop) (dotimes (i 1000) (cons 1 2)))",
    "(labels ((f (n) (if (= n 0) 0 (1+ (f (1- n)))))) (loop (f 5000)))",
]

LOOPS = [form for form in BLOCKING if "holder" not in form] + [
    "(loop (format nil \"~A ~S\" '(1 2 3) \"x\"))",
    "(loop (intern (format nil \"X~D\" (random 1000))))",
    "(loop (eval '(defun g (x) (* x 2))))",
    "(loop (defclass foo () ((a) (b))))",
    "(loop (let ((h (make-hash-table :test 'equal))) (dotimes (i 100) (setf (gethash (list i) h) i))))",
    "(loop (with-open-file (s \"/dev/null\" :direction :output :if-exists :append) (print 1 s)))",
    "(loop (mp:process-join (mp:process-run-function 'z (lambda () 1))))",
    "(loop (ext:run-program \"/bin/true\" nil))",
    "(loop (sleep 0.0001))",
    "(loop (catch 'a (catch 'b (unwind-protect (throw 'a (make-list 10)) (throw 'b 1)))))",
    "(loop (read-from-string \"(a b c (d e))\"))",
    "(loop (sort (list 3 2 1 5 4) #'<))",
    "(loop (ext:system \"echo hi\"))",
    "(loop (macroexpand '(loop for i below 10 collect i)))",
]


@pytest.mark.parametrize("code", BLOCKING)
def test_cancel_stops(worker, code):
    worker.value("(defvar *kept* 42)")
    worker.begin(code)
    worker.wait_until_running()
    started = time.monotonic()
    worker.cancel()
    result = worker.result()
    assert result.kind == "r" and result.outcome_name == "CANCELLED", result
    assert time.monotonic() - started < 1.5
    assert worker.value("*kept*") == "42"


def test_cancelling_a_loop_takes_less_than_a_tenth_of_a_second(worker):
    times = []
    for _ in range(20):
        worker.begin("(loop)")
        worker.wait_until_running()
        started = time.monotonic()
        worker.cancel()
        assert worker.result().outcome_name == "CANCELLED"
        times.append(time.monotonic() - started)
    assert sorted(times)[10] < 0.1


def test_stale_cancel_is_harmless(worker):
    worker.value("1")
    for _ in range(50):
        worker.cancel(worker.seq)
        worker.cancel(worker.seq - 1)
        assert worker.value("(loop repeat 1000 sum 1)") == "1000"


def test_cancel_that_overtakes_its_evaluation_still_stops_it(worker):
    for _ in range(50):
        worker.begin("(loop)")
        worker.cancel()
        assert worker.result().outcome_name == "CANCELLED"


def test_evaluation_that_waits_for_its_turn_can_be_cancelled(worker):
    first = worker.begin("(loop)")
    second = worker.begin("(loop)")
    third = worker.begin("(+ 1 2)")
    worker.cancel(second)
    worker.cancel(first)
    assert worker.result(first).outcome_name == "CANCELLED"
    assert worker.result(second).outcome_name == "CANCELLED"
    assert worker.result(third).value == ["3"]


def test_three_hundred_cancels_at_random_moments(worker):
    chance = random.Random(20260120)
    worker.value("(defvar *count* 0) (defun keep (x) (* x 2))")
    count = 0
    for i in range(300):
        code = chance.choice(LOOPS)
        worker.begin(code)
        deadline = time.monotonic() + chance.choice([0, 0.0002, 0.001, 0.003, 0.008]) * chance.random() * 2
        while time.monotonic() < deadline:
            pass
        worker.cancel()
        result = worker.result()
        assert result.kind == "r" and result.outcome_name == "CANCELLED", (code, result)
        if i % 5 == 0:
            count += 1
            assert worker.value("(progn (keep 1) (incf *count*))") == str(count)
    assert worker.value("(keep 21)") == "42"
    wait_for(lambda: threads(worker.pid) == 2)


def test_cleanup_forms_get_their_time(worker):
    worker.value("(defvar *cleaned* nil)")
    worker.begin("(unwind-protect (progn (terpri) (loop)) (sleep 0.05) (setf *cleaned* t))")
    wait_for(lambda: worker.peek().lines == 1)
    worker.cancel()
    assert worker.result().outcome_name == "CANCELLED"
    assert worker.value("*cleaned*") == "T"


def test_output_before_a_cancel_is_not_lost(worker):
    worker.begin('(progn (format t "before~%") (loop))')
    worker.wait_until_running()
    wait_for(lambda: worker.peek().lines == 1)
    worker.cancel()
    assert worker.result().stdout == b"before\n"


@pytest.mark.parametrize("code", ["(mp:without-interrupts (terpri) (loop))",
                                  "(block nil (tagbody a (unwind-protect (progn (terpri) (loop)) (go a))))"])
def test_what_cannot_be_stopped_is_killed_after_the_grace_period(zygote, code):
    worker = zygote.spawn()
    child = worker.spawn_sleeper()
    seq = worker.begin(code)
    wait_for(lambda: worker.peek().lines >= 1)  # it is inside
    started = time.monotonic()
    worker.cancel()
    result = worker.result()
    assert result.kind == "f" and result.seq == seq and "2 seconds" in result.text
    assert 1.8 < time.monotonic() - started < 4
    zygote.expect("D", worker.session)
    wait_for(lambda: not is_alive(child))


def test_deadline_ends_an_evaluation(worker):
    result = worker.evaluate("(loop)", time_limit=50)
    assert result.outcome_name == "TIMEOUT"
    assert 40_000 <= result.elapsed < 1_000_000
    assert worker.evaluate("(sleep 0.01)", time_limit=5000).outcome_name == "DONE"


def test_deadline_needs_no_daemon(worker):
    worker.begin("(loop)", time_limit=300)
    worker.wait_until_running()
    worker.link.close()

    def is_over():
        worker.connect()
        return worker.hello.running is None
    wait_for(is_over)
    assert worker.result().outcome_name == "TIMEOUT"


def test_subprocesses_of_a_cancelled_evaluation_end_and_older_ones_stay(worker):
    older = worker.spawn_sleeper()
    wait_for(lambda: time.clock_gettime(time.CLOCK_BOOTTIME) > started_at(older) + 0.05)
    worker.begin(f"(progn {SLEEPER} (ext:system \"sleep 1000 & sleep 1000\"))")
    wait_for(lambda: len(descendants(worker.pid)) >= 5)
    worker.cancel()
    assert worker.result().outcome_name == "CANCELLED"
    wait_for(lambda: set(descendants(worker.pid)) - set(copies_of(worker.pid)) == {older})
    os.kill(older, signal.SIGKILL)


def started_at(pid):
    with open(f"/proc/{pid}/stat") as stat:
        return int(stat.read().rpartition(")")[2].split()[19]) / os.sysconf("SC_CLK_TCK")


def test_cancels_leak_no_descriptors(worker):
    def cancel_pipe():
        worker.begin("(read-line (ext:run-program \"/bin/sleep\" '(\"1000\") :output :stream :wait nil))")
        worker.wait_until_running()
        worker.cancel()
        assert worker.result().outcome_name == "CANCELLED"
    before = descriptors(worker.pid)
    for _ in range(5):
        cancel_pipe()
    worker.value("(progn (ext:gc t) 1)")
    ours = [name for name in descriptors(worker.pid) if "socket" in name or "eventfd" in name]
    assert ours == [name for name in before if "socket" in name or "eventfd" in name]
