"""The operation recollect-state: what a transcript defines is defined again, and nothing else of it is done again."""
import pytest

from worker_driver import worker, zygote  # noqa: F401


def record(number, code, outcome=0, forms=0, operation=None, given=None, after=""):
    """As sql/statements.sql makes them."""
    texts = [quoted(text) for text in (operation, given, after, code)]
    return f"({number} {outcome} {forms} {' '.join(texts)})"


def quoted(text):
    return "()" if text is None else '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def recollect(worker, *records, file="", number=0, forgotten=0):
    """What a new process says of it, a list of lines."""
    text = "\n".join([str(file), str(number), str(forgotten), *records])
    report = worker.value(text, operation="recollect-state")
    return report.split("\n") if report else []


# What was evaluated, what is then evaluated in the new process, and its value there: nothing is named.
REPEATED = {
    "functions": ("(defun f (x) (* 2 x))", "(f 4)", "8"),
    "macros and what uses them": ("(defmacro m (x) `(* 2 ,x)) (defun f () (m 3))", "(f)", "6"),
    "structures": ("(defstruct p (a 1) b)", "(p-a (make-p))", "1"),
    "classes, methods, generic functions": (
        "(defclass c () ((n :initarg :n :initform 3 :reader n))) (defgeneric g (x)) (defmethod g ((c c)) (n c))"
        "(defmethod g ((x (eql :k))) 9)", "(list (g (make-instance 'c)) (g :k))", "(3 9)"),
    "conditions and types": ("(define-condition oops (error) ()) (deftype small () '(integer 0 9))",
                             "(and (typep 3 'small) (typep (make-condition 'oops) 'error) t)", "T"),
    "variables whose values do nothing": ("(defvar *x* (list 1 (make-hash-table) `(a ,(+ 1 2)))) (defparameter *y* \"y\" \"Why.\")"
                                          "(defconstant +z+ 26)", "(list (third *x*) *y* +z+ (documentation '*y* 'variable))",
                                          '((A 3) "y" 26 "Why.")'),
    "packages": ("(defpackage :mine (:use :cl) (:export #:f)) (in-package :mine) (defun f () 1) (in-package :cl-user)"
                 "(use-package :mine)", "(list (f) (package-name *package*))", '(1 "COMMON-LISP-USER")'),
    "what stands in PROGN and its like": ("(progn (defun f () 1) (eval-when (:compile-toplevel :load-toplevel :execute)"
                                          " (defun g () 2)))", "(list (f) (g))", "(1 2)"),
    "closures over plain values": ("(let ((n 5)) (defun next () (incf n)))", "(next)", "6"),
    "what macros of the user's define": ("(defmacro defthing (n) `(progn (defclass ,n () ()) (defmethod size ((x ,n)) 5)))"
                                         "(defthing box)", "(size (make-instance 'box))", "5"),
    "functions that are set": ("(setf (fdefinition 'f) (lambda (x) (* 3 x)))", "(f 2)", "6"),
    "declarations": ("(declaim (special *s*)) (defun f () *s*)", "(let ((*s* 4)) (f))", "4"),
    "looking at something": ("(defvar *x* '(1)) *x* (car *x*) (+ 1 2) (format t \"~S\" *x*) (describe '*x*) \"text\" 'f", "*x*", "(1)"),
}

