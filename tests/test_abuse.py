"""
Nothing that a user's code does costs the session its definitions: not what never ends, not what uses everything up, not
what breaks the process. After each piece of abuse a function and a counter that were there before are right.
"""

import os
import random
import time

import pytest

from harness import copies_of, wait_until
from worker_driver import Zygote, descendants, descriptors, is_alive, threads, wait_for

CANCELS = int(os.environ.get("CANCELS", "300"))
SEED = int(os.environ.get("CANCELS_SEED", "20260120"))

CIRCLE = "(let ((l (list 1 2)) (*print-circle* nil)) (setf (cddr l) l) {})"

ENDLESS = {
    "a loop": "(loop)",
    "a sleep": "(sleep 1000)",
    "a loop that handles errors": "(loop (ignore-errors (loop)))",
    "a loop that handles everything": "(loop (handler-case (loop) (serious-condition () nil) (t () nil)))",
    "a lock that another thread holds":
        "(let ((lock (mp:make-lock)) (go (mp:make-semaphore)))"
        " (unwind-protect"
        "  (progn (mp:process-run-function 'holder (lambda () (mp:with-lock (lock) (mp:wait-on-semaphore go))))"
        "         (loop until (mp:lock-owner lock)) (mp:get-lock lock))"
        "  (mp:signal-semaphore go)))",
    "a condition variable":
        "(let ((lock (mp:make-lock)) (cv (mp:make-condition-variable)))"
        " (mp:with-lock (lock) (mp:condition-variable-wait cv lock)))",
    "a semaphore": "(mp:wait-on-semaphore (mp:make-semaphore))",
    "a barrier": "(mp:barrier-wait (mp:make-barrier 2))",
    "a mailbox": "(mp:mailbox-read (mp:make-mailbox))",
    "a pipe": "(read-line (ext:run-program \"/bin/sleep\" '(\"1000\") :output :stream :wait nil))",
    "a subprocess": "(ext:run-program \"/bin/sleep\" '(\"1000\"))",
    "a subprocess that ignores signals": "(ext:system \"trap '' TERM INT HUP; sleep 1000\")",
    "many subprocesses": "(loop (ext:run-program \"/bin/true\" nil))",
    "many threads": "(loop (mp:process-join (mp:process-run-function 'z (lambda () 1))))",
    "printing a circle": CIRCLE.format("(print l)"),
    "printing a circle prettily": CIRCLE.format("(let ((*print-pretty* t)) (format nil \"~S\" l))"),
    "walking a circle": CIRCLE.format("(length l)"),
    "comparing circles": CIRCLE.format("(let ((m (list 1 2))) (setf (cddr m) m) (equal l m))"),
    "a huge bignum": "(expt 7 7777777777)",
    "printing a huge bignum": "(expt 3 20000000)",
    "a huge list": "(make-list 10000000000)",
    "a wide format": '(format nil "~V@A" 2000000000 1)',
    "a read that never ends": '(with-open-file (s "/dev/zero") (read-line s))',
    "native code": "(funcall (compile nil '(lambda () (loop))))",
    "native code without checks":
        "(funcall (compile nil '(lambda (x) (declare (fixnum x) (optimize (speed 3) (safety 0)))"
        " (loop (setf x (logand (1+ x) 65535))))) 1)",
    "the compiler": "(loop (compile nil '(lambda (x) (* x x))))",
    "the collector": "(loop (ext:gc t))",
    "allocation": "(loop (make-array 100000))",
    "a slow cleanup": "(unwind-protect (loop) (sleep 0.5))",
    "a cleanup that loops": "(unwind-protect (loop) (loop))",
    "an error handler that loops": "(handler-bind ((error (lambda (c) c (loop)))) (car 1))",
    "a warning handler that loops": "(handler-bind ((warning (lambda (c) c (loop)))) (warn \"x\"))",
    "a debugger hook that loops": "(let ((*debugger-hook* (lambda (c h) c h (loop)))) (error \"x\"))",
    "a report that loops":
        "(define-condition slow-report (error) () (:report (lambda (c s) c s (loop)))) (error 'slow-report)",
    "a printer that loops":
        "(defclass slow-print () ()) (defmethod print-object ((o slow-print) s) s (loop)) (make-instance 'slow-print)",
    "a reader macro that loops": "#.(loop)",
    "a macro that loops": "(defmacro slow-macro () (loop)) (slow-macro)",
}

