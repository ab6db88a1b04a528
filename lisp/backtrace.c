/*
 * backtrace.c - from ECL's invocation history and the stacks to a list of what was running.
 *
 * A C function in place of SI::UNIVERSAL-ERROR-HANDLER notes where the stacks were when the error was signalled: what
 * was called since belongs to those who deal with it.
 */
#include "config.h"

#include "backtrace.h"

#include "interpreter.h"
#include "natives.h"
#include "objects.h"
#include "recipes.h"

#define NATIVES_MAX 100

static cl_object original_handler, error_pointer, error_taken;

bool backtrace_is_possible(void)
{
	return interpreter_is_possible();
}

/* What the interpreter has taken from the Lisp stack last is still there, but not for long. */
static cl_object note_error(cl_object continue_string, cl_object datum, cl_object arguments)
{
	cl_env_ptr env = ecl_process_env();
	const char *here = __builtin_frame_address(0);
	cl_object taken = objects_is_object(*env->stack_top) ? ecl_list1(*env->stack_top) : ECL_NIL;

	interpreter_measure();
	ecl_bds_bind(env, error_pointer, ecl_make_fixnum((cl_fixnum)here));
	ecl_bds_bind(env, error_taken, taken);
	cl_object result = cl_funcall(4, original_handler, continue_string, datum, arguments);
	ecl_bds_unwind_n(env, 2);
	return result;
}

static bool is_live(cl_env_ptr env, ecl_ihs_ptr record)
{
	return (const char *)record > (const char *)__builtin_frame_address(0) &&
		(const char *)record < (const char *)env->cs_org && record->index > 0;
}

static cl_object call_made(cl_env_ptr env, ecl_ihs_ptr record, ecl_ihs_ptr callee)
{
	cl_object taken = callee ? ECL_NIL : ECL_SYM_VAL(env, error_taken);
	struct interpreter_call call;

	if (callee && interpreter_is_direct(env, callee, record))
		return ECL_T;
	if (!interpreter_call(env, record, !callee, Null(taken) ? NULL : ECL_CONS_CAR(taken), &call))
		return ECL_NIL;
	return cl_list(3, call.function ? call.function : ECL_NIL, call.arguments ? call.arguments : ECL_T,
		call.is_doubtful ? ECL_T : ECL_NIL);
}

/* The names of the functions whose frames end below the record; they are taken from the list. */
static cl_object take_names(const struct native **next, const struct native *end, ecl_ihs_ptr record)
{
	cl_object names = ECL_NIL;

	for (; *next < end && (*next)->at < (const char *)record; (*next)++)
		names = ecl_cons((*next)->name, names);
	return cl_nreverse(names);
}

cl_object backtrace_frames(long limit)
{
	cl_env_ptr env = ecl_process_env();
	cl_fixnum noted = ecl_fixnum(ECL_SYM_VAL(env, error_pointer));
	const char *from = noted ? (const char *)noted : __builtin_frame_address(0);
	struct native natives[NATIVES_MAX];
	const struct native *next = natives, *end = natives + natives_on_stack(from, natives, NATIVES_MAX);
	bool with_arguments = recipe_is_active(RECIPE_ARGUMENTS);
	ecl_ihs_ptr callee = NULL;
	cl_object frames = ECL_NIL;

	for (ecl_ihs_ptr record = env->ihs_top; is_live(env, record) && limit > 0; record = record->next) {
		if ((const char *)record < from || !interpreter_is_record(env, record) ||
			(with_arguments && interpreter_is_method_shell(env, record)))
			continue;
		cl_object arguments = with_arguments ? interpreter_arguments(env, record) : NULL;
		cl_object call = with_arguments ? call_made(env, record, callee) : cl_list(3, ECL_NIL, ECL_T, ECL_NIL);
		cl_object names = take_names(&next, end, record);

		frames = ecl_cons(cl_list(4, record->function, arguments ? arguments : ECL_T, names, call), frames);
		callee = record;
		limit--;
	}
	return cl_nreverse(frames);
}

void backtrace_init(void)
{
	cl_object handler = ecl_make_symbol("UNIVERSAL-ERROR-HANDLER", "SI");

	objects_init();
	natives_init();
	error_pointer = ecl_make_symbol("*ERROR-POINTER*", "CL-MCP-RUNTIME");
	error_taken = ecl_make_symbol("*ERROR-TAKEN*", "CL-MCP-RUNTIME");
	original_handler = cl_symbol_function(handler);
	ecl_register_root(&error_pointer);
	ecl_register_root(&error_taken);
	ecl_register_root(&original_handler);
	ecl_def_c_function(handler, (cl_objectfn_fixed)note_error, 3);
	interpreter_init();
}