# What was evaluated, and how the line begins that names it.
NAMED = {
    "assignments": ("(setf *x* 5)", "evaluation 1: (setf *x* 5)"),
    "calls": ("(kept)", "evaluation 1: (kept)"),
    "values that call something": ("(defvar *x* (kept))", "evaluation 1: (defvar *x* (kept)): its value is not computed again"),
    "values that depend on other variables": ("(defvar *x* (list *y*))", "evaluation 1: (defvar *x* (list *y*)): its value"),
    "constants of unknown value": ("(defconstant +c+ (get-universal-time))", "evaluation 1: (defconstant +c+ (get-universal-time)): its"),
    "initial values of a class's own slots": ("(defclass c () ((n :allocation :class :initform (kept))))",
                                              "evaluation 1: (defclass c () ((n :allocation :class :initform (kept)))): the values"),
    "closures over what was computed": ("(let ((s (kept))) (defun f () s))", "evaluation 1: (let ((s (kept))) (defun f () s))"),
    "macros that do something": ("(defmacro deftask (n) `(progn (defun ,n () 1) (run ',n))) (deftask job)", "evaluation 1: (deftask job)"),
    "macros that fail": ("(defmacro defbad () (error \"It is bad.\")) (defbad)", "evaluation 1: (defbad): It is bad."),
    "what fails now": ("(defmethod m ((x nothing)) 1)", "evaluation 1: (defmethod m ((x nothing)) 1): "),
    "code that was run while it was read": ("(defun f () #.(+ 1 2))", "evaluation 1: (defun f () #.(+ 1 2)): it cannot be read: "),
    "structures that were made while they were read": ("(defstruct p a) (defvar *p* #S(p :a 1))", "evaluation 1: "),
    "what was secret": ("(defvar *key* \"[secret]\")", "evaluation 1: (defvar *key* \"[secret]\"): a part of it was secret"),
}


@pytest.mark.parametrize("kind", REPEATED)
def test_what_was_defined_is_defined_again(worker, kind):
    code, after, value = REPEATED[kind]
    assert recollect(worker, record(1, code)) == []
    assert worker.value(after) == value


@pytest.mark.parametrize("kind", NAMED)
def test_what_is_not_done_again_is_named(worker, kind):
    code, line = NAMED[kind]
    report = recollect(worker, record(1, code), record(2, "(defun kept () 1)"))
    assert len(report) == 1 and report[0].startswith(line), report
    assert worker.value("(kept)") == "1"


def test_no_form_is_evaluated_again_for_its_effects(worker, tmp_path):
    """Each of these would leave a line in the log if it were run."""
    log = tmp_path / "log"
    report = recollect(
        worker, record(1, f"""(defun note (x) (with-open-file (s "{log}" :direction :output :if-exists :append
                                                                 :if-does-not-exist :create) (print x s)) x)"""),
        record(2, "(defvar *v* (note 'defvar)) (defparameter *p* (list (note 'defparameter))) (defconstant +c+ (note 3))"),
        record(3, "(defclass c () ((s :initform (note 'slot) :allocation :class) (i :initform (note 'instance))))"),
        record(4, "(defvar *i* (make-instance 'c)) (setf *v* (note 'setf)) (note 'form) (progn (note 'progn) (defun inside () 1))"),
        record(5, "(let ((x (note 'let))) (defun inner () x)) (eval-when (:execute) (note 'eval-when))"),
        record(6, "(defstruct st (a (note 'default))) (make-st) #.(note 'read)"),
        record(7, "(funcall (lambda () (note 'funcall))) ((lambda () (note 'lambda))) (find 1 '(1) :key #'note)"),
        record(8, "(define-symbol-macro sm (note 'symbol-macro)) sm (list sm) (if (note 'if) (defun conditional () 1))"),
        record(9, "(mapcar #'note '(1)) (export (note 'inside)) (require (note :sockets)) (declaim (special z))"))
    assert not log.exists()
    assert [line.split(": ")[0] for line in report] == [f"evaluation {n}" for n in
                                                        [2] * 3 + [3] + [4] * 4 + [5] * 2 + [6] * 2 + [7] * 3 + [8] * 3 + [9] * 3]
    assert worker.value("(list (inside) (boundp '*v*) (fboundp 'inner) (fboundp 'conditional) (slot-boundp (clos:class-prototype "
                        "(find-class 'c)) 's))") == "(1 NIL NIL NIL NIL)"


