"""A worker may die at any instant: its sleeping copy takes over, and what it knows nothing of is named."""
import os
import random
import re
import signal
import time

from harness import copies_of
from worker_driver import (Zygote, descendants, descriptors, is_alive, memory, threads, wait_for,  # noqa: F401
                           worker, zygote)

KILLS = int(os.environ.get("SNAPSHOT_KILLS", "60"))


def wait_until_protected(worker, earlier=()):
    """Waits until the worker has a copy that knows all that was answered; returns it: one that is none of the earlier."""
    def is_protected():
        worker.connect()
        return worker.hello.protected == worker.hello.seq
    wait_for(is_protected)
    return wait_for(lambda: [copy for copy in copies_of(worker.pid) if copy not in earlier])[-1]


def protect(worker, code="1"):
    earlier = copies_of(worker.pid)
    worker.value(code)
    return wait_until_protected(worker, earlier)


def die(worker, number=signal.SIGKILL):
    """Kills the worker and connects to its heir."""
    old = worker.pid
    worker.kill(number)
    died = worker.zygote.expect("D", worker.session)
    assert died.pid == old
    assert died.heir, "nobody takes over"
    follow(worker)
    return died


def follow(worker):
    """Connects to the process that took over."""
    def connect():
        try:
            worker.connect()
        except (EOFError, ConnectionError):
            return False
        return worker.hello.pid != worker.pid
    wait_for(connect)
    worker.pid = worker.hello.pid


def run_a_thread(worker):
    """From now on the worker makes no copies."""
    worker.value("""(progn (defvar *stop* nil)
                           (defvar *thread* (mp:process-run-function 'idler (lambda () (loop until *stop* do (sleep 0.01)))))
                           t)""")


def test_a_killed_session_goes_on_with_its_definitions(worker):
    worker.evaluate("(defvar *list* (list 1 2 3)) (defclass point () ((x :initarg :x :reader x)))")
    worker.evaluate("(defun twice (x) (* 2 x)) (defpackage :mine (:use :cl)) (in-package :mine)")
    protect(worker)
    died = die(worker)
    assert died.status == signal.SIGKILL
    hello = worker.hello
    assert (hello.incarnation, hello.seq, hello.restored, hello.undone, hello.interrupted) == (2, 3, 3, [], None)
    assert worker.value("*package*").startswith('#<"MINE"') or "MINE" in worker.value("(package-name *package*)")
    assert worker.value("(list cl-user::*list* (cl-user::twice 4) (cl-user::x (make-instance 'cl-user::point :x 7)))") == \
        "((1 2 3) 8 7)"


def test_a_copy_is_made_while_the_worker_idles_and_few_of_those_before_stay(worker):
    made = []
    for _ in range(7):
        made.append(protect(worker))
        assert os.getpgid(made[-1]) == made[-1]
    assert len(set(made)) == 7
    wait_for(lambda: descendants(worker.pid) == made[-4:])  # no zombie either


def test_of_two_copies_that_know_the_same_one_is_enough(worker):
    first = protect(worker)
    worker.value("functions", operation="list-definitions")
    second = wait_until_protected(worker, [first])
    wait_for(lambda: descendants(worker.pid) == [second])


def test_when_the_newest_copy_is_dead_the_one_before_takes_over(worker):
    worker.value("(defvar *n* 0)")
    for _ in range(3):
        copy = protect(worker, "(incf *n*)")
    worker.kill(signal.SIGSTOP)
    os.kill(copy, signal.SIGKILL)
    wait_for(lambda: not is_alive(copy))
    die(worker)
    assert worker.hello.undone == ["(incf *n*)"]
    assert worker.value("*n*") == "2"


def test_the_interrupted_evaluation_is_told_with_its_origin_and_not_run_again(worker, tmp_path):
    trace = tmp_path / "trace"
    protect(worker)
    seq = worker.begin(f'(with-open-file (s "{trace}" :direction :output :if-exists :append :if-does-not-exist :create)'
                       ' (write-line "ran" s) (finish-output s) (sleep 100))', origin=b"somebody")
    wait_for(lambda: trace.exists() and trace.read_text() == "ran\n")
    die(worker)
    assert (worker.hello.interrupted, worker.hello.interrupted_origin) == (seq, b"somebody")
    assert worker.hello.seq == seq and worker.hello.running is None
    assert worker.value("(+ 1 2)") == "3"
    assert trace.read_text() == "ran\n"


