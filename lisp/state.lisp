;;;; state.lisp - the operation that writes what a session has got into a file.
;;;;
;;;; The file is a list of records, each behind the name of what it is about: definitions in source, values as encoding.lisp
;;;; writes them, and what cannot be kept. restore.lisp makes a session of it. Nothing of the user's is called meanwhile.

(in-package :cl-mcp-runtime)

;; What is looked at may be of any kind.
(eval-when (:compile-toplevel)
  (proclaim '(optimize (safety 2))))

(defconstant +state-version+ 1)

(defvar *state* nil
  "The stream that records are written to.")

(defvar *omitted* '()
  "The names of what could not be written although it might be kept.")

(defun put-record (name kind &rest arguments)
  "What cannot be printed, for whatever reason, is not kept."
  (prin1 name *state*)
  (terpri *state*)
  (write-line (handler-case (prin1-to-string (cons kind arguments))
                (serious-condition (condition)
                  (prin1-to-string (list :lost (safe-message condition)))))
              *state*))

(defun lose (name why)
  "It is not kept."
  (put-record name :lost why))

(defmacro losing-at-most ((name) &body body)
  "Evaluate BODY, which puts records of NAME. An error in the metaobjects of one costs nothing else."
  `(handler-case (progn ,@body)
     (serious-condition (condition)
       (lose (name-text ,name) (safe-message condition)))))

;;; Systems and packages

(defun put-systems ()
  (dolist (line (text-lines (list-loaded-systems "")))
    (put-record (split-line line) :system line)))

(defun symbol-place (symbol)
  (list (package-name (symbol-package symbol)) (symbol-name symbol)))

(defun present-symbols (package)
  "Those that are in PACKAGE itself, as three lists: exported, shadowing, and imported from elsewhere."
  (let ((exports '())
        (shadowing (package-shadowing-symbols package))
        (imports '()))
    (with-package-iterator (next package :internal :external)
      (loop
        (multiple-value-bind (more symbol status) (next)
          (unless more
            (return))
          (when (eq status :external)
            (push (symbol-name symbol) exports))
          (when (and (symbol-package symbol)
                     (not (eq (symbol-package symbol) package))
                     (not (member symbol shadowing)))
            (push (symbol-place symbol) imports)))))
    (values exports shadowing imports)))

(defun put-package-contents (package)
  (multiple-value-bind (exports shadowing imports) (present-symbols package)
    (let ((own (remove package shadowing :key #'symbol-package :test-not #'eq))
          (foreign (remove package (remove nil shadowing :key #'symbol-package) :key #'symbol-package)))
      (put-record (package-name package) :package-contents (package-name package)
                  :shadow (mapcar #'symbol-name own)
                  :shadowing-import (mapcar #'symbol-place foreign)
                  :use (mapcar #'package-name (package-use-list package))
                  :import imports
                  :export exports))))

(defun put-packages (packages)
  (dolist (package packages)
    (put-record (package-name package) :package (package-name package) (package-nicknames package)))
  (mapc #'put-package-contents packages))

;;; Functions and macros

(defun structure-predicates ()
  "The names of the predicates that the user's structures have: nothing else tells them from other functions."
  (loop for (nil . source) in (sources-in-order)
        for form = (source-form source)
        when (eq (first form) 'defstruct)
          collect (let ((option (and (consp (second form)) (assoc :predicate (remove-if #'atom (cdr (second form)))))))
                    (if (cdr option)
                        (second option)
                        (find-symbol (format nil "~A-P" (defined-name form)) (source-package source))))))

(defun part-of-structure-p (name captured predicates)
  (or (and (symbolp name)
           (or (si:get-sysprop name 'si::structure-access)
               (member name predicates)))
      (and (consp captured)
           (member 'si::.structure-constructor-class. captured :key (lambda (entry) (if (consp entry) (first entry) entry))))))

(defun captured-text (captured)
  "CAPTURED, a closure's environment or a list of names, for people."
  (format nil "a closure~@[ over ~{~A~^, ~}~]"
          (and (consp captured)
               (mapcar #'symbol-text
                       (remove-if-not #'symbolp (mapcar (lambda (entry) (if (consp entry) (first entry) entry)) captured))))))

(defun put-source (name source)
  (cond ((source-captured source)
         (lose name (captured-text (source-captured source))))
        ((printable-p (source-form source))
         (put-record name :source (source-package source) (source-form source)))
        (t
         (lose name "its source holds an object that has no readable form"))))

(defun current-p (source expression)
  "True if the function whose lambda expression is EXPRESSION was defined by SOURCE: then they share the body."
  (and source
       (not (source-captured source))
       (eq (last (source-form source)) (last expression))))

(defun put-function (name function macro predicates)
  "The global function or macro NAME, unless a definition of another kind makes it."
  (let ((source (find-source 'function name))
        (text (name-text name)))
    (multiple-value-bind (expression captured own-name) (function-lambda-expression function)
      (cond ((part-of-structure-p name captured predicates))
            ((and (not macro) (closure-kept-p expression captured))
             (push (cons name function) *closures*))
            (captured (lose text (captured-text captured)))
            ((current-p source expression) (put-source text source))
            ((and expression (printable-p expression)) (put-record text :function name macro expression))
            (expression (lose text "its source holds an object that has no readable form"))
            ((and source (equal own-name name)) (put-source text source))
            ((and own-name (not (equal own-name name)) (fboundp own-name) (eq (fdefinition own-name) function))
             (put-record text :alias name own-name))
            (t (lose text "native code without source"))))))

(defun interned-p (name)
  (and (symbol-package (if (consp name) (second name) name)) t))

(defun own-function-names (symbols)
  "Those of the user's symbols, and those that the user has given to functions of others."
  (let ((own (make-hash-table :test 'eq)))
    (dolist (symbol symbols)
      (setf (gethash symbol own) t))
    (append (loop for symbol in symbols
                  when (fboundp symbol)
                    collect symbol
                  when (fboundp `(setf ,symbol))
                    collect `(setf ,symbol))
            (loop for ((kind name)) in (sources-in-order)
                  when (and (eq kind 'function)
                            (interned-p name)
                            (fboundp name)
                            (not (gethash (if (consp name) (second name) name) own)))
                    collect name))))

(defun global-function (name)
  "What NAME is defined as, also while it is traced."
  (or (si:traced-old-definition name) (fdefinition name)))

(defun put-functions (names macros predicates)
  "Those of NAMES that are MACROS, or those that are not."
  (dolist (name names)
    (let ((macro (and (symbolp name) (macro-function name))))
      (when (eq (and macro t) macros)
        (losing-at-most (name)
          (let ((function (or macro (global-function name))))
            (unless (typep function 'generic-function)
              (put-function name function macros predicates)))
          (when (si:traced-old-definition name)
            (lose (name-text name) "it is not traced any more"))
          (let ((documentation (ignore-errors (documentation name 'function))))
            (when (stringp documentation)
              (put-record (name-text name) :documentation name 'function documentation))))))))

;;; Types, and other things that have a source

(defun without-initial-values (form)
  "The DEFCLASS form without the initial values of slots that the class itself has: they would be evaluated."
  (destructuring-bind (operator name superclasses slots &rest options) form
    (list* operator name superclasses
           (mapcar (lambda (slot)
                     (if (and (consp slot) (eq (getf (cdr slot) :allocation) :class))
                         (cons (first slot) (loop for (key value) on (cdr slot) by #'cddr
                                                  unless (eq key :initform)
                                                    append (list key value)))
                         slot))
                   slots)
           options)))

(defun evaluated-p (form)
  "True if FORM has defined the structure that there is."
  (let ((evaluated (si:get-sysprop (defined-name form) 'si::defstruct-form)))
    (and evaluated
         (if (cddr form)
             (tailp (last form) evaluated)
             (null (cddr evaluated))))))

(defun class-there-p (name source)
  (if (eq (first (source-form source)) 'defstruct)
      (evaluated-p (source-form source))
      (let ((class (find-class name nil)))
        (and class (eq (class-name class) name)))))

(defun there-p (kind name &optional source)
  "True if what NAME was defined as, by SOURCE, is there still."
  (case kind
    (class (class-there-p name source))
    (generic-function (and (fboundp name) (typep (global-function name) 'generic-function)))
    (setf (si:get-sysprop name 'si::setf-method))
    (symbol-macro (si:get-sysprop name 'si:symbol-macro))
    (compiler-macro (compiler-macro-function name))))

(defun put-noted ()
  "In the order in which they were first defined, because one may need another."
  (loop for ((kind name) . source) in (sources-in-order)
        when (and (interned-p name) (ignore-errors (there-p kind name source)))
          do (when (eq (first (source-form source)) 'defclass)
               (setf source (make-source :form (without-initial-values (source-form source))
                                         :package (source-package source)
                                         :captured (source-captured source))))
             (put-source (name-text name) source)))

(defun put-classes-without-source (symbols)
  (dolist (symbol symbols)
    (when (and (find-class symbol nil)
               (not (find-source 'class symbol)))
      (lose (symbol-text symbol) "a class without source"))))

(defun put-types (symbols)
  "What ECL itself keeps the source of."
  (dolist (symbol symbols)
    (let ((type (si:get-sysprop symbol 'si::deftype-form))
          (expander (si:get-sysprop symbol 'si::setf-method)))
      (when (and type (printable-p type))
        (put-record (symbol-text symbol) :source "COMMON-LISP-USER" type))
      (multiple-value-bind (expression captured) (and expander (function-lambda-expression expander))
        (when (and expression (not captured) (printable-p expression))
          (put-record (symbol-text symbol) :setf-expander symbol expression))))))

;;; Generic functions and methods

(defun put-generic-functions (names)
  "Those that no DEFGENERIC has made."
  (dolist (name names)
    (when (and (there-p 'generic-function name)
               (not (find-source 'generic-function name)))
      (let ((lambda-list (clos:generic-function-lambda-list (global-function name))))
        (when (printable-p lambda-list)
          (put-record (name-text name) :generic-function name lambda-list))))))

(defun constant-value (form)
  "The value of FORM, if it needs no evaluation; otherwise FORM, which is no other object's."
  (cond ((and (consp form) (eq (first form) 'quote)) (second form))
        ((constantp form) (eval form))
        (t form)))

(defun same-specializer-p (specializer written)
  (if (typep specializer 'clos:eql-specializer)
      (and (consp written)
           (eq (first written) 'eql)
           (or (not (constantp (second written)))
               (eql (constant-value (second written)) (clos:eql-specializer-object specializer))))
      (eq (class-name specializer) written)))

(defun method-of-source (key)
  "The method that the source under KEY has made, if it is there still."
  (destructuring-bind (kind name &optional qualifiers specializers) key
    (and (eq kind 'method)
         (there-p 'generic-function name)
         (find-if (lambda (method)
                    (and (equal (method-qualifiers method) qualifiers)
                         (= (length (clos:method-specializers method)) (length specializers))
                         (every #'same-specializer-p (clos:method-specializers method) specializers)))
                  (clos:generic-function-methods (global-function name))))))

(defun method-text (method)
  (string-right-trim " " (second (method-entry method))))

(defun put-methods (names symbols packages)
  (let ((found '()))
    (loop for (key . source) in (sources-in-order)
          for method = (ignore-errors (method-of-source key))
          when method
            do (push method found)
               (put-source (method-text method) source))
    (dolist (method (append (loop for name in names
                                  when (there-p 'generic-function name)
                                    append (clos:generic-function-methods (global-function name)))
                            (foreign-methods symbols packages)))
      (unless (or (member method found)
                  (typep method '(or clos:standard-reader-method clos:standard-writer-method)))
        (push method found)
        (lose (method-text method) "a method without source")))))

;;; Values

(defun put-specials (symbols)
  (let ((specials (remove-if-not (lambda (symbol) (and (si:specialp symbol) (not (constantp symbol)))) symbols)))
    (when specials
      (apply #'put-record "special variables" :specials specials))
    (dolist (symbol symbols)
      (let ((documentation (ignore-errors (documentation symbol 'variable))))
        (when (stringp documentation)
          (put-record (symbol-text symbol) :documentation symbol 'variable documentation))))))

(defun encoded-place (place name value)
  "A list of what is there: the PLACE, its NAME for people, and the encoding of VALUE. What fails is written at once."
  (multiple-value-bind (encoding failure) (encode-value value)
    (cond (failure
           (push name *omitted*)
           (lose name failure)
           '())
          (t (list (list place name encoding))))))

(defun kept-places (places)
  "PLACES with their encodings, without those that are lost as a whole; what is lost is written at once."
  (let ((losses (losses (mapcar #'third places))))
    (loop for (place name encoding) in places
          do (dolist (text (reverse (gethash encoding losses)))
               (lose name (if (lost-p encoding) text (format nil "~A in it is gone" text))))
          unless (lost-p encoding)
            collect (cons place encoding))))

(defun variable-places (symbols)
  (loop for symbol in symbols
        for name = (symbol-text symbol)
        when (boundp symbol)
          append (encoded-place (list (if (constantp symbol) :constant :variable) symbol) name (symbol-value symbol))
        when (symbol-plist symbol)
          append (encoded-place (list :properties symbol) name (symbol-plist symbol))))

(defun closure-places ()
  "The functions that are closures."
  (loop for (name . function) in *closures*
        append (encoded-place (list :closure name) (name-text name) function)))

(defun readtable-places ()
  "The current one, unless it is as every session's."
  (let ((readtable (cdr (assoc '*readtable* *outer-globals*))))
    (when (readtable-changed-p readtable)
      (encoded-place (list :prompt '*readtable*) "*READTABLE*" readtable))))

(defun class-slot-places (symbols)
  "The slots that classes have themselves."
  (loop for symbol in symbols
        for class = (find-class symbol nil)
        when (and class (find-source 'class symbol) (typep class 'standard-class))
          append (loop for slot in (clos:class-direct-slots class)
                       for name = (clos:slot-definition-name slot)
                       for prototype = (clos:class-prototype class)
                       when (and (eq (clos:slot-definition-allocation slot) :class)
                                 (slot-boundp prototype name))
                         append (encoded-place (list :slot symbol name)
                                               (format nil "~A of ~A" (symbol-text name) (symbol-text symbol))
                                               (slot-value prototype name)))))

(defun put-values (symbols)
  "All in one record, because values share what is in them."
  (let ((*encoded* (make-object-table))
        (*labels* (make-object-table))
        (*labels-given* 0)
        (*lost-encodings* '())
        (*room* +room+))
    (let ((places (kept-places (append (variable-places symbols) (class-slot-places symbols) (closure-places)
                                       (readtable-places))))) ; which may write what is lost
      (format *state* "~S~%(~S" "values" :values)
      (dolist (place places)
        (terpri *state*)
        (write-encoding place *state*))
      (format *state* ")~%"))))

(defun lose-checkpoints ()
  (dolist (name (checkpoint-names))
    (lose (format nil "the checkpoint ~S" name) "it was a process")))

(defun put-prompt ()
  "What reading and printing depend on; only what is not as usual."
  (loop for (variable . value) in *outer-globals*
        unless (or (eql value (cdr (assoc variable *baseline-globals*)))
                   (eq variable '*readtable*))
          do (if (typep value '(or symbol integer))
                 (put-record (symbol-text variable) :global variable value)
                 (lose (symbol-text variable) "a value that is not a symbol or an integer")))
  (put-record "the directory" :directory (namestring (ext:getcwd)) (namestring *default-pathname-defaults*))
  (put-record "the current package" :current-package (package-name (session-package))))

;;; The operation

(defun put-state ()
  (let* ((packages (user-packages))
         (symbols (user-symbols packages))
         (names (own-function-names symbols))
         (predicates (structure-predicates))
         (*closures* '()))
    (put-record "version" :version +state-version+)
    (put-systems)
    (put-packages packages)
    (put-specials symbols)
    (put-types symbols)
    (put-noted)
    (put-functions names t predicates)
    (put-functions names nil predicates)
    (put-classes-without-source symbols)
    (put-generic-functions names)
    (put-methods names symbols packages)
    (put-values symbols)
    (put-prompt)
    (lose-checkpoints)
    (put-record "end" :end)))

(defun check-omitted ()
  (when *omitted*
    (error "~A is too big to be written." (first *omitted*))))

(defun check-threads ()
  (let ((threads (remove *main-process* (mp:all-processes))))
    (when threads
      (error "It runs ~R Lisp thread~:P." (length threads)))))

(defun save-state (text)
  "The operation: the file that the first line of TEXT names becomes, at once, the session's state after the evaluation whose
number stands in the second. If there is a third line, WHOLE, a value that is too big is an error; otherwise it is one of
those that are not kept."
  (check-threads)
  (let* ((lines (text-lines text))
         (file (pathname (first lines)))
         (new (make-pathname :type "new" :defaults file))
         (*omitted* '()))
    (with-open-file (*state* new :direction :output :if-exists :supersede :external-format :utf-8)
      (ext:chmod new #o600)
      (format *state* "; after evaluation ~A~%" (or (second lines) 0)) ; for daemon/statefile.c
      (with-state-syntax (put-state))
      (when (cddr lines)
        (check-omitted))
      (synchronize *state*))
    (rename-file new file :if-exists t)
    ""))
