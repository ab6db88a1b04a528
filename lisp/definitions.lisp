;;;; definitions.lisp - what the user has defined: the answer of list-definitions.
;;;;
;;;; A definition belongs to the user if its name's home is CL-USER or a package that was made since the session began, and
;;;; not by loading a system. The zygote's CL-USER is empty but for symbols that were read there.

(in-package :cl-mcp-runtime)

(defconstant +value-length+ 200)
(defconstant +parameters-shown+ 200)

(defvar *no-output* (make-broadcast-stream)
  "Swallows what is written to it.")

;;; Whose they are

(defun user-packages ()
  "CL-USER, and the packages that the user made, by name."
  (let ((known (append *baseline-packages* *system-packages*)))
    (sort (cons (user-package) (set-difference (list-all-packages) (cons (user-package) known) :test #'eq))
          #'string< :key #'package-name)))

(defun user-symbols (packages)
  "The symbols whose home is one of PACKAGES, in the order of these."
  (let ((symbols '()))
    (dolist (package packages (nreverse symbols))
      (with-package-iterator (next package :internal :external)
        (loop
          (multiple-value-bind (more symbol) (next)
            (unless more
              (return))
            (when (eq (symbol-package symbol) package)
              (push symbol symbols))))))))

;;; Text

(defun plain-p (object)
  "True if OBJECT is small and no code of the user's prints it: most are, and need not be printed with care."
  (let ((left +value-length+))
    (labels ((plain (object)
               (typecase object
                 ((or symbol fixnum float character) (plusp (decf left 4)))
                 (string (plusp (decf left (length object))))
                 (cons (and (plusp (decf left)) (plain (car object)) (plain (cdr object)))))))
      (plain object))))

(defun careful-text (object)
  (let ((*print-circle* t))
    (or (printing-bounded (stream +value-length+) (prin1 object stream))
        (object-text object))))

(defun control-character-p (character)
  (or (char< character #\Space) (char= character #\Rubout)))

(defun cut (text)
  (if (> (length text) +value-length+)
      (concatenate 'string (subseq text 0 (- +value-length+ 3)) "...")
      text))

(defun value-text (value)
  "VALUE printed on one line of a bounded length, whatever it is."
  (let ((text (if (plain-p value) (prin1-to-string value) (careful-text value))))
    (cut (if (find-if #'control-character-p text)
             (substitute-if #\Space #'control-character-p (one-line text))
             text))))

(defun symbol-text (symbol)
  "SYMBOL, with its package unless that is CL-USER or COMMON-LISP."
  (let ((*package* (if (member (symbol-package symbol) (list (user-package) (find-package "COMMON-LISP")))
                       (user-package)
                       (find-package "KEYWORD"))))
    (prin1-to-string symbol)))

(defun class-text (class)
  "The name of CLASS as in (METHOD DRAW (SHAPE T)); the object of an EQL specializer."
  (cond ((typep class 'clos:eql-specializer)
         (format nil "(EQL ~A)" (value-text (clos:eql-specializer-object class))))
        ((class-name class)
         (symbol-text (class-name class)))
        (t (value-text class))))

(defun name-text (name)
  "A symbol, or a list like (SETF FOO)."
  (if (consp name)
      (format nil "(~{~A~^ ~})" (mapcar #'symbol-text name))
      (symbol-text name)))

(defun without-packages (lambda-list)
  "LAMBDA-LIST with symbols of the same names that have no package, as far as it will be shown."
  (let ((left +parameters-shown+))
    (labels ((plain (object)
               (cond ((minusp (decf left)) object)
                     ((consp object)
                      (let ((first (plain (car object))))
                        (cons first (plain (cdr object)))))
                     ((or (null object) (not (symbolp object)) (keywordp object) (member object '(quote function)))
                      object)
                     (t (make-symbol (symbol-name object))))))
      (plain lambda-list))))

(defun lambda-list-text (lambda-list known)
  (cond ((not known) "(...)")
        ((null lambda-list) "()")
        (t (let ((*print-gensym* nil))
             (value-text (without-packages lambda-list))))))

;;; What a definition is to be found by, and the texts that show it

(defun entry (name &rest texts)
  "TEXTS default to NAME."
  (cons (string (if (consp name) (second name) name)) (or texts (list name))))

(defun macro-function-p (name)
  (and (symbolp name) (macro-function name)))

(defun interpreted-macro-p (name)
  "True for a macro of the user's. Of these ECL knows the lambda list, but says so only if it is not empty."
  (and (macro-function-p name)
       (function-lambda-expression (macro-function name))
       t))

(defun lambda-list (name)
  "The lambda list of NAME's function or macro; as a second value, whether it is known."
  (let ((function (or (si:traced-old-definition name) (fdefinition name)))
        (access (and (symbolp name) (si::get-sysprop name 'si::structure-access))))
    (cond ((typep function 'generic-function)
           (values (clos:generic-function-lambda-list function) t))
          (access
           (values (list (car access)) t))
          (t
           (multiple-value-bind (lambda-list known)
               (function-lambda-list (if (macro-function-p name) name function))
             (values lambda-list (or known (interpreted-macro-p name))))))))

(defun function-entry (name)
  (multiple-value-bind (lambda-list known) (ignore-errors (lambda-list name))
    (entry name (name-text name) " " (lambda-list-text lambda-list known))))

(defun method-entry (method)
  "For a method of a generic function that is not the user's."
  (let ((name (clos:generic-function-name (clos:method-generic-function method))))
    (entry name
           (format nil "(METHOD ~A~{ ~S~} (~{~A~^ ~})) " (name-text name) (method-qualifiers method)
                   (mapcar #'class-text (clos:method-specializers method)))
           (lambda-list-text (clos:method-lambda-list method) t))))

(defun variable-entry (symbol)
  (if (boundp symbol)
      (entry symbol (symbol-text symbol) " = " (value-text (symbol-value symbol)))
      (entry symbol (symbol-text symbol) " (unbound)")))

;;; The sections

(defun own-name-p (name packages)
  (let ((symbol (if (consp name) (second name) name)))
    (and (symbolp symbol) (member (symbol-package symbol) packages :test #'eq))))

(defun foreign-methods (symbols packages)
  "The methods for classes of the user's that belong to generic functions of others."
  (loop for symbol in symbols
        for class = (find-class symbol nil)
        when class
          append (remove-if (lambda (method)
                              (let ((generic-function (clos:method-generic-function method)))
                                (or (null generic-function)
                                    (own-name-p (clos:generic-function-name generic-function) packages))))
                            (clos:specializer-direct-methods class))))

(defun function-entries (symbols packages)
  (append (loop for symbol in symbols
                when (and (fboundp symbol) (not (macro-function symbol)))
                  collect (function-entry symbol)
                when (fboundp `(setf ,symbol))
                  collect (function-entry `(setf ,symbol)))
          (mapcar #'method-entry (remove-duplicates (foreign-methods symbols packages)))))

(defun variable-entries (symbols packages)
  (declare (ignore packages))
  (loop for symbol in symbols
        when (or (boundp symbol) (si::specialp symbol))
          collect (variable-entry symbol)))

(defun macro-entries (symbols packages)
  (declare (ignore packages))
  (loop for symbol in symbols
        when (macro-function symbol)
          collect (function-entry symbol)))

(defun class-entries (symbols packages)
  (declare (ignore packages))
  (loop for symbol in symbols
        when (find-class symbol nil)
          collect (entry symbol (symbol-text symbol))))

(defun system-entries (symbols packages)
  (declare (ignore symbols packages))
  (mapcar #'entry (mapcar #'string-upcase (loaded-systems))))

(defvar *sections* '(("functions" "[Functions]" function-entries)
                     ("variables" "[Variables]" variable-entries)
                     ("macros" "[Macros]" macro-entries)
                     ("classes" "[Classes]" class-entries)
                     ("systems" "[Loaded Systems]" system-entries))
  "For each kind of definition its title and the function that collects entries.")

(defun write-section (title entries stream)
  (write-string title stream)
  (dolist (entry (stable-sort entries #'string< :key #'car))
    (terpri stream)
    (write-string "- " stream)
    (dolist (text (cdr entry))
      (write-string text stream))))

(defun sections-of-kind (kind)
  (if (string= kind "all")
      *sections*
      (or (remove kind *sections* :key #'first :test-not #'string=)
          (error "There is no kind of definition called ~S." kind))))

(defun list-definitions (kind)
  "The operation: all that the user has defined, or one KIND of it."
  (let* ((packages (user-packages))
         (symbols (user-symbols packages))
         (empty t))
    (with-output-to-string (text)
      (loop for (nil title collect) in (sections-of-kind kind)
            for entries = (funcall collect symbols packages)
            when entries
              do (format text "~:[~2%~;~]" empty)
                 (write-section title entries text)
                 (setf empty nil))
      (when empty
        (write-string "No definitions." text)))))
