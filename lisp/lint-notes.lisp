;;;; lint-notes.lisp - what was noticed in definitions, until the end of the call tells which of it is worth a warning.
;;;;
;;;; A note is a function: called at the end, it returns the warnings that hold then. So a function may be used before the
;;;; form that defines it, and the definition that counts is the last.

(in-package :cl-mcp-runtime)

;; Any object may stand anywhere in the code that is looked at. With less safety a wrong one is a crash instead of an error.
(eval-when (:compile-toplevel)
  (proclaim '(optimize (safety 2))))

(defvar *notes* '()
  "The notes of this call, newest first.")

(defvar *defined-inside* '()
  "The names of functions and variables that bodies will define once they run.")

(defmacro note (&body body)
  "Note BODY, which returns a list of warnings."
  `(push (lambda () ,@body) *notes*))

;;; Variables

(defun note-unused (record)
  "RECORD, of a local variable, will tell whether it is used."
  (let ((package *package*))
    (note
      (unless (third record)
        (let ((*package* package))
          (list (format nil "STYLE-WARNING: The variable ~S is defined but never used." (first record))))))))

(defun own-name-p (name)
  "True for names that only ECL itself would use, and those that nobody could have given on purpose."
  (or (null (symbol-package name))
      (and (own-package-p (symbol-package name))
           (not (eq (symbol-package name) (load-time-value (find-package "COMMON-LISP")))))))

(defun note-free-variable (name)
  (unless (or (si:specialp name) (constantp name) (boundp name) (own-name-p name))
    (note
      (unless (or (si:specialp name) (constantp name) (boundp name) (member name *defined-inside*))
        (list (format nil "WARNING: undefined variable: ~A" (qualified-name name)))))))

;;; Functions

(defun block-name (name)
  "FOO for FOO and for (SETF FOO)."
  (if (consp name) (second name) name))

(defun defined-p (name)
  (or (fboundp name) (member name *defined-inside* :test #'equal)))

(defun note-function (name)
  "NAME is that of a global function; it should be defined in the end."
  (unless (own-name-p (block-name name))
    (note
      (unless (defined-p name)
        (list (format nil "STYLE-WARNING: undefined function: ~A" (qualified-name name)))))))

(defun lambda-list-counts (lambda-list)
  "The least and the most arguments that LAMBDA-LIST takes; NIL for the most if there is none."
  (loop with least = 0 and optional = 0 and required = t
        for item in lambda-list
        do (case item
             ((&rest &key &body) (return (list least nil)))
             (&aux (loop-finish))
             (&optional (setf required nil))
             (t (if required (incf least) (incf optional))))
        finally (return (list least (+ least optional)))))

(defun interpreted-lambda-list (function)
  "The lambda list of FUNCTION, and true if it is known for certain."
  (if (typep function 'generic-function)
      (values (clos:generic-function-lambda-list function) t)
      (let ((expression (function-lambda-expression function)))
        (values (if (eq (first expression) 'lambda) (second expression) (third expression))
                (and expression t)))))

(defun global-counts (name)
  "The least and the most arguments of the function that NAME has now, as a list; NIL if they are not known."
  (unless (and (symbolp name) (or (macro-function name) (special-operator-p name)))
    (multiple-value-bind (lambda-list known) (interpreted-lambda-list (fdefinition name))
      (and known (lambda-list-counts lambda-list)))))

(defun wrong-count-p (count counts)
  (destructuring-bind (least most) counts
    (or (< count least) (and most (> count most)))))

(defun count-complaint (class name count counts)
  (destructuring-bind (least most) counts
    (multiple-value-bind (word bound) (cond ((eql least most) (values "exactly" least))
                                            ((< count least) (values "at least" least))
                                            (t (values "at most" most)))
      (format nil "~A: The function ~S is called with ~R argument~:P, but wants ~A ~R." class name count word bound))))

(defun note-count (class name count counts)
  "The function NAME, which takes COUNTS, is called with COUNT arguments. NIL: there is no end of them."
  (when (and count (wrong-count-p count counts))
    (let ((package *package*))
      (note
        (let ((*package* package))
          (list (count-complaint class name count counts)))))))

(defun note-user-call (name count)
  "The user's global function NAME is called with COUNT arguments. Which it wants is known in the end."
  (let ((package *package*))
    (note
      (let ((counts (and (fboundp name) (global-counts name)))
            (*package* package))
        (when (and count counts (wrong-count-p count counts))
          (list (count-complaint "STYLE-WARNING" name count counts)))))))

(defun literal (form)
  "The value of FORM and true, if that can be seen."
  (cond ((or (numberp form) (stringp form) (characterp form) (keywordp form) (member form '(nil t)))
         (values form t))
        ((and (consp form) (eq (first form) 'quote) (typep (second form) '(or cons symbol number string character)))
         (values (second form) t))))

(defun note-types (name arguments)
  "The standard function NAME is called with the forms ARGUMENTS."
  (map-argument-types
   (lambda (argument type)
     (multiple-value-bind (value known) (literal argument)
       (when (and known (not (typep value type)))
         (note
           (list (format nil "WARNING: Constant ~A conflicts with its asserted type ~S."
                         (object-text value) type))))))
   name arguments))

(defun note-call (name arguments written)
  "The global function NAME is called with the forms ARGUMENTS. WRITTEN: by the user, not by a macro."
  (let ((counts (standard-counts name)))
    (cond (counts
           (when written
             (note-count "WARNING" name (list-length arguments) counts)
             (note-types name arguments)))
          ((not (own-name-p name))
           (note-function name)
           (note-user-call name (list-length arguments))))))

;;; Redefinition

(defun function-file (name)
  "The file that the function or macro NAME was loaded from; NIL if it was defined at the prompt."
  (when (and (si:valid-function-name-p name) (fboundp name))
    (let ((function (or (and (symbolp name) (macro-function name)) (fdefinition name))))
      (and (functionp function)
           (values (ext:compiled-function-file function))))))

(defun note-redefinition (name operator)
  "NAME is about to be defined by OPERATOR."
  (when (function-file name)
    (note
      (list (format nil "STYLE-WARNING: redefining ~A in ~A" (qualified-name name) operator)))))

;;; The end of the call

(defun warnings-noted ()
  "The warnings that hold, in the order of the code; those that say nothing new are left out."
  (let ((known (make-hash-table :test 'equal)))
    (loop for note in (reverse *notes*)
          append (loop for text in (ignore-errors (funcall note))
                       unless (and (search "undefined" text) (gethash text known))
                         collect (setf (gethash text known) text)))))
