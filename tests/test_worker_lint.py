"""Static checks: what is said of definitions, what is not, and that they never change what an evaluation does."""
import pathlib
import random
import re

import pytest

from worker_driver import Zygote, wait_for, worker, zygote  # noqa: F401

SOURCES = pathlib.Path("/usr/share/common-lisp/source")

# In the order of their systems' dependencies.
LIBRARIES = {
    "alexandria": ["alexandria-1/" + name for name in (
        "package definitions binding strings conditions symbols macros functions lists types io hash-tables control-flow "
        "arrays sequences numbers features").split()] + ["alexandria-2/" + name for name in (
            "package arrays control-flow sequences lists").split()],
    "cl-ppcre": ("packages specials util errors charset charmap chartest lexer parser regex-class regex-class-util convert "
                 "optimize closures repetition-closures scanner api").split(),
}


def done(worker, code, **arguments):
    result = worker.evaluate(code, **arguments)
    assert result.kind == "r" and result.outcome_name == "DONE", result
    return result


def unused(*names):
    return [f"STYLE-WARNING: The variable {name} is defined but never used." for name in names]


def undefined(*names):
    return [f"STYLE-WARNING: undefined function: {name}" for name in names]


@pytest.fixture(scope="module")
def careful_zygote():
    """One whose sessions check nothing."""
    with Zygote(["--without", "lint"]) as careful:
        yield careful


# What is warned of


@pytest.mark.parametrize("code, names", [
    ("(defun foo () (let ((x 10))))", "X"),
    ("(defun foo () (let* ((x 10) (y x) (z y)) y))", "Z"),
    ("(defun foo (a b) a)", "B"),
    ("(defun foo (a &optional (b 1 bp) &rest c) b)", "A BP C"),
    ("(defun foo (&key a ((:key b) 2 bp) &aux (c a)) bp)", "B C"),
    ("(defun foo (l) (multiple-value-bind (a b) (f l) a)) (defun f (x) x)", "B"),
    ("(defun foo (l) (destructuring-bind (a (b . c) &key d) l (list a c)))", "B D"),
    ("(defun foo () (mapcar (lambda (x) 1) #'(lambda (y) 2)))", "X Y"),
    ("(defun foo () (flet ((f (x) 1)) (f 2)))", "X"),
    ("(defun foo () (labels ((f (x) 1)) (f 2)))", "X"),
    ("(defun foo () ((lambda (x) 1) 2))", "X"),
    ("(defun foo () (prog (i j) (return j)))", "I"),
    ("(defun foo () (handler-case 1 (error (e) 2) (:no-error (x) 3)))", "E X"),
    ("(defun foo () (restart-case 1 (mine (x) :report \"r\" 3)))", "X"),
    ("(defun foo (x) (declare (type integer x)) 1)", "X"),
    ("(defun foo () (when t (unless nil (cond (t (case 1 (1 (let ((x 1))))))))))", "X"),
    ("(defun foo () (dolist (y '(1)) (print y) (loop for i below 3 do (let ((x i))))))", "X"),
    ("(defun foo () (let ((x 1)) (let ((x 2)) x)))", "X"),
    ("(defun (setf foo) (new old) new)", "OLD"),
    ("(defmacro foo (a b &body c) `(list ,a ,@c))", "B"),
    ("(defmacro foo ((a b) &key c) `(list ,a ,c))", "B"),
    ("(deftype foo (a) 'integer)", "A"),
    ("(define-compiler-macro foo (a) 1)", "A"),
    ("(defmethod foo ((a integer) b) (let ((x 1))))", "X"),
    ("(defmethod foo :around (a b) (let ((x 1)) (call-next-method)))", "X"),
    ("(defgeneric foo (a) (:method (a) (let ((x 1)))))", "X"),
    ("(progn (defun foo () (let ((x 1)))) (defun bar () (let ((y 1)))))", "X Y"),
    ("(let ((n 0)) (defun foo () (let ((x 1)) (incf n))))", "X"),
    ("(flet ((h () 1)) (defun foo () (let ((x 1)) (h))))", "X"),
    ("(eval-when (:compile-toplevel :load-toplevel :execute) (defun foo () (let ((x 1)))))", "X"),
    ("(locally (declare (optimize speed)) (defun foo () (let ((x 1)))))", "X"),
    ("(defun foo (|lower case|) 1)", "|lower case|"),
])
def test_variables_that_the_user_wrote_and_never_uses_are_named(worker, code, names):
    expected = [names] if "|" in names else names.split()
    assert done(worker, code).warning == unused(*expected)


