"""What a session keeps from one evaluation to the next and what it does not, and the manners of a Lisp prompt."""

import os

import pytest

from harness import wait_until

# Each row of the contract's table of persistent state: what is evaluated first, what then, and its value.
PERSISTS = {
    "functions": ("(defun square (x) (* x x))", "(square 7)", "49"),
    "macros": ("(defmacro twice (form) `(progn ,form ,form))", "(let ((n 0)) (twice (incf n)) n)", "2"),
    "classes": ("(defclass point () ((x :initarg :x :reader x)))", "(x (make-instance 'point :x 3))", "3"),
    "structures": ("(defstruct pair left right)", "(pair-right (make-pair :left 1 :right 2))", "2"),
    "methods": ("(defmethod area ((side integer)) (* side side))", "(area 4)", "16"),
    "generic functions": ("(defgeneric speak (it) (:method ((it t)) :nothing))", "(speak 1)", ":NOTHING"),
    "special variables": ("(defvar *x* 1)", "(let ((*x* 2)) (symbol-value '*x*))", "2"),
    "parameters": ("(defparameter *y* 1)", "(incf *y*)", "2"),
    "constants": ("(defconstant +z+ 26)", "(list +z+ (constantp '+z+))", "(26 T)"),
    "setf'd symbols": ("(setf foo 1)", "(+ foo 1)", "2"),
    "current package": ("(defpackage :mine (:use :cl)) (in-package :mine)", "(package-name *package*)", '"MINE"'),
    "created packages": ("(defpackage :made (:use :cl) (:export #:thing))", "(find-symbol \"THING\" :made)",
                         "MADE:THING\n=> :EXTERNAL"),
    "imported symbols": ("(defpackage :lender (:use :cl) (:export #:lent)) (defun lender:lent () :lent)"
                         " (use-package :lender)", "(lent)", ":LENT"),
}

# Each row of the table of what does not persist: what is evaluated first, what then, and a part of its answer.
RESETS = {
    "let bindings": ("(let ((local 1)) local)", "local", "[ERROR] UNBOUND-VARIABLE"),
    "dynamic bindings": ("(defvar *d* :outer) (let ((*d* :inner)) (error \"left by an error\"))", "*d*", "=> :OUTER"),
    "catch tags": ("(catch 'tag (+ 1 2))", "(throw 'tag 1)", "[ERROR] CONTROL-ERROR"),
    "restart bindings": ("(restart-case (error \"x\") (mine () 1))", "(find-restart 'mine)", "=> NIL"),
    "handler bindings": ("(handler-bind ((error (lambda (c) (declare (ignore c)) (throw 'top :handled))))"
                         " (catch 'top (error \"x\")))", "(error \"unhandled\")", "[ERROR] SIMPLE-ERROR\nunhandled"),
}


@pytest.mark.parametrize("row", PERSISTS)
def test_it_persists(lisp, row):
    before, after, value = PERSISTS[row]
    assert not lisp.evaluate(before).is_error
    assert lisp.evaluate("(+ 1 1)").text == "=> 2"
    assert lisp.evaluate(after).text == f"=> {value}"


@pytest.mark.parametrize("row", RESETS)
def test_it_does_not_persist(lisp, row):
    before, after, answer = RESETS[row]
    lisp.evaluate(before)
    assert lisp.evaluate(after).text.startswith(answer)


def test_asdf_systems_persist(lisp, tmp_path):
    (tmp_path / "tiny.asd").write_text('(defsystem "tiny" :version "1.2" :components ((:file "tiny")))')
    (tmp_path / "tiny.lisp").write_text("(defpackage :tiny (:use :cl) (:export #:answer))\n(in-package :tiny)\n"
                                        "(defun answer () 42)\n")
    assert not lisp.evaluate("(require :asdf)").is_error
    assert not lisp.evaluate(f'(asdf:load-asd "{tmp_path}/tiny.asd")').is_error
    assert not lisp.evaluate("(asdf:operate 'asdf:load-source-op \"tiny\")").is_error
    assert lisp.evaluate('(list (tiny:answer) (asdf:component-version (asdf:find-system "tiny")))').text == \
        '=> (42 "1.2")'


def test_quicklisp_systems_persist(own_runtime):
    """A stand-in for Quicklisp: what matters here is that what its setup and it load stays."""
    setup = own_runtime.directory / "quicklisp" / "setup.lisp"
    setup.parent.mkdir()
    setup.write_text('(defpackage :quicklisp-client (:nicknames :ql) (:use :cl) (:export #:quickload))\n'
                     '(defun ql:quickload (name)\n'
                     '  (load (merge-pathnames (format nil "quicklisp/~(~A~).lisp" name) (user-homedir-pathname))\n'
                     '        :verbose nil)\n'
                     '  (list name))\n')
    (setup.parent / "quick.lisp").write_text("(defpackage :quick (:use :cl) (:export #:fox))\n"
                                             "(defun quick:fox () :brown)\n")
    client = own_runtime.client().open()
    assert not client.evaluate('(load "~/quicklisp/setup.lisp")').is_error
    assert client.evaluate("(ql:quickload :quick)").text == "=> (:QUICK)"
    assert client.evaluate("(quick:fox)").text == "=> :BROWN"


# The manners of a prompt


def test_a_prompts_variables_hold_what_was_before(lisp):
    lisp.evaluate("(list 1)")
    lisp.evaluate("(floor 17 5)")
    assert lisp.evaluate("(list * ** / // + ++)").text == "=> (3 #1=(1) (3 2) (#1#) (FLOOR 17 5) (LIST 1))"
    assert lisp.evaluate("(+ 1 2) (list * -)").text == "=> (3 (LIST * -))"
    lisp.evaluate("(values)")
    assert lisp.evaluate("(list * /)").text == "=> (NIL NIL)"


