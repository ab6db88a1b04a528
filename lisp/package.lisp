;;;; package.lisp - the runtime's package, and the variables that C and Lisp share.

(defpackage :cl-mcp-runtime
  (:use :common-lisp))

(in-package :cl-mcp-runtime)

(defvar *evaluation-tag* nil
  "What an evaluation is left by throwing to. An uninterned symbol that the host makes.")

(defvar *session-package* (find-package :common-lisp-user)
  "The value of *PACKAGE* between evaluations.")

(defvar *main-process* nil
  "The thread that evaluates; all others are the user's.")

(defvar *error-pointer* 0
  "Where the C stack was when the error was signalled that is being handled; 0 if not known.")

(defvar *error-taken* nil
  "What the interpreter had taken from the Lisp stack last at that moment, in a list.")

(defvar *stand-ins* '()
  "For each function of ECL's that one of ours stands in for: its name, itself, and the name of ours.")

(defvar *hook-works* t
  "False if EXT:*INVOKE-DEBUGGER-HOOK* does not see unhandled errors: then a handler around the evaluation does.")
