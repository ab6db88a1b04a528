;;;; harmless.lisp - which forms may be evaluated once more: those that define, and those that make a value and do nothing.
;;;;
;;;; What is on no list here counts as having an effect.

(in-package :cl-mcp-runtime)

(defparameter *making*
  '(+ - * / 1+ 1- abs max min mod rem floor ceiling truncate round expt sqrt exp ash logior logand float rational complex
    list list* cons append copy-list copy-tree copy-seq acons pairlis reverse make-list vector make-array make-string string
    string-upcase string-downcase concatenate make-hash-table char code-char char-code not identity constantly pathname)
  "Functions of Lisp's own that make a new object of what they are given.")

(defparameter *reading*
  '(car cdr caar cadr cdar cddr first second third fourth fifth rest last nth nthcdr elt aref svref gethash length list-length
    assoc member find position count getf get symbol-value symbol-function fdefinition symbol-plist boundp fboundp
    macro-function null eq eql equal equalp = /= < > <= >= zerop plusp minusp evenp oddp atom consp listp numberp integerp
    stringp symbolp functionp characterp typep type-of class-of find-class hash-table-count hash-table-p array-dimensions
    find-package package-name documentation macroexpand macroexpand-1 apropos apropos-list describe princ prin1 print
    write-line terpri fresh-line format)
  "Those that look at an object, or print it: an answer had that, and it is over.")

(defun quasiquoted-p (form)
  (eq (first form) 'si::quasiquote))

(defun harmless-arguments-p (arguments looking)
  (and (listp (cdr (last arguments)))
       (every (lambda (argument) (harmless-p argument looking)) arguments)))

(defun prints-here-p (form)
  "True unless FORM prints to a stream that somebody might have elsewhere, or by functions of the user's."
  (case (first form)
    (format (and (eq (second form) t) (stringp (third form)) (not (find #\/ (third form)))))
    ((princ prin1 print write-line) (null (cddr form)))
    ((terpri fresh-line) (null (cdr form)))
    (t t)))

(defun known-function-p (name)
  "True for a function of Lisp's own; one of the user's may be called by what it is given to."
  (and (symbolp name) (eq (symbol-package name) (find-package "COMMON-LISP"))))

(defun harmless-p (form &optional looking)
  "True if evaluating FORM does nothing but make a value, the same as the first time. If LOOKING, it need not be the same:
FORM may look at variables and at what they hold."
  (cond ((symbolp form) (or (constantp form)
                            (and looking (not (si:get-sysprop form 'si:symbol-macro)))))
        ((atom form) t)
        ((not (symbolp (first form))) nil)
        ((eq (first form) 'quote) t)
        ((member (first form) '(lambda function)) (or (not looking) (known-function-p (second form))))
        ((quasiquoted-p form) (harmless-p (macroexpand-1 form) looking))
        ((or (member (first form) *making*)
             (and looking (member (first form) *reading*) (prints-here-p form)))
         (harmless-arguments-p (rest form) looking))))

;;; Definitions

(defparameter *defining*
  '(defun defmacro define-compiler-macro define-modify-macro defsetf define-setf-expander define-symbol-macro deftype
    define-method-combination defgeneric defstruct defpackage in-package declaim)
  "What only defines, whatever stands in it.")

(defparameter *arranging*
  '(export unexport import use-package unuse-package shadow shadowing-import make-package rename-package proclaim)
  "What only defines if its arguments are harmless.")

(defparameter *enclosing*
  '(let let* flet labels macrolet symbol-macrolet)
  "What only defines if its body does, and its variables are harmless.")

(defun body-forms (form)
  "Those inside of FORM that are evaluated for themselves: PROGN and its like."
  (case (first form)
    (eval-when (and (intersection '(:execute eval) (second form)) (cddr form)))
    (t (remove-if (lambda (inner) (and (consp inner) (eq (first inner) 'declare))) (rest form)))))

(defun harmless-binding-p (binding)
  (or (symbolp binding) (harmless-p (second binding))))

(defun binds-harmlessly-p (form)
  (or (not (member (first form) '(let let*)))
      (every #'harmless-binding-p (second form))))

(defun harmless-specializer-p (specializer)
  (or (symbolp specializer)
      (and (eq (first specializer) 'eql) (harmless-p (second specializer) t))))

(defun slot-evaluated-p (slot)
  "True if defining the class would evaluate the initial value of SLOT, as it is written, and that may have an effect."
  (and (consp slot)
       (eq (getf (cdr slot) :allocation) :class)
       (not (harmless-p (getf (cdr slot) :initform)))))

(defun definer-p (form)
  "True if FORM is a call of a macro that is named like one that defines."
  (let ((name (symbol-name (first form))))
    (and (macro-function (first form))
         (> (length name) 3)
         (string= "DEF" name :end2 3))))

(defun function-place-p (place)
  (and (consp place)
       (member (first place) '(fdefinition symbol-function))
       (consp (second place))
       (eq (first (second place)) 'quote)))

(defun sets-function-p (form)
  "True for (SETF (FDEFINITION 'F) (LAMBDA ...))."
  (and (eq (first form) 'setf)
       (= (length form) 3)
       (function-place-p (second form))
       (consp (third form))
       (member (first (third form)) '(lambda function))
       (harmless-p (third form))))

(defun definition-p (form)
  "True if all that FORM does is to define, so that it can be evaluated as a whole."
  (and (consp form)
       (symbolp (first form))
       (or (member (first form) *defining*)
           (sets-function-p form)
           (case (first form)
             ((defvar defparameter defconstant) (harmless-p (third form)))
             ((defclass define-condition) (notany #'slot-evaluated-p (fourth form)))
             (defmethod (every #'harmless-specializer-p (specializer-names (find-if #'listp (cddr form)))))
             ((progn locally eval-when) (every #'defines-or-nothing-p (body-forms form))))
           (and (member (first form) *arranging*) (harmless-arguments-p (rest form) nil))
           (and (member (first form) *enclosing*) (binds-harmlessly-p form) (every #'defines-or-nothing-p (body-forms (rest form))))
           (and (definer-p form) (definition-p (macroexpand-1 form))))
       t))

(defun defines-or-nothing-p (form)
  (or (harmless-p form)
      (definition-p form)))