def test_what_fails_does_not_become_the_last_value(lisp):
    lisp.evaluate("(list :kept)")
    assert lisp.evaluate("(error \"x\")").is_error
    assert lisp.evaluate("*").text == "=> (:KEPT)"


def test_the_sessions_directory_is_the_clients(runtime, connect, tmp_path):
    client = connect(directory=tmp_path).open()
    (tmp_path / "here").write_text("found")
    assert client.evaluate('(with-open-file (s "here") (read-line s))').text.startswith('=> "found"')
    assert client.evaluate('(ext:system "pwd -P") (namestring *default-pathname-defaults*)').text == \
        f'[stdout]\n{os.path.realpath(tmp_path)}\n\n=> "{os.path.realpath(tmp_path)}/"'


def test_no_two_sessions_draw_the_same_random_numbers(connect):
    draws = {connect().open().evaluate("(loop repeat 5 collect (random 1000000000))").text for _ in range(5)}
    assert len(draws) == 5


def test_threads_are_in_the_sessions_package(lisp):
    in_thread = "(mp:process-join (mp:process-run-function 'reader (lambda () {})))"
    assert lisp.evaluate(in_thread.format('(print (read-from-string "fresh"))')).text == "[stdout]\nFRESH\n\n=> FRESH"
    lisp.evaluate("(defpackage :mine (:use :cl)) (in-package :mine)")
    assert lisp.evaluate(in_thread.format('(prin1-to-string (read-from-string "fresh"))')).text == '=> "FRESH"'
    assert lisp.evaluate(in_thread.format("(package-name *package*)"), package="cl-user").text == '=> "COMMON-LISP-USER"'
    assert lisp.evaluate("(package-name *package*)").text == '=> "MINE"'


def test_lisp_has_a_command_line_without_arguments(lisp):
    assert lisp.evaluate("(list (ext:argc) (length (ext:command-args)) (uiop:command-line-arguments))").text == "=> (1 1 NIL)"


@pytest.mark.parametrize("form", ["(read-line)", "(read)", "(read-char)", "(read-line *terminal-io*)",
                                  "(y-or-n-p \"?\")"])
def test_input_is_at_its_end(lisp, form):
    assert lisp.evaluate(form).text.startswith("[ERROR] END-OF-FILE")
    assert lisp.evaluate("(read-line *standard-input* nil :eof)").text.startswith("=> :EOF")


def test_input_that_was_closed_is_still_at_its_end(lisp):
    lisp.evaluate("(close *standard-input*) (close *terminal-io*) (close *query-io*) (close *debug-io*)")
    for stream in "*standard-input*", "*terminal-io*", "*query-io*", "*debug-io*":
        assert lisp.evaluate(f"(read-line {stream} nil :eof)").text.startswith("=> :EOF")


# Output between the calls

BEFORE = "; Written since the last evaluation:\n"
SINCE = "; Written by this evaluation:\n"

LATE = {
    "thread": """(progn (mp:process-run-function 'late
                          (lambda ()
                            (loop until (probe-file "{go}") do (sleep 0.005))
                            (format t "late~%") (format *error-output* "also late")
                            (with-open-file (s "{done}" :direction :output) (terpri s))))
                        nil)""",
    "child": """(progn (ext:system "(while ! [ -e '{go}' ]; do sleep 0.01; done
                                    echo late; printf 'also late' >&2; : >'{done}') &")
                     nil)""",
}


@pytest.mark.parametrize("writer", LATE)
def test_what_is_written_between_the_calls_is_shown_with_the_next_and_marked(lisp, tmp_path, writer):
    go, done = tmp_path / "go", tmp_path / "done"
    assert lisp.evaluate(LATE[writer].format(go=go, done=done)).text == "=> NIL"
    go.touch()
    wait_until(done.exists, "it has written")
    assert lisp.evaluate("(princ \"mine\") 1").text == (
        f"[stdout]\n{BEFORE}late\n{SINCE}mine\n\n[stderr]\n{BEFORE}also late\n\n=> 1")
    assert lisp.evaluate("(princ \"mine\") 2").text == "[stdout]\nmine\n\n=> 2"


def test_a_late_line_that_is_not_ended_does_not_run_into_what_follows(lisp, tmp_path):
    go, done = tmp_path / "go", tmp_path / "done"
    lisp.evaluate(LATE["thread"].format(go=go, done=done))
    go.touch()
    wait_until(done.exists, "it has written")
    assert lisp.evaluate("(princ \"mine\" *error-output*) 1").text == (
        f"[stdout]\n{BEFORE}late\n\n[stderr]\n{BEFORE}also late\n{SINCE}mine\n\n=> 1")


def test_a_thread_that_goes_on_writing_never_mixes_its_past_with_the_present(lisp):
    lisp.evaluate("(defvar *stop* nil) (defvar *writer* (mp:process-run-function 'writer"
                  " (lambda () (loop until *stop* do (write-line \"tick\") (sleep 0.001)))))")
    for turn in range(20):
        text = lisp.evaluate(f"(loop repeat 3 do (write-line \"mine\") (sleep 0.002)) {turn}").text
        assert text.count(BEFORE) <= 1 and text.count(SINCE) <= 1
        if BEFORE in text:
            assert text.startswith("[stdout]\n" + BEFORE)
            past, present = text.split(SINCE)
            assert "mine" not in past and present.count("mine") == 3  # a line and its end may be torn apart
    lisp.evaluate("(setf *stop* t) (mp:process-join *writer*)")
