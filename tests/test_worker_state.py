"""The operations save-state and restore-state: what one process had, another has, and what cannot be kept is named."""
import re
import stat

import pytest

from worker_driver import new_session_id, worker, zygote  # noqa: F401

# What is defined, what is then evaluated in the new process, and its value there.
KEPT = {
    "functions": ("(defun f (x &optional (y 2) &key z) \"Says.\" (list x y z))",
                  "(list (f 1) (documentation 'f 'function))", '((1 2 NIL) "Says.")'),
    "functions as they were defined last": ("(defun f () 1) (defun f () 2)", "(f)", "2"),
    "functions that call one another": ("(defun odd (n) (if (= n 0) nil (even (1- n))))"
                                        "(defun even (n) (if (= n 0) t (odd (1- n))))", "(odd 7)", "T"),
    "backquote in functions": ("(defun f (x y) `(a ,x ,@y `(b ,,x)))", "(third (f 1 '(2)))", "2"),
    "setf functions": ("(defvar *x* 0) (defun (setf f) (v) (setf *x* v))", "(progn (setf (f) 5) *x*)", "5"),
    "functions without DEFUN": ("(setf (fdefinition 'f) (lambda (x) (* 2 x)))", "(f 4)", "8"),
    "other names of functions": ("(defun f () 3) (setf (fdefinition 'g) #'f) (setf (fdefinition 'h) #'car)",
                                 "(list (g) (h '(1)))", "(3 1)"),
    "functions that were compiled": ("(defun f (x) (+ x 1)) (compile 'f)", "(f 1)", "2"),
    "macros": ("(defmacro m (x &body body) `(list ,x ,@body))", "(m 1 2 3)", "(1 2 3)"),
    "macros that functions use": ("(defmacro m (x) `(* 2 ,x)) (defun f (x) (m x))", "(f 4)", "8"),
    "a macro that came again after its use": ("(defmacro m (x) `(* 2 ,x)) (defun f (x) (m x)) (defmacro m (x) `(* 2 ,x))",
                                              "(f 4)", "8"),
    "macros that need functions": ("(defun h (x) (* x 2)) (defmacro m (x) (h x)) (defun f () (m 21))", "(f)", "42"),
    "macros that need values": ("(defparameter *t* '((a . 1))) (defmacro m (k) (cdr (assoc k *t*))) (defun f () (m a))",
                                "(f)", "1"),
    "modify macros": ("(define-modify-macro appendf (&rest l) append)", "(let ((x '(1))) (appendf x '(2)) x)", "(1 2)"),
    "symbol macros": ("(defvar *c* (list 1 2)) (define-symbol-macro c (car *c*))", "(progn (setf c 5) *c*)", "(5 2)"),
    "compiler macros": ("(defun f (x) x) (define-compiler-macro f (x) `(list ,x))",
                        "(funcall (compiler-macro-function 'f) '(f 1) nil)", "(LIST 1)"),
    "defsetf": ("(defvar *v* 1) (defun v () *v*) (defun sv (x) (setf *v* x)) (defsetf v sv)", "(progn (setf (v) 3) *v*)", "3"),
    "setf expanders": ("(define-setf-expander q (x) (values nil nil '(n) `(setq ,x n) x))", "(let ((z 1)) (setf (q z) 2) z)",
                       "2"),
    "types": ("(deftype small (&optional (n 10)) `(integer 0 ,n))", "(list (typep 5 'small) (typep 11 'small))", "(T NIL)"),
    "classes": ("(defclass p () ((x :initarg :x :initform 7 :accessor x))) (defclass q (p) ())",
                "(list (x (make-instance 'q)) (setf (x (make-instance 'p)) 4))", "(7 4)"),
    "classes in the wrong order": ("(defclass q (p) ()) (defclass p () ((x :initform 7 :reader x)))",
                                   "(x (make-instance 'q))", "7"),
    "instances": ("(defclass p () ((x :initarg :x :accessor x) (y))) (defvar *p* (make-instance 'p :x '(1 2)))",
                  "(list (x *p*) (slot-boundp *p* 'y))", "((1 2) NIL)"),
    "slots of classes": ("(defclass p () ((n :allocation :class :initform 0 :accessor n))) (setf (n (make-instance 'p)) 9)",
                         "(n (make-instance 'p))", "9"),
    "structures": ("(defstruct (p (:conc-name nil) (:constructor mk (a b))) a (b 2 :type fixnum))"
                   "(defstruct (q (:include p)) c) (defvar *q* (make-q :a 1 :c 3))",
                   "(list (a *q*) (b (mk 1 5)) (q-c *q*) (p-p *q*) (p-p 1) (a (copy-q *q*)))", "(1 5 3 T NIL 1)"),
    "structures with a predicate of another name": ("(defstruct (p (:predicate is-p) (:copier cp)) a)",
                                                    "(list (is-p (cp (make-p))) (is-p 1))", "(T NIL)"),
    "structures of lists": ("(defstruct (p (:type list) :named) a b)", "(list (make-p :a 1) (p-b (make-p :b 2)))", "((P 1 NIL) 2)"),
    "conditions": ("(define-condition c (error) ((x :initarg :x :reader x)) (:report (lambda (c s) (format s \"x ~A\" (x c)))))",
                   "(handler-case (error 'c :x 5) (c (c) (princ-to-string c)))", '"x 5"'),
    "generic functions": ("(defgeneric g (x) (:documentation \"Does.\") (:method ((x integer)) (* 2 x)))"
                          "(defmethod g :around ((x integer)) (1+ (call-next-method))) (defmethod g ((x (eql :k))) 'key)"
                          "(defmethod (setf g) (v (x integer)) (list v x))",
                          "(list (g 4) (g :k) (setf (g 1) 2) (documentation 'g 'function))", '(9 KEY (2 1) "Does.")'),
    "methods that are gone stay gone": ("(defmethod g ((x integer)) 1) (defmethod g ((x t)) 2)"
                                        "(remove-method #'g (find-method #'g () (list (find-class 'integer))))", "(g 1)", "2"),
    "methods of others' functions": ("(defclass p () ()) (defmethod print-object ((p p) s) (write-string \"<P>\" s))",
                                     "(make-instance 'p)", "<P>"),
    "variables": ("(defvar *x* 1 \"One.\") (defparameter *y* \"text\") (setf z :key)",
                  "(list (let ((*x* 2)) (symbol-value '*x*)) *y* z (documentation '*x* 'variable))", '(2 "text" :KEY "One.")'),
    "variables without a value": ("(defvar *x*)", "(list (boundp '*x*) (let ((*x* 2)) (symbol-value '*x*)))", "(NIL 2)"),
    "constants": ("(defconstant +x+ 26) (defconstant +l+ '(1 2))", "(list +x+ +l+ (constantp '+x+))", "(26 (1 2) T)"),
    "numbers": ("(defvar *x* (list 1 -2/3 1.5 2d0 #c(1 2) (expt 2 100) pi most-positive-double-float))",
                "(and (eql (nth 6 *x*) pi) (eql (nth 7 *x*) most-positive-double-float) (butlast *x* 2))",
                "(1 -2/3 1.5 2.0d0 #C(1 2) 1267650600228229401496703205376)"),
    "infinite numbers": ("(defvar *x* ext:double-float-negative-infinity)", "(eql *x* ext:double-float-negative-infinity)", "T"),
    "characters and strings": ("(defvar *x* (list #\\a #\\Nul #\\Newline #\\λ (format nil \"a\\\"b~%λ~C\" (code-char 0))))",
                               "(list (first *x*) (length (fifth *x*)) (char-code (char (fifth *x*) 4)))", "(#\\a 6 955)"),
    "strings that grow": ("(defvar *x* (make-array 3 :element-type 'character :fill-pointer 2 :adjustable t :initial-element #\\a))",
                          "(progn (vector-push-extend #\\b *x*) (vector-push-extend #\\c *x*) *x*)", '"aabc"'),
    "symbols": ("(defvar *x* (list 'foo :bar 'car '|odd name| nil))", "(list *x* (eq (first *x*) 'foo))",
                "((FOO :BAR CAR |odd name| NIL) T)"),
    "symbols without a package": ("(defvar *x* (let ((g (gensym))) (list g g)))",
                                  "(list (eq (first *x*) (second *x*)) (symbol-package (first *x*)))", "(T NIL)"),
    "arrays": ("(defvar *x* (vector 1 \"b\" #(3))) (defvar *y* #2A((1 2) (3 4)))"
               "(defvar *z* (make-array 3 :element-type '(unsigned-byte 8) :initial-contents '(1 2 255))) (defvar *b* #*101)",
               "(list *x* *y* *z* (equal (array-element-type *z*) '(unsigned-byte 8)) *b*)",
               '(#(1 "b" #(3)) #2A((1 2) (3 4)) #(1 2 255) NIL #*101)'),
    "hash tables": ("(defvar *x* (make-hash-table :test 'equal)) (setf (gethash \"a\" *x*) 1 (gethash '(b) *x*) *x*)",
                    "(list (gethash \"a\" *x*) (eq *x* (gethash '(b) *x*)) (hash-table-test *x*))", "(1 T EQUAL)"),
    "tables of instances": ("(defstruct k n) (defvar *k* (make-k :n 1)) (defvar *x* (make-hash-table))"
                            "(setf (gethash *k* *x*) :found)", "(values (gethash *k* *x*))", ":FOUND"),
    "pathnames": ("(defvar *x* #p\"/tmp/a b*.lisp\")", "*x*", '#P"/tmp/a b*.lisp"'),
    "strings that values share": ("(defvar *x* (list (copy-seq \"a\"))) (defvar *y* (first *x*))", "(progn (setf (char *y* 0) #\\b) *x*)", '("b")'),
    "circles": ("(defvar *x* (let ((x (list 1 2))) (setf (cddr x) x) x))", "(list (eq *x* (cddr *x*)) (second *x*))", "(T 2)"),
    "what values share": ("(defvar *x* (list 1 (vector 2))) (defvar *y* (list *x* (second *x*)))",
                          "(list (eq *x* (first *y*)) (eq (second *x*) (second *y*)))", "(T T)"),
    "objects that refer to each other": ("(defstruct n next) (defvar *x* (make-n)) (setf (n-next *x*) (make-n :next *x*))",
                                         "(eq *x* (n-next (n-next *x*)))", "T"),
    "what is nested deeply": ("(defvar *x* (let ((x nil)) (dotimes (i 1500) (setf x (list x))) x))",
                              "(loop with x = *x* while x count t do (setf x (car x)))", "1500"),
    "long lists": ("(defvar *x* (loop for i below 100000 collect i))", "(list (length *x*) (reduce #'+ *x*))",
                   "(100000 4999950000)"),
    "functions as values": ("(defun f (x) (* 2 x)) (defvar *x* (list #'f #'car (lambda (x) (1+ x))))",
                            "(list (funcall (first *x*) 4) (eq (second *x*) #'car) (funcall (third *x*) 1) (eq #'f (first *x*)))",
                            "(8 T 2 T)"),
    "packages and classes as values": ("(defclass p () ()) (defvar *x* (list (find-package :cl) (find-class 'p)))",
                                       "(equal *x* (list (find-package :cl) (find-class 'p)))", "T"),
    "property lists": ("(setf (get 'a 'color) '(red))", "(get 'a 'color)", "(RED)"),
    "packages": ("(defpackage :one (:nicknames :uno) (:use :cl) (:shadow #:car) (:export #:thing #:car))"
                 "(defpackage :two (:use :cl :one) (:shadowing-import-from :one #:car) (:import-from :one #:thing) (:intern #:x))"
                 "(defun one:thing () 1) (defun one::hidden () 2)",
                 "(list (one:thing) (uno::hidden) (eq 'two::car 'one:car) (eq 'one::car 'cl:car) (package-use-list :uno))",
                 "(1 2 T NIL (#<\"COMMON-LISP\" package>))"),
    "what CL-USER uses and imports": ("(defpackage :lender (:use :cl) (:export #:lent)) (defun lender:lent () :lent)"
                                      "(use-package :lender)", "(list (lent) (eq 'lent 'lender:lent))", "(:LENT T)"),
    "the current package": ("(defpackage :mine (:use :cl)) (in-package :mine) (defun f () 1)", "(list (f) (package-name *package*))",
                            '(1 "MINE")'),
    "symbols of a package that is not current": ("(defpackage :s (:use :cl)) (in-package :s) (defstruct p a) (in-package :cl-user)",
                                                 "(s::p-a (s::make-p :a 1))", "1"),
    "what reading and printing depend on": ("(setf *print-base* 16 *read-default-float-format* 'double-float)", "(list 255 1.5)",
                                            "(FF 1.5)"),
    "the directory": ('(ext:chdir "/usr/") (setf *default-pathname-defaults* #p"/usr/lib/")',
                      "(list (ext:getcwd) *default-pathname-defaults*)", '(#P"/usr/" #P"/usr/lib/")'),
    "closures": ("(let ((n 5)) (defun next () (incf n)))", "(list (next) (next))", "(6 7)"),
    "what closures share": ("(let ((n 0)) (defun next () (incf n)) (defun (setf cur) (v) (setf n v))"
                            " (let ((m 7)) (defun both () (list n m)))) (next)", "(list (both) (setf (cur) 4) (next) (both))",
                            "((1 7) 4 5 (5 7))"),
    "closures over two variables of one name": ("(let ((n 0)) (defun f () (incf n)) (let ((m n)) (defun g () (list m (incf n))))"
                                                " (let ((m 5)) (defun h () (list n m)) (let ((n 9)) (defun i () (list n m)))))",
                                                "(list (f) (g) (h) (i))", "(1 (0 2) (2 5) (9 5))"),
    "closures over functions": ("(flet ((h (x) (* 2 x))) (defun f () (h 3))) (labels ((down (x) (if (= x 0) :end (down (1- x)))))"
                                " (defun g () (down 3)))", "(list (f) (g))", "(6 :END)"),
    "closures as values": ("(defvar *x* (let ((n 0)) (lambda () (incf n)))) (funcall *x*)", "(list (funcall *x*) (funcall *x*))", "(2 3)"),
    "what closures as values share": ("(let ((n 0)) (defun next () (incf n)) (defvar *x* (list (lambda () n) (lambda (v) (setf n v)) #'next)))"
                                      "(defvar *t* (make-hash-table)) (setf (gethash 1 *t*) (first *x*)) (next)",
                                      "(list (funcall (second *x*) 7) (funcall (gethash 1 *t*)) (next) (eq #'next (third *x*))"
                                      " (funcall (first *x*)) (eq (gethash 1 *t*) (first *x*)))", "(7 7 8 T 8 T)"),
    "closures in instances": ("(defclass c () ((f :initarg :f :accessor f))) (defvar *c* (let ((n 5)) (make-instance 'c :f (lambda () (incf n)))))",
                              "(list (funcall (f *c*)) (funcall (f *c*)))", "(6 7)"),
    "closures that hold themselves": ("(defvar *x* (let ((self nil)) (setf self (lambda (n) (if (= n 0) self (funcall self (1- n)))))))",
                                      "(eq *x* (funcall *x* 3))", "T"),
    "closures from loops": ("(defvar *x* (loop for i from 1 to 3 collect (let ((j (* i 10))) (lambda () (incf j)))))",
                            "(mapcar #'funcall *x*)", "(11 21 31)"),
    "closures in closures": ("(defun adder (n) (lambda (x) (+ x n))) (defvar *x* (let ((f (adder 3))) (lambda (x) (* 2 (funcall f x)))))",
                             "(funcall *x* 4)", "14"),
    "closures whose variables have no package": ("(defmacro counter () (let ((n (gensym))) `(let ((,n 0)) (lambda () (incf ,n)))))"
                                                 "(defvar *x* (counter)) (funcall *x*)", "(funcall *x*)", "2"),
    "macros that closures need, and values that these need": ("(defparameter *k* 7) (defmacro m () *k*) (let ((n 1)) (defun f () (list n (m))))",
                                                              "(f)", "(1 7)"),
    "other readtables": ("(setf *readtable* (copy-readtable)) (setf (readtable-case *readtable*) :preserve)", "(SYMBOL-NAME 'abc)", '"abc"'),
    "macro characters": ("(set-macro-character #\\] (get-macro-character #\\))) (let ((n 0)) (set-macro-character #\\[ (lambda (s c)"
                         " (declare (ignore c)) (list* 'list (incf n) (read-delimited-list #\\] s t)))))", "[2 3]", "(1 2 3)"),
    "characters that dispatch": ("(make-dispatch-macro-character #\\!) (set-dispatch-macro-character #\\! #\\? (lambda (s c n)"
                                 " (declare (ignore c)) (list 'list n (read s)))) (set-dispatch-macro-character #\\# #\\?"
                                 " (get-dispatch-macro-character #\\# #\\c))", "(list !3?4 #?(1 2))", "((3 4) #C(1 2))"),
    "readtables as values": ("(defvar *r* (copy-readtable)) (set-macro-character #\\$ (lambda (s c) (declare (ignore s c)) :money) t *r*)",
                             "(let ((*readtable* *r*)) (list (read-from-string \"$\") (nth-value 1 (get-macro-character #\\$))))",
                             "(:MONEY T)"),
    "what closures share with variables": ("(defvar *t* (make-hash-table)) (let ((table *t*)) (defun put (k) (setf (gethash k table) t)))",
                                           "(list (put 1) (gethash 1 *t*))", "(T T)"),
    "closures of macros that come later": ("(defmacro twice (x) `(* 2 ,x)) (let ((k 3)) (defun f () (twice k)))", "(f)", "6"),
    "what macros of the user's define": ("(defmacro defthing (name) `(progn (defclass ,name () ((x :initform 3 :reader x)))"
                                         "(defmethod size ((n ,name)) 5))) (defthing box)",
                                         "(let ((b (make-instance 'box))) (list (x b) (size b)))", "(3 5)"),
    "what files define": ('(with-open-file (o "/tmp/cl-mcp-state.lisp" :direction :output :if-exists :supersede)'
                          '(print \'(defclass p () ((x :initform 3 :reader x))) o)) (load "/tmp/cl-mcp-state.lisp")'
                          '(delete-file "/tmp/cl-mcp-state.lisp")', "(x (make-instance 'p))", "3"),
    "systems": ("(require :sockets)", '(and (find-package "SB-BSD-SOCKETS") t)', "T"),
}

