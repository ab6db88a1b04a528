/*
 * interpreter.h - looking over the shoulder of ECL's interpreter: with which arguments was a function called, and which
 * call is it making now?
 *
 * A record is an entry of ECL's invocation history that stands for an interpreted function. Its answers hold as long as
 * the function runs.
 */
#ifndef INTERPRETER_H
#define INTERPRETER_H

#include <ecl/ecl.h>
#include <stdbool.h>

bool interpreter_is_possible(void);

/*
 * Once, in the zygote: measures where the interpreter keeps what we look for. handler is the function by which ECL
 * signals errors; while the measuring goes on, it has to call interpreter_measure.
 */
void interpreter_init(void);
void interpreter_measure(void);

bool interpreter_is_record(cl_env_ptr env, ecl_ihs_ptr record);

/* The arguments of the function, as a list; NULL if they are not known. */
cl_object interpreter_arguments(cl_env_ptr env, ecl_ihs_ptr record);

struct interpreter_call {
	cl_object function;  /* its name or the function itself; NULL: not known */
	cl_object arguments; /* a list; NULL: not known */
	bool is_doubtful;    /* the first argument is right only if the function called has failed by itself */
};

/*
 * The call that the function is making. False if it makes none. For the innermost function, taken is what the
 * interpreter had taken from the Lisp stack last when the error was signalled; NULL if that is not known.
 */
bool interpreter_call(
	cl_env_ptr env, ecl_ihs_ptr record, bool is_innermost, cl_object taken, struct interpreter_call *call);

/* Was the function of callee called directly by that of caller? */
bool interpreter_is_direct(cl_env_ptr env, ecl_ihs_ptr callee, ecl_ihs_ptr caller);

/* Does the function pass on the arguments of a generic function, as the shells do that ECL makes around methods? */
bool interpreter_is_method_shell(cl_env_ptr env, ecl_ihs_ptr record);

#endif
