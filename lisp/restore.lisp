;;;; restore.lisp - the operation that makes a new session what another was when its state was written.
;;;;
;;;; A record defines something, and never does what the user's code did: there is a function for each kind of record, and
;;;; no other forms. Definitions may need each other in any order, and macros may need values when they are expanded. So
;;;; what fails is tried again as long as anything succeeds, and the values come last once more.

(in-package :cl-mcp-runtime)

;; What is read from a file may be anything.
(eval-when (:compile-toplevel)
  (proclaim '(optimize (safety 2))))

(defvar *lost* '()
  "What could not be kept: names and reasons.")

(defun note-lost (name why)
  (push (format nil "~A: ~A" name (one-line why)) *lost*))

(defvar *restorers* (make-hash-table :test 'eq)
  "For each kind of record what restores it.")

(defmacro define-restorer (kind lambda-list &body body)
  `(setf (gethash ,kind *restorers*)
         (lambda (arguments)
           (destructuring-bind ,lambda-list arguments
             ,@body))))

(define-restorer :version (version)
  (unless (eql version +state-version+)
    (error "It was written by another version.")))

(define-restorer :system (line)
  (let ((failure (reload-failure line)))
    (when failure
      (error "~A" failure))))

;;; Packages

(defun named-package (name)
  (or (find-package name) (error "There is no package with the name ~A." name)))

(defun symbol-at (place)
  (intern (second place) (named-package (first place))))

(define-restorer :package (name nicknames)
  (if (find-package name)
      (rename-package name name nicknames)
      (make-package name :nicknames nicknames :use '())))

(define-restorer :package-contents (name &key shadow shadowing-import use import export)
  (let ((package (named-package name)))
    (shadow shadow package)
    (shadowing-import (mapcar #'symbol-at shadowing-import) package)
    (unuse-package (set-difference (package-use-list package) (remove nil (mapcar #'find-package use))) package)
    (use-package use package)
    (import (mapcar #'symbol-at import) package)
    (export (mapcar (lambda (name) (intern name package)) export) package)))

;;; Definitions

(define-restorer :specials (&rest symbols)
  (mapc #'si:*make-special symbols))

(define-restorer :source (package-name form)
  (unless (or (assoc (first form) *source-kinds*)
              (eq (first form) 'deftype))
    (error "~S does not define anything." (first form)))
  (let ((*package* (named-package package-name)))
    (eval form)))

(define-restorer :function (name macro expression)
  (si:fset name (eval `(function ,expression)) macro))

(define-restorer :alias (name original)
  (setf (fdefinition name) (fdefinition original)))

(define-restorer :setf-expander (name expression)
  (si:do-define-setf-method name (eval `(function ,expression))))

(define-restorer :generic-function (name lambda-list)
  (unless (fboundp name)
    (ensure-generic-function name :lambda-list lambda-list)))

(define-restorer :documentation (name kind text)
  (setf (documentation name kind) text))

;;; Values

(defun set-prompt (variable value)
  "What it is for the user, once this operation is over."
  (let ((global (assoc variable *globals*)))
    (when (and global (funcall (second global) value))
      (push (cons variable value) *later-globals*))))

(defun restore-place (place value)
  (destructuring-bind (kind name &optional slot) place
    (ecase kind
      (:variable (setf (symbol-value name) value))
      (:constant (unless (and (boundp name) (equalp (symbol-value name) value))
                   (si:*make-constant name value)))
      (:properties (setf (symbol-plist name) value))
      (:closure (si:fset name value))
      (:prompt (set-prompt name value))
      (:slot (setf (slot-value (clos:class-prototype (find-class name)) slot) value)))))

(defun place-text (place)
  (name-text (second place)))

(defun restore-values (places)
  "Answers what went wrong: pairs of a name and a reason."
  (let ((*decoded* (make-object-table)))
    (loop for (place . encoding) in places
          for why = (failure-of (lambda () (restore-place place (decode-value encoding))))
          when why
            collect (cons (place-text place) why))))

;;; The prompt

(define-restorer :global (variable value)
  (set-prompt variable value))

(define-restorer :directory (directory defaults)
  (ext:chdir directory)
  (setf *default-pathname-defaults* (pathname defaults)))

(define-restorer :current-package (name)
  (setf *session-package* (named-package name)))

;;; Reading

(defun replace-character (condition)
  "A character of Lisp's may be none of Unicode's, and can be written but not read."
  (let ((replace (find-restart 'use-value condition)))
    (when replace
      (invoke-restart replace #\?))))

(defun read-part (stream)
  (handler-bind ((ext:character-decoding-error #'replace-character))
    (read stream nil)))

(defun skip-record (stream start)
  "Behind the form that begins at START and cannot be read."
  (file-position stream start)
  (let ((*read-suppress* t))
    (read-part stream)))

(defun read-record (stream)
  "The next record's name and form, and why it cannot be read if it cannot; all NIL at the end."
  (with-state-syntax
    (let ((name (read-part stream))
          (start (file-position stream)))
      (handler-case (values name (read-part stream) nil)
        (error (condition)
          (skip-record stream start)
          (values name nil (safe-message condition)))))))

;;; The operation

(defun failure-of (function)
  "Call FUNCTION. What made it fail, or NIL."
  (let ((failure "its evaluation was left by a throw"))
    (undisturbed
      (setf failure (handler-case (progn (funcall function) nil)
                      (serious-condition (condition)
                        (or (ignore-errors (failure-cause condition)) (safe-message condition))))))
    failure))

(defun restore (form)
  "Restore what the record FORM is about. What went wrong, or NIL."
  (let ((restorer (gethash (first form) *restorers*)))
    (if restorer
        (failure-of (lambda () (funcall restorer (rest form))))
        "a record of an unknown kind")))

(defun retry (failed)
  "FAILED are lists of a name, a form and a reason. Those that fail again."
  (loop for (name form) in failed
        for why = (restore form)
        when why
          collect (list name form why)))

(defun retry-all (failed)
  "As long as one of FAILED succeeds. Those that do not."
  (loop for again = (retry failed)
        until (= (length again) (length failed))
        do (setf failed again)
        finally (return again)))

(defun restore-records (stream)
  "Answers two lists: the records that failed, and the places of values."
  (let ((failed '())
        (places '()))
    (loop
      (multiple-value-bind (name form unreadable) (read-record stream)
        (cond (unreadable (note-lost name unreadable))
              ((null name) (error "The state's end is missing."))
              ((eq (first form) :end) (return (values (nreverse failed) places)))
              ((eq (first form) :lost) (note-lost name (second form)))
              ((eq (first form) :values) (setf places (rest form)))
              (t
               (let ((why (restore form)))
                 (when why
                   (push (list name form why) failed)))))))))

(defun restore-all (stream)
  (multiple-value-bind (failed places) (restore-records stream)
    (let ((wrong (restore-values places)))
      (when (or failed wrong) ; what is a closure needs macros, which may need values
        (setf failed (retry-all failed)
              wrong (restore-values places)))
      (loop for (name nil why) in failed
            do (note-lost name why))
      (loop for (name . why) in wrong
            do (note-lost name why)))))

(defun restore-state (file)
  "The operation: what FILE says. Answers what could not be kept, a line each."
  (let ((*lost* '()))
    (with-open-file (stream file :external-format :utf-8)
      (call-with-chatter (lambda () (restore-all stream))))
    (format nil "~{~A~^~%~}" (sort *lost* #'string<))))