# What is defined, and the beginning of the line that names it afterwards.
LOST = {
    "streams": ("(defvar *x* (make-string-output-stream))", "*X*: a stream"),
    "streams in something": ("(defvar *x* (list 1 (make-string-output-stream)))", "*X*: a stream in it is gone"),
    "closures over a block": ("(block b (let ((z 1)) (defun f () (return-from b z))))", "F: a closure over Z"),
    "closures over a macro": ("(macrolet ((m () 3)) (let ((y 2)) (defun f () (list (m) y))))", "F: a closure over Y"),
    "streams in what values share": ("(defvar *a* (list 1 (make-string-output-stream))) (defvar *x* (vector *a*))", "*X*: a stream in it is gone"),
    "arrays that are a part of others": ("(defvar *x* (make-array 2 :displaced-to (vector 1 2 3)))", "*X*: an array's displacement in it is gone"),
    "streams in closures": ("(let ((s (make-string-output-stream))) (defun f () s))", "F: a stream in it is gone"),
    "streams in closures that are values": ("(defvar *x* (let ((s (make-string-output-stream)) (n 1)) (lambda () (list s n))))",
                                            "*X*: a stream in it is gone"),
    "closures that are gone in others": ("(defvar *x* (block b (flet ((h () (return-from b 1))) (lambda () (h)))))", "*X*: a function without source"),
    "methods that are closures": ("(let ((n 0)) (defmethod m ((x integer)) (incf n)))", "(METHOD M (INTEGER)): a closure over N"),
    "native functions": ("(setf (fdefinition 'f) (compile nil '(lambda (x) x)))", "F: native code without source"),
    "what is nested too deeply": ("(defvar *x* (let ((x nil)) (dotimes (i 100000) (setf x (list x))) x)) (defvar *y* '((1)))",
                                  "*X*: nested too deeply to be written"),
    "long chains of objects": ("(defstruct n next) (defvar *x* nil) (dotimes (i 100000) (setf *x* (make-n :next *x*)))",
                               "*X*: nested too deeply to be written"),
    "code that is nested too deeply": ("(eval (list 'defun 'f '() (list 'quote (let ((x nil)) (dotimes (i 9000) (setf x (list x))) x))))",
                                       "F: its source holds an object that has no readable form"),
    "what is too big": ("(defvar *x* (make-array 2000000 :element-type '(unsigned-byte 8))) (defvar *y* (vector 1 2))",
                        "*X*: too big to be written"),
    "locks": ("(defvar *x* (mp:make-lock))", "*X*: an object of type MP:LOCK"),
    "random states": ("(defvar *x* (make-random-state t))", "*X*: an object of type RANDOM-STATE"),
    "weak tables": ("(defvar *x* (make-hash-table :weakness :key))", "*X*: an object of type HASH-TABLE"),
    "classes that were made otherwise": ("(clos:ensure-class 'p :direct-superclasses '(standard-object))", "P: a class without source"),
    "instances of a metaclass of the user's": ("(defclass meta (standard-class) ()) (defmethod clos:validate-superclass ((c meta)"
                                               " (s standard-class)) t) (defclass p () () (:metaclass meta))"
                                               " (defvar *x* (make-instance 'p))", "*X*: an object of type P"),
    "objects in code": ("(eval `(defun f () ,(make-hash-table)))", "F: its source holds an object that has no readable form"),
    "macros that fail now": ("(defvar *s* (make-string-output-stream)) (defmacro m () (princ 1 *s*)) (defun f () (m))",
                             "F: The variable "),
    "readers without a source": ("(set-macro-character #\\$ (compile nil '(lambda (s c) (list s c))))",
                                 "*READTABLE*: a function without source in it is gone"),
}


