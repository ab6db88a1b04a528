;;;; systems.lisp - where systems are found, which have been loaded since the session began, and which packages they made.

(in-package :cl-mcp-runtime)

(defvar *baseline-packages* '()
  "The packages that every session begins with.")

(defvar *system-packages* '()
  "Those that were made while a system was loaded.")

(defvar *baseline-registry* '()
  "ASDF's central registry when a session begins.")

(defvar *baseline-systems* '()
  "The systems and modules that every session begins with.")

(defvar *noted-systems* '()
  "The names of systems that were loaded, the latest first.")

;;; Noting what loading does, no matter who asks for it

(defun call-noting-packages (function)
  "Call FUNCTION. The packages that it makes are a system's, not the user's."
  (let ((before (list-all-packages)))
    (unwind-protect (funcall function)
      (setf *system-packages*
            (append (set-difference (list-all-packages) before :test #'eq) *system-packages*)))))

(defun note-system (name)
  (pushnew name *noted-systems* :test #'string-equal))

(defvar *action* nil
  "What ASDF is about: the operation and the component.")

(defvar *progress* nil
  "The stream that shows what is being done, if anybody watches.")

(defun show-progress (operation component)
  (when (and *progress* (typep component 'asdf:source-file) (typep operation '(or asdf:compile-op asdf:load-op)))
    (format *progress* "~&; ~:[Loading~;Compiling~] ~{~A~^/~}~%"
            (typep operation 'asdf:compile-op) (asdf:component-find-path component))))

(defmethod asdf:perform :around ((operation asdf:operation) (component asdf:component))
  (let ((*action* (cons operation component))
        (*load-verbose* nil))
    (show-progress operation component)
    (call-noting-packages #'call-next-method)))

(defmethod asdf:perform :after ((operation asdf/lisp-action:basic-load-op) (system asdf:system))
  (note-system (asdf:component-name system)))

(defmethod asdf:find-system :around ((name string) &optional error-p)
  "A file of definitions may have a package of its own."
  (declare (ignore error-p))
  (let ((*load-verbose* nil))
    (call-noting-packages #'call-next-method)))

(defun note-module-provider (provider)
  "In place of PROVIDER, one of those that REQUIRE asks."
  (lambda (name)
    (call-noting-packages (lambda () (funcall provider name)))))

;;; Which they are

(defun all-loaded ()
  "The names of all systems and modules that are there, in the order in which they were loaded as far as that is known."
  (remove-duplicates (append (reverse *noted-systems*) (asdf:already-loaded-systems) (reverse *modules*))
                     :test #'string-equal :from-end t))

(defun loaded-systems ()
  "The names of those that were loaded since the session began."
  (remove-if (lambda (name) (member name *baseline-systems* :test #'string-equal)) (all-loaded)))

(defun findable-p (name file)
  "True if a new session would find the definition of system NAME in FILE by itself."
  (let* ((asdf:*central-registry* *baseline-registry*)
         (found (some (lambda (search) (funcall search name)) asdf:*system-definition-search-functions*)))
    (and (pathnamep found)
         (equal (truename found) (truename file)))))

(defun made-known (name)
  "The file that defines system NAME, if the session itself made it known where that is."
  (ignore-errors
    (let* ((system (asdf:find-system name nil))
           (file (and system (asdf:system-source-file system))))
      (and file
           (not (findable-p (asdf:primary-system-name system) file))
           (namestring file)))))

(defun list-loaded-systems (code)
  "The operation: their names, one on each line, in the order in which they were loaded. Behind a tab stands what a new
session has to be told."
  (declare (ignore code))
  (format nil "~{~A~^~%~}"
          (loop for name in (loaded-systems)
                for file = (made-known name)
                collect (if file (format nil "~A~C~A" name #\Tab file) name))))

(defun note-baseline ()
  "What is there now is not the user's, nor what the user loaded."
  (setf *baseline-registry* asdf:*central-registry*
        *baseline-packages* (list-all-packages)
        *baseline-systems* (all-loaded)))

;;; Where systems are found: in the session's directory, where ASDF looks by default, and in places that it knows by an
;;; environment which a daemon need not have.

(defun session-directory ()
  (if (uiop:absolute-pathname-p *default-pathname-defaults*)
      (uiop:pathname-directory-pathname *default-pathname-defaults*)
      (ext:getcwd)))

(defun searched-by-default-p (directory)
  (member directory (uiop:xdg-data-dirs "common-lisp/") :test #'string= :key #'namestring))

(defun more-systems ()
  "The last of ASDF's source registries. Searching a directory takes time, so none is searched twice."
  `(:source-registry
    (:tree (:home ".local/share/common-lisp/"))
    ,@(loop for directory in '("/usr/local/share/common-lisp/" "/usr/share/common-lisp/")
            unless (searched-by-default-p directory)
              collect `(:tree ,directory))
    :inherit-configuration))

(defun prepare-asdf ()
  "Called once, before any session is forked: what depends on a session's surroundings is found out in the session."
  (push '(session-directory) asdf:*central-registry*)
  (setf asdf:*default-source-registries* (append asdf:*default-source-registries* '(more-systems))
        ext:*module-provider-functions* (mapcar #'note-module-provider ext:*module-provider-functions*))
  (asdf:clear-configuration))
