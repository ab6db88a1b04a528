"""What an evaluation answers: values, errors, warnings, packages."""
import pytest

from worker_driver import worker, zygote  # noqa: F401


def error(worker, code, **arguments):
    result = worker.evaluate(code, **arguments)
    assert result.outcome_name == "ERROR", result
    return result.error_type, result.error_message, result.frame


@pytest.mark.parametrize("code, expected", [
    ("(/ 1 0)", ("DIVISION-BY-ZERO", "arithmetic error DIVISION-BY-ZERO signalled\nOperation was (/ 1 0).",
                 ["(/ 1 0)"])),
    ("(foo 42)", ("UNDEFINED-FUNCTION", "The function COMMON-LISP-USER::FOO is undefined.", ["(FOO 42)"])),
    ("(car 42)", ("TYPE-ERROR", "The value 42 is not of type LIST.", ["(CAR 42)"])),
])
def test_examples_of_the_contract_are_exact(worker, code, expected):
    assert error(worker, code) == expected


@pytest.mark.parametrize("code, values", [
    ("(+ 1 2)", ["3"]),
    ("(floor 17 5)", ["3", "2"]),
    ("(values)", []),
    ("", []),
    (" ; only a comment", []),
    ("(setf x 10) (setf y 20) (+ x y)", ["30"]),
    ("(let ((x (list 1 2 3))) (setf (cdddr x) x) x)", ["#1=(1 2 3 . #1#)"]),
    ("(defun foo () (let ((x 10)) x))", ["FOO"]),
    ("'(a . b) 'c", ["C"]),
])
def test_values(worker, code, values):
    result = worker.evaluate(code)
    assert result.outcome_name == "DONE" and result.value == values and result.warning == []


def test_printing_table_binds_while_values_are_printed_only(worker):
    value = worker.value("(make-list 200)")
    assert value.count("NIL") == 100 and value.endswith(" ...)")
    assert worker.value("(let ((x nil)) (dotimes (i 30) (setf x (list x))) x)") == "((((((((((#))))))))))"
    assert worker.value("(list *print-length* *print-level*)") == "(NIL NIL)"
    assert worker.evaluate("(progn (prin1 (make-list 101)) 1)").stdout.count(b"NIL") == 101


def test_forms_are_counted(worker):
    assert worker.evaluate("1 2 3").forms == 3
    assert worker.evaluate("1 2 (error \"x\") 4").forms == 2


def test_variables_of_the_prompt_work_across_calls(worker):
    worker.value("(+ 1 1)")
    worker.evaluate("(floor 7 2)")
    assert worker.value("(list * ** / +)") == "(3 2 (3 1) (FLOOR 7 2))"
    assert worker.value("-") == "-"
    assert worker.value("(list *** +++)") == "(3 (FLOOR 7 2))"


def test_definitions_persist(worker):
    worker.value("(defun square (x) (* x x))")
    worker.value("(defstruct point a b)")
    worker.value("(defvar *p* (make-point :a 1 :b 2))")
    assert worker.value("(list (square 7) (point-b *p*))") == "(49 2)"


def test_package_of_a_call_is_for_that_call_alone(worker):
    worker.evaluate("(defpackage :other (:use :cl)) (defvar other::*v* 5)")
    assert worker.value("*v*", package="other") == "5"
    assert worker.value("(package-name *package*)") == '"COMMON-LISP-USER"'
    result = worker.evaluate("(list 'cl-user::a 'b)", package="OTHER")
    assert result.value == ["(COMMON-LISP-USER::A B)"] and result.package == "CL-USER"


def test_in_package_persists_also_after_an_error(worker):
    result = worker.evaluate("(defpackage :mine (:use :cl)) (in-package :mine) (error \"x\")")
    assert result.package == "MINE"
    assert worker.value("(package-name *package*)") == '"MINE"'
    result = worker.evaluate("(in-package :cl-user)", package="mine")
    assert result.package == "CL-USER"


def test_session_survives_the_deletion_of_its_package(worker):
    worker.evaluate("(defpackage :gone) (cl:in-package :gone)")
    worker.evaluate("(cl:delete-package :gone)")
    result = worker.evaluate("(+ 1 2)")
    assert result.value == ["3"] and result.package == "CL-USER"


def test_unknown_package_evaluates_nothing(worker):
    result = worker.evaluate("(print 1)", package="nonexistent")
    assert (result.error_type, result.error_message) == (
        "PACKAGE-ERROR", 'The name "NONEXISTENT" does not designate any package.')
    assert result.stdout is None and result.forms == 0
    assert error(worker, "(in-package :nonexistent)")[:2] == (
        "PACKAGE-ERROR", 'The name "NONEXISTENT" does not designate any package.')