# Nothing but force ends these.
UNSTOPPABLE = {
    "interrupts disabled": "(mp:without-interrupts (loop))",
    "a cleanup that goes back": "(tagbody again (unwind-protect (loop) (go again)))",
    "a cleanup that throws into a loop": "(loop (catch 'again (unwind-protect (loop) (throw 'again 1))))",
}


class Kept:
    """A session with a function, a variable and a counter, of which it can be asked whether they are right."""

    def __init__(self, client):
        self.client = client
        self.count = 0
        client.evaluate("(defun keep (x) (* 2 x)) (defvar *kept* (list 1 \"two\" #\\3)) (defvar *count* 0)")
        self.check()

    def check(self, restored=False):
        self.count += 1
        text = self.client.evaluate("(list (keep 21) *kept* (incf *count*))").text
        notice, _, value = text.rpartition("=> ")
        assert value == f'(42 (1 "two" #\\3) {self.count})', text
        assert restored or notice == "", text

    def protect(self):
        """Waits until the session's sleeping copy knows of everything."""
        def is_protected():
            session = self.client.result("cl-mcpd/status")["sessions"][0]
            return session["protected"] == session["evaluations"]
        wait_until(is_protected, "there is a copy")

    def answer(self, code, **arguments):
        """The answer to the abuse, which the session must survive."""
        text = self.client.evaluate(code, timeout=60, **arguments).text if not arguments else \
            self.client.evaluation(self.client.start_evaluation(code, **arguments), 60).text
        self.check()
        return text


@pytest.fixture
def kept(lisp):
    return Kept(lisp)


@pytest.fixture
def protected(own_runtime):
    """For what kills the process: one session whose copy can be waited for."""
    session = Kept(own_runtime.client().open())
    session.protect()
    return session


# What never ends


@pytest.mark.parametrize("what", ENDLESS)
def test_it_is_stopped_by_its_time_limit_and_the_session_goes_on(kept, what):
    assert kept.answer(ENDLESS[what], timeout=0.25).startswith("[ERROR] TIMEOUT\n")


@pytest.mark.parametrize("what", ["a loop", "a lock that another thread holds", "a subprocess", "native code",
                                  "an error handler that loops", "the collector"])
def test_it_is_stopped_by_its_client_and_the_session_goes_on(kept, what):
    for _ in range(3):
        kept.client.cancel(kept.client.start_evaluation(ENDLESS[what]))
        kept.check()


@pytest.mark.slow
@pytest.mark.parametrize("what", UNSTOPPABLE)
def test_what_only_force_can_end_costs_no_definition(protected, what):
    text = protected.answer(UNSTOPPABLE[what], timeout=0.1)
    assert text.startswith("[ERROR] WORKER-DIED\n") and "2 seconds" in text
    assert text.endswith("The session goes on with everything that was answered before.")


# Cancels at random moments

# What may take longer than the grace to notice; a huge list because the collector walks it all, without a pause.
SLOW = ("a slow cleanup", "a cleanup that loops", "native code", "native code without checks", "the compiler", "a huge list")
MIX = [code for what, code in ENDLESS.items() if what not in SLOW] + [
    *[ENDLESS["many threads"]] * 3,
    "(loop (mp:process-run-function 'z (lambda () 1)) (sleep 0.001))",
    "(loop (ext:system \"echo hi; echo ho 1>&2\"))",
    "(loop (with-open-file (s \"/dev/null\" :direction :output :if-exists :append) (print 1 s)))",
    "(loop (intern (format nil \"X~D\" (random 1000))))",
    "(loop (eval '(defun g (x) (* x 2))))",
    "(loop (defclass foo () ((a) (b))))",
    "(loop (let ((h (make-hash-table :test 'equal))) (dotimes (i 100) (setf (gethash (list i) h) i))))",
    "(loop (mp:with-lock ((mp:make-lock)) (sleep 0.0001)))",
    "(loop (unwind-protect (sleep 0.0001) (list 1)))",
    "(loop (print (list 1 2)))",
    "(loop (warn \"again\"))",
]


