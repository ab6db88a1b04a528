;;;; evaluate.lisp - one evaluation: read a form, evaluate it, the next; then print the values.

(in-package :cl-mcp-runtime)

(defvar *code* ""
  "The text being evaluated.")

(defvar *source* nil
  "The stream that the text is being read from; NIL while nothing is read.")

(defvar *form-start* 0
  "Where in the text the form begins that is being read.")

(defvar *forms-done* 0
  "How many forms have been evaluated.")

(defvar *reporting* nil
  "True while an error is being reported.")

;;; Packages

(defparameter *user-package-uses* (mapcar #'package-name (package-use-list "COMMON-LISP-USER")))

(defun user-package ()
  "CL-USER, made anew if user code has deleted it."
  (or (find-package "COMMON-LISP-USER")
      (make-package "COMMON-LISP-USER" :nicknames '("CL-USER") :use *user-package-uses*)))

;;; Errors and warnings

(defun put-error (type message)
  "TYPE is a symbol, or a text that is shown as it is."
  (let ((*package* (user-package))
        (*print-escape* (not (stringp type))))
    (printing-item +error-type+ (write type :stream *error-type*)))
  (printing-item +error-message+ (write-string message *error-message*)))

(defun report-calls (calls condition)
  "Where a stack is exhausted, nothing that the user prints in his own way has room; so this is left to WITH-REPORTS."
  (if (typep condition 'ext:stack-overflow)
      (throw 'exhausted calls)
      (print-calls calls)))

(defun report (condition)
  "Tell the host all about CONDITION. The stacks are still those of the error."
  (clear-channel +frames+) ; those of an error during whose cleanup this one has happened
  (with-report-syntax
    (if *source*
        (put-error (reading-type condition)
                   (format nil "~A~:[~;~%The readtable could not read lists any more; the standard one is back.~]"
                           (reading-message condition *code* *form-start* (file-position *source*) *forms-done*)
                           (mend-readtable)))
        (put-error (public-type condition) (safe-message condition)))
    (report-calls (calls-to-show condition) condition)))

(defun thread-frames (condition)
  "Lines like those of a backtrace; none where a stack is exhausted, because there is no room to print them."
  (unless (typep condition 'ext:stack-overflow)
    (loop for call in (calls-to-show condition)
          for number from 0
          collect (format nil "~D: ~A" number (call-text call)))))

(defun report-in-thread (condition)
  "A thread of the user's has no evaluation to end; what went wrong shows on standard error, written at once so that the
reports of several do not mix."
  (with-report-syntax
    (let ((lines (append (text-lines (safe-message condition)) (ignore-errors (thread-frames condition)))))
      (fresh-line *stderr*)
      (write-string (format nil "; Error in ~A: ~S~%~{; ~A~%~}" mp:*current-process* (public-type condition) lines)
                    *stderr*))))

(defun call-debugger-hook (condition)
  "The standard way for user code to have a say."
  (let ((hook *debugger-hook*)
        (*debugger-hook* nil))
    (when hook
      (funcall hook condition hook))))

(defun end-by-report (condition)
  "Report CONDITION and end the evaluation. An error on the way ends it too."
  (unless *reporting*
    (call-debugger-hook condition)
    (let ((*reporting* t))
      (report condition)))
  (end-with-error))

(defun on-unhandled (condition hook)
  "Nobody wanted to handle CONDITION. Called in place of a debugger."
  (declare (ignore hook))
  (let ((ext:*invoke-debugger-hook* #'on-unhandled)) ; ECL has unbound it for the time being
    (cond ((eq mp:*current-process* *main-process*)
           (end-by-report condition))
          (t
           (ignore-errors (report-in-thread condition))
           (mp:exit-process)))))

(defun one-line (text)
  "TEXT with each line break and the indentation behind it made one space."
  (with-output-to-string (line)
    (loop with start = 0
          for newline = (position #\Newline text :start start)
          do (write-string text line :start start :end newline)
          while newline
          do (write-char #\Space line)
             (setf start (or (position #\Space text :start (1+ newline) :test #'char/=) (length text))))))

(defun premature-p (condition)
  "True if CONDITION says that a class has a superclass which is not defined yet: that is no mistake, unless it stays so."
  (equal (format-control condition) "Class ~A has been forward referenced."))

(defun on-warning (condition)
  "Record CONDITION and muffle it, unless whoever signalled it has no use for that."
  (let ((muffle (find-restart 'muffle-warning condition)))
    (when muffle
      (unless (premature-p condition)
        (with-report-syntax
          (let ((*package* (user-package)))
            (printing-item +warnings+
              (format *warnings* "~S: ~A" (public-type condition) (one-line (safe-message condition)))))))
      (invoke-restart muffle))))

;;; Reading

(defun skip-blanks (source)
  "Note where the next form begins."
  (peek-char t source nil)
  (setf *form-start* (file-position source)))

(defun read-form (source)
  "The next form, or SOURCE itself at the end."
  (mend-globals)
  (set-global-value '*package* *package*)
  (let ((*source* source))
    (skip-blanks source)
    (read source nil source)))

;;; Evaluating

(defun remember (form values)
  "The variables that every Lisp prompt has."
  (shiftf +++ ++ + form)
  (shiftf /// // / values)
  (shiftf *** ** * (first values)))

(defun evaluate-forms (source)
  "The values of the last form."
  (loop with values = nil
        for form = (read-form source)
        until (eq form source)
        do (setf - form
                 values (multiple-value-list (evaluate-form form)))
           (remember form values)
           (count-form)
           (incf *forms-done*)
        finally (return values)))

(defmacro keeping-package ((starting-package given) &body body)
  "Evaluate BODY in STARTING-PACKAGE. What *PACKAGE* becomes is the session's from then on, and that of its threads; a
package that was GIVEN for this call alone is not."
  (let ((package (gensym "PACKAGE")))
    `(let* ((,package ,starting-package)
            (*package* ,package))
       (unwind-protect (progn ,@body)
         (when (and (packagep *package*)
                    (not (and ,given (eq *package* ,package))))
           (setf *session-package* *package*))
         (set-global-value '*package* *session-package*)))))

(defun describe-abort (stream)
  (write-string "Abandon the evaluation." stream))

(defun on-serious-condition (condition)
  (unless *hook-works*
    (on-unhandled condition nil)))

(defmacro with-reports (&body body)
  "Evaluate BODY so that errors, warnings and ABORT do what they do in a session."
  `(let ((*reporting* nil)
         (*error-pointer* 0)
         (*error-taken* nil)
         (*debugger-hook* nil)
         (ext:*invoke-debugger-hook* #'on-unhandled)
         (si::*quit-tag* *evaluation-tag*))
     ;; END-BY-ABORT leaves by itself, so that RESTART-CASE, which is dearer, would have nothing to do.
     (restart-bind ((abort #'end-by-abort :report-function #'describe-abort))
       (handler-bind ((warning #'on-warning)
                      (serious-condition #'on-serious-condition))
         (let ((calls (catch 'exhausted
                        ,@body
                        t)))
           (unless (eq calls t)
             (with-report-syntax (print-calls calls))
             (end-with-error)))))))

(defun session-package ()
  (if (package-name *session-package*)
      *session-package*
      (setf *session-package* (user-package))))

(defun find-given-package (name)
  "The package that a call asks for, or NIL. Names are case-insensitive."
  (or (find-package name) (find-package (string-upcase name))))

(defun evaluate (code package-name)
  "Called by the host, once for each evaluation. PACKAGE-NAME may be NIL."
  (let ((*code* code)
        (*forms-done* 0)
        (*form-start* 0)
        (*notes* '())
        (*defined-inside* '())
        (source (make-string-input-stream code))
        (package (if package-name (find-given-package package-name) (session-package))))
    (with-session-streams
      (unless package
        (put-error 'package-error
                   (format nil "The name ~S does not designate any package." (string-upcase package-name)))
        (end-with-error))
      (with-reports
        (keeping-package (package package-name)
          (print-values (evaluate-forms source)))
        (report-notes)))))
