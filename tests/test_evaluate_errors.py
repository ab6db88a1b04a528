"""What an error says: its type and its message, and that of every condition class that there is."""
import re

import pytest

from worker_driver import worker, zygote  # noqa: F401


def error(worker, code, **arguments):
    """The type and the message, with addresses left out."""
    result = worker.evaluate(code, **arguments)
    assert result.kind == "r" and result.outcome_name in ("ERROR", "OVERFLOW"), result
    return result.error_type, re.sub(r"0x[0-9a-f]+", "0x", result.error_message)


def check(worker, code, kind, message):
    assert error(worker, code) == (kind, message)


def arithmetic(name, operation):
    return name, f"arithmetic error {name} signalled\nOperation was {operation}."


@pytest.mark.parametrize("code, expected", [
    ("(/ 1 0)", arithmetic("DIVISION-BY-ZERO", "(/ 1 0)")),
    ("(/ 1.5 0.0)", arithmetic("DIVISION-BY-ZERO", "(/ 1.5 0.0)")),
    ("(mod 7 0)", arithmetic("DIVISION-BY-ZERO", "(MOD 7 0)")),
    ("(floor 1 0)", arithmetic("DIVISION-BY-ZERO", "(FLOOR 1 0)")),
    ("(* 1d300 1d300)", arithmetic("FLOATING-POINT-OVERFLOW", "(* 1.d300 1.d300)")),
    ("(expt 10.0 1000)", arithmetic("FLOATING-POINT-OVERFLOW", "(EXPT 10.0 1000)")),
    ("(progn (ext:trap-fpe 'floating-point-underflow t) (* 1d-300 1d-300))",
     arithmetic("FLOATING-POINT-UNDERFLOW", "(* 1.d-300 1.d-300)")),
    ("(progn (ext:trap-fpe 'floating-point-inexact t) (/ 1d0 3d0))",
     arithmetic("FLOATING-POINT-INEXACT", "(/ 1.0d0 3.0d0)")),
    ("(- ext:double-float-positive-infinity ext:double-float-positive-infinity)",
     arithmetic("FLOATING-POINT-INVALID-OPERATION",
                "(- #<double-float positive infinity> #<double-float positive infinity>)")),
    ("(error 'floating-point-overflow :operation '* :operands '(1 2))",
     arithmetic("FLOATING-POINT-OVERFLOW", "(* 1 2)")),
    ("(error 'division-by-zero)", ("DIVISION-BY-ZERO", "arithmetic error DIVISION-BY-ZERO signalled")),
    ("(coerce 1d300 'single-float)", arithmetic("FLOATING-POINT-OVERFLOW", "(COERCE 1.d300 SINGLE-FLOAT)")),
])
def test_arithmetic_errors_tell_operation_and_operands(worker, code, expected):
    assert error(worker, code) == expected


@pytest.mark.parametrize("code, kind, message", [
    ("(car 42)", "TYPE-ERROR", "The value 42 is not of type LIST."),
    ("(+ 1 \"a\")", "TYPE-ERROR", 'The value "a" is not of type NUMBER.'),
    ("(length 5)", "TYPE-ERROR", "The value 5 is not of type SEQUENCE."),
    ("(funcall 5)", "TYPE-ERROR", "The value 5 is not of type FUNCTION."),
    ("(symbol-name 5)", "TYPE-ERROR", "The value 5 is not of type SYMBOL."),
    ("(aref (vector 1 2) 5)", "TYPE-ERROR",
     "The index 5 is out of bounds for #(1 2): it has to be of type (INTEGER 0 1)."),
    ("(char \"abc\" 5)", "TYPE-ERROR", 'The index 5 is out of bounds for "abc": it has to be of type (INTEGER 0 2).'),
    ("(char \"abc\" -1)", "TYPE-ERROR", "The index -1 is out of bounds."),
    ("(elt '(1 2) 5)", "TYPE-ERROR", "The index 5 is out of bounds for (1 2): it has to be of type (INTEGER 0 1)."),
    ("(complex 1 'a)", "TYPE-ERROR", "The value A is not of type REAL."),
    ("(let ((x 5)) (check-type x string))", "TYPE-ERROR", "The value of X is 5, which is not of type STRING."),
    ("(error 'type-error :datum 1 :expected-type 'list)", "TYPE-ERROR", "The value 1 is not of type LIST."),
])
def test_type_errors_tell_the_value_and_the_type(worker, code, kind, message):
    check(worker, code, kind, message)


