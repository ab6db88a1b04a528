"""evaluate-lisp: the text of the answer, what persists, and the same facts as data."""

import re

import pytest

THREE_ERRORS = {
    "(/ 1 0)": ("[ERROR] DIVISION-BY-ZERO\narithmetic error DIVISION-BY-ZERO signalled\nOperation was (/ 1 0).\n\n"
                "[Backtrace]\n0: (/ 1 0)"),
    "(foo 42)": ("[ERROR] UNDEFINED-FUNCTION\nThe function COMMON-LISP-USER::FOO is undefined.\n\n"
                 "[Backtrace]\n0: (FOO 42)"),
    "(car 42)": "[ERROR] TYPE-ERROR\nThe value 42 is not of type LIST.\n\n[Backtrace]\n0: (CAR 42)",
}


# Values and output


@pytest.mark.parametrize("code,text", [
    ("(+ 1 2)", "=> 3"),
    ("(+ 1 2 3)", "=> 6"),
    ("(floor 17 5)", "=> 3\n=> 2"),
    ("(progn (print 'hello) 42)", "[stdout]\nHELLO\n\n=> 42"),
    ("(values)", "; No values"),
    ("", "; No values"),
    ("  \n\t ", "; No values"),
    ("; only a comment", "; No values"),
    ("#| only\na comment |#", "; No values"),
    ('(progn (format t "Output~%") (format *error-output* "Error~%") 42)',
     "[stdout]\nOutput\n\n[stderr]\nError\n\n=> 42"),
    ("(setf x 10) (setf y 20) (+ x y)", "=> 30"),
    ("(defun foo2 (x) (* x 2))\n(foo2 21)", "=> 42"),
    ("(mapcar #'1+ '(1 2 3))", "=> (2 3 4)"),
    ('"a string"', '=> "a string"'),
    ("#\\a", "=> #\\a"),
    (":key", "=> :KEY"),
    ("'sym", "=> SYM"),
    ("(values 1 nil \"two\")", '=> 1\n=> NIL\n=> "two"'),
    ("(let ((x (list 1 2 3))) (setf (cdddr x) x) x)", "=> #1=(1 2 3 . #1#)"),
    ('(progn (format t "~%~%two~%~%lines  ~%~%") nil)', "[stdout]\ntwo\n\nlines\n\n=> NIL"),
    ('(progn (format t "   indented~%") nil)', "[stdout]\n   indented\n\n=> NIL"),
    ('(progn (format *trace-output* "traced~%") 1)', "[stderr]\ntraced\n\n=> 1"),
    ('(progn (format t "~%  ~%") 1)', "=> 1"),
    ("1 2 3", "=> 3"),
])
def test_the_text_is_exactly(lisp, code, text):
    evaluation = lisp.evaluate(code)
    assert evaluation.text == text
    assert evaluation.is_error is False


def test_text_beyond_ascii_survives_both_ways(lisp):
    assert lisp.evaluate('(progn (format t "naïve λ 漢字 😀~%") (length "λ漢😀"))').text == \
        "[stdout]\nnaïve λ 漢字 😀\n\n=> 3"
    assert lisp.evaluate('"naïve λ 漢字 😀"').text == '=> "naïve λ 漢字 😀"'


def test_the_printing_table_binds_while_values_are_printed(lisp):
    text = lisp.evaluate("(make-list 200)").text
    assert text.startswith("=> (NIL NIL") and text.endswith("...)")
    assert len(re.findall(r"\bNIL\b", text)) == 100
    deep = lisp.evaluate("(let ((x nil)) (dotimes (i 20 x) (setf x (list x))))").text
    assert "#" in deep and deep.count("(") == 10
    assert lisp.evaluate("(list *print-length* *print-level*)").text == "=> (NIL NIL)"


def test_a_warning_is_shown_and_does_not_hide_the_value(lisp):
    assert lisp.evaluate('(progn (warn "mind ~a" 1) 42)').text == "[warnings]\nWARNING: mind 1\n\n=> 42"