def test_of_an_evaluation_that_failed_only_what_was_complete_is_repeated(worker):
    report = recollect(worker, record(1, "(defun f () 1) (f 2) (defun g () 1)", outcome=1, forms=1),
                       record(2, "(car 1)", outcome=1), record(3, "(defun h () 1)", outcome=2), record(4, "(+ 1", outcome=1))
    assert report == ["evaluation 1: (f 2) (defun g () 1): it was not completed", "evaluation 3: (defun h () 1): it was not completed",
                      "evaluation 4: (+ 1: it was not completed"]
    assert worker.value("(list (f) (fboundp 'g) (fboundp 'h))") == "(1 NIL NIL)"


def test_each_evaluation_is_read_in_the_package_it_was_read_in(worker):
    report = recollect(worker, record(1, "(defpackage :one (:use :cl)) (defpackage :two (:use :cl))", after="COMMON-LISP-USER"),
                       record(2, "(defun f () :one)", given="one", after="COMMON-LISP-USER"),
                       record(3, "(setf *package* (find-package :two))", after="TWO"), record(4, "(defun f () :two)", after="TWO"),
                       record(5, "(defun g () 1)", given="gone", after="GONE"), record(6, "(defun h () 1)", after="GONE"),
                       record(7, "1", after="ONE"))
    assert [line.split(":")[0] for line in report] == [f"evaluation {number}" for number in (3, 5, 6, 7)]
    assert report[1].endswith("its package is not there")
    assert worker.value("(list (package-name *package*) (f) (two::f) (fboundp 'cl-user::f) (fboundp 'cl-user::h))") == \
        '("ONE" :ONE :TWO NIL NIL)'


def test_systems_that_were_loaded_are_loaded_again(worker):
    report = recollect(worker, record(1, "sockets\nno-such-system", operation="reload-systems"),
                       record(2, "no-such-one", operation="load-system", outcome=1), record(3, "all", operation="list-definitions"),
                       record(4, "(require :serve-event)"), record(5, "(asdf:load-system \"absent\")"))
    assert [line.split(": ")[:2] for line in report] == [["evaluation 1", "no-such-system"], ["evaluation 5", "absent"]]
    assert worker.value('(list (find-package "SB-BSD-SOCKETS") (find-package "SERVE-EVENT"))').count("package") == 2


def test_what_follows_the_last_state_is_added_to_it(zygote, worker, tmp_path):
    file = tmp_path / "s.saved"
    worker.evaluate("(defvar *n* 5) (defun f () 1) (defpackage :mine (:use :cl)) (in-package :mine)")
    worker.value(f"{file}\n7", operation="save-state")
    assert file.read_text().startswith("; after evaluation 7\n")
    with zygote.spawn() as other:
        report = recollect(other, record(8, "(defvar cl-user::*n* 6) (defun f () 2) (incf cl-user::*n*)"), file=file, number=7)
        assert report == ["evaluation 8: (incf cl-user::*n*)"]
        assert other.value("(list cl-user::*n* (cl-user::f) (f))") == "(5 1 2)"


def test_a_state_from_before_a_reset_does_not_count(zygote, worker, tmp_path):
    file = tmp_path / "s.saved"
    worker.evaluate("(defun f () 1)")
    worker.value(f"{file}\n7", operation="save-state")
    with zygote.spawn() as other:
        assert recollect(other, record(10, "(defun g () 1)"), file=file, number=7, forgotten=9) == []
        assert other.value("(list (fboundp 'f) (g))") == "(NIL 1)"


def test_a_state_that_cannot_be_read_is_named_and_the_rest_is_kept(worker, tmp_path):
    file = tmp_path / "s.saved"
    file.write_text("; after evaluation 7\n(((")
    report = recollect(worker, record(8, "(defun g () 1)"), record(9, None), file=file, number=7)
    assert len(report) == 2 and report[0].startswith(f"the state in {file}: ")
    assert report[1] == "evaluation 9: its code is not known any more"
    assert worker.value("(g)") == "1"