@pytest.mark.parametrize("code, warnings", [
    ("(defun foo () (bar1))", undefined("COMMON-LISP-USER::BAR1")),
    ("(defun foo () #'bar1)", undefined("COMMON-LISP-USER::BAR1")),
    ("(defun foo () (setf (bar1 2) 3))", undefined("(COMMON-LISP:SETF COMMON-LISP-USER::BAR1)")),
    ("(defun foo () (bar1) (bar1)) (defun foo2 () (bar1))", undefined("COMMON-LISP-USER::BAR1")),
    ("(defun foo () y1)", ["WARNING: undefined variable: COMMON-LISP-USER::Y1"]),
    ("(defun foo () (setq y1 1))", ["WARNING: undefined variable: COMMON-LISP-USER::Y1"]),
    ("(defmacro foo () `(list ,y1))", ["WARNING: undefined variable: COMMON-LISP-USER::Y1"]),
    ("(defun foo () (let ((a b1) (b1 2)) (list a b1)))", ["WARNING: undefined variable: COMMON-LISP-USER::B1"]),
    ("(defun foo (a) (let ((x 1))) (bar1)) (defun foo2 () z1)",
     unused("A", "X") + undefined("COMMON-LISP-USER::BAR1") + ["WARNING: undefined variable: COMMON-LISP-USER::Z1"]),
])
def test_what_stays_undefined_is_named_in_the_order_of_the_code(worker, code, warnings):
    assert done(worker, code).warning == warnings


@pytest.mark.parametrize("code, text", [
    ("(defun one (a) a) (defun foo () (one 1 2))",
     "STYLE-WARNING: The function ONE is called with two arguments, but wants exactly one."),
    ("(defun foo () (opt)) (defun opt (a &optional b) (list a b))",
     "STYLE-WARNING: The function OPT is called with zero arguments, but wants at least one."),
    ("(defun opt (a &optional b) (list a b)) (defun foo () (opt 1 2 3))",
     "STYLE-WARNING: The function OPT is called with three arguments, but wants at most two."),
    ("(defgeneric gen (a b)) (defun foo () (gen 1))",
     "STYLE-WARNING: The function GEN is called with one argument, but wants exactly two."),
    ("(defun self (a) (self a a))",
     "STYLE-WARNING: The function SELF is called with two arguments, but wants exactly one."),
    ("(defun foo () (gethash 1))",
     "WARNING: The function GETHASH is called with one argument, but wants at least two."),
    ("(defun foo () (flet ((f (a) a)) (f 1 2)))",
     "WARNING: The function F is called with two arguments, but wants exactly one."),
    ('(defun foo () (+ 1 "a"))', 'WARNING: Constant "a" conflicts with its asserted type NUMBER.'),
    ("(defun foo () (car 5))", "WARNING: Constant 5 conflicts with its asserted type LIST."),
    ("(defun foo (x) (nth x 'list))", "WARNING: Constant LIST conflicts with its asserted type LIST."),
    ("(defun foo (x) (concatenate 'string x 5))", "WARNING: Constant 5 conflicts with its asserted type SEQUENCE."),
])
def test_calls_that_cannot_be_right_are_named(worker, code, text):
    assert done(worker, code).warning == [text]


def test_redefining_what_a_file_defined_is_named(worker, tmp_path):
    (tmp_path / "a.lisp").write_text("(defun from-file () 1) (defmacro mac-from-file () 1)")
    load = f'(load "{tmp_path}/a.lisp")'
    assert done(worker, load + load).warning == []
    assert done(worker, "(defun from-file () 2) (defmacro mac-from-file () 2)").warning == [
        "STYLE-WARNING: redefining COMMON-LISP-USER::FROM-FILE in DEFUN",
        "STYLE-WARNING: redefining COMMON-LISP-USER::MAC-FROM-FILE in DEFMACRO"]
    assert done(worker, "(defun from-file () 3)").warning == []
    assert done(worker, "(defun asdf:load-system (&rest r) r)").warning == [
        "STYLE-WARNING: redefining ASDF/OPERATE:LOAD-SYSTEM in DEFUN"]