def test_sections_come_in_the_order_stdout_stderr_warnings_values(lisp):
    code = '(progn (warn "w") (format *error-output* "e~%") (format t "o~%") (values 1 2))'
    assert lisp.evaluate(code).text == "[stdout]\no\n\n[stderr]\ne\n\n[warnings]\nWARNING: w\n\n=> 1\n=> 2"


# Errors


@pytest.mark.parametrize("code", THREE_ERRORS)
def test_the_error_examples_are_exact(lisp, code):
    evaluation = lisp.evaluate(code)
    assert evaluation.text == THREE_ERRORS[code]
    assert evaluation.is_error is True


@pytest.mark.parametrize("code,start", [
    ('(error "went ~s" :wrong)', "[ERROR] SIMPLE-ERROR\nwent :WRONG"),
    ("unbound-x", "[ERROR] UNBOUND-VARIABLE\nThe variable COMMON-LISP-USER::UNBOUND-X is unbound."),
    ("(in-package :nonexistent)", '[ERROR] PACKAGE-ERROR\nThe name "NONEXISTENT" does not designate any package.'),
    ("(progn (define-condition oops (error) () (:report \"own report\")) (error 'oops))", "[ERROR] OOPS\nown report"),
])
def test_errors_name_their_type_and_message(lisp, code, start):
    evaluation = lisp.evaluate(code)
    assert evaluation.is_error and (evaluation.text + "\n").startswith(start + "\n")


@pytest.mark.parametrize("code", ["(+ 1 2", "(list 1\n  (list 2 3)", '(print "open', "'", "#("])
def test_unbalanced_code_is_end_of_file(lisp, code):
    evaluation = lisp.evaluate(code)
    assert evaluation.is_error and evaluation.text.startswith("[ERROR] END-OF-FILE\n")


@pytest.mark.parametrize("code", [")", "(+ 1 2))", "#<unreadable>"])
def test_other_unreadable_code_is_a_reader_error(lisp, code):
    evaluation = lisp.evaluate(code)
    assert evaluation.is_error and evaluation.text.startswith("[ERROR] READER-ERROR\n")


def test_forms_before_the_unreadable_one_have_been_evaluated(lisp):
    assert lisp.evaluate("(defparameter *before* 7) (list 1").is_error
    assert lisp.evaluate("*before*").text == "=> 7"


def test_what_was_printed_before_an_error_is_not_lost(lisp):
    evaluation = lisp.evaluate('(progn (format t "so far~%") (warn "careful") (car 42))')
    assert evaluation.is_error
    error, stdout, warnings = (evaluation.text.index(part) for part in
                               ("[ERROR] TYPE-ERROR", "[stdout]\nso far", "[warnings]\nWARNING: careful"))
    assert error < stdout < warnings


def test_an_error_leaves_the_session_as_it_was(lisp):
    lisp.evaluate("(defparameter *n* 5)")
    for code in THREE_ERRORS:
        assert lisp.evaluate(code).is_error
    assert lisp.evaluate("*n*").text == "=> 5"


@pytest.mark.parametrize("code", [
    "(labels ((f (x) (1+ (f x)))) (f 1))", "(defun deep (n) (+ 1 (deep n))) (deep 1)",
    "(let ((s (make-string 100000 :initial-element #\\())) (read-from-string s))",
    "(throw :no-such-tag 1)", "(error 'storage-condition)", "(signal 'serious-condition) (error 'serious-condition)",
    "(invoke-debugger (make-condition 'error))", "(break \"stop\")",
], ids=["recursion in labels", "recursion", "reader recursion", "throw", "storage", "serious", "debugger", "break"])
def test_serious_conditions_are_reported_and_the_session_goes_on(lisp, code):
    lisp.evaluate("(defparameter *kept* 41)")
    assert lisp.evaluate(code).is_error
    assert lisp.evaluate("(1+ *kept*)").text == "=> 42"