def wake(zygote, file, directory="/tmp"):
    """A new process that has what the file holds, and what it says of it."""
    other = zygote.spawn(directory)
    return other, other.value(str(file), operation="restore-state")


def shown(worker):
    """The definitions, without addresses."""
    return re.sub("0x[0-9a-f]+", "0x", worker.value("all", operation="list-definitions"))


@pytest.mark.parametrize("kind", KEPT)
def test_it_is_kept(zygote, worker, tmp_path, kind):
    before, after, value = KEPT[kind]
    file = tmp_path / (worker.session + ".lisp")
    result = worker.evaluate(before)
    assert result.outcome_name == "DONE", result
    listing = shown(worker)
    assert worker.value(str(file), operation="save-state") == ""
    other, report = wake(zygote, file)
    with other:
        assert report == ""
        assert shown(other) == listing
        assert other.value(after) == value


@pytest.mark.parametrize("kind", LOST)
def test_what_cannot_be_kept_is_named(zygote, worker, tmp_path, kind):
    before, line = LOST[kind]
    file = tmp_path / "state.lisp"
    assert worker.evaluate(before + " (defun kept () 1)").outcome_name == "DONE"
    worker.value(str(file), operation="save-state")
    other, report = wake(zygote, file)
    with other:
        assert any(found.startswith(line) for found in report.split("\n")), report
        assert other.value("(kept)") == "1"