def test_names_are_printed_as_the_package_of_the_definition_prints_them(worker):
    code = "(defpackage :p (:use :cl)) (in-package :p) (defun f (x) (g)) (in-package :cl-user) (defun p::h (p::y) 1)"
    assert done(worker, code).warning == unused("X") + undefined("P::G") + unused("P::Y")
    assert done(worker, "(defun k (z) 1)", package="P").warning == unused("Z")


def test_static_warnings_come_after_those_that_were_signalled(worker):
    result = done(worker, "(defun foo (x) 1) (warn \"signalled\") (defun bar (y) 2)")
    assert result.warning == ["WARNING: signalled"] + unused("X", "Y")


def test_a_call_that_ends_in_an_error_shows_only_what_was_signalled(worker):
    result = worker.evaluate("(defun foo (x) (nope)) (warn \"signalled\") (car 5)")
    assert result.outcome_name == "ERROR" and result.warning == ["WARNING: signalled"]
    worker.value("(progn (defclass bad () ()) (defmethod print-object ((b bad) s) (error \"no\")) 1)")
    result = worker.evaluate("(defun foo (x) (nope)) (make-instance 'bad)")
    assert result.outcome_name == "ERROR" and result.warning == []
    assert done(worker, "1").warning == []


# What is not


@pytest.mark.parametrize("code", [
    "(setf x 10) (setf y 20) (+ x y)",
    "(setf x 10) (defun foo () (incf x))",
    "(let ((x 10)))",
    "(let ((x 10)) (lambda (y) (when nil (nope y zope))))",
    "(flet ((f (x) 1)) (f 2))",
    "(defvar *v*) (defun foo () (let ((*v* 1)) (bar))) (defun bar () *v*)",
    "(defun foo () (let ((*print-base* 2)) (princ-to-string 3)))",
    "(defun foo () (bar)) (defun bar () (foo))",
    "(defun foo (n) (if (= n 0) 1 (* n (foo (1- n)))))",
    "(defun foo () (defun later (a) a)) (defun bar () (later 1))",
    "(defun foo () (defvar *later* 1)) (defun bar () *later*)",
    "(defun foo () (loop for (a b) in '((1 2)) for i from 0 with c = 1 collect 1))",
    "(defun foo () (loop repeat 3 for x = 1 then 2 collect 3 into l finally (return l)))",
    "(defun foo () (dolist (x '(1)) (print 1)) (dotimes (i 3) (print 2)) (do ((j 0 (1+ j))) (t) 1))",
    "(defun foo () (with-open-file (s \"x\") 1) (with-output-to-string (o) 2) (with-slots (a) 1 2))",
    "(defmethod foo ((a integer) b &optional c) 1)",
    "(defmethod foo :before ((a integer) b) (next-method-p))",
    "(defgeneric foo (a b) (:method (a b) 1) (:documentation \"x\"))",
    "(defun foo (x y) (declare (ignore x) (ignorable y)) 1)",
    "(defun foo (#:x) 1)",
    "(defun foo () (let ((x 1)) (declare (special x)) (bar))) (defun bar () (declare (special x)) x)",
    "(defun foo () (locally (declare (special z)) z))",
    "(defun foo (x) (lambda () (flet ((f () x)) #'f)))",
    "(defun foo (x) (setq x 1))",
    "(defun foo (x) (macrolet ((m (y) `(list ,y x))) (m 1)))",
    "(defun foo (x) (symbol-macrolet ((s (car x))) (setf s 1)))",
    "(define-symbol-macro sm (car '(1))) (defun foo () sm)",
    "(defmacro my-let (v &body b) `(let ((,v 1)) ,@b)) (defun foo () (my-let x 2))",
    "(defmacro my-unless (a &body b) `(if ,a nil (progn ,@b))) (defun foo (x y) (my-unless x y))",
    "(defmacro twice (x) `(progn (when nil ,x) ,x)) (defun foo () (twice (let ((y 1)) y)))",
    "(macrolet ((m (y) `(list ,y))) (defun foo (x) (m x)))",
    "(symbol-macrolet ((s 1)) (defun foo () s))",
    "(flet ((h (x) x)) (defun foo () (h 1)))",
    "(let ((n 0) (unused 1)) (defun foo () (incf n)))",
    "(defun foo (x) (tagbody a (when x (go b)) (go a) b))",
    "(defun foo (x) (block b (return-from b x)))",
    "(defun foo (x) (catch x (throw x 1)))",
    "(defun foo (x y) (progv (list x) (list y) (symbol-value x)))",
    "(defun foo (x) (ext:compiler-let ((*print-base* 1)) x))",
    "(defun foo () (load-time-value (list 1)))",
    "(defun foo (x) (the fixnum (ext:truly-the fixnum x)))",
    "(defun foo (x) (ffi:c-inline (x) (:object) :object \"#0\" :one-liner t))",
    "(defun foo (x) (multiple-value-call #'list (values x x)))",
    "(defun foo (&rest r) (apply #'bar r)) (defun bar (a b) (list a b))",
    "(defun foo (x) `(a ,x ,@(list x) (b . ,x)))",
    "(defstruct pt x y) (defun foo (p) (setf (pt-x p) (pt-y (make-pt :x 1))))",
    "(defclass k () ((a :accessor k-a :initarg :a))) (defun foo (p) (setf (k-a p) (k-a (make-instance 'k :a 1))))",
    "(defun (setf acc) (v x) (list v x)) (defun foo () (setf (acc 1) 2))",
    "(defun foo (x) (handler-bind ((error (lambda (c) (print c)))) (restart-case (print x) (r () :test (lambda (c) c) 1))))",
    "(defun foo (x) (setf (getf x :a) 1) (push 1 (cdr x)) (pop x) (rotatef (car x) (cdr x)))",
    "(defun foo (&key (a 1 ap) ((:b c) a)) (list ap c))",
    "(defmacro foo (&whole w &environment e a &rest b) (list w e a b))",
    "(defun foo () \"doc\" (declare (optimize speed)) (values))",
    "(defun foo (x) (assert (= x 1) (x)) (check-type x integer) (ecase x (1 2)) (typecase x (integer 3)))",
    "(defun foo (f) (funcall f) (funcall 'nope) (mapcar 'nope '(1)))",
    "(defun foo () (list 'a :b nil t pi most-positive-fixnum))",
    "(defun foo () (/= \"a\") (list (if t 1 (print \"a\"))))",
    "(defun foo (a) a) (trace foo) (defun bar () (foo 1)) (defun bar2 () (foo 1 2))",
    "(define-modify-macro addf (n) +) (defun foo (x) (addf x 2))",
    "(defun foo () (print-unreadable-object (1 *standard-output*) 2) (formatter \"~A\"))",
    "(defun again () 1) (defun again () 2) (defmacro again2 () 1) (defmacro again2 () 2)",
])
def test_there_is_no_false_alarm(worker, code):
    assert worker.evaluate(code).warning == [], code
    assert done(worker, "(+ 1 2)").value == ["3"]