@pytest.mark.parametrize("code", ["(ext:quit)", "(ext:quit 3)", "(si:exit 1)", "(abort)", "(invoke-restart 'abort)"])
def test_code_that_wants_to_leave_does_not_end_the_session(lisp, code):
    lisp.evaluate("(defparameter *kept* 41)")
    lisp.evaluate(code)
    assert lisp.evaluate("(1+ *kept*)").text == "=> 42"


# State


def test_definitions_persist(lisp):
    assert lisp.evaluate("(defun square (x) (* x x))").text == "=> SQUARE"
    assert lisp.evaluate("(square 7)").text == "=> 49"
    lisp.evaluate("(defvar *v* 1) (defparameter *p* 2) (setf free 3)")
    lisp.evaluate("(defclass point () ((x :initarg :x :accessor point-x))) (defstruct pair a b)")
    lisp.evaluate("(defmethod sum ((p point)) (+ 1 (point-x p))) (defmacro twice (x) `(* 2 ,x)) (defconstant +c+ 4)")
    code = "(list *v* *p* free (sum (make-instance 'point :x 4)) (pair-b (make-pair :b 6)) (twice 4) +c+)"
    assert lisp.evaluate(code).text == "=> (1 2 3 5 6 8 4)"


def test_bindings_do_not_persist(lisp):
    lisp.evaluate("(defparameter *p* 1)")
    assert lisp.evaluate("(let ((*p* 2) (local 3)) (+ *p* local))").text == "=> 5"
    assert lisp.evaluate("(list *p* (boundp 'local))").text == "=> (1 NIL)"


def test_the_variables_of_a_repl_work_across_calls(lisp):
    lisp.evaluate("(+ 1 2)")
    lisp.evaluate("(floor 17 5)")
    assert lisp.evaluate("(list * ** + /)").text == "=> (3 3 (FLOOR 17 5) (3 2))"


def test_in_package_persists(lisp):
    lisp.evaluate("(defpackage :garden (:use :cl))")
    lisp.evaluate("(in-package :garden)")
    assert lisp.evaluate("(package-name *package*)").text == '=> "GARDEN"'
    lisp.evaluate("(defun plant () 'seed)")
    assert lisp.evaluate("(plant)").text == "=> SEED"
    lisp.evaluate("(in-package :cl-user)")
    assert lisp.evaluate("(garden::plant)").text == "=> GARDEN::SEED"


def test_the_package_remains_after_an_error(lisp):
    lisp.evaluate("(defpackage :garden (:use :cl))")
    assert lisp.evaluate("(in-package :garden) (car 42)").is_error
    assert lisp.evaluate("(package-name *package*)").text == '=> "GARDEN"'


def test_the_package_argument_holds_for_its_call_alone(lisp):
    lisp.evaluate("(defpackage :garden (:use :cl))")
    for name in ("GARDEN", "garden", "Garden"):
        assert lisp.evaluate("(package-name *package*)", package=name).text == '=> "GARDEN"'
    assert lisp.evaluate("(package-name *package*)").text == '=> "COMMON-LISP-USER"'
    lisp.evaluate("(defun plant () 1)", package="garden")
    assert lisp.evaluate("(list (fboundp 'plant) (garden::plant))").text == "=> (NIL 1)"


def test_in_package_inside_a_call_with_a_package_persists(lisp):
    lisp.evaluate("(defpackage :garden (:use :cl)) (defpackage :shed (:use :cl))")
    lisp.evaluate("(in-package :shed)", package="garden")
    assert lisp.evaluate("(package-name *package*)").text == '=> "SHED"'


def test_an_unknown_package_evaluates_nothing(lisp):
    evaluation = lisp.evaluate("(defparameter cl-user::*ran* t)", package="no-such-package")
    assert evaluation.is_error and evaluation.text.startswith("[ERROR] PACKAGE-ERROR\n")
    assert lisp.evaluate("(boundp '*ran*)").text == "=> NIL"