@pytest.mark.parametrize("code, kind, message", [
    ("x", "UNBOUND-VARIABLE", "The variable COMMON-LISP-USER::X is unbound."),
    ("(symbol-value 'x)", "UNBOUND-VARIABLE", "The variable COMMON-LISP-USER::X is unbound."),
    ("(foo 42)", "UNDEFINED-FUNCTION", "The function COMMON-LISP-USER::FOO is undefined."),
    ("(funcall 'foo)", "UNDEFINED-FUNCTION", "The function COMMON-LISP-USER::FOO is undefined."),
    ("#'foo", "UNDEFINED-FUNCTION", "The function COMMON-LISP-USER::FOO is undefined."),
    ("(setf (foo 1) 2)", "UNDEFINED-FUNCTION",
     "The function (COMMON-LISP:SETF COMMON-LISP-USER::FOO) is undefined."),
    ("(defclass c () ((a :accessor a))) (defmethod print-object ((c c) s) (write-string \"#<C>\" s)) (a (make-instance 'c))",
     "UNBOUND-SLOT", "The slot COMMON-LISP-USER::A is unbound in the object #<C>."),
])
def test_cell_errors_name_the_cell_with_its_package(worker, code, kind, message):
    check(worker, code, kind, message)


@pytest.mark.parametrize("code, kind, message", [
    ("(in-package :nonexistent)", "PACKAGE-ERROR", 'The name "NONEXISTENT" does not designate any package.'),
    ("(intern \"X\" \"nonexistent\")", "PACKAGE-ERROR", 'The name "nonexistent" does not designate any package.'),
    ("(delete-package :nopkg)", "PACKAGE-ERROR", 'The name "NOPKG" does not designate any package.'),
    ("(read-from-string \"nopkg:x\")", "PACKAGE-ERROR", 'The name "NOPKG" does not designate any package.'),
    ("(open \"/nonexistent\")", "FILE-ERROR", 'The file "/nonexistent" does not exist.'),
    ("(open \"/nonexistent/a\" :direction :output)", "FILE-ERROR",
     'The file "/nonexistent/a" does not exist, nor does its directory.'),
    ("(open \"/etc/\" :direction :output)", "FILE-ERROR", 'The file "/etc/" exists, but cannot be used in this way.'),
    ("(with-input-from-string (s \"\") (read-line s))", "END-OF-FILE",
     'The end of #<string-input stream from "" 0x> has been reached.'),
    ("(let ((s (make-string-input-stream \"\"))) (close s) (read-char s))", "STREAM-ERROR",
     'The stream #<closed string-input stream from "" 0x> is closed.'),
    ("(throw 'nowhere 1)", "CONTROL-ERROR", "THROW: The catch NOWHERE is undefined."),
    ("(invoke-restart 'nosuch)", "CONTROL-ERROR", "Restart NOSUCH is not active."),
    ("(parse-integer \"zz\")", "PARSE-ERROR", 'Cannot parse an integer in the string "zz".'),
    ("(area 5)", "UNDEFINED-FUNCTION", "The function COMMON-LISP-USER::AREA is undefined."),
    ("(defgeneric area (x)) (area 5)", "SIMPLE-ERROR",
     "There is no applicable method for the generic function AREA\nwhen called with arguments (5)."),
    ("(destructuring-bind (a) '(when 1) a)", "SIMPLE-ERROR",
     "Too many arguments supplied to a macro or a destructuring-bind form:\n(WHEN 1)"),
    ("(error \"boom ~A\" 1)", "SIMPLE-ERROR", "boom 1"),
    ("(error \"\")", "SIMPLE-ERROR", "SIMPLE-ERROR was signalled."),
    ("(error 'type-error)", "TYPE-ERROR", "TYPE-ERROR was signalled."),
    ("(defun f (x) (1+ (f x))) (f 1)", "STORAGE-CONDITION",
     "The C stack is exhausted: infinite recursion, or data that is nested too deeply."),
    ("(make-array 500000000)", "STORAGE-CONDITION",
     "The heap is exhausted: the session may use 1024 megabytes. configure-limits with max-heap allows more."),
])
def test_other_standard_errors_have_messages_for_people(worker, code, kind, message):
    check(worker, code, kind, message)