@pytest.mark.parametrize("code, kind, message", [
    ("unbound-x", "UNBOUND-VARIABLE", "The variable COMMON-LISP-USER::UNBOUND-X is unbound."),
    ("(error \"boom ~A\" 1)", "SIMPLE-ERROR", "boom 1"),
    ("(+ 1 \"a\")", "TYPE-ERROR", 'The value "a" is not of type NUMBER.'),
    ("(funcall 5)", "TYPE-ERROR", "The value 5 is not of type FUNCTION."),
    ("(throw 'nowhere 1)", "CONTROL-ERROR", "THROW: The catch NOWHERE is undefined."),
    ("(parse-integer \"zz\")", "PARSE-ERROR", 'Cannot parse an integer in the string "zz".'),
    ("(break)", "SIMPLE-CONDITION", "Break"),
    ("(floor 1 0)", "DIVISION-BY-ZERO", "arithmetic error DIVISION-BY-ZERO signalled\nOperation was (FLOOR 1 0)."),
    ("(expt 10.0 1000)", "FLOATING-POINT-OVERFLOW", "arithmetic error FLOATING-POINT-OVERFLOW signalled\nOperation was (EXPT 10.0 1000)."),
    ("(error 'storage-condition)", "STORAGE-CONDITION", "STORAGE-CONDITION was signalled."),
    ("(define-condition my-error (error) ((x :initarg :x))) (error 'my-error :x 5)", "MY-ERROR",
     "MY-ERROR was signalled with X = 5."),
    ("(define-condition told (error) () (:report \"told you\")) (error 'told)", "TOLD", "told you"),
    ("(defpackage :lib (:use :cl) (:export :bad)) (define-condition lib:bad (error) ()) (error 'lib:bad)", "LIB:BAD",
     "LIB:BAD was signalled."),
    ("(invoke-debugger (make-condition 'simple-error :format-control \"x\"))", "SIMPLE-ERROR", "x"),
    ("(let ((*debugger-hook* (lambda (c h) (declare (ignore c h)) (error \"again\")))) (error \"x\"))", "SIMPLE-ERROR",
     "again"),
])
def test_errors_have_the_type_and_message_that_a_lisp_programmer_knows(worker, code, kind, message):
    assert error(worker, code)[:2] == (kind, message)


@pytest.mark.parametrize("code, kind, message", [
    ("(list 1\n 2", "END-OF-FILE",
     "The code ends at line 2, column 3, inside of the form that begins at line 1, column 1."),
    ("1\n  (foo \"bar", "END-OF-FILE",
     "The code ends at line 2, column 12, inside of the form that begins at line 2, column 3."
     "\nThe form before it has been evaluated."),
    ("(+ 1 1)\n )", "READER-ERROR", "At line 2, column 2: Unmatched right parenthesis, #\\)"
     "\nThe form before it has been evaluated."),
    ("nopkg:foo", "PACKAGE-ERROR", 'The name "NOPKG" does not designate any package.'),
    ("cl:nonsense", "READER-ERROR", "Cannot find the external symbol NONSENSE"),
    ("1 2 #<x>", "READER-ERROR", "The two forms before it have been evaluated."),
])
def test_reader_errors_say_where(worker, code, kind, message):
    found_kind, found_message, frames = error(worker, code)
    assert found_kind == kind and message in found_message and "line " in found_message and frames == []


def test_forms_before_a_reader_error_have_been_evaluated(worker):
    worker.evaluate("(defvar *before* 7) (list")
    assert worker.value("*before*") == "7"


@pytest.mark.parametrize("code, frames", [
    ("(defun my-fun (a b) (let ((z (+ a b))) (setf a 99) (/ z 0))) (defun outer (x) (list (my-fun x 4))) (outer 3)",
     ["(/ 7 0)", "(MY-FUN 3 4)", "(OUTER 3)"]),
    ("(defun nest (n) (if (= n 0) (car 5) (1+ (nest (1- n))))) (nest 2)",
     ["(CAR 5)", "(NEST 0)", "(NEST 1)", "(NEST 2)"]),
    ("(funcall (lambda (q) (aref q 10)) (vector 1 2))", ["(AREF #(1 2) 10)", "((LAMBDA (Q)) #(1 2))"]),
    ("(floor 1 0)", ["(FLOOR 1 0)"]),
    ("(error \"boom ~A\" 1)", ["(ERROR \"boom ~A\" 1)"]),
    ("(defun via-eval (x) (eval (list 'car x))) (via-eval 5)", ["(CAR 5)", "(VIA-EVAL 5)"]),
    ("unbound-x", []),
])
def test_backtraces_show_calls_with_their_arguments(worker, code, frames):
    found = error(worker, code)[2]
    assert [frame for frame in found if not frame.startswith("(EVAL ")] == frames


def test_backtraces_are_bounded_and_show_nothing_of_ours(worker):
    frames = error(worker, "(defun inf (x y) (1+ (inf x y))) (inf 1 (make-list 1000))")[2]
    assert len(frames) == 20 and all(len(frame) < 500 for frame in frames)
    for code in ("(mapcar (lambda (x) (error \"x ~A\" x)) '(1 2))", "(sort (list 3 'a 1) #'<)",
                 "(handler-bind ((error #'princ-to-string)) (car 5))", "(map nil #'car '(1))",
                 "(macroexpand '(let ((5 1))))",
                 "(make-instance 'nope)", "(apply #'+ '(1 a))", "(reduce #'/ '(1 0))"):
        result = worker.evaluate(code)
        assert "RUNTIME" not in str(result.frame) and "SI:" not in str(result.frame), result