def test_a_traced_function_is_kept_and_its_trace_is_not(zygote, worker, tmp_path):
    worker.evaluate("(defun f (x) (* 2 x)) (defgeneric g (x)) (defmethod g ((x integer)) x) (trace f g)")
    worker.value(str(tmp_path / "state.lisp"), operation="save-state")
    other, report = wake(zygote, tmp_path / "state.lisp")
    with other:
        assert report == "F: it is not traced any more\nG: it is not traced any more"
        result = other.evaluate("(list (f 2) (g 3))")
        assert result.value == ["(4 3)"] and not result.stderr and not result.stdout


def test_a_character_that_no_file_can_hold_costs_nothing_else(zygote, worker, tmp_path):
    worker.evaluate("(defvar *x* (string (code-char #xD800))) (defvar *y* (code-char #xD800)) (defun f () 1)")
    worker.value(str(tmp_path / "state.lisp"), operation="save-state")
    other, report = wake(zygote, tmp_path / "state.lisp")
    with other:
        assert report == "" and other.value("(list *x* (char-code *y*) (f))") == '("?" 55296 1)'


def test_a_directory_that_is_gone_is_named(zygote, worker, tmp_path):
    gone = tmp_path / "gone"
    gone.mkdir()
    worker.evaluate(f'(ext:chdir "{gone}/")')
    worker.value(str(tmp_path / "state.lisp"), operation="save-state")
    gone.rmdir()
    other, report = wake(zygote, tmp_path / "state.lisp")
    with other:
        assert report.startswith("the directory: ")


