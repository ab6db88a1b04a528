;;;; lint-walk.lisp - walks through the code of definitions and notes what looks wrong.
;;;;
;;;; It knows the special operators and the forms that define or bind, and expands every other macro. What the user wrote
;;;; is told from what macros made of it by the identity of the lists: only the user's own variables can be unused.
;;;; An environment has the form that ECL's macros expect of it, (VARIABLES . FUNCTIONS), with entries
;;;;
;;;;   (NAME NIL USED)  (NAME :SPECIAL)  (NAME SI::SYMBOL-MACRO EXPANDER)
;;;;   (NAME SI::MACRO EXPANDER)  (NAME FUNCTION LAMBDA-LIST KNOWN)
;;;;
;;;; Code that is malformed or too big makes the walker give up. It is called where every error does the same.

(in-package :cl-mcp-runtime)

;; Any object may stand anywhere in the code that is looked at. With less safety a wrong one is a crash instead of an error.
(eval-when (:compile-toplevel)
  (proclaim '(optimize (safety 2))))

(defconstant +steps+ 20000 "How many forms of one definition are walked.")
(defconstant +depth+ 1000 "How deeply they may be nested.")
(defconstant +milliseconds+ 50 "How much CPU time one definition may take, expanders of macros included.")

(defvar *steps-left* 0)
(defvar *depth-left* 0)
(defvar *deadline* 0
  "When GET-INTERNAL-RUN-TIME is beyond this, the walker gives up.")

(defvar *written* nil
  "A hash table whose keys are the lists in the source of the definition that is being walked; NIL outside of any.")

(defvar *walkers* (make-hash-table :test 'eq)
  "The functions that walk forms, by operator.")

(defvar *definers* (make-hash-table :test 'eq)
  "The operators whose forms are definitions.")

(defun give-up ()
  (throw 'give-up nil))

(defun spend-step ()
  (when (minusp (decf *steps-left*))
    (give-up)))

(defmacro define-walker (operators lambda-list &body body)
  "How forms with one of OPERATORS are walked: LAMBDA-LIST is for their arguments; FORM and ENV may be used."
  `(let ((walker (lambda (form env)
                   (declare (ignorable form env))
                   (destructuring-bind ,lambda-list (cdr form)
                     ,@body))))
     (dolist (operator ',operators)
       (setf (gethash operator *walkers*) walker))))

(defmacro define-definer (operators lambda-list &body body)
  "The same for operators whose forms are definitions."
  `(progn
     (define-walker ,operators ,lambda-list ,@body)
     (dolist (operator ',operators)
       (setf (gethash operator *definers*) t))))

;;; What the user wrote

(defun written-lists (form)
  "A hash table whose keys are the lists in FORM that begin with a symbol. There may be cycles."
  (let ((table (make-hash-table :test 'eq :size 256))
        (left +steps+))
    (labels ((collect (list depth)
               (unless (or (eq (car list) 'quote) (zerop depth) (gethash list table))
                 (when (symbolp (car list))
                   (setf (gethash list table) t))
                 (loop for tail = list then (cdr tail)
                       while (consp tail)
                       do (when (minusp (decf left))
                            (return-from written-lists table))
                          (when (consp (car tail))
                            (collect (car tail) (1- depth)))))))
      (collect form +depth+)
      table)))

(defun written-p (form)
  (gethash form *written*))

;;; Declarations

(defun parse-body (body &optional documentation-allowed)
  "The forms of BODY, and the declaration specifiers before them."
  (loop with declarations = '()
        for item = (car body)
        do (cond ((and (consp item) (eq (car item) 'declare))
                  (setf declarations (append (cdr item) declarations)))
                 ((and documentation-allowed (stringp item) (cdr body))
                  (setf documentation-allowed nil))
                 (t
                  (return (values body declarations))))
           (pop body)))

(defun declared-p (name identifiers declarations)
  (loop for declaration in declarations
          thereis (and (consp declaration)
                       (member (car declaration) identifiers)
                       (member name (cdr declaration)))))

;;; Environments

(defun empty-environment ()
  (cons '() '()))

(defun add-variable (record env)
  (cons (cons record (car env)) (cdr env)))

(defun add-functions (records env)
  (cons (car env) (append records (cdr env))))

(defun find-variable (name env)
  (assoc name (car env) :test #'eq))

(defun find-function (name env)
  (assoc name (cdr env) :test #'equal))

(defun written-record (name form)
  "The record of the variable NAME that the list FORM, which the user wrote, binds. The list may be walked more than once if
a macro uses it twice: the variable is unused only if it never is."
  (let ((records (gethash form *written*)))
    (or (and (consp records) (assoc name records :test #'eq))
        (let ((record (list name nil nil)))
          (setf (gethash form *written*) (cons record (and (consp records) records)))
          (note-unused record)
          record))))

(defun bind-variable (name env binder declarations)
  "ENV with the variable NAME. The list BINDER may be the user's, who wants it to be used then; or it is NIL."
  (unless (and (symbolp name) (not (constantp name)))
    (give-up))
  (add-variable
   (cond ((or (si:specialp name) (declared-p name '(special) declarations))
          (list name :special))
         ((and binder *written* (written-p binder) (symbol-package name)
               (not (declared-p name '(ignore ignorable) declarations)))
          (written-record name binder))
         (t
          (list name nil nil)))
   env))

(defun add-specials (declarations env)
  "ENV with what DECLARATIONS say of variables that are bound elsewhere."
  (dolist (declaration declarations env)
    (when (and (consp declaration) (eq (car declaration) 'special))
      (dolist (name (cdr declaration))
        (setf env (add-variable (list name :special) env))))))

;;; Forms

(defun walk (form env)
  (spend-step)
  (cond ((null *written*)
         (walk-outside form env))
        ((symbolp form)
         (walk-symbol form env))
        ((consp form)
         (let ((*depth-left* (1- *depth-left*)))
           (when (minusp *depth-left*)
             (give-up))
           (walk-list form env)))))

(defun walk-all (forms env)
  (dolist (form forms)
    (walk form env)))

(defun walk-locally (body env)
  "BODY may begin with declarations, but binds nothing."
  (multiple-value-bind (forms declarations) (parse-body body)
    (walk-all forms (add-specials declarations env))))

(defun expand (function form env)
  (when (> (get-internal-run-time) *deadline*)
    (give-up))
  (funcall function form env))

(defun symbol-expansion (name env)
  "What the symbol macro NAME stands for, and true if it is one."
  (if (and (symbol-package name) (or (keywordp name) (si:specialp name)))
      (values nil nil)
      (multiple-value-bind (expansion expander) (macroexpand-1 name env)
        (values expansion (and expander t)))))

(defun walk-symbol (name env)
  (let ((record (find-variable name env)))
    (case (if record (second record) :free)
      ((nil) (setf (third record) t))
      (:special)
      (t
       (multiple-value-bind (expansion expanded) (symbol-expansion name env)
         (if expanded
             (walk expansion env)
             (note-free-variable name)))))))

(defun walk-list (form env)
  (let ((operator (car form)))
    (if (symbolp operator)
        (let ((local (find-function operator env)))
          (if local
              (walk-local-call form local env)
              (walk-global form env)))
        (destructuring-bind (lambda lambda-list &rest body) operator
          (unless (eq lambda 'lambda)
            (give-up))
          (walk-lambda lambda-list body env operator)
          (walk-all (cdr form) env)))))

(defun walk-local-call (form local env)
  (destructuring-bind (name kind definition &optional known) local
    (cond ((eq kind 'si::macro)
           (walk (expand definition form env) env))
          (t
           (when (and known (written-p form))
             (note-count "WARNING" name (list-length (cdr form)) (lambda-list-counts definition)))
           (walk-all (cdr form) env)))))

(defun walk-global (form env)
  (let* ((operator (car form))
         (walker (gethash operator *walkers*))
         (expander (and (not walker) (macro-function operator))))
    (cond (walker
           (funcall walker form env))
          (expander
           (walk (expand expander form env) env))
          ((special-operator-p operator)
           (use-all (cdr form) env))
          (t
           (note-call operator (cdr form) (written-p form))
           (walk-all (cdr form) env)))))

(defun use-all (tree env)
  "Nothing is known of TREE: every variable that it names may be used."
  (spend-step)
  (cond ((consp tree)
         (let ((*depth-left* (1- *depth-left*)))
           (when (minusp *depth-left*)
             (give-up))
           (loop for tail = tree then (cdr tail)
                 while (consp tail)
                 do (use-all (car tail) env)
                 finally (use-all tail env))))
        ((symbolp tree)
         (let ((record (find-variable tree env)))
           (when (and record (null (second record)))
             (setf (third record) t))))))

;;; Functions

(defun bind-parameter (item state env binder declarations nested)
  "ENV with the variables of ITEM, an optional or keyword parameter, or one of &AUX."
  (destructuring-bind (target &optional initial supplied) (if (consp item) item (list item))
    (walk initial env)
    (when (and (eq state '&key) (consp target))
      (setf target (second target)))
    (setf env (if (and nested (consp target))
                  (bind-lambda-list target env binder declarations t)
                  (bind-variable target env binder declarations)))
    (if supplied
        (bind-variable supplied env binder declarations)
        env)))

(defun bind-lambda-list (lambda-list env binder declarations &optional nested)
  "ENV with the variables of LAMBDA-LIST. With NESTED there may be lists in place of variables, as in macros."
  (flet ((bind (target)
           (setf env (if (and nested (consp target))
                         (bind-lambda-list target env binder declarations t)
                         (bind-variable target env binder declarations)))))
    (loop with state = :required
          for tail = lambda-list then (cdr tail)
          while (consp tail)
          do (spend-step)
             (let ((item (car tail)))
               (case item
                 ((&optional &key &aux &rest &body &whole &environment) (setf state item))
                 (&allow-other-keys)
                 (t
                  (ecase state
                    ((:required &rest &body) (bind item))
                    ((&whole &environment) (bind item) (setf state :required))
                    ((&optional &key &aux)
                     (setf env (bind-parameter item state env binder declarations nested)))))))
          finally (when tail
                    (bind tail)))
    env))

(defun walk-lambda (lambda-list body env binder &optional nested)
  "A function or macro that the list BINDER may define in words of the user's."
  (multiple-value-bind (forms declarations) (parse-body body t)
    (walk-all forms (add-specials declarations (bind-lambda-list lambda-list env binder declarations nested)))))

(define-walker (function) (function)
  (cond ((atom function)
         (walk-function-name function env))
        ((eq (car function) 'lambda)
         (walk-lambda (second function) (cddr function) env function))
        ((eq (car function) 'ext:lambda-block)
         (walk-lambda (third function) (cdddr function) env function))
        (t
         (walk-function-name function env))))

(defun walk-function-name (name env)
  (unless (si:valid-function-name-p name)
    (give-up))
  (unless (find-function name env)
    (note-function name)))

(define-walker (lambda) (lambda-list &rest body)
  (walk-lambda lambda-list body env form))

(define-walker (ext:lambda-block) (name lambda-list &rest body)
  (declare (ignore name))
  (walk-lambda lambda-list body env form))

(defun function-record (definition)
  (list (first definition) 'function (second definition) t))

(define-walker (flet) (definitions &rest body)
  (dolist (definition definitions)
    (walk-lambda (second definition) (cddr definition) env definition))
  (walk-locally body (add-functions (mapcar #'function-record definitions) env)))

(define-walker (labels) (definitions &rest body)
  (let ((env (add-functions (mapcar #'function-record definitions) env)))
    (dolist (definition definitions)
      (walk-lambda (second definition) (cddr definition) env definition))
    (walk-locally body env)))

(define-walker (macrolet) (definitions &rest body)
  (let ((extended (si::cmp-env-register-macrolet definitions (cons (car env) (cdr env)))))
    (walk-locally body (cons (car env) (cdr extended)))))

(define-walker (symbol-macrolet) (definitions &rest body)
  (let ((inner env))
    (loop for (name expansion) in definitions
          do (let ((expansion expansion))
               (setf inner (add-variable (list name 'si::symbol-macro
                                               (lambda (form env) (declare (ignore form env)) expansion))
                                         inner))))
    (walk-locally body inner)))

;;; Variables

(defun walk-let (bindings body env binder sequential walk-body)
  (multiple-value-bind (forms declarations) (parse-body body)
    (let ((inner env))
      (dolist (binding bindings)
        (destructuring-bind (name &optional initial) (if (consp binding) binding (list binding))
          (walk initial (if sequential inner env))
          (setf inner (bind-variable name inner binder declarations))))
      (funcall walk-body forms (add-specials declarations inner)))))

(define-walker (let) (bindings &rest body)
  (walk-let bindings body env form nil #'walk-all))

(define-walker (let*) (bindings &rest body)
  (walk-let bindings body env form t #'walk-all))

(define-walker (prog) (bindings &rest body)
  (walk-let bindings body env form nil #'walk-tagbody))

(define-walker (prog*) (bindings &rest body)
  (walk-let bindings body env form t #'walk-tagbody))

(define-walker (multiple-value-bind) (names values &rest body)
  (walk values env)
  (walk-lambda names body env form))

(define-walker (destructuring-bind) (lambda-list value &rest body)
  (walk value env)
  (walk-lambda lambda-list body env form t))

(define-walker (setq) (&rest pairs)
  (loop for (name value) on pairs by #'cddr
        do (cond ((nth-value 1 (macroexpand-1 name env))
                  (walk `(setf ,name ,value) env))
                 (t
                  (walk-symbol name env)
                  (walk value env)))))

;;; Everything else that is special

(define-walker (quote go ffi:clines) (&rest nothing)
  (declare (ignore nothing)))

(define-walker (progn if catch throw unwind-protect multiple-value-call multiple-value-prog1 progv si:while si:until)
    (&rest forms)
  (walk-all forms env))

(define-walker (locally) (&rest body)
  (walk-locally body env))

(define-walker (block return-from) (name &rest forms)
  (declare (ignore name))
  (walk-all forms env))

(defun walk-tagbody (items env)
  (dolist (item items)
    (when (consp item)
      (walk item env))))

(define-walker (tagbody) (&rest items)
  (walk-tagbody items env))

(define-walker (the ext:truly-the) (type value)
  (declare (ignore type))
  (walk value env))

(define-walker (eval-when) (situations &rest forms)
  (when (intersection '(:execute eval) situations)
    (walk-all forms env)))

(define-walker (load-time-value) (value &optional read-only)
  (declare (ignore read-only))
  (walk value (empty-environment)))

(define-walker (ffi:c-inline) (arguments &rest description)
  (declare (ignore description))
  (walk-all arguments env))

(define-walker (handler-case) (protected &rest clauses)
  (walk protected env)
  (dolist (clause clauses)
    (destructuring-bind (type lambda-list &rest body) clause
      (declare (ignore type))
      (walk-lambda lambda-list body env clause))))

(define-walker (restart-case) (protected &rest clauses)
  (walk protected env)
  (dolist (clause clauses)
    (destructuring-bind (name lambda-list &rest body) clause
      (declare (ignore name))
      (loop while (member (first body) '(:report :interactive :test))
            do (pop body)
               (unless (stringp (first body))
                 (walk `(function ,(first body)) env))
               (pop body))
      (walk-lambda lambda-list body env clause))))

;;; Definitions

(defun note-definition (name)
  "NAME is defined by code that may not have run yet."
  (unless (and (si:valid-function-name-p name) (fboundp name))
    (pushnew name *defined-inside* :test #'equal)))

(define-definer (defun) (name lambda-list &rest body)
  (note-definition name)
  (walk-lambda lambda-list body env form))

(define-definer (defmacro deftype define-compiler-macro) (name lambda-list &rest body)
  (declare (ignore name))
  (walk-lambda lambda-list body env form t))

(defun plain-lambda-list (lambda-list)
  "That of a method, without the specializers."
  (loop with required = t
        for item in lambda-list
        do (when (member item lambda-list-keywords)
             (setf required nil))
        collect (if (and required (consp item)) (first item) item)))

(defun walk-method (tail env)
  "TAIL is what follows the name. What a method does with its arguments is for the generic function to say: they may be
unused."
  (let ((tail (member-if #'listp tail)))
    (walk-lambda (plain-lambda-list (first tail)) (rest tail)
                 (add-functions '((call-next-method function nil) (next-method-p function nil)) env)
                 nil)))

(define-definer (defmethod) (name &rest tail)
  (note-definition name)
  (walk-method tail env))

(define-definer (defgeneric) (name lambda-list &rest options)
  (declare (ignore lambda-list))
  (note-definition name)
  (dolist (option options)
    (when (and (consp option) (eq (car option) :method))
      (walk-method (cdr option) env))))

(define-walker (defvar defparameter defconstant) (name &rest tail)
  (note-definition name)
  (walk (first tail) env))

;;; Outside of definitions

(defun walk-definition (form env)
  "Walk FORM. Nothing is noted of a definition that makes the walker give up."
  (let ((notes *notes*)
        (done nil))
    (catch 'give-up
      (let ((*written* (written-lists form))
            (*steps-left* +steps+)
            (*depth-left* +depth+)
            (*deadline* (+ (get-internal-run-time) (floor (* +milliseconds+ internal-time-units-per-second) 1000))))
        (walk form env)
        (setf done t)))
    (unless done
      (setf *notes* notes))))

(defun walk-outside (form env)
  "FORM is not in a definition, but there may be one inside; ENV is then what surrounds it."
  (when (and (consp form) (symbolp (car form)) (not (find-function (car form) env)))
    (case (car form)
      ((progn eval-when locally let let* flet labels macrolet symbol-macrolet)
       (let ((*depth-left* (1- *depth-left*)))
         (when (minusp *depth-left*)
           (give-up))
         (funcall (gethash (car form) *walkers*) form env)))
      (t
       (when (gethash (car form) *definers*)
         (walk-definition form env))))))