def test_unprintable_objects_do_not_hide_the_error(worker):
    worker.evaluate("(defclass bad () ()) (defmethod print-object ((b bad) s) (error \"no\"))")
    assert error(worker, "(make-instance 'bad)")[:2] == ("SIMPLE-ERROR", "no")
    assert error(worker, "(car (make-instance 'bad))") == (
        "TYPE-ERROR", "The value #<unprintable BAD> is not of type LIST.", ["(CAR #<unprintable BAD>)"])
    worker.evaluate("(define-condition mute (error) () (:report (lambda (c s) (declare (ignore c s)) (error \"no\"))))")
    assert error(worker, "(error 'mute)")[:2] == ("MUTE", "The condition's message cannot be printed.")


def test_warnings_are_recorded_and_muffled(worker):
    result = worker.evaluate("(warn \"careful ~A\" 1) (warn 'style-warning)"
                             " (define-condition my-w (warning) () (:report \"mine\nin two lines\")) (warn 'my-w) 42")
    assert result.warning[0] == "WARNING: careful 1"
    assert result.warning[1].startswith("STYLE-WARNING: ")
    assert result.warning[2] == "MY-W: mine in two lines"
    assert result.value == ["42"]
    assert worker.evaluate("(handler-case (warn \"x\") (warning () :mine))").warning == []
    assert worker.evaluate("(signal 'warning)").value == ["NIL"]


def test_redefinition_is_no_warning(worker):
    worker.value("(defun again () 1)")
    assert worker.evaluate("(defun again () 2)").warning == []


@pytest.mark.parametrize("code, exit_code", [("(ext:quit)", 0), ("(ext:quit 3)", 3), ("(si:exit 4)", 4),
                                             ("(ext:exit 5)", 5)])
def test_quit_and_exit_end_the_evaluation_only(worker, code, exit_code):
    worker.value("(defvar *kept* 42)")
    result = worker.evaluate(f"1 {code} 2")
    assert result.outcome_name == "EXIT" and result.exit_code == exit_code and result.forms == 1
    assert worker.value("*kept*") == "42"


def test_quit_in_a_thread_ends_the_thread(worker):
    code = "(progn (mp:process-join (mp:process-run-function 'q (lambda () (ext:quit 1) (print 'never)))) :alive)"
    result = worker.evaluate(code)
    assert result.value == [":ALIVE"] and result.stdout is None


def test_errors_in_threads_show_on_standard_error(worker):
    result = worker.evaluate("(progn (mp:process-join (mp:process-run-function 'q (lambda () (car 5)))) :alive)")
    assert result.value == [":ALIVE"]
    assert b"TYPE-ERROR" in result.stderr and b"The value 5 is not of type LIST." in result.stderr


def test_abort_and_signal(worker):
    assert worker.evaluate("(abort)").outcome_name == "ABORTED"
    assert worker.evaluate("(signal 'error)").value == ["NIL"]
    assert worker.evaluate("(restart-case (abort) (abort () 'mine))").value == ["MINE"]
    assert worker.evaluate("(throw si::*quit-tag* 1)").kind == "r"
    assert worker.value("(+ 1 2)") == "3"


def test_runtime_cannot_be_redefined_by_accident(worker):
    assert error(worker, "(defun cl-mcp-runtime::evaluate (x) x)")[0] == "PACKAGE-ERROR"
    assert error(worker, "(intern \"NEW\" :cl-mcp-runtime)")[0] == "PACKAGE-ERROR"
    assert worker.value("(+ 1 2)") == "3"


def test_printer_settings_of_the_user_do_not_garble_reports(worker):
    worker.evaluate("(setf *print-base* 2 *print-case* :downcase *print-radix* t *print-readably* t)")
    assert error(worker, "(car 42)") == ("TYPE-ERROR", "The value 42 is not of type LIST.", ["(CAR 42)"])


def test_text_that_is_no_utf8_is_refused(worker):
    worker.link.send("E", incarnation=1, seq=worker.seq + 1, code=b"(list \"\xff\")")
    worker.seq += 1
    result = worker.result()
    assert result.outcome_name == "ERROR" and "UTF-8" in result.error_message


def test_compiling_prints_nothing_of_the_compiler_s(worker):
    result = worker.evaluate("(defun f (x) (* 2 x)) (compile 'f) (f 4)")
    assert (result.value, result.stdout, result.stderr) == (["8"], None, None)


def test_an_editor_is_not_started(worker):
    assert worker.evaluate("(ed 'f)").error_message == "There is no editor here for F: define it again with EVALUATE-LISP."


def test_a_form_that_is_stepped_is_evaluated(worker):
    worker.value("(defun f (x) (values x 2))")
    assert worker.evaluate("(step (f 1))").value == ["1", "2"]


def test_classes_may_be_defined_in_any_order_without_a_warning(worker):
    result = worker.evaluate("(defclass b (a) ()) (defclass a () ()) (type-of (make-instance 'b))")
    assert (result.value, result.warning) == (["B"], [])
