;;;; build.lisp - compiles the runtime into a static library.
;;;;
;;;; ecl --norc --shell build.lisp -- SOURCE-DIRECTORY OBJECT-DIRECTORY LIBRARY FILE...
;;;;
;;;; Nothing is written outside of OBJECT-DIRECTORY and LIBRARY's directory: the sources may be read-only.

(require :cmp)
(require :asdf) ; whose symbols systems.lisp names

(defvar *arguments* (rest (member "--" (ext:command-args) :test #'string=)))

(defun fail (control &rest arguments)
  (format *error-output* "~&build.lisp: ~?~%" control arguments)
  (ext:quit 1))

(defun note-definitions (path)
  "What the compiler must know of one file to compile the next: its package, macros, constants and variables."
  (with-open-file (source path)
    (let ((*package* *package*))
      (loop for form = (read source nil source)
            until (eq form source)
            do (case (first form)
                 ((defpackage in-package defmacro defconstant) (eval form))
                 ((defvar defparameter) (proclaim `(special ,(second form)))))))))

(destructuring-bind (source-directory object-directory library &rest names) *arguments*
  (flet ((source (name) (format nil "~A/~A.lisp" source-directory name))
         (object (name) (format nil "~A/~A.o" object-directory name)))
    (dolist (name names)
      ;; Each time, because a file may want it otherwise for itself.
      (proclaim '(optimize (speed 1) (safety 1) (debug 0)))
      (multiple-value-bind (output warnings failure)
          (compile-file (source name) :system-p t :output-file (object name))
        (declare (ignore warnings))
        (when (or failure (not output))
          (fail "~A.lisp does not compile" name)))
      (note-definitions (source name)))
    (unless (c:build-static-library library :lisp-files (mapcar #'object names)
                                            :init-name "init_lib_cl_mcp_runtime")
      (fail "no library ~A" library))))

(ext:quit 0)
