;;;; prepare.lisp - what is done once in the zygote, what in every fork, and what when a recipe does not work.

(in-package :cl-mcp-runtime)

;;; What takes the place of functions of ECL's

(defun stand-in (name ours)
  (push (list name (fdefinition name) ours) *stand-ins*)
  (si:fset name (fdefinition ours)))

(defvar *original-quit* (fdefinition 'ext:quit))
(defvar *original-exit* (fdefinition 'si:exit))

(defvar *original-exit-process* (fdefinition 'mp:exit-process))

(defun leave (&optional (code 0) kill-all-threads)
  "In place of EXT:QUIT and SI:EXIT: ends the evaluation, not the session; in a thread of the user's, the thread."
  (declare (ignore kill-all-threads))
  (cond ((not (eq mp:*current-process* *main-process*)) (funcall *original-exit-process*))
        (*checking* (give-up))
        (t (end-by-exit (if (typep code '(integer 0 255)) code 0)))))

(defun leave-process ()
  "In place of MP:EXIT-PROCESS, which is also what MP:PROCESS-KILL has a thread call."
  (leave))

(defun replace-exit ()
  (let ((si:*ignore-package-locks* t))
    (stand-in 'ext:quit 'leave)
    (stand-in 'si:exit 'leave)
    (stand-in 'mp:exit-process 'leave-process)))

(defvar *original-close* (fdefinition 'close))

(defun close-uninterrupted (stream &key abort)
  "In place of CLOSE: an evaluation that was stopped between closing a file and noting that would close it again, and free
its memory twice. The session's own streams outlive whoever closes them."
  (cond ((or (eq stream *no-input*) (eq stream *no-terminal*)) t)
        ((typep stream 'file-stream)
         (mp:without-interrupts (funcall *original-close* stream :abort abort)))
        (t (funcall *original-close* stream :abort abort))))

(defvar *original-open* (fdefinition 'open))

(defmacro call-original (function arguments)
  "With APPLY, APPLY would show in backtraces; and FUNCTION itself complains about a wrong number of ARGUMENTS."
  `(multiple-value-call ,function (values-list ,arguments)))

(defun open-uninterrupted (&rest arguments)
  "In place of OPEN: stopped between opening a file and making a stream of it, it would leave the file open for ever. What
fails is done once more where it can be stopped, for the user's handlers."
  (cancel-point)
  (or (mp:without-interrupts (ignore-errors (call-original *original-open* arguments)))
      (call-original *original-open* arguments)))

(defun protect-files ()
  (let ((si:*ignore-package-locks* t))
    (stand-in 'open 'open-uninterrupted)
    (stand-in 'close 'close-uninterrupted)))

;;; Making threads: newer versions of ECL guard them by the system's mutexes, older ones by spinlocks, and none survives a
;;; cancel meanwhile

(defvar *original-enable* (fdefinition 'mp:process-enable))

(defun check-object (object type)
  (unless (typep object type)
    (error 'type-error :datum object :expected-type type)))

(defmacro define-checked (name ours type)
  "OURS is for the place of NAME, which looks into its first argument whatever that is: the session would not survive it."
  `(defun ,ours (object &rest arguments)
     (check-object object ',type)
     (multiple-value-call (load-time-value (fdefinition ',name)) object (values-list arguments))))

(define-checked mp:process-kill kill-checked mp:process)
(define-checked mp:process-suspend suspend-checked mp:process)
(define-checked mp:process-resume resume-checked mp:process)
(define-checked mp:interrupt-process interrupt-checked mp:process)
(define-checked mp:condition-variable-signal signal-checked mp:condition-variable)
(define-checked mp:condition-variable-broadcast broadcast-checked mp:condition-variable)

(defun enable-uninterrupted (process)
  "In place of MP:PROCESS-ENABLE: stopped half-way, it would free what it has not made yet."
  (check-object process 'mp:process)
  (prog1 (mp:without-interrupts (funcall *original-enable* process))
    (cancel-point)))

(defvar *original-run-function* (fdefinition 'mp:process-run-function))

(defun run-uninterrupted (&rest arguments)
  "In place of MP:PROCESS-RUN-FUNCTION, which calls ECL's own MP:PROCESS-ENABLE."
  (if (null (cdr arguments))
      (call-original *original-run-function* arguments)
      (destructuring-bind (name function &rest arguments) arguments
        (let ((process (if (consp name) (apply #'mp:make-process name) (mp:make-process :name name))))
          (apply #'mp:process-preset process function arguments)
          (enable-uninterrupted process)))))

(defun protect-threads ()
  (let ((si:*ignore-package-locks* t))
    (stand-in 'mp:process-kill 'kill-checked)
    (stand-in 'mp:process-suspend 'suspend-checked)
    (stand-in 'mp:process-resume 'resume-checked)
    (stand-in 'mp:interrupt-process 'interrupt-checked)
    (stand-in 'mp:condition-variable-signal 'signal-checked)
    (stand-in 'mp:condition-variable-broadcast 'broadcast-checked)
    (stand-in 'mp:process-enable 'enable-uninterrupted)
    (stand-in 'mp:process-run-function 'run-uninterrupted)))

;;; Subprocesses

(defvar *original-run-program* (fdefinition 'ext:run-program))

(defun run-and-wait (command arguments options)
  (multiple-value-bind (stream code process)
      (mp:without-interrupts
        (call-original *original-run-program* (list* command arguments :wait nil options)))
    (if (and process (getf options :wait t))
        (values stream (nth-value 1 (ext:external-process-wait process t)) process)
        (values stream code process))))

(defun run-program-uninterrupted (&rest arguments)
  "In place of EXT:RUN-PROGRAM: stopped between making a pipe and making a stream of it, it would leave the pipe open for
ever. Waiting can be stopped."
  (if (and (cdr arguments) (evenp (length arguments)))
      (run-and-wait (first arguments) (second arguments) (cddr arguments))
      (call-original *original-run-program* arguments)))

(defun protect-run-program ()
  (let ((si:*ignore-package-locks* t))
    (stand-in 'ext:run-program 'run-program-uninterrupted)))

;;; Collecting garbage, which leaves no moment for a cancel

(defvar *original-gc* (fdefinition 'ext:gc))

(defun collect-garbage (&rest arguments)
  "In place of EXT:GC."
  (multiple-value-prog1 (apply *original-gc* arguments)
    (cancel-point)))

(defun replace-gc ()
  (let ((si:*ignore-package-locks* t))
    (stand-in 'ext:gc 'collect-garbage)))

(defun warm-up ()
  "Fill the caches of generic functions once, for all sessions."
  (let ((condition (make-condition 'simple-error :format-control "warm ~A" :format-arguments '(up))))
    (with-session-streams
      (evaluate "(defun #:f (x) (* x 2)) (list 1 \"a\" 'b 1.5 #\\c (vector 1 2)) (format t \"~A ~S~%\" 1 \"x\")" nil)
      (with-reports (warn "warm"))
      (with-report-syntax
        (put-error (public-type condition) (safe-message condition))
        (print-calls (calls-to-show condition)))
      (fresh-line *stdout*)))
  (dolist (channel (list +stdout+ +stderr+ +values+ +warnings+ +error-type+ +error-message+ +frames+))
    (clear-channel channel))
  (setf + nil ++ nil +++ nil * nil ** nil *** nil / nil // nil /// nil - nil))

(defun lock-runtime (lock)
  (ext:package-lock (find-package "CL-MCP-RUNTIME") lock))

(defun edit (&optional x)
  "In place of ED, which would start a program that waits for somebody at a terminal."
  (error "There is no editor here~@[ for ~S~]: define it again with EVALUATE-LISP." x))

(defun step-through (form environment)
  "In place of the macro STEP, which would read commands and end Lisp when there are none: evaluates what it is given."
  (declare (ignore environment))
  (destructuring-bind (operator form) form
    (declare (ignore operator))
    form))

(defun replace-dialogues ()
  (let ((si:*ignore-package-locks* t))
    (stand-in 'ed 'edit)
    (si:fset 'step #'step-through t)))

(defun prepare ()
  "Called by the host, once, before it forks any session."
  (setf *main-process* mp:*current-process*
        si::*quit-tag* *evaluation-tag*)
  (prepare-types)
  (warm-up)
  (replace-exit)
  (protect-files)
  (protect-threads)
  (protect-run-program)
  (replace-gc)
  (replace-dialogues)
  (setf *compile-verbose* nil
        *load-verbose* nil)
  (install-session-streams)
  (setf ext:*invoke-debugger-hook* #'on-unhandled
        ext:*register-with-pde-hook* #'annotate
        *baseline-globals* (global-values))
  (prepare-asdf)
  (note-baseline)
  (lock-runtime t))

(defun renew ()
  "Called by the host in every fork, in the session's directory: two sessions must not draw the same random numbers."
  (setf *random-state* (make-random-state t)
        *default-pathname-defaults* (ext:getcwd)))

(defun renew-clone ()
  "Called by the host in a clone of a session: the two must not draw the same random numbers from now on. All else is as
the original has it, its directory too, and random states that the user keeps elsewhere."
  (setf *random-state* (make-random-state t)))

;;; The careful ways, see recipes.c

(defun do-without-hook ()
  (setf *hook-works* nil))

(defun do-without-exit ()
  (si:fset 'ext:quit *original-quit*)
  (si:fset 'si:exit *original-exit*)
  (si:fset 'mp:exit-process *original-exit-process*))

(defun do-without-channels ()
  "Standard output through ECL's own streams into the pipes behind descriptors 1 and 2."
  (flet ((stream-on (descriptor)
           (ext:make-stream-from-fd descriptor :output :buffering :none :element-type 'character
                                                       :external-format :utf-8)))
    (setf *stdout* (stream-on 1)
          *stderr* (stream-on 2)))
  (install-session-streams))

(defun do-without-lock ()
  (lock-runtime nil))

(defun do-without-lint ()
  (setf *lint* nil))