def test_what_was_answered_after_the_last_copy_is_named_in_order(worker):
    worker.value("(defvar *n* 0)")
    protect(worker)
    run_a_thread(worker)
    for _ in range(3):
        worker.value("(incf *n*)")
    worker.value('(list\n "' + "x" * 200 + '")')
    die(worker)
    assert worker.hello.undone[1:] == ["(incf *n*)"] * 3 + ['(list  "' + "x" * 72 + "..."]
    assert worker.hello.undone[0].startswith("(progn (defvar *stop* nil)")
    assert worker.hello.restored == 2
    assert worker.value("*n*") == "0"


def test_an_operation_is_named_with_what_it_was_asked_for(worker):
    protect(worker)
    run_a_thread(worker)
    worker.value("functions", operation="list-definitions")
    die(worker)
    assert worker.hello.undone[1:] == ["list-definitions functions"]


def test_what_nobody_has_asked_for_is_not_told_as_undone(worker, tmp_path):
    protect(worker)
    run_a_thread(worker)
    assert worker.evaluate(f"{tmp_path}/state\n3", operation="save-state").outcome_name == "ERROR"  # because of the thread
    worker.value("(+ 1 2)")
    die(worker)
    assert worker.hello.undone[1:] == ["(+ 1 2)"]


def test_what_is_undone_is_said_until_the_daemon_knows_that_it_is_told_and_then_no_more(worker):
    protect(worker)
    run_a_thread(worker)
    die(worker)
    told = worker.hello.undone
    assert len(told) == 1
    worker.connect()
    assert (worker.hello.undone, worker.hello.restored, worker.hello.inherited) == (told, 1, 2)
    worker.value("1")  # the daemon may die now, and what it has told with it
    worker.connect()
    assert (worker.hello.undone, worker.hello.restored, worker.hello.inherited) == (told, 1, 2)
    wait_until_protected(worker)
    die(worker)
    assert (worker.hello.undone, worker.hello.restored, worker.hello.inherited) == (told, 3, 3)
    worker.forget(3)
    worker.value("1")
    worker.connect()
    assert worker.hello.undone == told
    worker.forget(4, told=3)
    worker.value("1")
    worker.connect()
    assert (worker.hello.undone, worker.hello.restored) == ([], None)


def test_no_more_than_a_hundred_evaluations_are_unprotected(worker):
    worker.value("(defvar *n* 0)")
    for _ in range(1000):
        worker.value("(incf *n*)")
    die(worker)
    lost = len(worker.hello.undone)
    assert lost <= 100
    assert worker.value("*n*") == str(1000 - lost)


def test_a_session_with_threads_keeps_its_older_copy_until_they_have_ended(worker):
    copy = protect(worker)
    run_a_thread(worker)
    for _ in range(300):
        worker.value("1")
    assert copies_of(worker.pid) == [copy]
    worker.value("(progn (setf *stop* t) (mp:process-join *thread*) t)")
    wait_until_protected(worker)
    die(worker)
    assert worker.hello.undone == []
    assert worker.value("*stop*") == "T"


def test_generations_follow_each_other(worker):
    worker.value("(defvar *n* 0)")
    protect(worker)
    for turn in range(40):
        if turn % 2:
            worker.value("(incf *n*)")
            protect(worker)
        die(worker)
        assert worker.hello.undone == []
    assert worker.value("*n*") == "20"
    assert worker.hello.incarnation == 41
    wait_for(lambda: len(descendants(worker.pid)) == 1)


def test_killed_at_random_moments_every_evaluation_counts_once_or_is_named(worker):
    dice = random.Random(20260118)
    worker.value("(defvar *n* 0)")
    protect(worker)
    count = 0
    for _ in range(KILLS):
        for _ in range(dice.randrange(4)):
            count += 1
            assert worker.value("(incf *n*)") == str(count)
        seq = worker.begin("(progn (dotimes (i 300) (cons 1 2)) (incf *n*))")
        time.sleep(dice.random() * 0.006)  # not to wait for anything: to die at any moment
        worker.kill()
        worker.zygote.expect("D", worker.session)
        finished = False
        try:
            finished = worker.result(seq, forget=False).kind == "r"
        except EOFError:
            pass
        count += finished
        follow(worker)
        hello = worker.hello
        for _ in range(hello.kept or 0):
            kept = worker.link.receive()
            if kept.seq == seq and not finished:
                count += 1  # it had ended and was in the copy, but we had not heard of it
        count -= hello.undone.count("(incf *n*)")
        count -= finished and any("dotimes" in code for code in hello.undone)
        assert worker.value("*n*") == str(count), hello
        worker.forget(worker.seq, told=hello.inherited)
        worker.value("1")  # so that it has heard of that: what is undone is not told again