def test_nobody_answers_what_the_code_asks(lisp):
    assert lisp.evaluate('(list (read-line *standard-input* nil :eof) (read-char *query-io* nil :eof))').text == \
        "=> (:EOF :EOF)"
    assert "asked" not in lisp.evaluate('(progn (format *query-io* "asked~%") (format *debug-io* "asked~%") 1)').text
    assert lisp.evaluate("(read)").text.startswith("[ERROR] END-OF-FILE")


def test_two_clients_have_two_sessions(connect):
    one, two = connect().open(), connect().open()
    one.evaluate("(defun only-here () 1)")
    assert two.evaluate("(fboundp 'only-here)").text == "=> NIL"
    assert one.evaluate("1").structured["session"] != two.evaluate("1").structured["session"]


def test_sessions_do_not_share_their_random_numbers(connect):
    drawn = {connect().open().evaluate("(random (expt 2 64))").text for _ in range(3)}
    assert len(drawn) == 3


def test_the_session_runs_in_the_directory_of_its_client(runtime, connect):
    place = runtime.directory / "a place"
    place.mkdir(exist_ok=True)
    lisp = connect(directory=place).open()
    assert str(place) in lisp.evaluate('(ext:system "pwd")').text
    (place / "note.txt").write_text("found\n")
    assert lisp.evaluate('(with-open-file (in "note.txt") (read-line in))').text.startswith('=> "found"')


# The same facts as data


def test_structured_content_agrees_with_the_text(lisp):
    code = '(defparameter *a* 1) (format t "out~%") (format *error-output* "err~%") (warn "w") (floor 17 5)'
    evaluation = lisp.evaluate(code)
    data = evaluation.structured
    assert re.fullmatch(r"session-\d{8}-\d{6}-[0-9A-F]{4}", data["session"])
    assert data["package"] in ("COMMON-LISP-USER", "CL-USER")
    assert data["stdout"].strip() == "out" and data["stderr"].strip() == "err"
    assert data["warnings"] == ["WARNING: w"]
    assert data["values"] == ["3", "2"]
    assert data["forms"] == 5
    assert data["elapsedMs"] >= 0
    assert data["truncated"] == []
    assert "error" not in data
    assert evaluation.text == "[stdout]\nout\n\n[stderr]\nerr\n\n[warnings]\nWARNING: w\n\n=> 3\n=> 2"


def test_structured_content_of_an_error_agrees_with_the_text(lisp):
    data = lisp.evaluate("(defparameter *a* 1) (car 42)").structured
    assert data["error"] == {"type": "TYPE-ERROR", "message": "The value 42 is not of type LIST.",
                             "backtrace": ["(CAR 42)"]}
    assert data["values"] == [] and data["forms"] == 1


def test_structured_content_of_no_values(lisp):
    data = lisp.evaluate("(values)").structured
    assert data["values"] == [] and data["forms"] == 1
    assert lisp.evaluate("").structured["forms"] == 0


def test_structured_content_names_the_package_afterwards(lisp):
    lisp.evaluate("(defpackage :garden (:use :cl))")
    assert lisp.evaluate("(in-package :garden)").structured["package"] == "GARDEN"


def test_structured_content_measures_the_time(lisp):
    assert 200 <= lisp.evaluate("(sleep 0.2)").structured["elapsedMs"] < 2000


def test_ten_thousand_warnings_are_one_answer(lisp):
    answer = lisp.evaluate('(dotimes (i 10000) (warn "again"))')
    assert answer.text.startswith("[warnings]\nWARNING: again\n") and not answer.is_error
    assert "warnings" in answer.structured["truncated"]
    assert lisp.evaluate("(+ 1 2)").text == "=> 3"


def test_cl_user_can_be_deleted_and_is_made_anew(connect):
    lisp = connect().open()
    assert lisp.evaluate("(delete-package :cl-user)").is_error is False
    assert lisp.evaluate("(defun twice (x) (* x 2)) (twice 21)").text == "=> 42"
    assert lisp.evaluate("(package-name *package*)").text == '=> "COMMON-LISP-USER"'
