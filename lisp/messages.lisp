;;;; messages.lisp - what conditions say, in words for people.
;;;;
;;;; ECL signals most of its errors as SIMPLE- conditions of a few kinds, which are told apart by their format controls.

(in-package :cl-mcp-runtime)

(defconstant +message-limit+ 65536)

(defun qualified-name (name)
  "NAME, printed with its package."
  (let ((*package* (find-package "KEYWORD")))
    (prin1-to-string name)))

(defun begins-with (prefix string)
  (and (stringp string)
       (<= (length prefix) (length string))
       (string= prefix string :end2 (length prefix))))

(defun format-control (condition)
  (and (typep condition 'simple-condition)
       (let ((control (simple-condition-format-control condition)))
         (and (stringp control) control))))

(defun proper-list-p (object)
  (and (listp object) (ignore-errors (list-length object)) t))

(defun format-arguments (condition)
  "A list, whatever the user has made of it: compiled code looks into the void when it is given something else."
  (let ((arguments (simple-condition-format-arguments condition)))
    (and (proper-list-p arguments) arguments)))

(defun formattable-p (condition)
  "True if FORMAT may see the arguments of CONDITION."
  (or (not (typep condition 'simple-condition))
      (not (slot-boundp condition 'si::format-arguments))
      (proper-list-p (simple-condition-format-arguments condition))))

(defun given-p (condition &rest slots)
  "True if CONDITION was made with all of SLOTS."
  (every (lambda (slot) (slot-boundp condition slot)) slots))

;;; Arithmetic

(defun signalled-operation (condition)
  "The call that failed, as a list, if the condition knows it."
  (and (given-p condition 'si::operation 'si::operands)
       (arithmetic-error-operation condition)
       (proper-list-p (arithmetic-error-operands condition))
       (cons (arithmetic-error-operation condition) (arithmetic-error-operands condition))))

(defun arithmetic-message (condition)
  (let ((operation (or (signalled-operation condition) (operation-in-progress condition)))
        (first-line (format nil "arithmetic error ~A signalled" (public-type condition))))
    (if operation
        (format nil "~A~%Operation was ~A." first-line (call-text operation))
        first-line)))

;;; Types

(defun list-accessor-p (function)
  "True for CAR, CDR and their compositions."
  (and (symbolp function)
       (let ((name (symbol-name function)))
         (and (> (length name) 2)
              (char= (char name 0) #\C)
              (char= (char name (1- (length name))) #\R)
              (every (lambda (letter) (find letter "AD")) (subseq name 1 (1- (length name))))))))

(defun checked-function (condition)
  "The function of ECL's that complained about its arguments by CONDITION; NIL if it was none."
  (and (begins-with "In ~:[an anonymous function" (format-control condition))
       (first (format-arguments condition))))

(defun checked-argument (condition)
  "Which of that function's arguments it complained about, counted from 1; NIL if that is not known."
  (and (begins-with "In ~:[an anonymous function~;~:*function ~A~], the value of the ~:R argument" (format-control condition))
       (second (format-arguments condition))))

(defun expected-type (condition)
  "What was expected. ECL's interpreter asks for a CONS where CAR and CDR take any list."
  (let ((type (type-error-expected-type condition)))
    (if (and (eq type 'cons) (list-accessor-p (checked-function condition)))
        'list
        type)))

(defun own-report-p (condition)
  "True if somebody has found words of his own for this error."
  (let ((control (format-control condition)))
    (and (not (eq (type-of condition) 'type-error))
         (not (and (begins-with "In ~:[an anonymous function" control)
                   (or (search "which is not of the expected type" control)
                       (search "which is not of expected type" control)))))))

(defun index-complaint (condition)
  "If CONDITION says that an index is out of bounds: that, and the object, or NIL where ECL has forgotten it."
  (let ((control (format-control condition)))
    (cond ((equal control "~S is not a valid index into the object ~S")
           (values-list (format-arguments condition)))
          ((and (checked-function condition) (search "out of the range" control))
           (destructuring-bind (function which object index type) (format-arguments condition)
             (declare (ignore function which type))
             (values index object))))))

(defun index-message (index object type)
  (format nil "The index ~A is out of bounds~@[ for ~A~]~@[: it has to be of type ~A~]."
          (object-text index)
          (and object (object-text object))
          (and (not (equal type '(integer 0 -1))) (object-text type))))

(defun type-message (condition)
  (cond ((not (given-p condition 'si::datum 'si::expected-type))
         nil)
        ((index-complaint condition)
         (multiple-value-bind (index object) (index-complaint condition)
           (index-message index object (type-error-expected-type condition))))
        ((not (own-report-p condition))
         (concatenate 'string "The value " (object-text (type-error-datum condition))
                      " is not of type " (object-text (expected-type condition)) "."))))

;;; Cells

(defun cell-message (condition)
  (when (given-p condition 'si::name)
    (let ((name (qualified-name (cell-error-name condition))))
      (typecase condition
        (undefined-function (concatenate 'string "The function " name " is undefined."))
        (unbound-variable (concatenate 'string "The variable " name " is unbound."))
        (unbound-slot
         (and (given-p condition 'ext:instance)
              (concatenate 'string "The slot " name " is unbound in the object "
                           (object-text (unbound-slot-instance condition)) ".")))))))

;;; Packages, files, streams

(defun package-to-delete (condition)
  "What DELETE-PACKAGE, which has signalled CONDITION, was to delete: it says NIL in any case."
  (let ((call (call-in-progress condition)))
    (and (eq (first call) 'delete-package) (second call))))

(defun missing-package (condition)
  "The name of the package that CONDITION says is missing."
  (let* ((control (format-control condition))
         (name (cond ((member control
                              '("There is no package with the name ~A." "There exists no package with name ~S")
                              :test #'equal)
                      (first (format-arguments condition)))
                     ((equal control "Package ~S not found. Cannot delete it.")
                      (package-to-delete condition)))))
    (and name (typep name '(or string symbol character)) (string name))))

(defun file-message (condition)
  "ECL lists what may be wrong with a file; one can look."
  (when (and (not (typep condition 'simple-condition)) (given-p condition 'pathname))
    (let* ((pathname (ignore-errors (pathname (file-error-pathname condition))))
           (name (and pathname (ignore-errors (namestring pathname)))))
      (when name
        (format nil "The file ~A ~A."
                (object-text name)
                (cond ((ignore-errors (probe-file pathname)) "exists, but cannot be used in this way")
                      ((ignore-errors (probe-file (directory-namestring pathname))) "does not exist")
                      (t "does not exist, nor does its directory")))))))

(defun stream-message (condition)
  (when (given-p condition 'stream)
    (let ((stream (stream-error-stream condition)))
      (cond ((typep condition 'end-of-file)
             (format nil "The end of ~A has been reached." (object-text stream)))
            ((typep condition 'simple-condition) nil)
            ((and (streamp stream) (not (ignore-errors (open-stream-p stream))))
             (format nil "The stream ~A is closed." (object-text stream)))))))

(defun reader-message (condition)
  "A reader error's message without ECL's words on a stream that nobody knows."
  (let ((control (format-control condition))
        (prefix "Reader error in file ~S, position ~D:~%"))
    (when (begins-with prefix control)
      (format nil "~?" (subseq control (length prefix)) (cddr (format-arguments condition))))))

;;; Programs

(defun innermost-function ()
  "The interpreted function that was called last; NIL if there is none."
  (first (first (raw-frames 1))))

(defun stood-for (function)
  "The name and the function of ECL's that FUNCTION, which is a function or a name, stands in for or is; NIL for all others."
  (let* ((name (if (functionp function) (si::compiled-function-name function) function))
         (entry (find-if (lambda (entry) (or (eq name (first entry)) (eq name (third entry)))) *stand-ins*)))
    (values (first entry) (second entry))))

(defun called-function (function)
  "FUNCTION, or the function that it is the name of: the one that was called last, if that is its name."
  (let ((innermost (innermost-function)))
    (cond ((nth-value 1 (stood-for function)))
          ((functionp function) function)
          ((and (functionp innermost) (equal (si::compiled-function-name innermost) function)) innermost)
          ((and (symbolp function) (own-package-p (symbol-package function))) function))))

(defun list-text (list)
  (if list (object-text list) "()"))

(defun lambda-list-note (name lambda-list known)
  "What to know about the function or macro NAME to call it rightly."
  (if known
      (let* ((own (and name (symbolp name) (own-package-p (symbol-package name))))
             (*package* (if own (find-package "SI") *package*))
             (*print-gensym* nil)) ; of the constructors of structures
        (format nil "~%Its lambda list is ~A." (list-text lambda-list)))
      ""))

(defun named-bytecode-p (function)
  "True if FUNCTION is a global function that was compiled to bytecode, here or in a file."
  (and (typep function 'compiled-function)
       (let ((name (si::compiled-function-name function)))
         (and (si:valid-function-name-p name)
              (fboundp name)
              (eq (fdefinition name) function)))
       (nth-value 1 (si::bc-split function))
       t))

(defun function-lambda-list (function)
  "The lambda list of FUNCTION, which may be the name of a macro; as a second value, whether it is known. ECL remembers
those of bytecode that it has loaded from a file, but for empty ones."
  (multiple-value-bind (lambda-list known) (ext:function-lambda-list function)
    (values lambda-list (or (eq known t) (named-bytecode-p function)))))

(defun called-lambda-list (function)
  "The same of a FUNCTION that was called, or of its name."
  (multiple-value-bind (lambda-list known) (ignore-errors (function-lambda-list (called-function function)))
    (values lambda-list (eq known t))))

(defun misused-macro (condition)
  "The form of which CONDITION says that it has too many or too few arguments for its macro; NIL if it says no such thing:
DESTRUCTURING-BIND complains in the same words."
  (let ((form (and (member (format-control condition)
                           '("Too many arguments supplied to a macro or a destructuring-bind form:~%~s"
                             "Too few arguments supplied to a macro or a destructuring-bind form:~%~S")
                           :test #'equal)
                   (first (format-arguments condition)))))
    (and (consp form)
         (symbolp (first form))
         (macro-function (first form))
         (member (innermost-function) (list nil (macro-function (first form))))
         form)))

(defun misused-macro-message (condition)
  (let ((form (misused-macro condition)))
    (and form
         (format nil "Too ~:[few~;many~] arguments passed to macro ~A.~%Its form is ~A.~A"
                 (begins-with "Too many" (format-control condition))
                 (object-text (first form))
                 (object-text form)
                 (multiple-value-call #'lambda-list-note (first form) (lambda-list (first form)))))))

(defun nameless-function (condition)
  "The function that CONDITION is about, as the stack tells: compiled functions with optional arguments do not say who they are."
  (let* ((frame (first (raw-frames 1)))
         (name (or (first (third frame)) (first (call-in-progress condition)))))
    (and (si:valid-function-name-p name)
         (if (fboundp name) (fdefinition name) name))))

(defun program-message (condition)
  "Wrong calls: ECL may name the function by an unreadable object, and never tells what would have been right."
  (let ((control (format-control condition)))
    (destructuring-bind (&optional function arguments &rest more)
        (and control (format-arguments condition))
      (declare (ignore more))
      (flet ((complaint (text &optional (arguments nil arguments-p))
               (format nil "~A ~:[a function without a name~;function ~:*~A~].~@[~%Argument list: ~A~]~A" text
                       (and function (object-text (function-name function)))
                       (and arguments-p (list-text arguments))
                       (multiple-value-call #'lambda-list-note (function-name function) (called-lambda-list function)))))
        (cond ((equal control "Wrong number of arguments passed to an anonymous function")
               (setf function (nameless-function condition))
               (complaint "Wrong number of arguments passed to"))
              ((begins-with "Wrong number of arguments passed to function" control)
               (complaint "Wrong number of arguments passed to"))
              ((begins-with "Too many arguments passed to function" control)
               (complaint "Too many arguments passed to" arguments))
              ((begins-with "Unknown keyword argument passed to function" control)
               (complaint "Unknown keyword argument passed to" arguments))
              ((begins-with "Function ~A called with odd number of keyword arguments" control)
               (complaint "An odd number of keyword arguments was passed to")))))))

;;; Storage

(defun storage-message (condition)
  (cond ((typep condition 'ext:storage-exhausted)
         (format nil "The heap is exhausted: the session may use ~D megabytes. configure-limits with max-heap allows more."
                 (floor (heap-limit) 1048576)))
        ((typep condition 'ext:stack-overflow)
         (format nil "The ~A is exhausted: infinite recursion, or data that is nested too deeply."
                 (case (ext:stack-overflow-type condition)
                   (ext:c-stack "C stack")
                   (ext:binding-stack "binding stack")
                   (ext:frame-stack "frame stack")
                   (t "stack"))))))

;;; All the others

(defun slots-message (condition)
  "For a condition that has no report of its own, or one that FORMAT cannot print."
  (let ((control (format-control condition))
        (slots (loop for slot in (clos:class-slots (class-of condition))
                     for name = (clos:slot-definition-name slot)
                     when (and (not (member name '(si:report-function si::format-control si::format-arguments)))
                               (slot-boundp condition name))
                       collect (format nil "~A = ~A" name (object-text (slot-value condition name))))))
    (format nil "~S was signalled~@[ with ~{~A~^, ~}~].~@[~A~]" (public-type condition) slots
            (and control
                 (not (blank-p control))
                 (format nil "~%Its text ~A cannot be put together with the arguments ~A."
                         (object-text control) (list-text (ignore-errors (format-arguments condition))))))))

(defun unreadable-p (text condition)
  "True if TEXT is CONDITION itself as an unreadable object, which says nothing."
  (and (begins-with "#<" text)
       (search (princ-to-string (class-name (class-of condition))) text)
       (eql (position #\> text) (1- (length text)))))

(defun blank-p (text)
  (every (lambda (character) (member character '(#\Space #\Newline #\Tab #\Return #\Page))) text))

(defun own-message (condition)
  "What CONDITION says about itself; NIL if that is nothing."
  (let ((text (bounded-text (lambda (stream) (let ((*print-escape* nil)) (princ condition stream)))
                            +message-limit+)))
    (unless (or (blank-p text) (unreadable-p text condition))
      text)))

(defmethod print-object ((condition condition) stream)
  "In place of ECL's: one that has no report of its own is not shown to people as an unreadable object."
  (let ((report (slot-value condition 'si:report-function)))
    (cond (*print-escape* (call-next-method))
          ((stringp report) (write-string report stream))
          ((not (formattable-p condition)) (write-string (slots-message condition) stream))
          (report (funcall report condition stream))
          (t (write-string (or (and (standard-class-p condition) (special-message condition))
                               (slots-message condition))
                           stream)))))

(defmethod no-applicable-method ((function t) &rest arguments)
  "In place of ECL's, which tells the types of ARGUMENTS."
  (error "There is no applicable method for the generic function ~S~%when called with arguments ~:S."
         (clos:generic-function-name function) arguments))

(defun special-message (condition)
  "For the conditions that ECL has no good words for; NIL for all others."
  (typecase condition
    (arithmetic-error (and (not (typep condition 'simple-condition)) (arithmetic-message condition)))
    (type-error (type-message condition))
    (cell-error (cell-message condition))
    (storage-condition (storage-message condition))
    (reader-error (reader-message condition))
    (stream-error (stream-message condition))
    (file-error (file-message condition))
    (program-error (program-message condition))))

(defun missing-package-message (condition)
  (let ((name (missing-package condition)))
    (and name (concatenate 'string "The name " (object-text name) " does not designate any package."))))

(defun standard-class-p (condition)
  "True if the class of CONDITION is one of ECL's own: then nobody has said how it is to be reported."
  (own-package-p (symbol-package (class-name (class-of condition)))))

(defun standard-message (condition)
  "For classes of ECL's own: their reports fail when a slot has no value."
  (or (ignore-errors (missing-package-message condition))
      (ignore-errors (misused-macro-message condition))
      (ignore-errors (special-message condition))
      (ignore-errors (own-message condition))))

(defun message (condition)
  (or (cond ((not (formattable-p condition)) nil)
            ((standard-class-p condition) (standard-message condition))
            (t (own-message condition)))
      (slots-message condition)))

(defun safe-message (condition)
  "The message, or a substitute if printing it fails."
  (handler-case (message condition)
    (serious-condition () "The condition's message cannot be printed.")))
