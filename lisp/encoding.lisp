;;;; encoding.lisp - values as text that the standard reader can read, and back.
;;;;
;;;; A value is encoded into numbers, characters, strings, symbols, pathnames and conses, which stand for themselves, and
;;;; simple vectors, which stand for everything else: #(:HASH-TABLE EQL ((KEY . VALUE) ...)). An object that is met twice is
;;;; encoded once, so that what is shared and circular in the value is so in the encoding; in the text it has a label. And
;;;; in the same way back. No code of the user's is called: instances are taken by their slots.

(in-package :cl-mcp-runtime)

;; What is read from a file may be anything.
(eval-when (:compile-toplevel)
  (proclaim '(optimize (safety 2))))

(defun make-object-table ()
  "Loosely filled: ECL's own measures make it twenty times slower where 100,000 conses stand side by side."
  (make-hash-table :test 'eq :rehash-size 2.0 :rehash-threshold 0.4))

(defvar *encoded* (make-object-table)
  "The encodings of the objects that were met.")

(defvar *labels* (make-object-table)
  "Those encodings that stand in more than one place: their number in the text, T until they have one.")

(defvar *labels-given* 0)

(defconstant +room+ 1000000
  "How many conses, elements and slots all values may have together; they take some two seconds to write and read.")

(defvar *room* +room+
  "What is left of it.")

(defconstant +levels+ 2000
  "How deep objects may be in objects: each is some lists deep in the text, and ECL's reader takes some ten thousand.")

(defvar *level* 0)

(defvar *lost-encodings* '()
  "The encodings of what could not be kept.")

(defvar *noted* '()
  "The objects that were met while a value was encoded.")

(defvar *closures* '()
  "The user's global functions that are closures: names and functions. They are values, like others.")

(defvar *decoded* (make-object-table)
  "The objects that were made of encodings.")

(defvar *fillings* '()
  "Functions that fill hash tables, which has to wait until their keys are whole.")

;;; Code: it is printed as it is, if it can be

(defmacro with-state-syntax (&body body)
  "Evaluate BODY so that what is written can be read."
  `(with-standard-io-syntax
     (let ((*package* (find-package "KEYWORD"))
           (*print-circle* t)
           (*print-readably* nil) ; PRINTABLE-P has looked; and ECL's readable form of a vector is none for people
           (*read-eval* nil))
       ,@body)))

(defun code-text (code)
  (with-state-syntax (prin1-to-string code)))

(defun read-code (text)
  (with-state-syntax (read-from-string text)))

(defun plain-number-p (number)
  "True unless NUMBER has no readable form."
  (typecase number
    (complex (and (plain-number-p (realpart number)) (plain-number-p (imagpart number))))
    (float (not (or (ext:float-infinity-p number) (ext:float-nan-p number))))
    (t t)))

(defun printable-p (code)
  "True if the printer's text of CODE can be read, and no code of the user's prints it."
  (let ((seen (make-object-table))
        (left (* 4 +levels+)))
    (labels ((printable (object)
               (decf left)
               (prog1 (and (plusp left) (printable-here object))
                 (incf left)))
             (printable-here (object)
               (typecase object
                 ((or symbol character string pathname bit-vector) t)
                 (number (plain-number-p object))
                 (cons (loop for tail = object then (cdr tail)
                             while (and (consp tail) (not (gethash tail seen)))
                             do (setf (gethash tail seen) t)
                                (unless (printable (car tail))
                                  (return nil))
                             finally (return (or (consp tail) (printable tail)))))
                 (simple-vector (or (gethash object seen)
                                    (progn (setf (gethash object seen) t)
                                           (every #'printable object)))))))
      (printable code))))

;;; Encoding

(defun spend-room (count)
  (when (minusp (decf *room* count))
    (error "too big to be written")))

(defun lost-encoding (text)
  "What stands in the place of something that cannot be kept, TEXT tells what. NIL comes of it."
  (let ((encoding (vector :lost text)))
    (push encoding *lost-encodings*)
    encoding))

(defun lost-p (encoding)
  (and (simple-vector-p encoding)
       (plusp (length encoding))
       (eq (svref encoding 0) :lost)))

(defun flaw (object)
  "OBJECT cannot be kept."
  (lost-encoding (typecase object
                   (function "a function without source")
                   (stream "a stream")
                   (mp:process "a thread")
                   (t (let ((type (type-of object)))
                        (format nil "an object of type ~A" (if (symbolp type) (symbol-text type) (value-text type))))))))

(defun known-package-p (package)
  "True if PACKAGE will be there whatever systems can be loaded then."
  (not (member package *system-packages* :test #'eq)))

(defun known-encoding (object)
  "The encoding of OBJECT, if it was met before."
  (let ((encoding (gethash object *encoded*)))
    (when encoding
      (setf (gethash encoding *labels*) t))
    encoding))

(defun noting-encoding (object encoding)
  (push object *noted*)
  (setf (gethash object *encoded*) encoding))

(defun encode-symbol (symbol)
  (let ((package (symbol-package symbol)))
    (cond ((null package) (or (known-encoding symbol)
                              (noting-encoding symbol (vector :new-symbol (symbol-name symbol)))))
          ((known-package-p package) symbol)
          (t (vector :symbol (package-name package) (symbol-name symbol))))))

(defun encode-float (float)
  (cond ((plain-number-p float) float)
        ((ext:float-infinity-p float) (vector :infinity (if (plusp float) 1 -1) (type-of float)))
        (t (flaw float))))

(defun encode-list (list)
  "Along the list without recursion: lists are long."
  (let* ((first (noting-encoding list (cons nil nil)))
         (last first))
    (loop
      (spend-room 1)
      (setf (car last) (encode (car list)))
      (let ((rest (cdr list)))
        (when (or (atom rest) (gethash rest *encoded*))
          (setf (cdr last) (encode rest))
          (return first))
        (setf last (setf (cdr last) (noting-encoding rest (cons nil nil)))
              list rest)))))

(defun call-encoding (object tag length encode)
  "A vector of LENGTH elements behind the TAG. ENCODE is called with it once it is known what OBJECT is encoded by."
  (let ((encoding (noting-encoding object (make-array (1+ length) :initial-element nil))))
    (setf (svref encoding 0) tag)
    (funcall encode encoding)
    encoding))

(defun encode-array (array)
  "A last element tells that the array was a part of another one, and is one of its own then."
  (spend-room (array-total-size array))
  (call-encoding array :array (if (array-displacement array) 6 5)
                 (lambda (encoding)
                   (replace encoding
                            (list (array-dimensions array)
                                  (array-element-type array)
                                  (and (array-has-fill-pointer-p array) (fill-pointer array))
                                  (and (adjustable-array-p array) t)
                                  (loop for i below (array-total-size array)
                                        collect (encode (row-major-aref array i)))
                                  (and (array-displacement array) (lost-encoding "an array's displacement")))
                            :start1 1))))

(defun encode-hash-table (table)
  (spend-room (hash-table-count table))
  (if (or (ext:hash-table-weakness table)
          (not (member (hash-table-test table) '(eq eql equal equalp))))
      (flaw table)
      (call-encoding table :hash-table 2
                     (lambda (encoding)
                       (setf (svref encoding 1) (hash-table-test table)
                             (svref encoding 2) (loop for key being the hash-keys of table using (hash-value value)
                                                      collect (cons (encode key) (encode value))))))))

(defun encode-slot-values (object slots encoding)
  "What is in SLOTS, definitions. One that is not bound is left out."
  (setf (svref encoding 2)
        (loop for slot in slots
              for name = (clos:slot-definition-name slot)
              when (and (eq (clos:slot-definition-allocation slot) :instance) (slot-boundp object name))
                collect (cons (encode-symbol name) (encode (slot-value object name))))))

(defun encode-instance (object)
  (let* ((class (class-of object))
         (name (class-name class)))
    (if (and name (eq (find-class name nil) class)
             (member (class-name (class-of class)) '(standard-class structure-class)))
        (call-encoding object :instance 2
                       (lambda (encoding)
                         (setf (svref encoding 1) (encode-symbol name))
                         (encode-slot-values object (clos:class-slots class) encoding)))
        (flaw object))))

(defun global-name (function)
  "The name by which FUNCTION can be had, if there is one."
  (let ((name (function-name function)))
    (and name
         (si:valid-function-name-p name)
         (fboundp name)
         (eq (fdefinition name) function)
         name)))

(defun encode-function (function)
  "By its name if it has one, unless it is a closure: these share what they close over."
  (multiple-value-bind (expression captured) (function-lambda-expression function)
    (let ((name (and (not (rassoc function *closures* :test #'eq)) (global-name function))))
      (cond (name (noting-encoding function (vector :function (encode name))))
            ((closure-kept-p expression captured) (encode-closure function expression captured))
            ((and expression (not captured) (printable-p expression))
             (noting-encoding function (vector :lambda (code-text expression))))
            (t (flaw function))))))

(defun encode-composite (object)
  (when (> *level* +levels+)
    (error "nested too deeply to be written"))
  (typecase object
    (cons (encode-list object))
    (array (encode-array object))
    (hash-table (encode-hash-table object))
    (function (encode-function object))
    (readtable (encode-readtable object))
    (package (if (package-name object) (vector :package (package-name object)) (flaw object)))
    (class (let ((name (class-name object)))
             (if (and name (eq (find-class name nil) object))
                 (vector :class (encode-symbol name))
                 (flaw object))))
    ((or stream mp:process random-state method clos:slot-definition clos:specializer) (flaw object))
    ((or standard-object structure-object condition) (encode-instance object))
    (t (flaw object))))

(defun encode (object)
  (typecase object
    (symbol (encode-symbol object))
    (float (encode-float object))
    (number (if (plain-number-p object) object (flaw object)))
    ((or character pathname) object)
    ((or simple-string simple-bit-vector)
     (or (known-encoding object)
         (progn (spend-room (1+ (floor (length object) 16)))
                (noting-encoding object object))))
    (t (or (known-encoding object)
           (let ((*level* (1+ *level*)))
             (encode-composite object))))))

(defun encode-value (value)
  "The encoding of VALUE. If that fails it is NIL, and the second value tells why. Then what was encoded may have been left
half-way, and nothing is shared with that."
  (let ((*noted* '())
        (room *room*))
    (handler-case (encode value)
      (serious-condition (condition)
        (setf *room* room)
        (dolist (object *noted*)
          (remhash object *encoded*))
        (values nil (safe-message condition))))))

;;; What a value has lost, itself or where it shares what others have lost

(defun note-parent (child parent parents)
  (when (or (consp child) (simple-vector-p child))
    (prog1 (null (gethash child parents))
      (push parent (gethash child parents)))))

(defun call-with-parts (function encoding)
  (if (consp encoding)
      (progn (funcall function (car encoding))
             (funcall function (cdr encoding)))
      (map nil function encoding)))

(defun parents-of-encodings (encodings)
  "A table: for each encoding in ENCODINGS those that it is directly in."
  (let ((parents (make-object-table))
        (waiting '()))
    (dolist (encoding encodings)
      (when (note-parent encoding nil parents)
        (push encoding waiting)))
    (loop while waiting
          do (let ((parent (pop waiting)))
               (call-with-parts (lambda (child)
                                  (when (note-parent child parent parents)
                                    (push child waiting)))
                                parent)))
    parents))

(defun mark-holders (lost parents marks)
  "Note in MARKS, for all encodings that hold LOST, what it tells."
  (let ((waiting (list lost))
        (text (svref lost 1)))
    (loop while waiting
          do (let ((encoding (pop waiting)))
               (unless (member text (gethash encoding marks) :test #'string=)
                 (push text (gethash encoding marks))
                 (dolist (parent (gethash encoding parents))
                   (when parent
                     (push parent waiting))))))))

(defun losses (encodings)
  "A table: for each of ENCODINGS what is lost of it, texts. Most sessions lose nothing."
  (let ((marks (make-object-table)))
    (when *lost-encodings*
      (let ((parents (parents-of-encodings encodings)))
        (dolist (lost *lost-encodings*)
          (mark-holders lost parents marks))))
    marks))

;;; Writing: *PRINT-CIRCLE* would look for labels again, and take ten times as long

(defun write-label (encoding stream)
  "True if that is all there is to write of ENCODING."
  (let ((label (gethash encoding *labels*)))
    (cond ((integerp label)
           (format stream "#~D#" label))
          (label
           (setf (gethash encoding *labels*) (incf *labels-given*))
           (format stream "#~D=" *labels-given*)))
    (integerp label)))

(defun write-list (list stream)
  (write-char #\( stream)
  (loop
    (write-encoding (car list) stream)
    (let ((rest (cdr list)))
      (cond ((null rest)
             (return))
            ((or (atom rest) (gethash rest *labels*))
             (write-string " . " stream)
             (write-encoding rest stream)
             (return)))
      (write-char #\Space stream)
      (setf list rest)))
  (write-char #\) stream))

(defun write-encoding (encoding stream)
  (typecase encoding
    (cons (unless (write-label encoding stream)
            (write-list encoding stream)))
    (simple-vector (unless (write-label encoding stream)
                     (write-char #\# stream)
                     (write-list (coerce encoding 'list) stream)))
    ((or string bit-vector) (unless (write-label encoding stream)
                              (let ((*print-circle* nil)) (prin1 encoding stream))))
    (t (let ((*print-circle* nil)) (prin1 encoding stream)))))

;;; Decoding

(defun noting-object (encoding object)
  (setf (gethash encoding *decoded*) object))

(defun decode-list (list)
  (let* ((first (noting-object list (cons nil nil)))
         (last first))
    (loop
      (setf (car last) (decode (car list)))
      (let ((rest (cdr list)))
        (when (or (atom rest) (gethash rest *decoded*))
          (setf (cdr last) (decode rest))
          (return first))
        (setf last (setf (cdr last) (noting-object rest (cons nil nil)))
              list rest)))))

(defun decode-array (encoding dimensions element-type fill-pointer adjustable contents &optional lost)
  (declare (ignore lost))
  (let ((array (noting-object encoding (make-array dimensions :element-type element-type :fill-pointer fill-pointer
                                                              :adjustable adjustable))))
    (loop for i from 0
          for element in contents
          do (setf (row-major-aref array i) (decode element)))
    array))

(defun decode-hash-table (encoding test entries)
  (let ((table (noting-object encoding (make-hash-table :test test))))
    (loop for (key . value) in entries
          unless (lost-p key)
          do (let ((key (decode key))
                   (value (decode value)))
               (push (lambda () (setf (gethash key table) value)) *fillings*)))
    table))

(defun decode-instance (encoding class-name slots)
  (let* ((class (find-class (decode class-name)))
         (object (noting-object encoding (allocate-instance class))))
    (loop for (encoded-name . value) in slots
          for name = (decode encoded-name)
          when (and (not (lost-p value)) (find name (clos:class-slots class) :key #'clos:slot-definition-name))
            do (setf (slot-value object name) (decode value)))
    object))

(defun decode-symbol (package name)
  (intern name (or (find-package package)
                   (error "There is no package with the name ~A." package))))

(defun decode-infinity (sign type)
  (ecase type
    (single-float (if (plusp sign) ext:single-float-positive-infinity ext:single-float-negative-infinity))
    (double-float (if (plusp sign) ext:double-float-positive-infinity ext:double-float-negative-infinity))
    (long-float (if (plusp sign) ext:long-float-positive-infinity ext:long-float-negative-infinity))))

(defun decode-composite (encoding)
  (destructuring-bind (tag &rest parts) (coerce encoding 'list)
    (ecase tag
      (:array (apply #'decode-array encoding parts))
      (:hash-table (apply #'decode-hash-table encoding parts))
      (:instance (apply #'decode-instance encoding parts))
      (:function (noting-object encoding (fdefinition (decode (first parts)))))
      (:closure (apply #'decode-closure encoding parts))
      (:readtable (apply #'decode-readtable encoding parts))
      (:reader (standard-reader (first parts)))
      (:lambda (noting-object encoding (eval `(function ,(read-code (first parts))))))
      (:lost nil)
      (:package (or (find-package (first parts)) (error "There is no package with the name ~A." (first parts))))
      (:class (find-class (decode (first parts))))
      (:symbol (apply #'decode-symbol parts))
      (:new-symbol (noting-object encoding (make-symbol (first parts))))
      (:infinity (apply #'decode-infinity parts)))))

(defun decode (encoding)
  (typecase encoding
    (cons (or (gethash encoding *decoded*) (decode-list encoding)))
    (simple-vector (or (gethash encoding *decoded*) (decode-composite encoding)))
    (t encoding)))

(defun decode-value (encoding)
  "The value, whole."
  (let* ((*fillings* '())
         (value (decode encoding)))
    (mapc #'funcall (nreverse *fillings*)) ; entries keep the order in which they were written
    value))