def test_no_form_is_evaluated_again_for_its_effects(zygote, worker, tmp_path):
    """Each of these would leave a line in the log if it were run."""
    log = tmp_path / "log"
    worker.evaluate(f"""(defun note (x) (with-open-file (s "{log}" :direction :output :if-exists :append
                                                        :if-does-not-exist :create) (print x s)) x)
        (defvar *v* (note 'defvar)) (defparameter *p* (note 'defparameter)) (defconstant +c+ (note 3))
        (defclass c () ((s :initform (note 'slot) :allocation :class) (i :initform (note 'instance) :accessor i)))
        (defvar *i* (make-instance 'c)) (setf (i *i*) 5)
        (defmethod initialize-instance :after ((c c) &key) (note 'initialize))
        (defstruct st (a (note 'default))) (defvar *s* (make-st :a 1))
        (defmethod print-object ((s st) stream) (note 'print) (write-string "ST" stream))
        (defvar *n* 0) (incf *n*) (note 'form) (progn (note 'progn)) (let () (note 'let) (defun inner () 1))
        (eval-when (:execute) (note 'eval-when)) (make-instance 'c)""")
    before = log.read_text()
    worker.value(str(tmp_path / "state.lisp"), operation="save-state")
    other, report = wake(zygote, tmp_path / "state.lisp")
    with other:
        assert report == ""
        assert log.read_text() == before
        assert other.value("(list *v* *p* +c+ *n* (i *i*) (st-a *s*) (slot-value *i* 's) (inner))") == \
            "(DEFVAR DEFPARAMETER 3 1 5 1 SLOT 1)"


