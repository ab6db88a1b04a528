;;;; recollection.lisp - the operation that makes a session again whose process has ended without writing its state: from
;;;; the last state that was written, if there is one, and from the definitions in what was evaluated since.
;;;;
;;;; Only forms that define are evaluated once more; harmless.lisp tells which these are. All others had an effect, or may
;;;; have had one, and are named.

(in-package :cl-mcp-runtime)

;; The transcript may hold anything.
(eval-when (:compile-toplevel)
  (proclaim '(optimize (safety 2))))

(defconstant +form-shown+ 60
  "How much of a form is quoted.")

(defvar *notes-on-evaluations* '()
  "What could not be repeated, the latest first.")

(defvar *evaluation* 0
  "The number of the evaluation at hand.")

(defvar *form-text* ""
  "What it says of the form at hand.")

(defun excerpt (text)
  (let ((line (one-line (string-trim '(#\Space #\Newline #\Tab) text))))
    (if (> (length line) +form-shown+)
        (concatenate 'string (subseq line 0 +form-shown+) "...")
        line)))

(defun note-evaluation (why)
  (push (format nil "evaluation ~D: ~A" *evaluation* why) *notes-on-evaluations*))

(defun note-unrepeated ()
  (note-evaluation (excerpt *form-text*)))

(defun note-failed (why)
  (note-evaluation (format nil "~A: ~A" (excerpt *form-text*) (one-line why))))

;;; One form

(defun define-again (form)
  "Evaluate FORM, which only defines."
  (let* ((package *package*)
         (why (failure-of (lambda ()
                            (eval form)
                            (setf package *package*)))))
    (setf *package* package)
    (when why
      (note-failed why))))

(defun define-without-value (operator name &optional value documentation)
  "The definition of a variable whose value could only be had by doing again what was done."
  (declare (ignore value))
  (unless (eq operator 'defconstant)
    (define-again `(defvar ,name))
    (when (stringp documentation)
      (setf (documentation name 'variable) documentation)))
  (unless (and (eq operator 'defvar) (boundp name))
    (note-failed "its value is not computed again")))

(defun define-without-initial-values (form)
  (define-again (without-initial-values form))
  (note-failed "the values of the class's own slots are not computed again"))

(defun system-named (form)
  "The name of the system or module that FORM loads, if that is all it does."
  (and (consp form)
       (member (first form) (list 'require 'asdf:load-system
                                  (let ((quicklisp (find-package "QUICKLISP-CLIENT")))
                                    (and quicklisp (find-symbol "QUICKLOAD" quicklisp)))))
       (consp (rest form))
       (let ((name (constant-value (second form))))
         (and (typep name '(or string symbol))
              (if (stringp name) name (string-downcase name))))))

(defun load-again (line)
  (let ((failure (reload-failure line)))
    (when failure
      (note-evaluation failure))))

(defun recollect-proper (form)
  "FORM is not harmless as a whole, nor is it a definition as a whole."
  (let ((operator (and (symbolp (first form)) (first form))))
    (case operator
      ((defvar defparameter defconstant) (apply #'define-without-value form))
      ((defclass define-condition) (define-without-initial-values form))
      ((progn locally eval-when) (mapc #'recollect-form (body-forms form)))
      (t (cond ((system-named form) (load-again (system-named form)))
               ((and operator (definer-p form)) (recollect-form (macroexpand-1 form)))
               (t (note-unrepeated)))))))

(defun recollect-form (form)
  "Macros may be expanded on the way, and fail."
  (let* ((kind nil)
         (why (failure-of (lambda ()
                            (setf kind (cond ((harmless-p form t) :harmless)
                                             ((definition-p form) :definition)))))))
    (cond (why (note-failed why))
          ((eq kind :definition) (define-again form))
          ((eq kind :harmless))
          ((atom form) (note-unrepeated))
          (t (recollect-proper form)))))

;;; One evaluation

(defun refuse-reading (stream character argument)
  (declare (ignore stream argument))
  (error "#~A would call a function while it is read." character))

(defvar *quiet-readtable* nil
  "Reading calls nothing of the user's.")

(defun quiet-readtable ()
  (or *quiet-readtable*
      (let ((readtable (copy-readtable nil)))
        (set-dispatch-macro-character #\# #\S #'refuse-reading readtable)
        (setf *quiet-readtable* readtable))))

(defun secret-p (text)
  "True if TEXT is not what was evaluated, because part of that was not to be stored."
  (search "[secret]" text))

(defun recollect-next (code source)
  "Do with the next form of CODE what is to be done with it. False at the end."
  (let* ((start (and (peek-char t source nil) (file-position source)))
         (form (and start (read source))))
    (when start
      (setf *form-text* (subseq code start (file-position source)))
      (if (secret-p *form-text*)
          (note-failed "a part of it was secret")
          (recollect-form form))
      t)))

(defun recollect-code (code count)
  "The first COUNT forms of CODE, all if that is NIL, were evaluated; the next one was left half-way."
  (let ((source (make-string-input-stream code)))
    (setf *form-text* code)
    (handler-case (progn
                    (loop repeat (or count (length code))
                          while (recollect-next code source))
                    (when count
                      (setf *form-text* (subseq code (file-position source)))
                      (unless (ignore-errors (harmless-p (read source) t))
                        (note-failed "it was not completed"))))
      (error (condition)
        (note-failed (format nil "it cannot be read: ~A" (safe-message condition)))))))

(defun recollect-in-package (given after code count)
  "The package is that of the call, if one was GIVEN; AFTER that it is known what the session's was."
  (let ((package (if given (find-given-package given) *session-package*)))
    (cond (package
           (let ((*package* package)
                 (*readtable* (quiet-readtable))
                 (*read-eval* nil))
             (recollect-code code count)
             (unless (and given (eq *package* package))
               (setf *session-package* *package*))))
          (t
           (setf *form-text* code)
           (note-failed "its package is not there"))))
  (when (plusp (length after))
    (setf *session-package* (find-package after))))

(defun recollect-evaluation (number outcome forms operation given after code)
  "FORMS is how many forms ended as they should."
  (let ((*evaluation* number)
        (*form-text* ""))
    (cond ((equal operation "load-system")
           (when (eql outcome 0)
             (load-again code)))
          ((equal operation "reload-systems")
           (mapc #'load-again (text-lines code)))
          (operation) ; nothing else that is one changes anything
          ((null code)
           (note-evaluation "its code is not known any more"))
          (t
           (recollect-in-package given after code (if (eql outcome 0) nil forms))))))

(defun recollect-evaluations (records)
  (let ((*session-package* *session-package*))
    (loop for (number . more) in records
          do (apply #'recollect-evaluation number more))
    *session-package*))

;;; The operation

(defun read-records (stream)
  (with-state-syntax
    (loop for record = (read stream nil)
          while record
          collect record)))

(defun restore-last (file)
  (with-open-file (stream file :external-format :utf-8)
    (let ((why (failure-of (lambda () (restore-all stream)))))
      (when why
        (note-lost (format nil "the state in ~A" file) why)))))

(defun recollect-state (text)
  "The operation. The first line of TEXT is the file of a state, the second the number of the evaluation that it was written
after; 0 for none. Behind that stand the number of the evaluation that the session has begun anew after, and what was
evaluated since. Answers what could not be kept, a line each."
  (let ((*lost* '())
        (*notes-on-evaluations* '()))
    (with-input-from-string (stream text)
      (let ((file (read-line stream))
            (number (parse-integer (read-line stream)))
            (records (read-records stream)))
        (call-with-chatter
         (lambda ()
           (when (> number (or (first records) 0))
             (restore-last file))
           (setf *session-package* (or (recollect-evaluations (rest records)) (user-package)))))))
    (format nil "~{~A~^~%~}" (append (sort *lost* #'string<) (reverse *notes-on-evaluations*)))))
