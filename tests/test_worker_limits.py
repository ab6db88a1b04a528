"""Stacks, heap, float traps, faults: what user code can use up or break, and that the session goes on."""
import pytest

from worker_driver import memory, wait_for, worker, zygote  # noqa: F401

OVERFLOWS = {
    "C stack": "(defun inf (x) (1+ (inf x))) (inf 1)",
    "frame stack by catch": "(defun cr (n) (catch 'x (1+ (cr n)))) (cr 1)",
    "frame stack by unwind-protect": "(defun ur (n) (unwind-protect (1+ (ur n)) n)) (ur 1)",
    "binding stack": "(defvar *b* 0) (defun br (n) (let ((*b* n)) (1+ (br n)))) (br 1)",
    "binding stack by progv": "(defun pv (n) (progv '(a b c d) '(1 2 3 4) (1+ (pv n)))) (pv 1)",
    "handler that errs":
        "(defun hh () (handler-bind ((error (lambda (c) (declare (ignore c)) (hh)))) (error \"x\"))) (hh)",
    "reader": "(" * 300000,
    "quotes": "'" * 300000 + "x",
    "compiler": "(eval (let ((x nil)) (dotimes (i 100000) (setf x `(car ,x))) x))",
    "EQUAL": "(let ((a nil) (b nil)) (dotimes (i 4000000) (setf a (list a) b (list b))) (equal a b))",
}


@pytest.mark.parametrize("kind", OVERFLOWS)
def test_overflow_is_reported_and_the_session_goes_on(worker, kind):
    worker.value("(defvar *kept* 42) (defun keep (x) x)")
    for _ in range(3):
        result = worker.evaluate(OVERFLOWS[kind])
        assert result.kind == "r", result
        assert result.outcome_name in ("ERROR", "OVERFLOW"), result
        assert result.error_type in ("STORAGE-CONDITION", "END-OF-FILE"), result
        assert worker.value("(keep *kept*)") == "42"


def test_overflow_can_be_handled_again_and_again(worker):
    worker.value(OVERFLOWS["C stack"].split(" (inf 1)")[0])
    worker.value("(defun cr (n) (catch 'x (1+ (cr n))))")
    for function in ("inf", "cr"):
        code = f"(loop repeat 5 collect (handler-case ({function} 1) (storage-condition () :full)))"
        assert worker.value(code) == "(:FULL :FULL :FULL :FULL :FULL)"


def test_memory_of_a_deep_recursion_is_given_back(worker):
    before = memory(worker.pid)["Private_Dirty"]
    worker.evaluate(OVERFLOWS["C stack"])
    wait_for(lambda: memory(worker.pid)["Private_Dirty"] < before + 24 * 1024)  # the C stack alone was 64 MB


@pytest.mark.parametrize("code", [
    "(make-array 2000000000)",
    "(let ((l nil)) (loop (push (make-array 10000000 :element-type '(unsigned-byte 8)) l)))",
])
def test_heap_exhaustion_is_reported_and_the_limit_restored(worker, code):
    worker.value("(defvar *kept* 42)")
    for _ in range(3):
        result = worker.evaluate(code)
        assert result.outcome_name == "ERROR" and result.error_type == "STORAGE-CONDITION", result
        assert result.error_message == (
            "The heap is exhausted: the session may use 1024 megabytes. configure-limits with max-heap allows more.")
        assert worker.value("*kept*") == "42"


def test_float_traps_are_restored_after_every_evaluation(worker):
    trapped = "(handler-case (/ 1.0 0.0) (division-by-zero () :trapped))"
    assert worker.value(trapped) == ":TRAPPED"
    worker.evaluate("(progn (ext:trap-fpe t nil) (/ 1.0 0.0))")
    assert worker.value(trapped) == ":TRAPPED"
    worker.evaluate("(ext:trap-fpe t nil)")
    worker.begin("(loop)")
    worker.cancel()
    assert worker.result().outcome_name == "CANCELLED"
    assert worker.value(trapped) == ":TRAPPED"
    worker.evaluate(OVERFLOWS["EQUAL"])
    assert worker.value(trapped) == ":TRAPPED"
    assert worker.evaluate("(/ 1.0 0.0)").error_type == "DIVISION-BY-ZERO"


def test_a_hundred_threads_fit_into_the_heap(worker):
    """The main thread's stack of frames takes 15 megabytes, and would take as much for each."""
    code = ("(let* ((lock (mp:make-lock)) (work (lambda () (mp:with-lock (lock) 1)))"
            " (threads (mp:with-lock (lock) (loop repeat 100 collect (mp:process-run-function 'waiter work)))))"
            " (mapc #'mp:process-join threads) (length threads))")
    assert worker.value(code) == "100"


def test_bad_foreign_access_is_reported_before_the_process_ends(zygote):
    worker = zygote.spawn()
    seq = worker.begin("(ffi:deref-pointer (ffi:make-pointer 8 :int) :int)")
    result = worker.result()
    assert result.kind == "f" and result.seq == seq
    assert "Segmentation fault at address 0x8" in result.text
    zygote.expect("D", worker.session)


def test_bad_foreign_access_in_a_thread_is_reported_too(zygote):
    worker = zygote.spawn()
    worker.begin("(progn (mp:process-run-function 'bad (lambda () (ffi:deref-pointer (ffi:make-pointer 8 :int) :int)))"
                 " (sleep 30))")
    result = worker.result()
    assert result.kind == "f" and "in a thread" in result.text
    zygote.expect("D", worker.session)


def test_interrupts_between_threads_do_not_break_the_session(worker):
    code = ("(let ((hits 0) (main mp:*current-process*))"
            " (mp:process-run-function 'poker"
            "  (lambda () (dotimes (i 200) (mp:interrupt-process main (lambda () (incf hits))) (sleep 0.0005))))"
            " (loop until (>= hits 200) do (loop repeat 100 collect (make-list 10)) (sleep 0.0001))"
            " hits)")
    assert worker.value(code) == "200"
    assert worker.value("(+ 1 2)") == "3"


def test_interrupt_of_an_idle_session_waits_for_its_next_evaluation(worker):
    worker.value("(progn (defvar *hit* nil) (defvar *main* mp:*current-process*)"
                 " (mp:process-run-function 'late (lambda () (sleep 0.05)"
                 "  (mp:interrupt-process *main* (lambda () (setf *hit* t))))) 1)")
    wait_for(lambda: worker.value("(progn (sleep 0.01) *hit*)") == "T")
    assert worker.value("(+ 1 2)") == "3"


def test_cancel_signal_from_a_stranger_is_ignored(worker):
    code = '(progn (dotimes (i 20) (ext:system (format nil "kill -URG ~D" (ext:getpid)))) :alive)'
    assert worker.value(code) == ":ALIVE"