@pytest.mark.parametrize("name", LIBRARIES)
def test_the_sources_of_libraries_raise_no_alarm(worker, name):
    if not (SOURCES / name).is_dir():
        pytest.skip(f"{SOURCES / name} is missing: install alexandria's and cl-ppcre's Debian packages")
    texts = [(SOURCES / name / f"{file}.lisp").read_text() for file in LIBRARIES[name]]
    result = done(worker, "\n".join(texts))
    assert result.forms > 200 and result.warning == []


# Whatever happens meanwhile


# What a macro does that behaves while the definition is evaluated, and does not when it is checked.
MISBEHAVIOUR = {
    "errs": '(error "no")',
    "errs without a handler's help": "(invoke-debugger (make-condition 'error))",
    "breaks": "(break)",
    "warns": '(warn "careful")',
    "signals": "(signal 'warning)",
    "prints": '(progn (print 1) (print 2 *error-output*) (print 3 *trace-output*))',
    "quits": "(ext:quit 3)",
    "exits": "(si:exit 3)",
    "aborts": "(abort)",
    "throws": "(throw si::*quit-tag* 1)",
    "throws to nobody": "(throw 'nobody 1)",
    "recurs": "(labels ((r (x) (1+ (r x)))) (r 1))",
    "needs memory": "(make-array 500000000)",
    "expands into itself": "'(odd)",
    "expands into more of itself": "'(list (odd) (odd) (odd))",
    "expands into a deep form": "(let ((form 1)) (dotimes (i 100000) (setf form (list 'list form))) form)",
    "expands into a cycle": "(let ((form (list 'list 1))) (setf (cddr form) form) form)",
    "expands into a cycle of arguments": "(let ((form (list 'foo 1))) (setf (cddr form) form) form)",
    "expands into a form inside itself": "(let ((form (list 'list 1))) (setf (second form) form) form)",
    "expands into bindings without end": "(let ((bindings (list 'x))) (setf (cdr bindings) bindings) `(let ,bindings))",
    "expands into something malformed": "'(let ((5 1 2) . 3) . 4)",
    "leaves the package": "(setf *package* (find-package :keyword))",
    "changes the hook": "(setf *macroexpand-hook* nil)",
    "closes its output": "(setf *standard-output* nil)",
}
ODD = ("(defvar *n* 0) (defmacro odd () (cond (cl-mcp-runtime::*checking* (incf *n*) %s) (t 42)))"
       " (defun foo () (let ((x 1)) (odd)))")


