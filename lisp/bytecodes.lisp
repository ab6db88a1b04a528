;;;; bytecodes.lisp - ASDF compiles systems to bytecode, in a session, and keeps it in a cache of ours.
;;;;
;;;; The native compiler needs 19 s for alexandria; loaded as bytecode it is there in a fraction of a second. Several
;;;; sessions may compile the same file at once: each writes a file of its own and renames it into its place, so that
;;;; whoever loads finds a whole one, and nothing is locked that a killed session would leave locked.

(in-package :cl-mcp-runtime)

(defconstant +compiled-length+ 250000
  "In bytes: longer files are tables, and ECL needs time by the square of the length of a constant to compile it: 20 s for
1 MB that is loaded in one.")

(defvar *compiling* nil
  "The stream that is being compiled from.")

;;; Files that are whole as soon as they are there

(defvar *temporary-files* 0
  "How many this session has made.")

(defun temporary-file (file)
  "A name beside FILE that no other session uses."
  (make-pathname :name (format nil "~A-~D-~D" (pathname-name file) (ext:getpid) (incf *temporary-files*))
                 :defaults file))

(defun make-directories (file)
  "Make those above FILE, even if another session does the same."
  (or (ignore-errors (ensure-directories-exist file))
      (ensure-directories-exist file)))

(defun call-replacing (file write)
  "FILE becomes, at once, what WRITE writes to the stream that it is given."
  (let ((temporary (temporary-file file)))
    (make-directories file)
    (unwind-protect
         (progn
           (with-open-file (stream temporary :direction :output :if-exists :supersede :external-format :utf-8)
             (funcall write stream))
           (rename-file temporary file :if-exists t))
      (ignore-errors
       (when (probe-file temporary)
         (delete-file temporary))))))

;;; The cache

(defvar *cache* nil
  "The directory where this session keeps bytecode, once it is known.")

(defun usual-cache ()
  "~/.cache/cl-mcpd/VERSION/, or under $XDG_CACHE_HOME."
  (let ((base (ext:getenv "XDG_CACHE_HOME")))
    (uiop:subpathname (if (and base (uiop:absolute-pathname-p base))
                          (uiop:ensure-directory-pathname base)
                          (uiop:subpathname (user-homedir-pathname) ".cache/"))
                      (format nil "cl-mcpd/~A/" (uiop:implementation-identifier)))))

(defun private-cache ()
  "A directory that nobody else can have made: what is loaded from it is this session's."
  (let ((directory (uiop:subpathname (uiop:temporary-directory)
                                     (format nil "cl-mcpd-~D-~36R/" (ext:getpid) (random (expt 36 12))))))
    (si::mkdir (namestring directory) #o700)
    directory))

(defun writable-p (directory)
  (ignore-errors
   (call-replacing (uiop:subpathname directory "in-use") (lambda (stream) (write-line "by cl-mcpd" stream)))
   t))

(defun cache-directory ()
  (or *cache*
      (setf *cache* (let ((usual (usual-cache)))
                      (if (writable-p usual) usual (private-cache))))))

(defun cached-file (source)
  "Where the bytecode of SOURCE is kept."
  (make-pathname :directory (append (pathname-directory (cache-directory)) (rest (pathname-directory source)))
                 :type "fasc" :defaults source))

;;; Compiling

(defun bytecodes (stream)
  (let ((*compiling* stream)
        (ext:*bytecodes-compiler* t))
    (si::bc-compile-from-stream stream)))

(defun compile-source (source external-format)
  (let ((*package* *package*)
        (*readtable* *readtable*)
        (*compile-file-pathname* source)
        (*compile-file-truename* (truename source)))
    (with-open-file (stream source :external-format external-format)
      (let ((ext:*source-location* (cons *compile-file-truename* 0)))
        (bytecodes stream)))))

(defun write-bytecodes (bytecodes file)
  (call-replacing file (lambda (stream)
                         (si::with-ecl-io-syntax
                           (write bytecodes :stream stream :circle t :escape t :readably t :pretty nil)))))

(defun loading-bytecodes (source external-format)
  "Those of a program that loads SOURCE itself."
  (bytecodes (make-string-input-stream
              (with-standard-io-syntax
                (format nil "(cl:load ~S :external-format ~S)" (namestring source) external-format)))))

(defun compilable-p (source)
  (<= (with-open-file (stream source :element-type '(unsigned-byte 8))
        (file-length stream))
      +compiled-length+))

(defun compile-to-bytecodes (source file external-format)
  "Compile SOURCE into FILE. What has no readable form cannot be in a file of bytecode: such a source is loaded itself."
  (flet ((compile-loading ()
           (write-bytecodes (loading-bytecodes source external-format) file)))
    (if (compilable-p source)
        (let ((bytecodes (compile-source source external-format)))
          (handler-case (write-bytecodes bytecodes file)
            (print-not-readable ()
              (compile-loading))))
        (compile-loading))))

;;; In place of ASDF's own methods

(defmethod asdf:perform :before ((operation asdf:compile-op) (file asdf:cl-source-file))
  "ASDF would fail where another session makes the same directory."
  (make-directories (first (asdf:output-files operation file))))

(defmethod asdf:output-files ((operation asdf:compile-op) (file asdf:cl-source-file))
  (values (list (cached-file (first (asdf:input-files operation file)))) t))

(defmethod asdf:perform ((operation asdf:compile-op) (file asdf:cl-source-file))
  (asdf/lisp-action:call-with-around-compile-hook
   file
   (lambda (&rest flags)
     (declare (ignore flags))
     (compile-to-bytecodes (first (asdf:input-files operation file))
                           (first (asdf:output-files operation file))
                           (asdf:component-external-format file)))))

(defmethod asdf:perform ((operation asdf:load-op) (file asdf:cl-source-file))
  (let ((compiled (first (asdf:input-files operation file))))
    (when compiled
      (load compiled :external-format :utf-8))))

;;; Where an error was

(defun skip-to-form (stream)
  "The position of the next form, or NIL at the end."
  (when (peek-char t stream nil)
    (file-position stream)))

(defun start-of-form (stream end)
  "Where in STREAM the form begins that ends at END: the last one that begins before."
  (let ((*read-suppress* t)
        (start 0))
    (file-position stream 0)
    (ignore-errors
     (loop for next = (skip-to-form stream)
           while (and next (< next end))
           do (setf start next)
              (read stream nil)))
    start))

(defun place-in-source (stream)
  "The number of the line, and the text, of the form that was read last from STREAM."
  (let ((end (file-position stream)))
    (with-open-file (source (pathname stream) :external-format (stream-external-format stream))
      (let ((start (start-of-form source end))
            (text (make-string-output-stream))
            (line 1))
        (file-position source 0)
        (loop while (< (file-position source) start)
              do (when (eql (read-char source) #\Newline)
                   (incf line)))
        (loop for character = (and (< (file-position source) end) (read-char source nil))
              while character
              do (write-char character text))
        (values line (string-right-trim '(#\Space #\Newline) (get-output-stream-string text)))))))
