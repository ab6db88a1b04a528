;;;; closures.lisp - interpreted closures as text, and back.
;;;;
;;;; Such a closure has a list of what it closes over: conses (NAME . VALUE), which closures that came from one place share,
;;;; functions of FLET and LABELS, and what can only be used by the compiler: macros, and the names of blocks and tags. It is
;;;; made again inside of a LET that has the same variables; then the conses that it shares take the place of those that
;;;; this has made.

(in-package :cl-mcp-runtime)

(eval-when (:compile-toplevel)
  (proclaim '(optimize (safety 2))))

(defun cell-p (entry)
  "True if ENTRY, of a closure's environment, is a variable."
  (and (consp entry)
       (symbolp (car entry))
       (not (member (car entry) '(nil si:macro si:symbol-macro)))
       (not (si:specialp (car entry)))))

(defun local-function-p (entry)
  (and (functionp entry)
       (symbolp (function-name entry))
       (function-name entry)))

(defun kept-entries (captured)
  (remove-if-not (lambda (entry) (or (cell-p entry) (local-function-p entry))) captured))

(defun local-macro-name (entry)
  (and (consp entry)
       (member (car entry) '(si:macro si:symbol-macro))
       (consp (cdr entry))
       (cddr entry)))

(defun closes-over-text-p (entry expression)
  "True if EXPRESSION needs ENTRY, which is none of those that are kept."
  (cond ((local-macro-name entry) (names-mentioned (list (local-macro-name entry)) expression))
        ((and (consp entry) (not (symbolp (car entry)))) (names-mentioned '(return-from return go) expression))
        (t (not (consp entry)))))

(defun closure-kept-p (expression captured)
  "True if a function of this EXPRESSION that closes over CAPTURED can be made again, but perhaps for values."
  (and expression
       (consp captured)
       (let ((kept (kept-entries captured)))
         (notany (lambda (entry) (and (not (member entry kept :test #'eq)) (closes-over-text-p entry expression))) captured))
       (printable-p expression)))

(defun entry-name (entry)
  "As it is written: a list for a function."
  (if (consp entry) (car entry) (list (function-name entry))))

(defun encode-closure (function expression captured)
  "A function that it calls and that cannot be kept takes it along."
  (let* ((entries (kept-entries captured))
         (encoding (call-encoding function :closure 2
                                  (lambda (encoding)
                                    (setf (svref encoding 1) (code-text (list (mapcar #'entry-name entries) expression))
                                          (svref encoding 2) (mapcar #'encode entries))))))
    (when (some #'lost-p (svref encoding 2))
      (fill encoding nil)
      (setf (svref encoding 0) :lost
            (svref encoding 1) "a function without source")
      (push encoding *lost-encodings*))
    encoding))

(defun enclosed (name form)
  "FORM, with a meaning for NAME."
  (if (consp name)
      `(flet ((,(first name) (&rest arguments) arguments)) ,form)
      `(let ((,name nil)) ,form)))

(defun make-closure (names expression)
  "A function that closes over what has these NAMES, the innermost first; and the list of that."
  (let* ((form (reduce (lambda (form name) (enclosed name form)) names :initial-value `(function ,expression)))
         (function (eval form))
         (environment (nth-value 1 (function-lambda-expression function))))
    (unless (= (length names) (if (listp environment) (length environment) 0))
      (error "A closure cannot be made of its text."))
    (values function environment)))

(defun decode-closure (encoding text entries)
  (multiple-value-bind (function environment) (apply #'make-closure (read-code text))
    (noting-object encoding function)
    (loop for tail on environment
          for entry in entries
          do (setf (car tail) (decode entry)))
    function))
