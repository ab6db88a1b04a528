;;;; host.lisp - the functions of the C host, as Lisp functions.

(in-package :cl-mcp-runtime)

(defmacro declare-host-functions ()
  "To be used in each file that calls the host inline: C has to know the functions there."
  '(ffi:clines "#include <stdbool.h>"
               "#include <unistd.h>"
               "extern bool stream_put_string(int, cl_object, long, long);"
               "extern bool stream_put_character(int, int);"
               "extern void stream_end_item(int);"
               "extern long stream_column(int);"
               "extern void stream_clear(int);"
               "extern cl_object backtrace_frames(long);"
               "extern cl_object checkpoint_names(void);"
               "extern long limits_heap(void);"
               "extern bool globals_differ(cl_object, cl_object);"
               "extern void globals_note(cl_object, cl_object);"
               "extern void evaluation_fail(void);"
               "extern void evaluation_abort(void);"
               "extern void evaluation_exit(int);"
               "extern void evaluation_count_form(void);"
               "extern void interrupt_point(void);"))

(declare-host-functions)

;;; The channels, numbered as in output.h.

(defconstant +stdout+ 0)
(defconstant +stderr+ 1)
(defconstant +values+ 2)
(defconstant +warnings+ 3)
(defconstant +error-type+ 4)
(defconstant +error-message+ 5)
(defconstant +frames+ 6)

(defmacro put-string (channel string start end)
  "Write a part of STRING. True if the channel is full."
  `(ffi:c-inline (,channel ,string ,start ,end) (:int :object :fixnum :fixnum) :bool
                 "stream_put_string(#0,#1,#2,#3)" :one-liner t))

(defmacro put-character (channel character)
  "Write CHARACTER. True if the channel is full."
  `(ffi:c-inline (,channel (char-code ,character)) (:int :int) :bool
                 "stream_put_character(#0,#1)" :one-liner t))

(defmacro column (channel)
  `(ffi:c-inline (,channel) (:int) :fixnum "stream_column(#0)" :one-liner t))

(defun end-item (channel)
  "What was written to CHANNEL since the last call is one item."
  (ffi:c-inline (channel) (:int) :void "stream_end_item(#0)" :one-liner t))

(defun clear-channel (channel)
  (ffi:c-inline (channel) (:int) :void "stream_clear(#0)" :one-liner t))

;;; Checkpoints, see checkpoint.h.

(defun checkpoint-names ()
  "Of the session's checkpoints."
  (ffi:c-inline () () :object "checkpoint_names()" :one-liner t))

;;; Backtraces, see backtrace.h.

(defun raw-frames (limit)
  (ffi:c-inline (limit) (:fixnum) :object "backtrace_frames(#0)" :one-liner t))

(defun takes-one-p (function)
  "True if FUNCTION is one of ECL's that takes exactly one argument."
  (ffi:c-inline (function) (:object) :bool
                "ecl_t_of(#0) == t_cfunfixed && (#0)->cfunfixed.narg == 1" :one-liner t))

;;; Ways out of an evaluation, see evaluation.h.

(defun end-with-error ()
  (ffi:c-inline () () :void "evaluation_fail()" :one-liner t))

(defun end-by-abort ()
  (ffi:c-inline () () :void "evaluation_abort()" :one-liner t))

(defun end-by-exit (code)
  (ffi:c-inline (code) (:int) :void "evaluation_exit(#0)" :one-liner t))

(defun count-form ()
  (ffi:c-inline () () :void "evaluation_count_form()" :one-liner t))

(defun cancel-point ()
  "If this evaluation is to stop and could not so far, it does now; see interrupt.h."
  (ffi:c-inline () () :void "interrupt_point()" :one-liner t))

(defun heap-limit ()
  "What the session's heap may take, in bytes."
  (ffi:c-inline () () :fixnum "limits_heap()" :one-liner t))

(defun globals-differ-p (symbols values)
  "True if one of SYMBOLS has another value than when NOTE-GLOBALS was called last. Both are simple vectors."
  (ffi:c-inline (symbols values) (:object :object) :bool "globals_differ(#0,#1)" :one-liner t))

(defun set-global-value (symbol value)
  "What SYMBOL is where nobody has bound it: in other threads, as long as they do not set it."
  (ffi:c-inline (symbol value) (:object :object) :void "(#0)->symbol.value = #1" :one-liner t))

(defun note-globals (symbols values)
  (ffi:c-inline (symbols values) (:object :object) :void "globals_note(#0,#1)" :one-liner t))

;;; Files

(defun synchronize (stream)
  "What was written to STREAM, a file, survives a power cut from now on."
  (finish-output stream)
  (unless (zerop (ffi:c-inline ((ext:file-stream-fd stream)) (:int) :int "fsync(#0)" :one-liner t))
    (error "The file ~A cannot be brought to the disk." (pathname stream))))