@pytest.mark.parametrize("code, message", [
    ("(defun f (a &optional b) (list a b)) (f)",
     "Wrong number of arguments passed to function F.\nIts lambda list is (A &OPTIONAL B)."),
    ("(defun f (a) a) (f 1 2)",
     "Too many arguments passed to function F.\nArgument list: (1 2)\nIts lambda list is (A)."),
    ("(defun f () 1) (f 1)", "Too many arguments passed to function F.\nArgument list: (1)\nIts lambda list is ()."),
    ("(defun f (x) x) (flet ((f (a b) (list a b))) (f 1))",
     "Wrong number of arguments passed to function F.\nIts lambda list is (A B)."),
    ("((lambda (x) x))", "Wrong number of arguments passed to a function without a name.\nIts lambda list is (X)."),
    ("(funcall #'cons 1)", "Wrong number of arguments passed to function CONS.\nIts lambda list is (X Y)."),
    ("(defun f (&key a) a) (f :b 1)",
     "Unknown keyword argument passed to function F.\nArgument list: (:B 1)\nIts lambda list is (&KEY A)."),
    ("(defun f (&key a) a) (f :a)",
     "An odd number of keyword arguments was passed to function F.\nIts lambda list is (&KEY A)."),
    ("(defstruct node val) (make-node :foo 3)",
     "Unknown keyword argument passed to function MAKE-NODE.\nArgument list: (:FOO 3)\nIts lambda list is (&KEY VAL)."),
    ("(defmacro m (a &body b) (list a b)) (m)",
     "Too few arguments passed to macro M.\nIts form is (M).\nIts lambda list is (A &BODY B)."),
    ("(defmacro m (a) a) (m 1 2)",
     "Too many arguments passed to macro M.\nIts form is (M 1 2).\nIts lambda list is (A)."),
    ("(with-open-file)", "Too few arguments passed to macro WITH-OPEN-FILE.\nIts form is (WITH-OPEN-FILE)."
     "\nIts lambda list is ((STREAM . FILESPEC) &REST BODY)."),
    ("(open)", "Wrong number of arguments passed to function OPEN.\nIts lambda list is"
     " (FILESPEC &KEY (DIRECTION :INPUT) ELEMENT-TYPE IF-EXISTS IF-DOES-NOT-EXIST)."),
    ("(close)", "Wrong number of arguments passed to function CLOSE.\nIts lambda list is (STREAM &KEY (ABORT NIL))."),
    ("(mp:process-enable)", "Wrong number of arguments passed to function MP:PROCESS-ENABLE.\nIts lambda list is (PROCESS)."),
    ("(defun f (a &optional b) (list a b)) (compile 'f) (defun g () (list (f 1 2 3))) (compile 'g) (g)",
     "Wrong number of arguments passed to function F.\nIts lambda list is (A &OPTIONAL B)."),
    ("(let ((5 1)) 1)", "In form\n(LET ((5 1)) 1)\nNot a valid variable name 5."),
    ("(setq pi 1)", "In form\n(SETQ PI 1)\nSETQ: Tried to assign a value to the constant PI."),
    ("(if)", "In form\n(IF)\nSyntax error: list with too few elements or improperly terminated."),
    ("(go nowhere)", "In form\n(GO NOWHERE)\nGO: Unknown tag NOWHERE."),
])
def test_wrong_calls_and_forms_are_told_what_would_be_right(worker, code, message):
    check(worker, code, "PROGRAM-ERROR", message)


@pytest.mark.parametrize("code, kind, message", [
    ("(+ 1 2", "END-OF-FILE",
     "The code ends at line 1, column 7, inside of the form that begins at line 1, column 1."),
    ("1\n  (foo \"bar", "END-OF-FILE", "The code ends at line 2, column 12, inside of the form that begins at line 2,"
     " column 3.\nThe form before it has been evaluated."),
    (")", "READER-ERROR", "At line 1, column 1: Unmatched right parenthesis, #\\)"),
    ("1 2\n3 #<x>", "READER-ERROR", "At line 2, column 4: The character < is not a valid dispatch macro character"
     "\nThe three forms before it have been evaluated."),
    ("nopkg:foo", "PACKAGE-ERROR", 'At line 1, column 7: The name "NOPKG" does not designate any package.'),
    ("#.(car 5)", "TYPE-ERROR", "At line 1, column 9: The value 5 is not of type LIST."),
])
def test_reader_errors_tell_line_and_column_and_what_was_evaluated(worker, code, kind, message):
    check(worker, code, kind, message)


