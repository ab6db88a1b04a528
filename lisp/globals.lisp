;;;; globals.lisp - the global variables that reading, macros and printing depend on.
;;;;
;;;; User code may set them as it likes, but a value of the wrong type would make every further evaluation fail, also
;;;; the one that wants to set it right; some crash ECL. So such a value does not live longer than the form that set it.

(in-package :cl-mcp-runtime)

(defconstant +features+ 10000)

(defun feature-list-p (value)
  "A proper list, of a length that somebody may have meant."
  (loop repeat +features+
        while (consp value)
        do (pop value))
  (null value))

(defun living-package-p (value)
  (and (packagep value) (package-name value) t))

(defun callable-p (value)
  (or (functionp value)
      (and value (symbolp value) (fboundp value) t)))

(defun type-specifier-p (value)
  (let ((*break-on-signals* nil))
    (ignore-errors (typep nil value) t)))

(defun main-process-p (value)
  (eq value *main-process*))

(deftype print-limit ()
  '(or null unsigned-byte))

(defvar *initial-features* (copy-list *features*))

(defmacro global (variable type fallback)
  "The name of VARIABLE, whether a value is of TYPE, and what makes a value to put in the place of a wrong one."
  `(list ',variable
         (lambda (value) (typep value ',type))
         (lambda () ,fallback)))

(defparameter *globals*
  (list (global *break-on-signals* (satisfies type-specifier-p) nil) ; first, because mending the others signals
        (global *package* (satisfies living-package-p) (user-package))
        (global *readtable* readtable (copy-readtable nil))
        (global *read-base* (integer 2 36) 10)
        (global *read-suppress* null nil)
        (global *read-default-float-format* (member single-float short-float double-float long-float) 'single-float)
        (global *features* (satisfies feature-list-p) (copy-list *initial-features*))
        (global *print-base* (integer 2 36) 10)
        (global *print-case* (member :upcase :downcase :capitalize) :upcase)
        (global *print-length* print-limit nil)
        (global *print-level* print-limit nil)
        (global *print-lines* print-limit nil)
        (global *print-right-margin* print-limit nil)
        (global *print-miser-width* print-limit nil)
        (global *print-pprint-dispatch* (or null si::pprint-dispatch-table) (copy-pprint-dispatch nil))
        (global *gensym-counter* unsigned-byte 1)
        (global *macroexpand-hook* (satisfies callable-p) 'funcall)
        (global mp:*current-process* (satisfies main-process-p) *main-process*)
        (global ext:*interrupts-enabled* (eql t) t) ; or nothing but force could stop an evaluation
        (global *random-state* random-state (make-random-state t))
        (global *default-pathname-defaults* pathname (ext:getcwd))))

(defun mend (variable fallback)
  "Give VARIABLE a value that works, and say so."
  (let ((wrong (if (boundp variable) (list (symbol-value variable)) nil)))
    (setf (symbol-value variable) (funcall fallback))
    (warn "~A" (with-report-syntax
                 (format nil "~A cannot be ~:[unbound~;~:*~A~]; it is ~A again."
                         variable
                         (and wrong (object-text (first wrong)))
                         (object-text (symbol-value variable)))))))

(defvar *global-names* (map 'simple-vector #'first *globals*))

(defvar *values-tried* (make-array (length *globals*) :initial-element '#:none)
  "The values that were found to be right last: they need not be tried again.")

(defun changed-p ()
  "A package may have been deleted without having been replaced."
  (or (globals-differ-p *global-names* *values-tried*)
      (not (package-name *package*))))

(defun mend-globals ()
  "Called for each form."
  (when (changed-p)
    (loop for (variable right-p fallback) in *globals*
          unless (and (boundp variable) (funcall right-p (symbol-value variable)))
            do (mend variable fallback))
    (note-globals *global-names* *values-tried*)))

(defun mend-readtable ()
  "A readtable may be one and still of no use. If it cannot read lists the standard one takes its place; true if so."
  (unless (equal (let ((*read-suppress* nil)) ; as it is behind #+ and #-
                   (ignore-errors (read-from-string "(1 (0))")))
                 '(1 (0)))
    (setf *readtable* (copy-readtable nil))
    t))

;;; An operation has the standard ones, whatever the session's are

(defvar *outer-globals* '()
  "The session's values, while an operation runs.")

(defvar *later-globals* '()
  "Those that the session shall have when the operation is over.")

(defvar *baseline-globals* '()
  "Those that every session begins with.")

(defun global-values ()
  "Of the variables that the user may have set: names and values."
  (loop for (variable) in *globals*
        unless (member variable '(*package* *features* *random-state* *default-pathname-defaults* *print-pprint-dispatch*
                                  mp:*current-process* ext:*interrupts-enabled*))
          collect (cons variable (and (boundp variable) (symbol-value variable)))))
