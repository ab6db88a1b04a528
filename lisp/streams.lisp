;;;; streams.lisp - character streams that write into the host's channels.
;;;;
;;;; Compiled to C, so that a character costs a function call and no allocation. Standard output is counted beyond its
;;;; bound; the other channels stop whoever prints into them, by throwing to FULL.

(in-package :cl-mcp-runtime)

(declare-host-functions)

(defclass channel (gray:fundamental-character-output-stream) ()
  (:documentation "The host has a channel for each subclass."))

(defmethod gray:stream-terpri ((stream channel))
  (gray:stream-write-char stream #\Newline)
  nil)

(defmethod gray:stream-start-line-p ((stream channel))
  (eql 0 (gray:stream-line-column stream)))

(defmethod gray:stream-fresh-line ((stream channel))
  (unless (gray:stream-start-line-p stream)
    (gray:stream-terpri stream)
    t))

(defmethod gray:stream-finish-output ((stream channel)) nil)
(defmethod gray:stream-force-output ((stream channel)) nil)
(defmethod gray:stream-clear-output ((stream channel)) nil)

(defmethod gray:close ((stream channel) &key abort)
  "A channel outlives whoever closes it."
  (declare (ignore abort))
  t)

(defmacro define-channel (name number &key stops)
  "A class of streams for channel NUMBER. With STOPS a full channel stops the printer."
  (flet ((writing (form)
           (if stops `(when ,form (throw 'full nil)) form)))
    `(progn
       (defclass ,name (channel) ())
       (defmethod gray:stream-write-char ((stream ,name) character)
         ,(writing `(put-character ,number character))
         character)
       (defmethod gray:stream-write-string ((stream ,name) string &optional (start 0) end)
         (let ((end (or end (length string))))
           ,(writing `(put-string ,number string start end)))
         string)
       (defmethod gray:stream-line-column ((stream ,name))
         (column ,number)))))

(define-channel stdout-channel +stdout+)
(define-channel stderr-channel +stderr+)
(define-channel values-channel +values+ :stops t)
(define-channel warnings-channel +warnings+ :stops t)
(define-channel error-type-channel +error-type+ :stops t)
(define-channel error-message-channel +error-message+ :stops t)
(define-channel frames-channel +frames+ :stops t)

(defmacro printing-item (channel &body body)
  "Evaluate BODY, which prints one item into CHANNEL. True unless the channel got full."
  `(catch 'full
     ,@body
     (end-item ,channel)
     t))

(defvar *stdout* (make-instance 'stdout-channel))
(defvar *stderr* (make-instance 'stderr-channel))
(defvar *values* (make-instance 'values-channel))
(defvar *warnings* (make-instance 'warnings-channel))
(defvar *error-type* (make-instance 'error-type-channel))
(defvar *error-message* (make-instance 'error-message-channel))
(defvar *frames* (make-instance 'frames-channel))

(defvar *no-input* (make-concatenated-stream)
  "Always at its end.")

(defvar *no-terminal* (make-two-way-stream *no-input* (make-broadcast-stream))
  "Reads end-of-file and swallows what is written to it.")

(defmacro with-session-streams (&body body)
  "Evaluate BODY with the seven standard streams of a session."
  `(let ((*standard-output* *stdout*)
         (*error-output* *stderr*)
         (*trace-output* *stderr*)
         (*standard-input* *no-input*)
         (*terminal-io* *no-terminal*)
         (*query-io* *no-terminal*)
         (*debug-io* *no-terminal*))
     ,@body))

(defun install-session-streams ()
  "The same for threads, which see the global values."
  (setf *standard-output* *stdout*
        *error-output* *stderr*
        *trace-output* *stderr*
        *standard-input* *no-input*
        *terminal-io* *no-terminal*
        *query-io* *no-terminal*
        *debug-io* *no-terminal*))
