;;;; readtables.lisp - what distinguishes a readtable from the standard one: its macro characters and its case.

(in-package :cl-mcp-runtime)

(eval-when (:compile-toplevel)
  (proclaim '(optimize (safety 2))))

(defconstant +macro-characters+ #x3000
  "Macro characters are looked for below; CJK and what follows has none.")

(defvar *standard-readtable* (copy-readtable nil)
  "To compare with.")

(defun dispatching-p (character readtable)
  (handler-case (progn (get-dispatch-macro-character character #\a readtable) t)
    (error () nil)))

(defun same-macro-p (character readtable)
  (multiple-value-bind (function terminating) (get-macro-character character readtable)
    (multiple-value-bind (usual-function usual-terminating) (get-macro-character character *standard-readtable*)
      (and (eq terminating usual-terminating)
           (or (eq function usual-function)
               (and function usual-function (dispatching-p character readtable)
                    (dispatching-p character *standard-readtable*)))))))

(defun changed-characters (readtable)
  (loop for code below +macro-characters+
        for character = (code-char code)
        when (and character (not (same-macro-p character readtable)))
          collect character))

(defun usual-dispatch (character sub-character)
  (and (dispatching-p character *standard-readtable*)
       (get-dispatch-macro-character character sub-character *standard-readtable*)))

(defun changed-dispatches (readtable)
  "Pairs of characters that have a function of their own."
  (loop for code below 128
        for character = (code-char code)
        when (dispatching-p character readtable)
          append (loop for sub-code below 128
                       for sub-character = (code-char sub-code)
                       unless (or (digit-char-p sub-character)
                                  (lower-case-p sub-character)
                                  (eq (get-dispatch-macro-character character sub-character readtable)
                                      (usual-dispatch character sub-character)))
                         collect (cons character sub-character))))

(defun readtable-changed-p (readtable)
  (not (and (eq (readtable-case readtable) :upcase)
            (null (changed-characters readtable))
            (null (changed-dispatches readtable)))))

(defun standard-reader (place)
  "The function of the standard readtable there: one character, or two."
  (if (rest place)
      (get-dispatch-macro-character (first place) (second place) *standard-readtable*)
      (get-macro-character (first place) *standard-readtable*)))

(defun reader-place (function)
  "Where FUNCTION is in the standard readtable: these have no names."
  (loop for code below 128
        for character = (code-char code)
        when (eq function (get-macro-character character *standard-readtable*))
          return (list character)
        when (dispatching-p character *standard-readtable*)
          do (loop for sub-code below 128
                   for sub-character = (code-char sub-code)
                   when (eq function (get-dispatch-macro-character character sub-character *standard-readtable*))
                     do (return-from reader-place (list character sub-character)))))

(defun encode-reader (function)
  (let ((place (and (functionp function) (reader-place function))))
    (if place
        (vector :reader place)
        (encode function))))

(defun encode-macro-character (character readtable)
  (multiple-value-bind (function non-terminating) (get-macro-character character readtable)
    (list character non-terminating (if (dispatching-p character readtable) :dispatch (encode-reader function)))))

(defun encode-readtable (readtable)
  (call-encoding readtable :readtable 3
                 (lambda (encoding)
                   (setf (svref encoding 1) (readtable-case readtable)
                         (svref encoding 2) (loop for character in (changed-characters readtable)
                                                  collect (encode-macro-character character readtable))
                         (svref encoding 3) (loop for (character . sub) in (changed-dispatches readtable)
                                                  for function = (get-dispatch-macro-character character sub readtable)
                                                  collect (list character sub (encode-reader function)))))))

(defun decode-macro-character (readtable character non-terminating function)
  (cond ((lost-p function))
        ((null function) (set-syntax-from-char character #\A readtable))
        ((eq function :dispatch) (make-dispatch-macro-character character non-terminating readtable))
        (t (set-macro-character character (decode function) non-terminating readtable))))

(defun decode-readtable (encoding case characters dispatches)
  (let ((readtable (noting-object encoding (copy-readtable nil))))
    (setf (readtable-case readtable) case)
    (loop for arguments in characters
          do (apply #'decode-macro-character readtable arguments))
    (loop for (character sub function) in dispatches
          unless (or (null function) (lost-p function))
            do (set-dispatch-macro-character character sub (decode function) readtable))
    readtable))
