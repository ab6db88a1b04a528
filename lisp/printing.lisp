;;;; printing.lisp - printing that neither fails nor goes on for ever.

(in-package :cl-mcp-runtime)

(defmacro with-report-syntax (&body body)
  "Evaluate BODY with the printer as reports need it, whatever user code has made of it."
  `(let ((*print-array* t)
         (*print-base* 10)
         (*print-case* :upcase)
         (*print-circle* nil)
         (*print-escape* t)
         (*print-gensym* t)
         (*print-length* 10)
         (*print-level* 4)
         (*print-lines* nil)
         (*print-pretty* nil)
         (*print-radix* nil)
         (*print-readably* nil)
         (*print-right-margin* nil)
         (*read-base* 10))
     ,@body))

;;; Text of a bounded length: however big an object is, printing it costs no more than what is kept.

(defclass bounded-stream (gray:fundamental-character-output-stream)
  ((left :initarg :left :accessor characters-left)
   (target :initarg :target :reader target)))

(defmethod gray:stream-write-char ((stream bounded-stream) character)
  (when (minusp (decf (characters-left stream)))
    (throw 'bounded nil))
  (write-char character (target stream)))

(defmethod gray:stream-line-column ((stream bounded-stream))
  nil)

(defmethod print-object ((object bounded-stream) stream)
  (write-string "#<report stream>" stream))

(defmethod print-object ((object channel) stream)
  (write-string "#<session stream>" stream))

(defun bounded-text (print limit)
  "What the function PRINT writes to the stream that it is given, cut after LIMIT characters."
  (let* ((target (make-string-output-stream))
         (stream (make-instance 'bounded-stream :left limit :target target))
         (whole nil))
    (catch 'bounded
      (funcall print stream)
      (setf whole t))
    (let ((text (get-output-stream-string target)))
      (if whole text (concatenate 'string text "...")))))

(defmacro printing-bounded ((stream limit) &body body)
  "The text that BODY writes to STREAM, cut after LIMIT characters; NIL if BODY fails."
  `(handler-case (bounded-text (lambda (,stream) ,@body) ,limit)
     (serious-condition () nil)))

(defconstant +object-length+ 400)
(defconstant +plain-length+ 100)

(defun plain-left (object left)
  "LEFT without the number of conses and atoms in OBJECT; NIL if it has more than that, or if any may print in a way of
the user's or at length."
  (flet ((short-p (string) (<= (length string) +plain-length+)))
    (cond ((not (plusp left)) nil)
          ((consp object)
           (let ((left (plain-left (car object) (1- left))))
             (and left (plain-left (cdr object) left))))
          ((typecase object
             (symbol (short-p (symbol-name object)))
             ((or fixnum float character) t)
             (simple-string (short-p object)))
           (1- left)))))

(defun plain-text (object)
  "OBJECT printed, if that is certain to be short and to call nothing of the user's. Most objects are like that."
  (and (plain-left object 20)
       (let ((text (with-output-to-string (stream) (prin1 object stream))))
         (and (<= (length text) +object-length+) text))))

(defun unprintable-text (object)
  (format nil "#<unprintable ~A>" (class-name (class-of object))))

(defun object-text (object)
  "OBJECT printed for a report, or what can be said of it if printing it fails; then the second value is true."
  (let ((text (or (plain-text object)
                  (printing-bounded (stream +object-length+) (prin1 object stream)))))
    (values (or text (unprintable-text object))
            (null text))))

(defun text-lines (text)
  "Those that are not empty."
  (with-input-from-string (stream text)
    (loop for line = (read-line stream nil)
          while line
          unless (string= line "")
            collect line)))

;;; Values

(defun print-value (value)
  "Neither circles nor line breaks concern an atom, but looking for them takes time."
  (if (typep value '(or number symbol character))
      (let ((*print-circle* nil)
            (*print-pretty* nil))
        (prin1 value *values*))
      (prin1 value *values*)))

(defun print-values (values)
  "Each of VALUES becomes an item. What does not fit is left out."
  (let ((*print-length* 100)
        (*print-level* 10)
        (*print-circle* t)
        (*print-pretty* t)
        (*print-readably* nil))
    (dolist (value values)
      (unless (printing-item +values+ (print-value value))
        (return)))))