@pytest.mark.parametrize("behaviour", MISBEHAVIOUR)
def test_whatever_an_expander_does_while_a_definition_is_checked_goes_unnoticed(worker, behaviour):
    result = done(worker, ODD % MISBEHAVIOUR[behaviour])
    assert result.value == ["FOO"]
    assert result.stdout is None and result.stderr is None
    assert set(result.warning) <= set(unused("X"))
    assert worker.value("(list (plusp *n*) (foo) (package-name *package*) *macroexpand-hook*)") == (
        '(T 42 "COMMON-LISP-USER" FUNCALL)')
    assert done(worker, "(defun foo () (let ((x 10))))").warning == unused("X")


@pytest.mark.parametrize("stop", ["cancel", "deadline"])
def test_an_expander_that_never_returns_can_be_stopped(worker, stop, tmp_path):
    mark = tmp_path / "checking"
    worker.begin(ODD % f'(progn (close (open "{mark}" :direction :output)) (loop))', time_limit=300 if stop == "deadline" else 0)
    wait_for(mark.exists)
    if stop == "cancel":
        worker.cancel()
    assert worker.result().outcome_name == ("TIMEOUT" if stop == "deadline" else "CANCELLED")
    assert worker.value("(foo)") == "42"


def test_slow_expanders_use_up_the_budget_of_one_definition_only(worker):
    slow = "(let ((end (+ (get-internal-run-time) 30))) (loop while (< (get-internal-run-time) end)) 1)"
    worker.value(f"(progn (defvar *n* 0) (defmacro slow () (when cl-mcp-runtime::*checking* (incf *n*) {slow})))")
    assert done(worker, f"(defun foo (x) {'(slow) ' * 20}) (defun bar (y) 1)").warning == unused("Y")
    assert 0 < int(worker.value("*n*")) < 5


@pytest.mark.parametrize("code", [
    "(defun foo () '#1=(a (let ((x 1)) . #1#) . #1#))",
    "(defmacro ignoring (&rest code) (declare (ignore code)) 1) (defun foo () (ignoring . #1=(1 (progn #1#) . #1#)))",
    "(progn '#1=(progn #1# . #1#) (defun foo () 1))",
])
def test_cycles_in_the_code_are_no_obstacle(worker, code):
    assert done(worker, code).warning == []


def test_expanding_again_leaves_no_trace_in_names(zygote, careful_zygote):
    with zygote.spawn() as worker, careful_zygote.spawn() as careful:
        for code in ("(gensym)", "(defun foo (x) (push 1 (car x)) (loop for y in x collect y))", "(gensym)"):
            result = done(worker, code)
            assert result.value == done(careful, code).value
    assert result.value != ["#:G1"]


def test_without_the_recipe_nothing_is_checked():
    with Zygote(["--without", "lint"]) as careful, careful.spawn() as worker:
        assert done(worker, "(defun foo () (let ((x 10))) (nope y))").warning == []
        assert done(worker, "(warn \"signalled\")").warning == ["WARNING: signalled"]