def test_what_was_restored_can_be_saved_again(zygote, worker, tmp_path):
    worker.evaluate("(defstruct p a) (defclass c () ((x :initform 1 :reader x))) (defmethod m ((c c)) (x c))"
                    "(defmacro twice (x) `(* 2 ,x)) (defun f (c) (twice (m c))) (defvar *p* (make-p :a (make-instance 'c)))")
    worker.value(str(tmp_path / "one.lisp"), operation="save-state")
    second, report = wake(zygote, tmp_path / "one.lisp")
    with second:
        assert report == ""
        second.value(str(tmp_path / "two.lisp"), operation="save-state")
    third, report = wake(zygote, tmp_path / "two.lisp")
    with third:
        assert report == ""
        assert third.value("(f (p-a *p*))") == "2"


def test_a_form_that_cannot_be_read_costs_nothing_else(zygote, worker, tmp_path):
    """A system that is gone takes with it only what needs it."""
    (tmp_path / "gone.asd").write_text('(defsystem "gone" :components ((:file "gone")))')
    (tmp_path / "gone.lisp").write_text("(defpackage :gone (:use :cl) (:export #:g))\n(in-package :gone)\n(defun g () 1)\n")
    assert worker.evaluate(f'(asdf:load-asd "{tmp_path}/gone.asd") (asdf:load-system "gone")').outcome_name == "DONE"
    assert worker.evaluate("(defun f () (gone:g)) (defun kept () 1) (defvar *x* 'gone:g) (defvar *y* '(2))").outcome_name == "DONE"
    worker.value(str(tmp_path / "state.lisp"), operation="save-state")
    other, report = wake(zygote, tmp_path / "state.lisp")
    with other:
        assert report == ""
        assert other.value("(list (f) *x* *y*)") == "(1 GONE:G (2))"
    (tmp_path / "gone.asd").unlink()
    other, report = wake(zygote, tmp_path / "state.lisp")
    with other:
        assert [line.split(":")[0] for line in report.split("\n")] == ["*X*", "F", "gone"]
        assert other.value("(list (kept) *y*)") == "(1 (2))"