def test_conditions_of_the_users_go_by_their_names_as_seen_from_cl_user(worker):
    worker.evaluate("(defpackage :lib (:use :cl) (:export :bad)) (define-condition lib:bad (error) ((n :initarg :n)))"
                    "(define-condition lib::hidden (type-error) () (:report \"told\"))"
                    "(define-condition mine (warning error) ())")
    check(worker, "(error 'lib:bad :n 5)", "LIB:BAD", "LIB:BAD was signalled with N = 5.")
    check(worker, "(error 'lib::hidden :datum 1 :expected-type 'list)", "LIB::HIDDEN", "told")
    check(worker, "(error 'mine)", "MINE", "MINE was signalled.")
    assert error(worker, "(in-package :lib) (cl:error 'bad)")[0] == "LIB:BAD"


def test_reports_that_misbehave_are_bounded_and_safe(worker):
    def report(body):
        worker.evaluate(f"(define-condition it (error) () (:report (lambda (c s) (declare (ignorable c)) {body})))")
        result = worker.evaluate("(error 'it)")
        assert result.outcome_name == "ERROR" and result.error_type == "IT" and result.frame == ["(ERROR IT)"]
        return result.error_message

    assert report("(error \"no\")") == "The condition's message cannot be printed."
    assert report("(error c)") == "The condition's message cannot be printed."
    assert report("(loop (write-string \"endless \" s))").startswith("endless endless")
    assert report("(let ((l (list 1))) (setf (cdr l) l) (prin1 l s))") == "(1 1 1 1 1 1 1 1 1 1 ...)"
    assert report("(let ((l (list 1))) (setf (car l) l) (prin1 l s))") == "((((#))))"
    assert report("nil") == "IT was signalled."
    assert worker.value("(+ 1 2)") == "3"


def test_an_error_while_a_value_is_printed_is_an_error_of_the_evaluation(worker):
    worker.evaluate("(defclass bad () ()) (defmethod print-object ((b bad) s) (error \"no\"))")
    result = worker.evaluate("(make-instance 'bad)")
    assert (result.error_type, result.error_message, result.value) == ("SIMPLE-ERROR", "no", [])
    assert result.frame[0] == '(ERROR "no")' and result.frame[1].startswith("(PRINT-OBJECT #<unprintable BAD> ")
    check(worker, "(car (make-instance 'bad))", "TYPE-ERROR", "The value #<unprintable BAD> is not of type LIST.")


def test_a_condition_that_user_code_prints_says_what_happened(worker):
    assert worker.value("(handler-case (/ 1 0) (error (c) (princ-to-string c)))") == \
        '"arithmetic error DIVISION-BY-ZERO signalled\nOperation was (/ 1 0)."'
    assert worker.value("(handler-case (error 'program-error) (error (c) (format nil \"~A\" c)))") == \
        '"PROGRAM-ERROR was signalled."'
    assert worker.value("(define-condition c (error) () (:report \"own\")) (princ-to-string (make-condition 'c))") == \
        '"own"'


# ---- every class

LIST_CLASSES = """
(labels ((walk (class)
           (let ((*package* (find-package :keyword)))
             (format t "~S~{ ~S~}~%" (class-name class)
                     (remove-duplicates (loop for slot in (clos:class-slots class)
                                              append (clos:slot-definition-initargs slot)))))
           (mapc #'walk (clos:class-direct-subclasses class))))
  (walk (find-class 'condition)))
"""
IMPLEMENTATION = {"COMMON-LISP", "SI", "EXT", "C", "CLOS", "MP", "GRAY", "FFI"}


def wanted_type(name):
    """READING.md 7, as far as the name of the class alone tells."""
    package, _, symbol = name.rpartition(":")
    package = package.rstrip(":")
    if package not in IMPLEMENTATION:
        return name
    if symbol in ("SIMPLE-ERROR", "SIMPLE-CONDITION"):
        return symbol
    if symbol.startswith("SIMPLE-"):
        return symbol[len("SIMPLE-"):]
    return symbol if package == "COMMON-LISP" else None


def test_no_class_of_conditions_is_reported_without_words(worker):
    lines = worker.evaluate(LIST_CLASSES).stdout.decode().splitlines()
    assert len(lines) > 60
    for line in sorted(set(lines)):
        name, *initargs = line.split()
        for arguments in ("", *(" ".join(f"{initarg} {value}" for initarg in initargs)
                                for value in ('"text"', "'(a b)", "7", "*standard-output*"))):
            result = worker.evaluate(f"(let ((c (make-condition '{name} {arguments}))) (invoke-debugger c))")
            assert result.kind == "r" and result.outcome_name == "ERROR", (line, arguments, result)
            assert result.error_message.strip() and not re.fullmatch("#<[^>]*>", result.error_message), (line, result)
            if wanted_type(name):
                assert result.error_type == wanted_type(name), (line, result)
            assert not result.error_type.startswith("SI:"), (line, result)