TEN_LINES = """(defun ten-lines (table &key (limit 10) verbose)
  "Sums what is not too big."
  (let ((total 0)
        (seen '()))
    (loop for key being the hash-keys of table using (hash-value value)
          do (cond ((null value) (when verbose (format t "~S is empty~%" key)))
                   ((and (numberp value) (< value limit))
                    (incf total value)
                    (push key seen))))
    (values total (nreverse seen))))"""


def test_ten_lines_are_checked_within_three_milliseconds(worker):
    assert done(worker, TEN_LINES).warning == []
    milliseconds = worker.value(f"""
      (flet ((run ()
               (let ((start (get-internal-run-time)))
                 (dotimes (i 20) (let ((cl-mcp-runtime::*notes* nil)) (cl-mcp-runtime::check-definitions '{TEN_LINES})))
                 (- (get-internal-run-time) start))))
        (/ (loop repeat 10 minimize (run)) 20 (/ internal-time-units-per-second 1000.0)))""")
    assert float(milliseconds) < 3


# The same outcome with the checks and without them

SEEDS = """
(defun foo (a b &optional (c 1 cp) &rest d &key e ((:f g) 2) &aux (h a)) "doc" (declare (ignore b)) (list a c cp d e g h))
(defmacro foo (&whole w (a b) &key c &environment e &body d) `(let ((,a ,b)) ,@d ,c))
(defmethod foo :around ((a integer) (b (eql 3)) &optional c) (call-next-method) (let ((x c)) x))
(defgeneric foo (a b) (:method ((a symbol) b) (list a b)) (:documentation "doc"))
(defun (setf foo) (new old) (setf (car old) new))
(deftype foo (&optional (a 0)) `(integer ,a))
(define-compiler-macro foo (&whole w a) (if a w 1))
(let ((n 0) (m 1)) (declare (special m)) (defun foo () (incf n m)))
(flet ((f (x) x)) (labels ((g (y) (f y))) (defun foo (z) (g z))))
(macrolet ((m (x) `(list ,x))) (symbol-macrolet ((s (m 1))) (defun foo () s)))
(progn (eval-when (:execute) (defun foo () 1)) (locally (declare (optimize speed)) (defun bar () (foo))))
(defun foo (x) (loop for (a b) in x for i from 0 when a collect (cons b i) into l finally (return l)))
(defun foo (x) (handler-case (car x) (error (e) (print e)) (:no-error (v) v)))
(defun foo (x) (restart-case (error "x") (mine (v) :report "r" :test (lambda (c) c) v)))
(defun foo (x) (multiple-value-bind (a b) (floor x 2) (destructuring-bind (c (d . e) &key f) (list a b) (list c d e f))))
(defun foo (x) (prog ((i 0) j) a (setq j i i (1+ i)) (when (< i x) (go a)) (return j)))
(defun foo (x) (do ((i 0 (1+ i))) ((> i x) i) (case i (1 2) (t (dolist (y x) (dotimes (z y) (print z)))))))
(defun foo (x) (block b (tagbody c (unwind-protect (catch 'd (throw 'd 1)) (return-from b (the fixnum x))) (go c))))
(defun foo (x) (flet ((f (y &optional z) (list y z))) (macrolet ((m (a) `(f ,a ,a))) (m x) #'f ((lambda (q) q) 1))))
(defun foo (x) (with-slots (a b) x (setf a (car b)) (with-output-to-string (s) (format s "~A" a))))
(defun foo (x) (ecase x ((1 2) (load-time-value (list 1))) (3 (progv '(v) (list x) (multiple-value-call #'list x)))))
""".strip().splitlines()

WORDS = """a b x foo nil t () 1 -2 2.5 "s" #\\a :k &optional &rest &key &aux &body &whole declare ignore special let let* lambda
function quote progn setq if block tagbody go flet labels macrolet symbol-macrolet the locally eval-when load-time-value defun defmacro
defmethod defgeneric handler-case restart-case multiple-value-bind destructuring-bind loop cond do prog case car + nope #'nope 'x `(,x)
ext:compiler-let ffi:c-inline ext:lambda-block si:while unwind-protect catch return-from""".split()


def tokens(text):
    return re.findall(r'"(?:\\.|[^"])*"|#\\\w|#\'|,@|[()\'`,]|[^\s()\'`,"]+', text)


