"""The operation list-definitions: what the user has defined, and nothing else."""
import pytest

from worker_driver import worker, zygote  # noqa: F401


def listing(worker, kind="all"):
    return worker.value(kind, operation="list-definitions")


def lines(worker, kind):
    """Those of one section, without its title."""
    text = listing(worker, kind)
    return [] if text == "No definitions." else text.split("\n")[1:]


def test_a_new_session_has_no_definitions(worker):
    assert listing(worker) == "No definitions."
    assert listing(worker, "systems") == "No definitions."


def test_example_of_the_contract_is_exact(worker):
    worker.evaluate("(defun factorial (n) (if (< n 2) 1 (* n (factorial (1- n)))))"
                    "(defun square (x) (* x x))"
                    "(defvar *debug-mode* nil) (defparameter *counter* 0)"
                    "(defmacro with-timing (&body body) `(progn ,@body))"
                    "(defclass point () ())")
    assert listing(worker) == ("[Functions]\n- FACTORIAL (N)\n- SQUARE (X)\n\n"
                               "[Variables]\n- *COUNTER* = 0\n- *DEBUG-MODE* = NIL\n\n"
                               "[Macros]\n- WITH-TIMING (&BODY BODY)\n\n"
                               "[Classes]\n- POINT")
    assert listing(worker, "macros") == "[Macros]\n- WITH-TIMING (&BODY BODY)"
    assert listing(worker, "systems") == "No definitions."


def test_a_symbol_that_was_merely_read_is_no_definition(worker):
    worker.evaluate("(list 'some 'symbols :and (intern \"OTHERS\"))")
    assert listing(worker) == "No definitions."


@pytest.mark.parametrize("code, line", [
    ("(defun f ())", "- F ()"),
    ("(defun f (a &optional (b 'c) &rest d &key (e 1) &allow-other-keys))",
     "- F (A &OPTIONAL (B 'C) &REST D &KEY (E 1) &ALLOW-OTHER-KEYS)"),
    ("(defgeneric f (a b))", "- F (A B)"),
    ("(setf (symbol-function 'f) (let ((n 0)) (lambda (by) (incf n by))))", "- F (BY)"),
    ("(defun (setf f) (value place) value)", "- (SETF F) (VALUE PLACE)"),
    ("(defun |mixed case| (x))", "- |mixed case| (X)"),
    ("(defun f (a b)) (trace f)", "- F (A B)"),
    ("(setf (symbol-function 'f) (load-time-value #'car))", "- F (X)"),
])
def test_functions(worker, code, line):
    worker.value(f"(progn {code} 1)")
    assert lines(worker, "functions") == [line]


def test_accessors_are_functions(worker):
    worker.evaluate("(defclass point () ((x :accessor x))) (defstruct pair left)")
    assert lines(worker, "functions") == [
        "- COPY-PAIR (...)", "- MAKE-PAIR (&KEY LEFT)", "- PAIR-LEFT (PAIR)", "- PAIR-P (...)", "- X (SELF)",
        "- (SETF X) (VALUE SELF)"]
    assert lines(worker, "classes") == ["- PAIR", "- POINT"]


def test_methods_of_foreign_generic_functions_show_what_they_are_for(worker):
    worker.evaluate("(defclass point () ())"
                    "(defmethod print-object ((p point) stream) (write-string \"POINT\" stream))"
                    "(defmethod initialize-instance :after ((p point) &key) p)"
                    "(defgeneric area (shape)) (defmethod area ((p point)) 0)")
    assert lines(worker, "functions") == [
        "- AREA (SHAPE)",
        "- (METHOD INITIALIZE-INSTANCE :AFTER (POINT)) (P &KEY)",
        "- (METHOD PRINT-OBJECT (POINT T)) (P STREAM)"]


@pytest.mark.parametrize("code, line", [
    ("(defconstant +limit+ \"hello\")", '- +LIMIT+ = "hello"'),
    ("(setf x 10)", "- X = 10"),
    ("(defvar *later*)", "- *LATER* (unbound)"),
    ("(defvar *text* (format nil \"a~%  b~C\" #\\Tab))", '- *TEXT* = "a b "'),
    ("(defvar *symbols* '(a car :b mp:*current-process*))",
     "- *SYMBOLS* = (A CAR :B MP:*CURRENT-PROCESS*)"),
])
def test_variables(worker, code, line):
    worker.evaluate(code)
    assert lines(worker, "variables") == [line]


@pytest.mark.parametrize("value", [
    "(make-list 1000)",
    "(make-string 1000 :initial-element #\\x)",
    "(make-array '(100 100))",
    "(expt 10 1000)",
    "(intern (make-string 1000 :initial-element #\\X))",
])
def test_values_are_cut(worker, value):
    worker.evaluate(f"(defvar *v* {value})")
    line, = lines(worker, "variables")
    assert line.startswith("- *V* = ") and line.endswith("...") and len(line) == len("- *V* = ") + 200


@pytest.mark.parametrize("change, shown", [("(setf (cdr x) x)", "#1=(1 . #1#)"), ("(setf (car x) x)", "#1=(#1#)")])
def test_circles_are_shown_as_such(worker, change, shown):
    worker.evaluate(f"(defvar *v* (let ((x (list 1))) {change} x))")
    assert lines(worker, "variables") == [f"- *V* = {shown}"]


