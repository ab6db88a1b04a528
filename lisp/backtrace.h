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
 * The interpreted functions that were running, innermost first, at most limit of them, each a list of
 *
 *   the function; its arguments, or T if they are not known;
 *   the names of the compiled functions of the user's that were running on its behalf, innermost first;
 *   the call that it was making: a list of the function or NIL, its arguments or T if they are not known, and whether
 *   the first of them is doubtful (see interpreter.h). NIL if it made none; T if it called the one before in the list.
 */
cl_object backtrace_frames(long limit);

#endif