def parse(stream):
    """A tree of lists, tokens, and pairs of a prefix and what it stands before."""
    token = stream.pop(0)
    if token == "(":
        items = []
        while stream[0] != ")":
            items.append(parse(stream))
        stream.pop(0)
        return items
    if token in ("'", "`", ",", ",@", "#'"):
        return (token, parse(stream))
    return token


def unparse(tree):
    if isinstance(tree, list):
        return "(" + " ".join(map(unparse, tree)) + ")"
    return tree[0] + unparse(tree[1]) if isinstance(tree, tuple) else tree


def lists_in(tree):
    found = []
    if isinstance(tree, tuple):
        return lists_in(tree[1])
    if isinstance(tree, list):
        found.append(tree)
        for item in tree:
            found += lists_in(item)
    return found


def random_code(chance, depth=0):
    if depth > 4 or chance.random() < 0.4:
        return chance.choice(WORDS)
    items = [random_code(chance, depth + 1) for _ in range(chance.randrange(5))]
    if len(items) > 1 and chance.random() < 0.05:
        items.insert(-1, ".")
    return "(" + " ".join(items) + ")"


def mutated(chance):
    """A definition with a few things removed, doubled, moved, replaced or dotted."""
    tree = parse(tokens(chance.choice(SEEDS)))
    everywhere = lists_in(tree)
    for _ in range(chance.choice([1, 1, 2, 3])):
        target = chance.choice(everywhere)
        at = chance.randrange(len(target)) if target else 0
        other = chance.choice(lists_in(chance.choice(everywhere)))
        change = chance.randrange(6)
        if change == 0 and target:
            del target[at]
        elif change == 1 and target:
            target.insert(at, target[at] if not isinstance(target[at], list) else unparse(target[at]))
        elif change == 2:
            target.insert(at, unparse(other))
        elif change == 3 and target:
            target[at] = random_code(chance, 2)
        elif change == 4 and len(target) > 1 and "." not in target:
            target.insert(-1, ".")
        else:
            chance.shuffle(target)
    return unparse(tree)


def defined_at_random(chance):
    operator = chance.choice("defun defmacro defmethod defgeneric deftype define-compiler-macro".split())
    return f"({operator} foo {' '.join(random_code(chance) for _ in range(chance.randrange(4)))})"


def seen(worker, code):
    """What evaluating the code does, but for static warnings, the addresses of objects, and the message of an error: what
    ECL says of malformed code depends on what it finds behind it in memory, and sometimes it crashes on that."""
    try:
        result = worker.evaluate(code)
    except EOFError:
        return "CRASH", None
    if result.kind == "f":
        return "CRASH", None
    facts = (result.error_type, result.value, result.stdout, result.stderr, result.forms, result.package, result.frame)
    return result.outcome_name, re.sub(r"0x[0-9a-f]+", "0x", repr(facts))


@pytest.mark.parametrize("make", [mutated, defined_at_random], ids=["mutated", "random"])
@pytest.mark.parametrize("seed", range(4))
def test_an_evaluation_ends_as_it_does_without_the_checks(zygote, careful_zygote, make, seed):
    chance = random.Random(seed)
    codes = [make(chance) for _ in range(250)]
    ends = set()
    while codes:
        with zygote.spawn() as worker, careful_zygote.spawn() as careful:
            crashed = False
            while codes and not crashed:
                code = codes.pop()
                with_checks, without = seen(worker, code), seen(careful, code)
                crashed = "CRASH" in (with_checks[0], without[0])
                assert with_checks == without or (crashed and without[0] != "DONE"), code
                ends.add(with_checks[0])
    assert {"DONE", "ERROR"} <= ends


@pytest.mark.parametrize("make", [mutated, defined_at_random], ids=["mutated", "random"])
@pytest.mark.parametrize("seed", range(4))
def test_code_that_only_the_checks_see_may_be_anything(zygote, make, seed):
    chance = random.Random(seed)
    checked = 0
    with zygote.spawn() as worker:
        for _ in range(250):
            code = f"(defmacro odd () (if cl-mcp-runtime::*checking* '{make(chance)} 42)) (defun bar () (odd))"
            result = worker.evaluate(code)
            if result.kind == "r" and result.error_type == "READER-ERROR":
                continue
            assert result.kind == "r" and result.value == ["BAR"], (code, result)
            assert result.stdout is None and result.stderr is None, (code, result)
            checked += 1
    assert checked > 200
