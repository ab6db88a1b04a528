;;;; operations.lisp - what the daemon's tools ask of a session beside evaluating code.
;;;;
;;;; An operation is called in the same frame as an evaluation, so that errors, cancels and deadlines do what they always
;;;; do. It answers one text and leaves no trace in the variables of the prompt.

(in-package :cl-mcp-runtime)

(defvar *operations* '(("list-definitions" . list-definitions)
                       ("load-system" . load-system)
                       ("loaded-systems" . list-loaded-systems)
                       ("reload-systems" . reload-systems)
                       ("save-state" . save-state)
                       ("restore-state" . restore-state)
                       ("recollect-state" . recollect-state))
  "The functions that the daemon may call by name. Each takes a text and returns one.")

(defun find-operation (name)
  (or (cdr (assoc name *operations* :test #'string=))
      (error "The operation ~S is not known to this session's runtime." name)))

(defun report-operation (condition)
  "Like REPORT, without the backtrace: its frames would be ours."
  (with-report-syntax
    (put-error (failure-type condition) (failure-message condition))))

(defun on-failed-operation (condition hook)
  "Nobody wanted to handle CONDITION. Called in place of a debugger."
  (declare (ignore hook))
  (unless (eq mp:*current-process* *main-process*)
    (on-unhandled condition nil))
  (let ((ext:*invoke-debugger-hook* #'on-failed-operation)) ; ECL has unbound it for the time being
    (unless *reporting*
      (let ((*reporting* t))
        (report-operation condition)))
    (end-with-error)))

(defmacro with-operation-syntax (&body body)
  "Evaluate BODY with reader, printer and streams as operations need them, whatever user code has made of them."
  `(with-standard-io-syntax
     (let ((*package* (user-package))
           (*print-readably* nil)
           (*standard-output* *no-output*)
           (*error-output* *no-output*)
           (*trace-output* *no-output*))
       ,@body)))

(defun answer (operation code)
  (handler-bind ((warning #'muffle-warning))
    (with-operation-syntax
      (funcall (find-operation operation) code))))

(defun perform (operation code)
  "Called by the host, in place of EVALUATE, when the daemon asks for an OPERATION."
  (with-session-streams
    (with-reports
      (let* ((ext:*invoke-debugger-hook* #'on-failed-operation)
             (*outer-globals* (global-values))
             (*later-globals* '())
             (text (answer operation code)))
        (loop for (variable . value) in *later-globals*
              do (setf (symbol-value variable) value))
        (printing-item +values+ (write-string text *values*))))))