@pytest.mark.parametrize("body", [
    "(error \"never\")",
    "(print-object thing stream)",
    "(throw 'nowhere 1)",
    "(progn (warn \"odd\") (error \"never\"))",
])
def test_a_value_that_cannot_be_printed_hides_nothing_else(worker, body):
    worker.evaluate("(defclass thing () ()) (defvar *a* (make-instance 'thing)) (defvar *b* 2)"
                    f"(defmethod print-object ((thing thing) stream) {body})")
    result = worker.evaluate("variables", operation="list-definitions")
    assert result.value == ["[Variables]\n- *A* = #<unprintable THING>\n- *B* = 2"], result
    assert result.warning == [] and result.stdout is None


def test_what_a_printer_prints_elsewhere_is_not_shown(worker):
    worker.evaluate("(defclass thing () ()) (defvar *a* (make-instance 'thing))"
                    "(defmethod print-object ((thing thing) stream) (print 'noise) (write-string \"THING\" stream))")
    result = worker.evaluate("variables", operation="list-definitions")
    assert result.value == ["[Variables]\n- *A* = THING"] and result.stdout is None


def test_settings_of_the_printer_are_not_the_users(worker):
    worker.evaluate("(defvar *v* '(10 a)) (setf *print-base* 2 *print-case* :downcase *print-length* 1)"
                    "(setf (readtable-case *readtable*) :preserve)")
    assert lines(worker, "variables") == ["- *V* = (10 A)"]


def test_symbols_of_other_packages_have_their_package(worker):
    worker.evaluate("(defpackage :mine (:use :cl) (:export #:shown)) (defun mine:shown (x) x) (defun mine::inner () 1)"
                    "(defvar mine::*v* 'mine::a) (defclass mine::thing () ())"
                    "(defun own () 1)")
    assert listing(worker) == ("[Functions]\n- MINE::INNER ()\n- OWN ()\n- MINE:SHOWN (X)\n\n"
                               "[Variables]\n- MINE::*V* = MINE::A\n\n"
                               "[Classes]\n- MINE::THING")


def test_the_sessions_package_changes_nothing(worker):
    worker.evaluate("(defun f (x) x) (defpackage :mine (:use :cl)) (in-package :mine)")
    assert lines(worker, "functions") == ["- F (X)"]
    assert worker.evaluate("all", operation="list-definitions").package == "MINE"


def test_what_was_undone_is_gone(worker):
    worker.evaluate("(defun f ()) (defvar *v* 1) (defmacro m ()) (defclass c () ()) (defpackage :p) (defvar p::x 1)")
    worker.evaluate("(fmakunbound 'f) (unintern '*v*) (fmakunbound 'm) (setf (find-class 'c) nil) (delete-package :p)")
    assert listing(worker) == "No definitions."


def test_conditions_and_structures_are_classes(worker):
    worker.evaluate("(define-condition trouble (error) ()) (defstruct (pair (:copier nil) (:predicate nil)))")
    assert lines(worker, "classes") == ["- PAIR", "- TROUBLE"]


def test_a_deleted_cl_user_does_no_harm(worker):
    worker.evaluate("(defpackage :mine (:use :cl)) (in-package :mine) (delete-package :cl-user) (defun f ())")
    assert listing(worker) == "[Functions]\n- MINE::F ()"


def test_an_operation_leaves_no_trace_at_the_prompt(worker):
    worker.evaluate("(+ 1 2)")
    result = worker.evaluate("all", operation="list-definitions")
    assert result.forms == 0 and result.package == "CL-USER"
    assert worker.value("(list * + /)") == "(3 (+ 1 2) (3))"


@pytest.mark.parametrize("operation, code, message", [
    ("no-such-thing", "", 'The operation "no-such-thing" is not known to this session\'s runtime.'),
    ("list-definitions", "nonsense", 'There is no kind of definition called "nonsense".'),
])
def test_what_is_not_known_is_an_error(worker, operation, code, message):
    result = worker.evaluate(code, operation=operation)
    assert result.outcome_name == "ERROR" and result.frame == []
    assert (result.error_type, result.error_message) == ("SIMPLE-ERROR", message)


def test_an_operation_can_be_cancelled_and_has_a_deadline(worker):
    worker.evaluate("(defclass thing () ()) (defvar *a* (make-instance 'thing))"
                    "(defmethod print-object ((thing thing) stream) (loop))")
    assert worker.evaluate("all", operation="list-definitions", time_limit=50).outcome_name == "TIMEOUT"
    worker.begin("all", operation="list-definitions")
    worker.wait_until_running()
    worker.cancel()
    assert worker.result().outcome_name == "CANCELLED"
    assert worker.value("(+ 1 1)") == "2"


def test_a_thousand_definitions_are_listed_at_once(worker):
    worker.evaluate("(dotimes (i 1000) (eval `(defun ,(intern (format nil \"F~A\" i)) (a b) (list a b))))")
    assert len(lines(worker, "functions")) == 1000
    before = int(worker.value("(get-internal-run-time)"))
    listing(worker)
    assert int(worker.value("(get-internal-run-time)")) - before < 200  # milliseconds of the processor's
