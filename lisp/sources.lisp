;;;; sources.lisp - remembers the source of what the user defines, as it was evaluated last.
;;;;
;;;; The state of a session is written as definitions; of classes, structures, methods and macros ECL keeps too little to
;;;; make them from. But its defining macros ask EXT:*REGISTER-WITH-PDE-HOOK*, which is there for such purposes, for the form
;;;; that they become: ours notes the source behind the definition. So it costs nothing but when something is defined, and
;;;; sees what the user's macros and loaded files define as well.

(in-package :cl-mcp-runtime)

(defvar *sources* (make-hash-table :test 'equal)
  "What was defined, by keys like (METHOD DRAW (:BEFORE) (SHAPE)).")

(defvar *sources-noted* 0
  "How many there have been.")

(defstruct source
  (number 0)    ; by the order in which they were first defined: others may depend on it
  (form nil)
  (package "")  ; the name of the current one
  (captured '())) ; names of the variables and functions around it that it mentions

(defparameter *source-kinds* '((defun . function) (defmacro . function) (defclass . class) (defstruct . class)
                               (defgeneric . generic-function) (defmethod . method) (defsetf . setf)
                               (define-symbol-macro . symbol-macro) (define-compiler-macro . compiler-macro))
  "The forms that are noted, and what they define.")

;;; Keys

(defun specializer-names (lambda-list)
  "Those of a method's required parameters, as they were written."
  (loop for item in lambda-list
        until (member item lambda-list-keywords)
        collect (if (consp item) (second item) t)))

(defun method-key (name tail)
  (let ((lambda-list (find-if #'listp tail)))
    (list 'method name (ldiff tail (member-if #'listp tail)) (specializer-names lambda-list))))

(defun defined-name (form)
  "The name that FORM, a definition, gives."
  (if (and (eq (first form) 'defstruct) (consp (second form)))
      (first (second form))
      (second form)))

(defun source-key (form)
  "What the definition FORM is found by; NIL if it is not noted."
  (let ((kind (cdr (assoc (first form) *source-kinds*)))
        (name (defined-name form)))
    (and kind
         (symbol-package (if (consp name) (second name) name))
         (if (eq kind 'method)
             (method-key name (cddr form))
             (list kind name)))))

(defun find-source (kind name)
  (gethash (list kind name) *sources*))

(defun sources-in-order ()
  "Pairs of a key and a source, in the order in which they were first defined."
  (let ((found '()))
    (maphash (lambda (key source) (push (cons key source) found)) *sources*)
    (sort found #'< :key (lambda (pair) (source-number (cdr pair))))))

;;; Noting

(defun without-methods (form)
  "The DEFGENERIC form without its methods, which are noted themselves."
  (remove-if (lambda (option) (and (consp option) (eq (first option) :method))) form))

(defun note-source (form package captured)
  "The definition FORM has just been evaluated. Other threads are not heard: a hash table is for one at a time."
  (let ((key (and (eq mp:*current-process* *main-process*) (source-key form))))
    (when key
      (mp:without-interrupts
        (let ((known (gethash key *sources*)))
          (setf (gethash key *sources*)
                (make-source :number (if known (source-number known) (incf *sources-noted*))
                             :form (if (eq (first form) 'defgeneric) (without-methods form) form)
                             :package package
                             :captured captured)))))))

(defun local-names (environment)
  "The names that ENVIRONMENT, a macro's, gives a meaning, but for special variables."
  (destructuring-bind (&optional variables &rest functions) environment
    (append (loop for entry in variables
                  when (and (consp entry) (symbolp (first entry)) (not (eq (second entry) 'special)))
                    collect (if (eq (first entry) :function) (second entry) (first entry)))
            (loop for entry in functions
                  when (consp entry)
                    collect (first entry)))))

(defun names-mentioned (names form)
  "Those of NAMES that stand somewhere in FORM."
  (remove-if-not (lambda (name)
                   (let ((left +steps+))
                     (labels ((mentioned-p (tree)
                                (cond ((minusp (decf left)) t)
                                      ((consp tree) (or (mentioned-p (car tree)) (mentioned-p (cdr tree))))
                                      (t (eq tree name)))))
                       (and (symbolp name) (mentioned-p form)))))
                 names))

(defmacro noting (form package &environment environment)
  `(note-source ',form ,package ',(ignore-errors (names-mentioned (remove-duplicates (local-names environment)) form))))

(defvar *original-annotation* ext:*register-with-pde-hook*
  "ECL's own hook.")

(defun annotate (location definition form &rest more)
  "The hook: what the DEFINITION becomes whose macro has made FORM of it. What goes into a file, or belongs to a system, is
not noted."
  (let ((annotated (apply *original-annotation* location definition form more)))
    (cond ((or *compile-file-truename* *compiling* *action* (not (assoc (first definition) *source-kinds*)))
           annotated)
          ((eq (first definition) 'defstruct)
           ;; What it becomes is for files alone. So it may be never evaluated; whoever wants it has to look whether it was.
           (note-source definition (package-name *package*) '())
           annotated)
          (t
           `(multiple-value-prog1 ,annotated
              (noting ,definition ,(package-name *package*)))))))
