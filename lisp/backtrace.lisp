;;;; backtrace.lisp - from the host's raw frames to lines like (FUNCTION ARGUMENT ...).

(in-package :cl-mcp-runtime)

(defconstant +frames-shown+ 20)
(defconstant +frames-searched+ 100)
(defconstant +frame-length+ 400)

(defclass placeholder ()
  ((text :initarg :text :reader text))
  (:documentation "Printed in place of something that is not known."))

(defmethod print-object ((object placeholder) stream)
  (write-string (text object) stream))

(defvar *unknown* (make-instance 'placeholder :text "?")
  "Stands for an argument whose value is lost.")

(defvar *unknown-arguments* (list (make-instance 'placeholder :text "..."))
  "Stand for all arguments of a call.")

(defun frame-name (function)
  (cond ((symbolp function) function)
        ((functionp function) (or (si::compiled-function-name function) 'lambda))
        (t function)))

(defun hidden-name-p (name)
  "True for frames of ECL's evaluator and for our own."
  (or (member name '(si::bytecodes eval si::eval-with-env))
      (and (symbolp name) (eq (symbol-package name) (load-time-value (find-package "CL-MCP-RUNTIME"))))))

(defun parameter-variable (parameter)
  "The variable of an element of a lambda list; NIL if it has none."
  (cond ((member parameter lambda-list-keywords) nil)
        ((atom parameter) parameter)
        ((consp (car parameter)) (second (car parameter)))
        (t (car parameter))))

(defun environment-arguments (function environment)
  "The parameters of FUNCTION with the values that they have now, if its arguments themselves are lost."
  (let* ((lambda-list (ignore-errors (ext:function-lambda-list function)))
         (rest (second (member '&rest lambda-list))))
    (loop for parameter in lambda-list
          for variable = (parameter-variable parameter)
          for binding = (and variable (find-if (lambda (entry) (and (consp entry) (eq (car entry) variable)))
                                               environment))
          when variable
            append (cond ((null binding) (list *unknown*))
                         ((and (eq variable rest) (listp (cdr binding))) (copy-list (cdr binding)))
                         (t (list (cdr binding)))))))

(defun frame-arguments (function arguments known environment)
  (cond (known arguments)
        ((and environment (listp environment))
         (or (ignore-errors (environment-arguments function environment)) *unknown-arguments*))
        (t *unknown-arguments*)))

;;; The call that failed

(defun symbol-of-c-function (name)
  "The function that ECL implements by the C function NAME."
  (loop for (prefix . package) in '(("cl_" . "COMMON-LISP") ("si_" . "SI") ("mp_" . "MP"))
        when (begins-with prefix name)
          return (let ((symbol (find-symbol (string-upcase (substitute #\- #\_ (subseq name 3))) package)))
                   (and symbol (fboundp symbol) symbol))))

(defun builtin-in-progress ()
  "The builtin that the innermost interpreted function has called: the last one before the interpreter on the C stack."
  (let ((found nil))
    (dolist (name (c-function-names) found)
      (when (string= name "ecl_interpret")
        (return found))
      (let ((symbol (symbol-of-c-function name)))
        (when symbol
          (setf found symbol))))))

(defun builtin-call (builtin arguments)
  "The call of BUILTIN, unless it is ERROR called on behalf of something else: its arguments are then another's."
  (when (and builtin
             (or (not (eq builtin 'error))
                 (typep (first arguments) '(or string symbol condition))))
    (cons builtin arguments)))

(defun failing-call (condition name arguments known)
  "The innermost call, as a list; NIL if it is not known. NAME is that of a builtin that says so itself."
  (typecase condition
    (undefined-function (cons (cell-error-name condition) (if known arguments *unknown-arguments*)))
    ((or unbound-variable storage-condition) nil)
    (t (cond ((and (typep condition 'arithmetic-error) (arithmetic-operation condition)))
             ((and name (typep condition 'type-error))
              (let ((datum (type-error-datum condition)))
                (cons name (if (and known (member datum arguments)) arguments (list datum)))))
             (name (cons name (if known arguments *unknown-arguments*)))
             (known (builtin-call (builtin-in-progress) arguments))))))

(defun frame-calls (condition)
  "The calls that were in progress when CONDITION was signalled, innermost first."
  (let ((frames (raw-frames +frames-searched+)) (calls nil))
    (destructuring-bind (&optional name arguments known environment) (pop frames)
      (declare (ignore environment))
      (let ((call (failing-call condition name arguments known)))
        (when (and call (not (hidden-name-p (first call))))
          (push call calls))))
    (loop for (function arguments known environment) in frames
          for name = (frame-name function)
          until (= (length calls) +frames-shown+)
          unless (hidden-name-p name)
            do (push (cons name (frame-arguments function arguments known environment)) calls))
    (nreverse calls)))

(defun call-text (call)
  "CALL printed; if that fails, each of its parts for itself."
  (or (printing-bounded (stream +frame-length+) (prin1 call stream))
      (printing-bounded (stream +frame-length+) (format stream "(~{~A~^ ~})" (mapcar #'object-text call)))
      "(...)"))

(defun print-frames (condition)
  "Each call becomes an item."
  (dolist (call (frame-calls condition))
    (unless (printing-item +frames+ (write-string (call-text call) *frames*))
      (return))))