def assert_nothing_is_left_over(worker, files):
    """No thread, no child but the copy, and, once garbage is collected, no descriptor."""
    wait_for(lambda: threads(worker.pid) == 2)
    wait_for(lambda: not [pid for pid in descendants(worker.pid)
                          if is_alive(pid) and pid not in copies_of(worker.pid)])
    if files is None:
        return

    def are_closed():
        worker.evaluate("(progn (ext:gc t) (ext:gc t))")
        return len(descriptors(worker.pid)) <= files
    wait_for(are_closed)


@pytest.mark.slow
def test_cancelled_at_random_moments_a_session_keeps_everything_and_leaves_nothing_behind():
    chance = random.Random(SEED)
    with Zygote() as zygote, zygote.spawn() as worker:
        worker.value("(progn (defvar *count* 0) (defun keep (x) (* x 2)))")
        files = len(descriptors(worker.pid))
        slowest = (0, None)
        for turn in range(1, CANCELS + 1):
            code = chance.choice(MIX)
            worker.begin(code)
            until = time.monotonic() + chance.choice([0, 0.0002, 0.001, 0.003, 0.008, 0.02]) * chance.random() * 2
            while time.monotonic() < until:
                pass
            worker.cancel()
            began = time.monotonic()
            result = worker.result()
            slowest = max(slowest, (time.monotonic() - began, code))
            assert result.kind == "r" and result.outcome_name == "CANCELLED", (turn, code, result)
            assert worker.value("(list (keep 21) (incf *count*))") == f"(42 {turn})", (turn, code)
            try:
                assert_nothing_is_left_over(worker, files if turn % 20 == 0 or turn == CANCELS else None)
            except TimeoutError:
                raise AssertionError((turn, code, threads(worker.pid), descendants(worker.pid),
                                      descriptors(worker.pid))) from None
        print(f"{CANCELS} cancels, the slowest took {slowest[0] * 1000:.0f} ms: {slowest[1]}")


# What uses something up

RECURSION = {
    "the C stack": "(defun endless (x) (1+ (endless x))) (endless 1)",
    "the frame stack": "(defun endless (x) (catch 'x (1+ (endless x)))) (endless 1)",
    "the binding stack": "(defvar *bound* 0) (defun endless (x) (let ((*bound* x)) (1+ (endless x)))) (endless 1)",
    "the Lisp stack": "(defun endless (x) (multiple-value-call #'+ x 1 2 (endless x))) (endless 1)",
    "the C stack in native code": "(compile (defun endless (x) (1+ (endless x)))) (endless 1)",
}


@pytest.mark.parametrize("stack", RECURSION)
def test_infinite_recursion_is_reported(kept, stack):
    for _ in range(2):
        text = kept.answer(RECURSION[stack])
        assert text.startswith("[ERROR] STORAGE-CONDITION\n") and "exhausted: infinite recursion" in text


@pytest.mark.parametrize("code", ["(ash 1 (ash 1 40))", "(random (ash 1 most-positive-fixnum))", "(make-array 2000000000)", "(make-string 400000000)",
                                  "(let ((all nil)) (loop (push (make-array 30000000) all)))",
                                  "(defvar *hoard* nil) (loop (push (make-array 30000000) *hoard*))"])
def test_heap_exhaustion_is_reported(kept, code):
    assert "[ERROR] STORAGE-CONDITION\nThe heap is exhausted: the session may use 1024 megabytes." in kept.answer(code)
    kept.client.evaluate("(setf *hoard* nil) (ext:gc t)")
    kept.check()


def test_a_number_that_is_too_long_can_be_handled(kept):
    caught = "(handler-case (ash 1 (ash 1 40)) (storage-condition () :caught))"
    assert kept.answer(caught).endswith("=> :CAUGHT")
    in_thread = f"(mp:process-join (mp:process-run-function 'counter (lambda () {caught})))"
    assert kept.answer(in_thread).endswith("=> :CAUGHT")


# What leaves


