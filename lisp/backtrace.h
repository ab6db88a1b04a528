/*
 * backtrace.h - which calls were in progress when an error was signalled. Called from the compiled runtime (host.lisp).
 */
#ifndef BACKTRACE_H
#define BACKTRACE_H

#include <ecl/ecl.h>
#include <stdbool.h>

bool backtrace_is_possible(void);
/* Once, in the zygote, when the runtime is there. */
void backtrace_init(void);

/*
 * A list of (function arguments known-p lexical-environment), innermost first, at most limit of them. The first one is
 * the call that the innermost function was making: its function is a symbol, or NIL if that is not known.
 */
cl_object backtrace_frames(long limit);

/* Names of the C functions on the stack, innermost first. */
cl_object backtrace_c_names(void);

#endif
