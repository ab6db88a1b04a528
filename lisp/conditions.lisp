;;;; conditions.lisp - how conditions are shown: their type as a Lisp programmer knows it, and a message for people.

(in-package :cl-mcp-runtime)

(defconstant +message-limit+ 65536)

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

(defun public-type (condition)
  "The name under which the class of CONDITION is shown."
  (let* ((class (class-of condition))
         (name (class-name class))
         (names (mapcar #'class-name (clos:class-precedence-list class))))
    (cond ((null name) 'condition)
          ((not (own-package-p (symbol-package name))) name)
          ((find-if #'standard-name-p names))
          ((typep condition 'warning) 'warning)
          ((find 'simple-error names))
          ((member name '(error serious-condition condition)) name)
          (t name))))

;;; Messages

(defun qualified-name (name)
  "NAME, printed with its package."
  (let ((*package* (find-package "KEYWORD")))
    (prin1-to-string name)))

(defun begins-with (prefix string)
  (and (stringp string) (eql 0 (search prefix string))))

(defun format-control (condition)
  (and (typep condition 'simple-condition)
       (let ((control (simple-condition-format-control condition)))
         (and (stringp control) control))))

(defun arithmetic-operation (condition)
  "The call that failed, as a list, if the condition knows it."
  (let ((operation (ignore-errors (arithmetic-error-operation condition))))
    (and operation (cons operation (ignore-errors (arithmetic-error-operands condition))))))

(defun arithmetic-message (condition)
  (format nil "arithmetic error ~A signalled~@[~%Operation was ~S.~]"
          (public-type condition) (arithmetic-operation condition)))

(defun list-accessor-p (function)
  "True for CAR, CDR and their compositions."
  (and (symbolp function)
       (let ((name (symbol-name function)))
         (and (> (length name) 2)
              (char= (char name 0) #\C)
              (char= (char name (1- (length name))) #\R)
              (every (lambda (letter) (find letter "AD")) (subseq name 1 (1- (length name))))))))

(defun expected-type (condition)
  "What was expected. ECL's interpreter asks for a CONS where CAR and CDR take any list."
  (let ((type (type-error-expected-type condition)))
    (if (and (eq type 'cons)
             (format-control condition)
             (list-accessor-p (first (simple-condition-format-arguments condition))))
        'list
        type)))

(defun wrong-argument-p (condition)
  "True if ECL itself signalled CONDITION because something had the wrong type."
  (or (eq (type-of condition) 'type-error)
      (let ((control (format-control condition)))
        (and (begins-with "In ~:[an anonymous function" control)
             (search "which is not of the expected type" control)))))

(defun missing-package (condition)
  "The name of the package that CONDITION says is missing."
  (and (member (format-control condition)
               '("There is no package with the name ~A." "There exists no package with name ~S")
               :test #'equal)
       (let ((name (first (simple-condition-format-arguments condition))))
         (and (typep name '(or string symbol character)) (string name)))))

(defun storage-message (condition)
  (cond ((typep condition 'ext:storage-exhausted)
         "The heap is exhausted.")
        ((typep condition 'ext:stack-overflow)
         (format nil "The ~A is exhausted: infinite recursion, or data that is nested too deeply."
                 (case (ext:stack-overflow-type condition)
                   (ext:c-stack "C stack")
                   (ext:binding-stack "binding stack")
                   (ext:frame-stack "frame stack")
                   (t "stack"))))))

(defun slots-message (condition)
  "For a condition that has no report of its own."
  (let ((slots (loop for slot in (clos:class-slots (class-of condition))
                     for name = (clos:slot-definition-name slot)
                     when (and (not (eq name 'si::report-function)) (slot-boundp condition name))
                       collect (format nil "~A = ~A" name (object-text (slot-value condition name))))))
    (format nil "~S was signalled~@[ with ~{~A~^, ~}~]." (public-type condition) slots)))

(defun unreadable-p (text condition)
  "True if TEXT is CONDITION itself as an unreadable object, which says nothing."
  (and (begins-with "#<a " text)
       (search (symbol-name (class-name (class-of condition))) text)
       (eql (position #\> text) (1- (length text)))))

(defun own-message (condition)
  "What CONDITION says about itself."
  (let ((text (bounded-text (lambda (stream) (let ((*print-escape* nil)) (princ condition stream)))
                            +message-limit+)))
    (if (unreadable-p text condition)
        (slots-message condition)
        text)))

(defun reader-message (condition)
  "A reader error's message without ECL's words on a stream that nobody knows."
  (let ((control (format-control condition))
        (prefix "Reader error in file ~S, position ~D:~%"))
    (if (begins-with prefix control)
        (format nil "~?" (subseq control (length prefix)) (cddr (simple-condition-format-arguments condition)))
        (own-message condition))))

(defun message (condition)
  (typecase condition
    (arithmetic-error (arithmetic-message condition))
    (undefined-function (format nil "The function ~A is undefined." (qualified-name (cell-error-name condition))))
    (unbound-variable (format nil "The variable ~A is unbound." (qualified-name (cell-error-name condition))))
    (storage-condition (or (storage-message condition) (own-message condition)))
    (reader-error (reader-message condition))
    (t (cond ((missing-package condition)
              (format nil "The name ~S does not designate any package." (missing-package condition)))
             ((and (typep condition 'type-error) (wrong-argument-p condition))
              (format nil "The value ~A is not of type ~S."
                      (object-text (type-error-datum condition)) (expected-type condition)))
             (t (own-message condition))))))

(defun safe-message (condition)
  "The message, or a substitute if printing it fails."
  (handler-case (message condition)
    (serious-condition () "The condition's message cannot be printed.")))

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
    (cond ((missing-package condition) 'package-error)
          ((eq type 'simple-error) 'reader-error)
          (t type))))

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
