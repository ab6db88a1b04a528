/*
 * evaluation.c - running user code between a frame that everything can be thrown to and the result that tells of it.
 *
 * The order matters. Whoever throws to the frame must find it, so the evaluation is declared interruptible only inside,
 * and declared over before the frame goes. Everything that allocates on the Lisp heap, decoding the code included,
 * happens inside too, because allocation may fail. Outside of the frame interrupts stay disabled: another thread's
 * interrupt has nowhere to go then.
 */
#include "config.h"

#include "evaluation.h"

#include <stdlib.h>
#include <string.h>

#include "children.h"
#include "clock.h"
#include "interrupt.h"
#include "iothread.h"
#include "limits.h"
#include "output.h"
#include "text.h"

#define PACKAGE_NAME_MAX 256

static cl_env_ptr main_env;
static cl_object tag, evaluate, perform, session_package;
static volatile enum worker_outcome outcome;
static volatile int exit_code;
static volatile uint64_t forms;
static volatile bool running;

void evaluation_init(void)
{
	main_env = ecl_process_env();
	tag = cl_make_symbol(ecl_make_simple_base_string("EVALUATION", -1));
	evaluate = ecl_make_symbol("EVALUATE", "CL-MCP-RUNTIME");
	perform = ecl_make_symbol("PERFORM", "CL-MCP-RUNTIME");
	session_package = ecl_make_symbol("*SESSION-PACKAGE*", "CL-MCP-RUNTIME");
	ecl_register_root(&tag);
	ecl_register_root(&evaluate);
	ecl_register_root(&perform);
	ecl_register_root(&session_package);
	cl_set(ecl_make_symbol("*EVALUATION-TAG*", "CL-MCP-RUNTIME"), tag);
}

cl_env_ptr evaluation_env(void)
{
	return main_env;
}

bool evaluation_is_running(void)
{
	return running;
}

void evaluation_throw(enum worker_outcome how)
{
	/* An error between evaluations, such as in another thread's interrupt: nobody could tell what state it leaves.
	 */
	if (!running)
		iothread_fatal("An error happened outside of any evaluation.");
	outcome = how;
	main_env->nvalues = 1;
	main_env->values[0] = ECL_NIL;
	cl_throw(tag);
	abort();
}

void evaluation_fail(void)
{
	evaluation_throw(OUTCOME_ERROR);
}

void evaluation_abort(void)
{
	evaluation_throw(OUTCOME_ABORTED);
}

void evaluation_exit(int code)
{
	exit_code = code;
	evaluation_throw(OUTCOME_EXIT);
}

void evaluation_count_form(void)
{
	forms++;
}

static void put_error(const char *type, const char *message)
{
	output_clear(OUTPUT_ERROR_TYPE);
	output_clear(OUTPUT_ERROR_MESSAGE);
	output_append(OUTPUT_ERROR_TYPE, type, strlen(type));
	output_append(OUTPUT_ERROR_MESSAGE, message, strlen(message));
}

static cl_object optional_text(const uint8_t *bytes, size_t length)
{
	return bytes ? text_to_lisp(bytes, length) : ECL_NIL;
}

static void call_runtime(const struct request *request)
{
	cl_object code = text_to_lisp(request->code, request->code_length);
	cl_object operation = optional_text(request->operation, request->operation_length);
	cl_object package = optional_text(request->package, request->package_length);

	if (code && package && operation == ECL_NIL) {
		cl_funcall(3, evaluate, code, package);
		return;
	}
	if (code && operation) {
		cl_funcall(3, perform, operation, code);
		return;
	}
	output_lock();
	put_error("READER-ERROR", "The code is not valid UTF-8.");
	output_unlock();
	evaluation_fail();
}

static void run_in_frame(const struct request *request)
{
	cl_env_ptr env = main_env;

	outcome = OUTCOME_ABORTED; /* what it is when user code throws to our tag */
	exit_code = 0;
	forms = 0;
	running = true;
	ecl_frs_push(env, tag);
	if (__ecl_frs_push_result == 0) {
		interrupt_begin(request->seq);
		ecl_check_pending_interrupts(env);
		call_runtime(request);
		interrupt_end();
		outcome = OUTCOME_DONE;
	} else {
		interrupt_end();
		if (env->nvalues == 0) /* ECL itself has thrown to our tag, without a word: out of some stack */
			outcome = OUTCOME_OVERFLOW;
	}
	ecl_frs_pop(env);
	env->disable_interrupts = 1;
	running = false;
}