@pytest.mark.parametrize("code,answer", [
    ("(ext:quit)", "[ERROR] EXIT\n"),
    ("(ext:quit 1)", "[ERROR] EXIT\n"),
    ("(si:exit)", "[ERROR] EXIT\n"),
    ("(unwind-protect (ext:quit) (si:exit 3))", "[ERROR] EXIT\n"),
    ("(throw 'nowhere 1)", "[ERROR] CONTROL-ERROR\nTHROW: The catch NOWHERE is undefined."),
    ("(throw si::*quit-tag* 1)", "[ERROR] ABORTED\n"),
    ("(invoke-restart 'abort)", "[ERROR] ABORTED\n"),
    ("(abort)", "[ERROR] ABORTED\n"),
    ("(break)", "[ERROR] SIMPLE-CONDITION\nBreak"),
    ("(break \"at ~A\" 'here)", "[ERROR] SIMPLE-CONDITION\nat HERE"),
    ("(invoke-debugger (make-condition 'simple-error :format-control \"x\"))", "[ERROR] SIMPLE-ERROR\nx"),
    ("(return-from nowhere 1)", "[ERROR] PROGRAM-ERROR\n"),
    ("(mp:exit-process)", "[ERROR] EXIT\n"),
    ("(mp:process-kill mp:*current-process*)", "[ERROR] EXIT\n"),
    ("(let ((it mp:*current-process*)) (mp:process-run-function 'killer (lambda () (mp:process-kill it)))) (loop)",
     "[ERROR] EXIT\n"),
])
def test_an_exit_to_nowhere_ends_the_evaluation_alone(kept, code, answer):
    assert kept.answer(code).startswith(answer)


def test_an_error_in_a_thread_is_shown_and_ends_the_thread_alone(kept):
    text = kept.answer("(mp:process-join (mp:process-run-function 'bad (lambda () (error \"in ~A\" 'vain))))")
    assert text.startswith("[stderr]\n; Error in #<process BAD") and "SIMPLE-ERROR\n; in VAIN" in text
    for way in "(ext:quit)", "(mp:exit-process)", "(mp:process-kill mp:*current-process*)":
        assert kept.answer(f"(mp:process-join (mp:process-run-function 'bad (lambda () {way} (loop)))) 1") == "=> 1"
    text = kept.answer("(mp:process-join (mp:process-run-function 'deep"
                       " (lambda () (labels ((f (x) (1+ (f x)))) (f 1))))) 1")
    assert text.endswith("=> 1")


@pytest.mark.parametrize("operation", ["process-kill", "process-suspend", "process-resume", "process-enable",
                                       "interrupt-process", "condition-variable-signal", "condition-variable-broadcast"])
def test_what_is_no_thread_is_an_error(kept, operation):
    more = " (lambda () 1)" if operation == "interrupt-process" else ""
    for thing in "nil", "5", "(list 1)":
        text = kept.answer(f"(mp:{operation} {thing}{more})")
        assert text.startswith("[ERROR] TYPE-ERROR\n") and f"\n0: (MP:{operation.upper()} " in text


# What breaks the process

DEADLY = {
    "a bad pointer read": "(ffi:deref-pointer (ffi:make-pointer 8 :int) :int)",
    "a bad pointer written": "(setf (ffi:deref-pointer (ffi:make-pointer 8 :int) :int) 1)",
    "a bad pointer in a thread":
        "(mp:process-run-function 'bad (lambda () (ffi:deref-pointer (ffi:make-pointer 8 :int) :int))) (sleep 30)",
    "SIGKILL": '(ext:system "kill -KILL $PPID") (sleep 30)',
    "SIGSEGV": '(ext:system "kill -SEGV $PPID") (sleep 30)',
    "SIGABRT": '(ext:system "kill -ABRT $PPID") (sleep 30)',
    "SIGTERM": '(ext:system "kill -TERM $PPID") (sleep 30)',
    "native code that overwrites memory":
        "(funcall (compile nil '(lambda () (ffi:c-inline () () :void \"*(long*)16 = 1;\"))))",
}


@pytest.mark.parametrize("what", DEADLY)
def test_a_process_that_is_broken_is_replaced_by_its_copy(protected, what):
    text = protected.answer(DEADLY[what])
    assert "[ERROR] WORKER-DIED\n" in text and "The session goes on with everything that was answered before." in text


# What is big or deep


def test_a_string_of_100_megabytes_is_a_value_that_is_cut(kept):
    text = kept.answer("(setf *big* (make-string 100000000 :initial-element #\\a))")
    assert text.startswith('=> "aaaa') and 100_000 <= len(text) < 101_000 and "max-value" in text
    assert kept.answer("(length *big*)") == "=> 100000000"


