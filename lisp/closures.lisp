;;;; closures.lisp - which of the user's global functions are closures that can be made again, and together with which.
;;;;
;;;; An interpreted closure has its variables in conses (NAME . VALUE), which closures that came from one place share. So those
;;;; that share any are defined together, inside of one LET; the values are set behind, as all others are.

(in-package :cl-mcp-runtime)

(eval-when (:compile-toplevel)
  (proclaim '(optimize (safety 2))))

(defstruct (closure (:constructor make-closure (name expression cells)))
  name
  expression
  cells)

(defun cell-p (entry)
  "True if ENTRY, of a closure's environment, is a variable: there may be functions, macros and blocks."
  (and (consp entry)
       (symbolp (car entry))
       (not (member (car entry) '(nil si:macro si:symbol-macro)))
       (not (si:specialp (car entry)))))

(defun variables-alone-p (captured)
  (and (consp captured)
       (every #'cell-p captured)))

(defun shared-p (closure others)
  (some (lambda (other) (intersection (closure-cells closure) (closure-cells other) :test #'eq)) others))

(defun closure-groups (closures)
  "Lists of those of CLOSURES that share variables."
  (let ((groups '()))
    (dolist (closure closures groups)
      (let ((akin (remove-if-not (lambda (group) (shared-p closure group)) groups)))
        (setf groups (cons (apply #'append (list closure) akin)
                           (set-difference groups akin :test #'eq)))))))

(defun group-cells (group)
  (remove-duplicates (mapcan (lambda (closure) (copy-list (closure-cells closure))) group) :test #'eq))

(defun one-let-p (group)
  "True if no two variables of GROUP have one name."
  (let ((names (mapcar #'car (group-cells group))))
    (= (length names) (length (remove-duplicates names)))))

(defun group-form (group)
  "What defines the functions of GROUP, but for the values of their variables."
  (list (mapcar #'car (group-cells group))
        (mapcar (lambda (closure) (list (closure-name closure) (closure-expression closure))) group)))

(defun define-group (variables functions)
  (eval `(let ,variables
           ,@(loop for (name expression) in functions
                   collect `(si:fset ',name (function ,expression))))))

(defun function-cell (name variable)
  "Where the closure NAME has its VARIABLE."
  (or (assoc variable (remove-if-not #'consp (nth-value 1 (function-lambda-expression (fdefinition name)))))
      (error "~A has no variable ~A." name variable)))