/* A stopped printer may have left half of something behind. */
static void drop_leftovers(void)
{
	if (outcome != OUTCOME_DONE)
		output_clear(OUTPUT_VALUES);
	if (outcome == OUTCOME_OVERFLOW) {
		put_error("STORAGE-CONDITION",
			"The stack is exhausted: infinite recursion, or data that is nested too deeply.");
		output_clear(OUTPUT_FRAMES);
	} else if (outcome != OUTCOME_ERROR) {
		output_clear(OUTPUT_ERROR_TYPE);
		output_clear(OUTPUT_ERROR_MESSAGE);
		output_clear(OUTPUT_FRAMES);
	}
}

/* CL-USER goes by its nickname, also in place of a package that was deleted: the next evaluation begins there. */
static size_t session_package_name(char *name, size_t size)
{
	static const char user[] = "CL-USER", long_user[] = "COMMON-LISP-USER";
	cl_object package = ECL_SYM_VAL(main_env, session_package);
	size_t length = 0;

	if (ecl_t_of(package) == t_package && ecl_t_of(package->pack.name) != t_list)
		length = text_copy(package->pack.name, name, size);
	if (length > 0 && !(length == sizeof(long_user) - 1 && memcmp(name, long_user, length) == 0))
		return length;
	memcpy(name, user, sizeof(user) - 1);
	return sizeof(user) - 1;
}

static void begin_result(
	const struct request *request, enum worker_outcome how, uint64_t elapsed_us, struct frame_builder *result)
{
	char package[PACKAGE_NAME_MAX];

	frame_begin(result, WORKER_RESULT);
	frame_put_number(result, WORK_SEQ, request->seq);
	frame_put(result, WORK_ORIGIN, request->origin, request->origin_length);
	frame_put_number(result, WORK_OUTCOME, how);
	frame_put_number(result, WORK_ELAPSED, elapsed_us);
	frame_put(result, WORK_PACKAGE, package, session_package_name(package, sizeof(package)));
}

static void build_result(const struct request *request, uint64_t elapsed_us, struct frame_builder *result)
{
	begin_result(request, outcome, elapsed_us, result);
	frame_put_number(result, WORK_FORMS, forms);
	if (outcome == OUTCOME_EXIT)
		frame_put_number(result, WORK_EXIT_CODE, (uint64_t)exit_code);
	output_lock();
	output_drain();
	if (request->operation) { /* what it wrote was for the progress alone */
		output_clear(OUTPUT_STDOUT);
		output_clear(OUTPUT_STDERR);
	}
	drop_leftovers();
	output_take(result);
	output_unlock();
	frame_end(result);
}

void evaluation_run(const struct request *request, struct frame_builder *result)
{
	uint64_t started_us = clock_microseconds();

	children_mark();
	limits_set_heap(request->heap_limit);
	output_lock();
	output_begin();
	output_unlock();
	run_in_frame(request);
	limits_restore(outcome != OUTCOME_DONE);
	main_env->disable_interrupts = 1; /* ECL enables them when it sets a limit */
	if (outcome == OUTCOME_CANCELLED && iothread_stop_reason() == AGENDA_STOP_DEADLINE)
		outcome = OUTCOME_TIMEOUT;
	if (outcome == OUTCOME_CANCELLED || outcome == OUTCOME_TIMEOUT || outcome == OUTCOME_OVERFLOW)
		children_kill_marked();
	build_result(request, clock_microseconds() - started_us, result);
}

void evaluation_put_value(const struct request *request, const char *value, struct frame_builder *result)
{
	begin_result(request, OUTCOME_DONE, 0, result);
	frame_put_text(result, WORK_VALUE, value);
	frame_end(result);
}

void evaluation_put_error(
	const struct request *request, const char *type, const char *message, struct frame_builder *result)
{
	begin_result(request, OUTCOME_ERROR, 0, result);
	frame_put_text(result, WORK_ERROR_TYPE, type);
	frame_put_text(result, WORK_ERROR_MESSAGE, message);
	frame_end(result);
}

void evaluation_put_cancelled(const struct request *request, struct frame_builder *result)
{
	begin_result(request, OUTCOME_CANCELLED, 0, result);
	frame_end(result);
}