def test_a_session_with_threads_is_not_saved(worker, tmp_path):
    worker.evaluate("(defvar *stop* nil) (mp:process-run-function 'w (lambda () (loop until *stop* do (sleep 0.01))))")
    result = worker.evaluate(str(tmp_path / "state.lisp"), operation="save-state")
    assert result.outcome_name == "ERROR" and result.error_message == "It runs one Lisp thread."
    assert not list(tmp_path.iterdir())
    worker.evaluate("(setf *stop* t)")


def test_the_file_takes_the_place_of_the_last_one_at_once_and_is_the_owners_alone(worker, tmp_path):
    file = tmp_path / "state.lisp"
    for value in (1, 2):
        worker.evaluate(f"(defparameter *x* {value})")
        worker.value(str(file), operation="save-state")
        assert f". {value})" in file.read_text() and stat.S_IMODE(file.stat().st_mode) == 0o600
    assert [entry.name for entry in tmp_path.iterdir()] == ["state.lisp"]


def test_a_file_that_is_cut_or_no_state_is_an_error(zygote, worker, tmp_path):
    file = tmp_path / "state.lisp"
    worker.evaluate("(defun f () 1)")
    worker.value(str(file), operation="save-state")
    whole = file.read_text()
    for text in (whole[:len(whole) // 2], "", "(((", "1 2 3", '"x" #.(ext:quit 7)'):
        file.write_text(text)
        with zygote.spawn() as other:
            result = other.evaluate(str(file), operation="restore-state")
            assert result.outcome_name == "ERROR", text
            assert other.value("(+ 1 1)") == "2"
    file.unlink()
    with zygote.spawn() as other:
        assert other.evaluate(str(file), operation="restore-state").outcome_name == "ERROR"


def test_a_record_that_defines_nothing_is_not_evaluated(zygote, tmp_path):
    file = tmp_path / "state.lisp"
    file.write_text(f'"version" (:version 1)\n"x" (:source "COMMON-LISP-USER" (cl:delete-file "{file}"))\n"end" (:end)')
    other, report = wake(zygote, file)
    with other:
        assert report.startswith("x: ") and file.exists()


def test_thousands_of_definitions_are_kept_within_seconds(zygote, worker, tmp_path):
    worker.evaluate("(dotimes (i 2000) (eval `(defun ,(intern (format nil \"F~D\" i)) (x) (+ x ,i)))"
                    " (eval `(defvar ,(intern (format nil \"*V~D*\" i)) (list ,i))))")
    assert worker.evaluate(str(tmp_path / "state.lisp"), operation="save-state").elapsed < 10e6
    with zygote.spawn() as other:
        result = other.evaluate(str(tmp_path / "state.lisp"), operation="restore-state")
        assert result.value == [""] and result.elapsed < 10e6
        assert other.value("(list (f1999 1) *v7*)") == "(2000 (7))"
