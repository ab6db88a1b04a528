;;;; conditions.lisp - the type of a condition as a Lisp programmer knows it, and where the reader stopped.

(in-package :cl-mcp-runtime)

;;; Types

(defun own-package-p (package)
  "True for the packages that ECL consists of: their classes are details of the implementation."
  (member package (load-time-value
                   (remove nil (mapcar #'find-package '("COMMON-LISP" "SI" "EXT" "CLOS" "C" "MP" "GRAY" "FFI"))))))

(defun standard-name-p (name)
  "True if NAME says more than that something is a condition, and is no SIMPLE- variant of a better name."
  (and (eq (symbol-package name) (find-package "COMMON-LISP"))
       (not (member name '(error serious-condition condition warning standard-object t)))
       (not (eql 0 (search "SIMPLE-" (symbol-name name))))))

(defun standard-type (class)
  "What a Lisp programmer calls CLASS, which is one of ECL's."
  (let ((name (class-name class))
        (names (mapcar #'class-name (clos:class-precedence-list class))))
    (cond ((find-if #'standard-name-p names))
          ((member 'warning names) 'warning)
          ((find 'simple-error names))
          (t name))))

(defvar *standard-types* (make-hash-table :test 'eq)
  "The same for the classes that there were at start. It does not change later: other threads look things up in it.")

(defun note-standard-types (class)
  (when (own-package-p (symbol-package (class-name class)))
    (setf (gethash class *standard-types*) (standard-type class)))
  (mapc #'note-standard-types (clos:class-direct-subclasses class)))

(defun public-type (condition)
  "The name under which the class of CONDITION is shown."
  (let* ((class (class-of condition))
         (type (or (gethash class *standard-types*)
                   (let ((name (class-name class)))
                     (cond ((null name) 'condition)
                           ((own-package-p (symbol-package name)) (standard-type class))
                           (t name))))))
    (cond ((not (eq type 'simple-error)) type) ; which ECL makes of what has a name of its own
          ((missing-package condition) 'package-error)
          ((misused-macro condition) 'program-error)
          (t type))))

(defun prepare-types ()
  "Called once. ECL makes the classes of its own errors when it first signals them, which takes it a millisecond."
  (dolist (name '(arithmetic-error cell-error control-error file-error package-error parse-error program-error
                  reader-error stream-error type-error))
    (ignore-errors (si::signal-simple-error name nil "" nil)))
  (note-standard-types (find-class 'condition)))

;;; Where the reader stopped

(defun clamp (position text)
  (max 0 (min position (length text))))

(defun line (text position)
  "The line of POSITION, counted from 1."
  (1+ (count #\Newline text :end (clamp position text))))

(defun column-of (text position)
  "Its column, counted from 1."
  (let* ((position (clamp position text))
         (newline (position #\Newline text :end position :from-end t)))
    (- position (or newline -1))))

(defun reading-type (condition)
  "Reading code fails in ways that ECL has no proper classes for."
  (let ((type (public-type condition)))
    (if (eq type 'simple-error) 'reader-error type)))

(defun reading-place (condition text start position)
  "Where an error at POSITION of TEXT is, while the form that begins at START was read."
  (if (typep condition 'end-of-file)
      (format nil "The code ends at line ~D, column ~D, inside of the form that begins at line ~D, column ~D."
              (line text (length text)) (column-of text (length text)) (line text start) (column-of text start))
      (format nil "At line ~D, column ~D: ~A"
              (line text (1- position)) (column-of text (1- position)) (safe-message condition))))

(defun forms-note (forms)
  (case forms
    (0 "")
    (1 (format nil "~%The form before it has been evaluated."))
    (t (format nil "~%The ~R forms before it have been evaluated." forms))))

(defun reading-message (condition text start position forms)
  (concatenate 'string (reading-place condition text start position) (forms-note forms)))
