;;;; backtrace.lisp - from the host's raw frames to lines like (FUNCTION ARGUMENT ...).

(in-package :cl-mcp-runtime)

(defconstant +frames-shown+ 20)
(defconstant +frames-searched+ 100)
(defconstant +frame-length+ 400)

;;; Called by the host when it measures, see interpreter.c

(defun try (function argument)
  "Call FUNCTION, which fails."
  (ignore-errors (funcall function argument)))

;;; Names

(defun implementation-name-p (name)
  "True if NAME is a detail of ECL's or of ours."
  (let ((symbol (if (consp name) (second name) name)))
    (or (eq symbol 'eval)
        (and (symbolp symbol)
             (member (symbol-package symbol)
                     (load-time-value (mapcar #'find-package '("SI" "C" "CLOS" "CL-MCP-RUNTIME"))))))))

(defun macro-of-p (function name)
  (and (symbolp name) (eq (macro-function name) function)))

(defun lambda-name (function)
  "What is shown for a function without a name. Of compiled ones not even the lambda list is known."
  (multiple-value-bind (lambda-list known) (ignore-errors (ext:function-lambda-list function))
    (if known (list 'lambda lambda-list) 'lambda)))

(defun function-name (function)
  "What is shown for FUNCTION, which is a function or a name."
  (cond ((typep function 'generic-function) (clos:generic-function-name function))
        ((stood-for function))
        ((functionp function)
         (let ((name (si::compiled-function-name function)))
           (cond ((null name) (lambda-name function))
                 ((macro-of-p function name) `(macro-function ,name))
                 (t name))))
        (t function)))

;;; Calls are lists as they are shown; T in place of the arguments says that they are not known.

(defun local-expander-p (function arguments)
  "True if FUNCTION was made by MACROLET: ARGUMENTS are a form and an environment in which it stands. They may be anything."
  (when (and (functionp function) (consp arguments) (consp (cdr arguments)) (consp (cadr arguments)))
    (loop repeat +frames-searched+
          for tail = (cdadr arguments) then (cdr tail)
          while (consp tail)
            thereis (let ((entry (car tail)))
                      (and (consp entry) (consp (cdr entry)) (consp (cddr entry)) (eq (caddr entry) function))))))

(defun make-call (function arguments)
  "A call as the host describes it."
  (let ((name (if (local-expander-p function arguments)
                  `(macro-function ,(si::compiled-function-name function))
                  (function-name function))))
    (cons name
          (if (and (consp name) (eq (first name) 'macro-function) (consp arguments))
              (list (first arguments))
              arguments))))

(defun known-p (call)
  (listp (rest call)))

(defun same-function-p (one other)
  (equal (first one) (first other)))

(defun failing-function (condition natives call)
  "The function that CONDITION itself says has failed; NIL if it says nothing. Which undefined function was called is
known from nowhere else if compiled NATIVES have done it, or if the CALL that was made is not known."
  (typecase condition
    (arithmetic-error (first (signalled-operation condition)))
    (type-error (let ((function (checked-function condition)))
                  (and (not (eq function 'coerce)) function))) ; that is what ECL says wherever it wants a number
    (undefined-function (and (or natives (and (consp call) (null (first call))))
                             (cell-error-name condition)))))

(defun failing-call (condition function)
  (cons function
        (cond ((typep condition 'arithmetic-error) (rest (signalled-operation condition)))
              ((and (typep condition 'type-error) (fboundp function) (takes-one-p (fdefinition function)))
               (list (type-error-datum condition)))
              (t t))))

(defun native-calls (names)
  (mapcar (lambda (name) (cons name t)) names))

(defun calls-for (natives call)
  "The calls of compiled functions named NATIVES and the CALL that led to them, innermost first."
  (let ((calls (native-calls natives)))
    (cond ((null call) calls)
          ((and calls (same-function-p (first (last calls)) call)) (append (butlast calls) (list call)))
          (t (append calls (list call))))))

(defun certain-arguments (function arguments condition)
  "The two ARGUMENTS that FUNCTION was called with, the first of which may have been overwritten since, if CONDITION leaves
no doubt; else T."
  (destructuring-bind (first second) arguments
    (multiple-value-bind (index object) (index-complaint condition)
      (cond ((not (and (typep condition 'type-error) (slot-boundp condition 'si::datum))) t)
            ((and object (eql index second)) (list object second))
            ((and (eq (checked-function condition) function) (eql (checked-argument condition) 1))
             (list (type-error-datum condition) second))
            ((and (eql (type-error-datum condition) first) (not (eql first second))) arguments)
            (t t)))))

(defun call-made (call condition)
  "What the host says of the call that a function was making, as a call; NIL if it says nothing of use."
  (when (and (consp call) (first call) (typep (first call) '(or function symbol (cons (eql setf)))))
    (destructuring-bind (function arguments doubtful) call
      (make-call function
                 (if (and doubtful (consp arguments))
                     (certain-arguments function arguments condition)
                     arguments)))))

(defun signals-p (call)
  "True if CALL signals a condition by itself: where that came from is another matter then."
  (member (first call) '(error cerror signal warn invoke-debugger)))

(defun explains-p (call condition)
  "True if CALL, of a builtin, was given what CONDITION complains of: a function that the condition names is then only a
part of how the called one does its work."
  (and (typep condition 'type-error)
       (known-p call)
       (symbolp (first call))
       (own-package-p (symbol-package (first call)))
       (member (type-error-datum condition) (rest call))
       t))

(defun passed-function (call)
  "The name of the one builtin that CALL was given to call; NIL if there is no such."
  (let ((functions (and (known-p call) (remove-if-not #'functionp (rest call)))))
    (when (and functions (null (rest functions)))
      (let ((name (si::compiled-function-name (first functions))))
        (and (symbolp name) name)))))

(defun called-by-users (function call)
  "FUNCTION has failed inside of CALL. It, or the function that CALL was given, of which it is a part."
  (let ((passed (and call (passed-function call))))
    (if (and passed (not (eq passed (first call)))) passed function)))

(defun innermost-calls (condition natives call)
  "The calls inside of the innermost function. The one that failed may be among them."
  (let* ((calls (calls-for natives (call-made call condition)))
         (failing (and (not (signals-p (first calls))) (failing-function condition natives call)))
         (among (and failing calls (equal failing (first (first calls))))))
    (cond ((or (null failing) (and among (known-p (first calls)))) calls)
          (among (cons (failing-call condition failing) (rest calls)))
          ((and calls (explains-p (first calls) condition)) calls)
          (t (cons (failing-call condition (called-by-users failing (first calls))) calls)))))

(defun all-calls (condition frames)
  "The calls that were in progress, innermost first, those of the implementation included."
  (loop for (function arguments natives call) in frames
        for innermost = t then nil
        append (if innermost
                   (innermost-calls condition natives call)
                   (calls-for natives (call-made call condition)))
        collect (make-call function arguments)))

(defun frame-calls (condition)
  "The calls to be shown, innermost first."
  (loop for call in (all-calls condition (raw-frames +frames-searched+))
        unless (implementation-name-p (first call))
          collect call into calls
          and count t into count
        until (eql count +frames-shown+)
        finally (return calls)))

(defun call-in-progress (condition)
  "The call that the innermost function was making, if its arguments are known."
  (let ((call (call-made (fourth (first (raw-frames 1))) condition)))
    (and call (known-p call) call)))

(defun operation-in-progress (condition)
  "The call of a numeric function that was in progress; NIL if there was none."
  (let ((call (call-in-progress condition)))
    (and call
         (symbolp (first call))
         (eq (symbol-package (first call)) (find-package "COMMON-LISP"))
         (some #'numberp (rest call))
         (every (lambda (argument) (typep argument '(or number symbol))) (rest call)) ; a type may be among them
         call)))

;;; Text

(defvar *failures* nil
  "While calls are printed a list: behind its first element, the objects that could not be printed. They are not tried
again, because a printer that recurs without end takes its time.")

(defun part-text (object)
  (if (member object (rest *failures*))
      (unprintable-text object)
      (multiple-value-bind (text failed) (object-text object)
        (when (and failed *failures*)
          (push object (rest *failures*)))
        text)))

(defun call-text (call)
  "CALL printed; if that fails, each of its parts for itself."
  (if (known-p call)
      (or (plain-text call)
          (and (not (intersection call (rest *failures*)))
               (printing-bounded (stream +frame-length+) (prin1 call stream)))
          (printing-bounded (stream +frame-length+) (format stream "(~{~A~^ ~})" (mapcar #'part-text call))))
      (concatenate 'string "(" (object-text (first call)) " ...)")))

(defun calls-to-show (condition)
  "What CONDITION says of itself may be nonsense."
  (handler-case (frame-calls condition)
    (serious-condition () nil)))

(defun print-calls (calls)
  "Each of CALLS becomes an item."
  (let ((*failures* (list nil)))
    (dolist (call calls)
      (unless (printing-item +frames+ (write-string (call-text call) *frames*))
        (return)))))