def test_in_the_strict_form_nothing_that_was_answered_is_ever_undone(worker):
    worker.value("(defvar *n* 0)", protect=1)
    for turn in range(1, KILLS + 1):
        assert worker.value("(incf *n*)", protect=1) == str(turn)
        worker.kill()
        assert worker.zygote.expect("D", worker.session).heir, "nobody takes over"
        follow(worker)
        assert (worker.hello.undone, worker.hello.interrupted) == ([], None)
    assert worker.value("*n*") == str(KILLS)


def test_in_the_strict_form_the_copy_holds_the_answer_that_could_not_be_sent(worker):
    """Killed at random moments: the answer comes from the worker or its heir, or the evaluation is told as interrupted."""
    dice = random.Random(20261118)
    worker.value("(defvar *n* 0)", protect=1)
    count, from_heir = 0, 0
    for _ in range(KILLS):
        seq = worker.begin("(incf *n*)", protect=1)
        time.sleep(dice.random() * 0.004)  # not to wait for anything: to die at any moment
        worker.kill()
        worker.zygote.expect("D", worker.session)
        try:
            answered = worker.result(seq, forget=False).kind == "r"
        except EOFError:
            answered = False
        follow(worker)
        kept = [worker.link.receive().seq for _ in range(worker.hello.kept or 0)]
        from_heir += seq in kept and not answered
        count += answered or seq in kept
        assert worker.hello.undone == []
        assert worker.hello.interrupted == (seq if worker.hello.seq == seq and not answered and seq not in kept else None)
        assert worker.value("*n*", protect=1) == str(count), worker.hello
        worker.value("1", protect=1)  # see above
    print(f"{count} of {KILLS} answered, {from_heir} of them by the heir")


def test_many_evaluations_in_the_strict_form_follow_each_other(worker):
    for turn in range(100):
        assert worker.value("1", protect=1) == "1"
    worker.connect()
    assert worker.hello.protected == worker.hello.seq == 100
    wait_for(lambda: len(descendants(worker.pid)) == 4)  # the newest, and three before it


def test_numbers_go_on_and_a_kept_result_is_delivered_by_the_heir(worker):
    worker.value("(defvar *n* 5)")
    seq = worker.begin("(incf *n*)")
    assert worker.result(seq, forget=False).value == ["6"]
    wait_until_protected(worker)
    die(worker)
    assert worker.hello.kept == 1
    kept = worker.link.receive()
    assert (kept.kind, kept.seq, kept.value) == ("r", seq, ["6"])
    worker.forget(seq)
    assert worker.begin("*n*") == seq + 1
    assert worker.result().value == ["6"]


def test_cancel_overflow_and_captured_output_work_after_a_takeover(worker):
    protect(worker)
    die(worker)
    worker.begin("(loop)")
    worker.wait_until_running()
    worker.cancel()
    assert worker.result().outcome_name == "CANCELLED"
    assert worker.evaluate("(read-from-string (make-string 1000000 :initial-element #\\())").outcome_name == "OVERFLOW"
    assert worker.evaluate("(labels ((f (x) (1+ (f x)))) (f 1))").outcome_name == "ERROR"
    assert worker.evaluate('(ext:system "echo to descriptor 1")').stdout == b"to descriptor 1\n"
    assert worker.evaluate("(/ 1.0 0.0)").error_type == "DIVISION-BY-ZERO"
    assert worker.value("(mp:process-join (mp:process-run-function 'new (lambda () :new)))") == ":NEW"


def test_the_copy_does_not_keep_pipes_open(worker):
    """A subprocess that reads must see the end when the session closes its side."""
    worker.evaluate("(defvar *cat* (ext:run-program \"/bin/cat\" nil :input :stream :output :stream :wait nil))")
    copy = protect(worker)
    assert not [link for link in descriptors(copy) if link.startswith("pipe:")]
    worker.evaluate("(close (two-way-stream-output-stream *cat*))")
    assert worker.value("(values (read-line *cat* nil :eof))") == ":EOF"


def test_a_takeover_says_that_pipes_are_lost_and_ends_subprocesses(worker):
    worker.evaluate("(defvar *cat* (ext:run-program \"/bin/cat\" nil :input :stream :output :stream :wait nil))")
    sleeper = worker.spawn_sleeper()
    protect(worker)
    die(worker)
    assert re.fullmatch(rb"; \d+ pipes or sockets of the session could not be kept open.\n", worker.evaluate("1").stderr)
    assert worker.evaluate("1").stderr is None
    wait_for(lambda: not is_alive(sleeper))


