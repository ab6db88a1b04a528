;;;; lint.lisp - definitions are checked once they are evaluated; what was found is told at the end of the call.
;;;;
;;;; Nothing of the user's runs meanwhile but the expanders of macros, and whatever they do, the evaluation goes on.

(in-package :cl-mcp-runtime)

;; Any object may stand anywhere in the code that is looked at. With less safety a wrong one is a crash instead of an error.
(eval-when (:compile-toplevel)
  (proclaim '(optimize (safety 2))))

(defvar *lint* t
  "False if definitions are not checked.")

(defvar *checking* nil
  "True while expanders run that the user did not ask for.")

(defvar *nowhere* (make-broadcast-stream))

(defmacro undisturbed (&body body)
  "Evaluate BODY, which can be left by GIVE-UP. Errors and all other ways in which user code can end something do the same."
  `(let ((*checking* t)
         (*standard-output* *nowhere*)
         (*error-output* *nowhere*)
         (*trace-output* *nowhere*)
         (*macroexpand-hook* 'funcall)
         (*gensym-counter* *gensym-counter*)
         (*package* *package*)
         (*debugger-hook* nil)
         (ext:*invoke-debugger-hook* (lambda (condition hook) (declare (ignore condition hook)) (give-up)))
         (si::*quit-tag* 'give-up))
     (catch 'give-up
       (restart-case
           (handler-bind ((warning (lambda (condition)
                                     (let ((muffle (find-restart 'muffle-warning condition)))
                                       (when muffle
                                         (invoke-restart muffle)))))
                          (serious-condition (lambda (condition)
                                               (declare (ignore condition))
                                               (give-up))))
             ,@body)
         (abort ()
           nil)))))

(defun definitions-in (form)
  "The definitions that evaluating FORM evaluates as they stand. Macros are not expanded."
  (let ((left +depth+)
        (definitions '()))
    (labels ((collect-all (forms)
               (loop for tail = forms then (cdr tail)
                     while (and (consp tail) (plusp left))
                     do (collect (car tail))))
             (collect (form)
               (decf left)
               (when (and (consp form) (plusp left))
                 (case (car form)
                   ((progn locally) (collect-all (cdr form)))
                   ((eval-when let let* flet labels macrolet symbol-macrolet)
                    (when (consp (cdr form))
                      (collect-all (cddr form))))
                   (t
                    (when (gethash (car form) *definers*)
                      (push form definitions)))))))
      (collect form))
    (nreverse definitions)))

(defun check-redefinitions (definitions)
  "DEFINITIONS are about to be evaluated."
  (dolist (definition definitions)
    (let ((operator (car definition)))
      (when (and (member operator '(defun defmacro)) (consp (cdr definition)))
        (note-redefinition (second definition) operator)))))

(defun check-definitions (form)
  "FORM has just been evaluated, and there are definitions in it."
  (undisturbed
    (let ((*written* nil)
          (*steps-left* +steps+)
          (*depth-left* +depth+))
      (walk-outside form (empty-environment)))))

(defun may-define-p (form)
  "False for most forms, which then pay nothing more."
  (and (consp form)
       (let ((operator (car form)))
         (or (gethash operator *definers*)
             (member operator '(progn locally eval-when let let* flet labels macrolet symbol-macrolet))))))

(defun evaluate-form (form)
  "Evaluate FORM and, if there are definitions in it, check them."
  (let ((definitions (and *lint* (may-define-p form) (definitions-in form))))
    (cond (definitions
           (check-redefinitions definitions)
           (multiple-value-prog1 (eval form)
             (check-definitions form)))
          (t
           (eval form)))))

(defun report-notes ()
  "The end of a call that no error has ended."
  (when *notes*
    (with-report-syntax
      (dolist (warning (undisturbed (warnings-noted)))
        (unless (printing-item +warnings+ (write-string warning *warnings*))
          (return))))))
