;;;; loading.lisp - the operations that load systems, and what they say when that fails.

(in-package :cl-mcp-runtime)

(defconstant +excerpt-length+ 400)

;;; Chatter: only its end is of use, and only when loading fails

(defconstant +tail-length+ 4000)

(defclass tail-stream (gray:fundamental-character-output-stream)
  ((text :initform (make-array +tail-length+ :element-type 'character :fill-pointer 0 :adjustable t) :reader text))
  (:documentation "Remembers the last things that were written to it."))

(defmethod gray:stream-write-char ((stream tail-stream) character)
  (let ((text (text stream)))
    (when (> (fill-pointer text) (* 2 +tail-length+))
      (replace text text :start2 +tail-length+)
      (decf (fill-pointer text) +tail-length+))
    (vector-push-extend character text)
    character))

(defmethod gray:stream-line-column ((stream tail-stream))
  (let ((text (text stream)))
    (- (fill-pointer text) 1 (or (position #\Newline text :from-end t) -1))))

(defvar *chatter* nil
  "The stream that remembers what was printed while a system was loaded.")

(defun chatter ()
  "What was printed, or NIL."
  (when *chatter*
    (let ((text (string-trim '(#\Space #\Newline #\Return #\Tab) (text *chatter*))))
      (unless (string= text "")
        (subseq text (max 0 (- (length text) +tail-length+)))))))

(defun note-warning (condition)
  "A warning is chatter, too."
  (let ((muffle (find-restart 'muffle-warning condition)))
    (when muffle
      (with-report-syntax
        (format *error-output* "~&; ~A: ~A~%" (type-text condition) (one-line (safe-message condition))))
      (invoke-restart muffle))))

(defun call-with-chatter (function)
  "Call FUNCTION. What it prints is progress for those who watch, and is remembered."
  (let* ((*chatter* (make-instance 'tail-stream))
         (*standard-output* (make-broadcast-stream *chatter* *stdout*))
         (*error-output* *standard-output*)
         (*trace-output* *standard-output*)
         (*progress* *stdout*)
         (*load-verbose* nil)
         (*load-print* nil)
         (*compile-verbose* nil)
         (*compile-print* nil))
    (handler-bind ((warning #'note-warning))
      (funcall function))))

;;; Failures

(defun exported-name (symbol)
  "SYMBOL as those know it who use ASDF, not those who write it; NIL if it is not ASDF's."
  (loop for package in '("ASDF" "UIOP")
        do (multiple-value-bind (found status) (find-symbol (symbol-name symbol) package)
             (when (and (eq found symbol) (eq status :external))
               (return (format nil "~A:~A" package (symbol-name symbol)))))))

(defun type-text (condition)
  (let* ((*package* (user-package))
         (type (public-type condition)))
    (or (exported-name type) (prin1-to-string type))))

(defun failure-type (condition)
  "The type of CONDITION as PUT-ERROR shows it."
  (if *compiling* "ASDF:COMPILE-ERROR" (type-text condition)))

(defun system-name (object)
  (if (typep object 'asdf:component)
      (asdf:component-name (asdf:component-system object))
      (string-downcase object)))

(defvar *defining* nil
  "The name of the system whose definition was being loaded when ASDF missed something.")

(defun system-being-defined ()
  (and *load-truename*
       (equal (pathname-type *load-truename*) "asd")
       (pathname-name *load-truename*)))

(defun who-needs (condition)
  "The name of the system that needs what CONDITION says is missing; NIL if that is not known."
  (let ((component (asdf/find-component:missing-required-by condition)))
    (if component (system-name component) *defining*)))

(defun missing-message (condition)
  (format nil "Component ~S ~:[not found~;~:*does not match version ~A~]~@[, required by ~S~]"
          (let ((required (asdf/find-component:missing-requires condition)))
            (if (symbolp required) (string-downcase required) required))
          (and (typep condition 'asdf:missing-component-of-version) (asdf/find-component:missing-version condition))
          (and (typep condition 'asdf:missing-dependency)
               (who-needs condition))))

(defun circular-message (condition)
  (let* ((actions (asdf/plan:circular-dependency-actions condition))
         (names (remove-duplicates (mapcar (lambda (action) (system-name (cdr action))) actions) :test #'string=)))
    (format nil "Circular dependency: ~{~S~^ needs ~} needs ~S" names (first names))))

(defun definition-message (condition)
  (format nil "The definition of system ~S cannot be loaded from ~A:~%~A"
          (asdf/find-system:error-name condition) (asdf/find-system:error-pathname condition)
          (let ((inner (asdf/find-system:error-condition condition)))
            (format nil "~:[~A: ~;~*~]~A"
                    (typep inner 'asdf:system-definition-error) (type-text inner) (failure-cause inner)))))

(defun quicklisp-name (condition)
  "The name of the system that Quicklisp did not find, if that is what CONDITION says."
  (let ((type (type-of condition)))
    (when (and (symbolp type)
               (string= type "SYSTEM-NOT-FOUND")
               (equal (package-name (symbol-package type)) "QUICKLISP-CLIENT"))
      (loop for slot in (clos:class-slots (class-of condition))
            for name = (clos:slot-definition-name slot)
            when (and (member (symbol-name name) '("NAME" "SYSTEM") :test #'string=) (slot-boundp condition name))
              return (slot-value condition name)))))

(defvar *missing* nil
  "What ASDF said when it did not find all that it needed, while Quicklisp is asked.")

(defun required-by (name)
  "The name of the system that needs the system NAME, if ASDF has said so."
  (and (typep *missing* 'asdf:missing-dependency)
       (equalp (string name) (ignore-errors (string (asdf/find-component:missing-requires *missing*))))
       (who-needs *missing*)))

(defun failure-cause (condition)
  "What went wrong, for itself."
  (let ((not-found (quicklisp-name condition)))
    (cond (not-found (format nil "System ~S not found in any known distribution.~@[~%It is required by ~S.~]"
                             not-found (required-by not-found)))
          (t (typecase condition
               (asdf:missing-component (missing-message condition))
               (asdf:circular-dependency (circular-message condition))
               (asdf:load-system-definition-error (definition-message condition))
               (end-of-file (if *compiling* "The file ends inside of a form." (safe-message condition)))
               (t (safe-message condition)))))))

(defun compiling-place ()
  "Where the compiler was."
  (multiple-value-bind (line form) (place-in-source *compiling*)
    (format nil "~%while compiling ~A, line ~D:~%~A" (namestring (pathname *compiling*)) line
            (if (> (length form) +excerpt-length+)
                (concatenate 'string (subseq form 0 +excerpt-length+) "...")
                form))))

(defun loading-place ()
  "What ASDF was about."
  (let ((file (asdf:component-pathname (cdr *action*))))
    (format nil "~%while loading ~A" (if file (namestring file) (asdf:component-name (cdr *action*))))))

(defun failure-message (condition)
  "What went wrong, where, and what was printed before; but a system that nobody has is told in the contract's words alone."
  (format nil "~@[~A: ~]~A~@[~A~]~@[~2%~A~]"
          (and *compiling* (type-text condition))
          (or (ignore-errors (failure-cause condition)) (safe-message condition))
          (ignore-errors (cond (*compiling* (compiling-place))
                               (*action* (loading-place))))
          (and (not (quicklisp-name condition)) (chatter))))

;;; Quicklisp, if the user has it

(defun quicklisp-setup ()
  (probe-file (uiop:subpathname (user-homedir-pathname) "quicklisp/setup.lisp")))

(defun quicklisp ()
  "The function that loads a system by Quicklisp; NIL if there is no Quicklisp."
  (unless (find-package "QUICKLISP-CLIENT")
    (let ((setup (quicklisp-setup)))
      (when setup
        (load setup))))
  (let ((package (find-package "QUICKLISP-CLIENT")))
    (and package (find-symbol "QUICKLOAD" package))))

;;; Loading

(defun load-by-asdf (name)
  "What is not found may be new: in that case look again at what there is."
  (handler-case (asdf:load-system name)
    (asdf:missing-component ()
      (asdf:clear-source-registry)
      (asdf:load-system name))))

(defun note-definer (condition)
  (declare (ignore condition))
  (setf *defining* (system-being-defined)))

(defun load-somehow (name)
  (let ((*defining* nil))
    (handler-case (handler-bind ((asdf:missing-component #'note-definer))
                    (load-by-asdf name))
      (asdf:missing-component (missing)
        (let ((quickload (quicklisp)))
          (if quickload
              (let ((*missing* missing)) (funcall quickload name))
              (error missing)))))))

(defun defined-system-p (name)
  "True also if the definition needs something that is missing: that is told when the system is loaded."
  (handler-case (asdf:find-system name nil)
    (asdf:missing-component () t)))

(defun canonical-name (text)
  "The name of a system, also where it was typed like a symbol."
  (let ((name (string-left-trim "#:" (string-trim '(#\Space #\Newline #\Tab) text))))
    (or (find-if #'defined-system-p (list name (string-downcase name)))
        name)))

(defun load-noting (name)
  (call-noting-packages (lambda () (load-somehow name))))

(defun version (name)
  (let ((system (ignore-errors (asdf:find-system name nil))))
    (and system (ignore-errors (asdf:component-version system)))))

(defun load-system (text)
  "The operation."
  (call-with-chatter
   (lambda ()
     (let ((name (canonical-name text)))
       (load-noting name)
       (format nil "Loading system: ~A~%Loaded: ~:*~A~@[ (version ~A)~]" name (version name))))))

;;; Loading what another process of the session had loaded

(defun provided-p (name)
  (member name *modules* :test #'string-equal))

(defun load-module (name)
  "True if NAME is there afterwards. It may be a system's part that has a name of its own."
  (or (provided-p name)
      (progn (ignore-errors (require name))
             (provided-p name))))

(defun split-line (line)
  "The two parts of LINE around a tab; the second is NIL if there is none."
  (let ((tab (position #\Tab line)))
    (if tab
        (values (subseq line 0 tab) (subseq line (1+ tab)))
        (values line nil))))

(defun make-known (file)
  (when (and file (probe-file file))
    (asdf/find-system:load-asd file)))

(defun reload (name)
  (handler-case (load-noting name)
    (asdf:missing-component (missing)
      (unless (load-module name)
        (error missing)))))

(defun reload-failure (line)
  "Load the system or module that LINE names. What went wrong, or NIL."
  (multiple-value-bind (name file) (split-line line)
    (handler-case (progn (make-known file) (reload name) nil)
      (serious-condition (condition)
        (format nil "~A: ~A" name
                (one-line (or (ignore-errors (failure-cause condition)) (safe-message condition))))))))

(defun reload-systems (text)
  "The operation: load all that are named by the lines of TEXT. Answers those that cannot be loaded any more."
  (call-with-chatter
   (lambda ()
     (format nil "~{~A~^~%~}" (remove nil (mapcar #'reload-failure (text-lines text)))))))