def test_100_megabytes_of_output_are_counted_and_cut(kept):
    code = "(let ((s (make-string 100000 :initial-element #\\x))) (dotimes (i 1000) (write-line s)))"
    text = kept.answer(code)
    assert text.startswith("[stdout]\nxxxx") and text.endswith("=> NIL") and len(text) < 101_000
    assert f"cut here after 100000 of {16 << 20} characters that are kept, although more was written" in text


def test_a_list_that_is_a_million_deep_is_a_value(kept):
    kept.client.evaluate("(defun deep (n) (let ((l nil)) (dotimes (i n l) (setf l (list l)))))")
    assert kept.answer("(deep 1000000)") == "=> ((((((((((#))))))))))"
    assert kept.answer("(defparameter *deep* (deep 1000000))") == "=> *DEEP*"
    text = kept.answer("(let ((*print-level* nil)) (print *deep*) 1)")
    assert text.startswith(("[stdout]\n((((", "[ERROR] STORAGE-CONDITION\n"))
    text = kept.answer("(equal *deep* (deep 1000000))")
    assert text == "=> T" or text.startswith("[ERROR] STORAGE-CONDITION\n")
    text = kept.answer("(equal (deep 5000000) (deep 5000000))")
    assert text == "=> T" or text.startswith("[ERROR] STORAGE-CONDITION\n")


def test_a_hundred_thousand_parentheses_are_read_if_they_are_allowed(kept):
    assert kept.answer("(" * 100000).startswith("[ERROR] NESTING-LIMIT\n")
    kept.client.tool("configure-limits", max_nesting=1_000_000)
    text = kept.answer("(" * 100000)
    assert text.startswith(("[ERROR] END-OF-FILE\n", "[ERROR] STORAGE-CONDITION\n"))
    text = kept.answer("(length '" + "(" * 100000 + ")" * 100000 + ")")
    assert text == "=> 1" or text.startswith("[ERROR] STORAGE-CONDITION\n")
    assert kept.answer("'" * 300000 + "x").startswith(("=> ", "[ERROR] STORAGE-CONDITION\n"))


def test_every_character_can_be_printed(kept):
    """In pieces, because an answer shows a million characters at most."""
    kept.client.tool("configure-limits", max_output=1_000_000, max_value=1_000_000)
    for start in range(0, 0x110000, 0x20000):
        code = (f"(let ((s (make-string-output-stream))) (loop for code from {start} below {start + 0x20000}"
                " for char = (code-char code) when char do (write-char char s) (write-char char))"
                " (get-output-stream-string s))")
        text = kept.answer(code)
        output, _, value = text.partition('\n\n=> "')
        assert value.endswith('"')
        for code in (start + 0x41, start + 0x1F6A):
            if not 0xD800 <= code < 0xE000:
                assert chr(code) in output and chr(code) in value
    assert kept.answer("(list #\\Nul (code-char #x10FFFF) (code-char #xD800))").startswith("=> (#\\Nul ")


# What damages the Lisp around it


@pytest.mark.parametrize("code", ["(defun car (x) x)", "(defmacro when (x) x)", "(setf (fdefinition 'car) #'cdr)",
                                  "(defun cl-mcp-runtime::evaluate () nil)", "(rename-package :common-lisp :foo)"])
def test_the_standard_and_ours_are_locked(kept, code):
    assert kept.answer(code).startswith("[ERROR] PACKAGE-ERROR\n")


GARBAGE = ["nil", "3", "\"x\"", "'nonsense", "(list 1 2)", "(lambda (x) x)", ":unbound"]
GLOBALS = ["*package*", "*readtable*", "*standard-output*", "*error-output*", "*trace-output*", "*standard-input*",
           "*terminal-io*", "*query-io*", "*debug-io*", "*print-base*", "*print-case*", "*print-length*",
           "*print-level*", "*print-lines*", "*print-right-margin*", "*print-miser-width*", "*print-pprint-dispatch*",
           "*read-base*", "*read-suppress*", "*read-default-float-format*", "*features*", "*gensym-counter*",
           "*macroexpand-hook*", "*random-state*", "*default-pathname-defaults*", "*debugger-hook*",
           "*break-on-signals*", "*modules*", "mp:*current-process*", "ext:*interrupts-enabled*",
           "ext:*invoke-debugger-hook*", "si::*quit-tag*"]