def test_files_are_where_they_were(worker, tmp_path):
    lines = tmp_path / "lines"
    lines.write_text("".join(f"line{number}\n" for number in range(20000)))
    worker.evaluate(f'(defvar *in* (open "{lines}"))')
    assert worker.value("(list (read-line *in*) (read-line *in*))") == '("line0" "line1")'
    protect(worker)
    worker.begin("(loop repeat 15000 do (read-line *in*) finally (print :there) (sleep 100))")
    wait_for(lambda: worker.peek().last_line == b":THERE ")
    die(worker)
    assert worker.value("(values (read-line *in*))") == '"line2"'
    assert worker.evaluate("(progn (loop repeat 9999 do (read-line *in*)) (read-line *in*))").value[0] == '"line10002"'


def test_nobody_takes_over_when_the_session_is_ended(zygote):
    for end in (lambda made: made.link.send("Q"), lambda made: zygote.link.send("K", session=made.session)):
        made = zygote.spawn()
        copy = protect(made)
        end(made)
        assert zygote.expect("D", made.session).heir is None
        wait_for(lambda: not is_alive(copy) and not is_alive(made.pid))
        assert not (zygote.directory / made.session).exists()


def test_a_zygote_that_is_told_to_leave_leaves_no_copy():
    with Zygote() as zygote:
        made = [zygote.spawn() for _ in range(5)]
        left = [protect(one) for one in made] + [one.pid for one in made]
    assert not [pid for pid in left if is_alive(pid)]


def test_the_copy_takes_over_without_a_zygote():
    with Zygote() as zygote:
        made = zygote.spawn()
        made.value("(defvar *n* 7)")
        protect(made)
        zygote.process.kill()
        zygote.process.wait()
        made.kill()
        follow(made)
        assert made.value("*n*") == "7"
        copy = protect(made)
        made.link.send("Q")
        wait_for(lambda: not is_alive(made.pid) and not is_alive(copy))


def test_a_process_that_is_ended_by_its_pid_is_followed_by_its_copy(worker):
    worker.value("(defvar *n* 1)")
    protect(worker)
    worker.zygote.link.send("K", session=worker.session, pid=worker.pid + 1)  # not that one: nothing happens
    worker.zygote.link.send("K", session=worker.session, pid=worker.pid)
    assert worker.zygote.expect("D", worker.session).heir
    follow(worker)
    assert worker.value("*n*") == "1"


def test_a_segmentation_fault_does_not_cost_the_definitions(worker):
    worker.value("(defun keep () :kept)")
    protect(worker)
    seq = worker.begin("(ffi:deref-pointer (ffi:make-pointer 8 :int) :int)")
    assert "Segmentation fault" in worker.result(seq).text
    worker.zygote.expect("D", worker.session)
    follow(worker)
    assert worker.hello.interrupted == seq
    assert worker.value("(keep)") == ":KEPT"


def test_a_big_heap_that_is_free_again_does_not_make_copies_dear(worker):
    worker.value("(progn (defvar *big* (make-list 8000000)) t)")
    worker.value("(setf *big* nil)")

    def small_copy():
        worker.value("(progn (ext:gc t) t)")  # a conservative collector may need more than one
        return memory(protect(worker))["Rss"] < 60_000
    wait_for(small_copy)


def test_a_session_and_its_copy_are_small(worker):
    worker.value("(defun f (x) x)")
    copy = protect(worker)
    total = memory(worker.pid)["Pss"] + memory(copy)["Pss"]
    print(f"worker {memory(worker.pid)['Pss']} kB, copy {memory(copy)['Pss']} kB PSS")
    assert total < 20_000


def test_the_worker_has_two_threads_and_its_copy_one(worker):
    copy = protect(worker)
    assert (threads(worker.pid), threads(copy)) == (2, 1)
    die(worker)
    assert threads(worker.pid) == 2


def test_a_zygote_that_is_told_to_leave_while_copies_take_over_leaves_nobody():
    dice = random.Random(20261119)
    for _ in range(10):
        with Zygote() as zygote:
            made = [zygote.spawn() for _ in range(5)]
            left = [one.pid for one in made] + [protect(one) for one in made]
            for one in made:
                one.kill()
            time.sleep(dice.random() * 0.004)  # not to wait for anything: to be told at any moment
        wait_for(lambda: not any(map(is_alive, left)))
