"""evaluate-lisp: what [warnings] says of definitions, as text and as data."""

import pytest


@pytest.mark.parametrize("code,text", [
    ("(defun foo () (let ((x 10))))",
     "[warnings]\nSTYLE-WARNING: The variable X is defined but never used.\n\n=> FOO"),
    ("(defun calls-bar () (bar))",
     "[warnings]\nSTYLE-WARNING: undefined function: COMMON-LISP-USER::BAR\n\n=> CALLS-BAR"),
    ("(defun reads-y () y)",
     "[warnings]\nWARNING: undefined variable: COMMON-LISP-USER::Y\n\n=> READS-Y"),
    ("(defun one (a) a) (defun two () (one 1 2))",
     "[warnings]\nSTYLE-WARNING: The function ONE is called with two arguments, but wants exactly one.\n\n=> TWO"),
    ('(defun adds () (+ 1 "a"))',
     '[warnings]\nWARNING: Constant "a" conflicts with its asserted type NUMBER.\n\n=> ADDS'),
    ('(defun noisy (x) 1) (format t "out") (warn "signalled") (noisy 2)',
     "[stdout]\nout\n\n[warnings]\nWARNING: signalled\nSTYLE-WARNING: The variable X is defined but never used.\n\n=> 1"),
])
def test_the_text_of_a_definition_with_warnings_is_exactly(lisp, code, text):
    evaluation = lisp.evaluate(code)
    assert evaluation.text == text
    assert evaluation.is_error is False


@pytest.mark.parametrize("code,text", [
    ("(setf x 10) (setf y 20) (+ x y)", "=> 30"),
    ("(let ((x 10)))", "=> NIL"),
    ("(setf total 10) (defun more () (incf total)) (more)", "=> 11"),
    ("(defun even? (n) (or (= n 0) (odd? (1- n)))) (defun odd? (n) (and (> n 0) (even? (1- n)))) (even? 10)", "=> T"),
    ("(defun again () 1) (defun again () 2) (again)", "=> 2"),
])
def test_there_is_no_noise(lisp, code, text):
    assert lisp.evaluate(code).text == text


def test_a_call_that_fails_shows_only_what_was_signalled(lisp):
    text = lisp.evaluate('(defun foo (x) (nope)) (warn "signalled") (error "broken")').text
    assert text.startswith("[ERROR] SIMPLE-ERROR\nbroken\n") and text.endswith("\n\n[warnings]\nWARNING: signalled")


def test_the_same_warnings_are_there_as_data(lisp):
    evaluation = lisp.evaluate("(defun foo (x) (bar))")
    assert evaluation.structured["warnings"] == ["STYLE-WARNING: The variable X is defined but never used.",
                                                 "STYLE-WARNING: undefined function: COMMON-LISP-USER::BAR"]