@pytest.mark.parametrize("variable", GLOBALS)
def test_a_global_variable_set_to_garbage_spoils_no_later_evaluation(kept, variable):
    for garbage in GARBAGE:
        if variable == "*macroexpand-hook*" and "lambda" in garbage:
            continue  # a function it may be; see below
        setting = f"(makunbound '{variable})" if garbage == ":unbound" else f"(setf {variable} {garbage})"
        text = kept.client.evaluate(setting).text
        assert "=> " in text or text.startswith("[ERROR] "), text
        text = kept.client.evaluate("(let ((x (gensym))) (incf *count*) (when x (list (read-from-string \"1.5\")"
                                    " 'a (keep 21) (random 1) #-never #c(1 2))))").text
        if garbage != "3" or variable not in ("*print-base*", "*read-base*", "*print-right-margin*"):  # it is right
            assert text.endswith("=> (1.5 A 42 0 #C(1 2))"), (setting, text)
        kept.count += 1
        text = kept.client.evaluate("(car 1)").text
        assert text.startswith("[ERROR] TYPE-ERROR\nThe value 1 is not of type LIST."), (setting, text)
        assert kept.client.evaluate("(princ 1) 2").text == "[stdout]\n1\n\n=> 2", setting
    stopped = kept.client.evaluation(kept.client.start_evaluation("(loop)", timeout=0.1))
    assert stopped.text.startswith("[ERROR] TIMEOUT\n")


def test_a_wrong_value_is_told_and_put_right(kept):
    assert kept.answer("(setf *print-base* 99)") == (
        "[warnings]\nWARNING: *PRINT-BASE* cannot be 99; it is 10 again.\n\n=> 99")
    assert kept.answer("(makunbound '*readtable*) (list 'read)").endswith("=> (READ)")
    assert kept.client.evaluate("(setf *print-base* 2)").text == "=> 10"
    assert kept.client.evaluate("(setf *print-base* 10)").text == "=> 10"


def test_a_macroexpand_hook_that_fails_can_be_taken_back(kept):
    assert kept.client.evaluate("(setf *macroexpand-hook* (lambda (x) x))").text.startswith("=> ")
    assert kept.client.evaluate("(when 1 2)").is_error
    assert kept.answer("(setq *macroexpand-hook* 'funcall)") == "=> FUNCALL"


def test_a_readtable_that_reads_no_lists_is_replaced(kept):
    kept.client.evaluate("(set-macro-character #\\( (lambda (stream char) stream char (error \"no parentheses\")))")
    text = kept.client.evaluate("(+ 1 2)").text
    assert text.startswith("[ERROR] READER-ERROR\n") and "the standard one is back" in text
    kept.check()


def test_a_readtable_of_the_users_is_kept(kept):
    kept.client.evaluate("(set-macro-character #\\$ (lambda (stream char) char (list 'quote (read stream))))")
    assert kept.answer("(list $a)") == "=> (A)"
    assert kept.client.evaluate("(list $a").text.startswith("[ERROR] END-OF-FILE\n")
    assert kept.answer("(list $b)") == "=> (B)"


@pytest.mark.parametrize("code", ["#+never", "#-ecl (list 1", "(list #+never (a b) #+never (c"])
def test_a_readtable_of_the_users_is_kept_when_the_code_ends_where_it_is_skipped(kept, code):
    kept.client.evaluate("(set-macro-character #\\$ (lambda (stream char) char (list 'quote (read stream))))")
    text = kept.client.evaluate(code).text
    assert text.startswith("[ERROR] END-OF-FILE\n") and "readtable" not in text
    assert kept.answer("(list $b)") == "=> (B)"


def test_a_handler_that_errs_is_reported(kept):
    text = kept.answer("(handler-bind ((error (lambda (c) c (error \"in the handler\")))) (car 1))")
    assert text.startswith("[ERROR] SIMPLE-ERROR\nin the handler\n")


@pytest.mark.parametrize("code", ['(delete-package "COMMON-LISP-USER")', '(unuse-package "COMMON-LISP")',
                                  '(rename-package "COMMON-LISP-USER" "OTHER")'])
def test_without_its_package_a_session_goes_on(lisp, code):
    lisp.evaluate(code)
    assert lisp.evaluate("(cl:+ 1 2)").text == "=> 3"
    assert lisp.evaluate('(cl:defpackage "FRESH" (:use "COMMON-LISP")) (cl:in-package "FRESH")').text.startswith("=> ")
    assert lisp.evaluate("(+ 1 2)").text == "=> 3"
