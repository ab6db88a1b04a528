/*
 * backtrace.c - frames with the arguments of the calls in progress.
 *
 * ECL's invocation history names functions, but not their arguments. Those lie in the stack frame that the interpreter
 * made for the call, at a fixed distance from the caller's history record on the C stack; the distance is measured at
 * start. A C function in place of SI::UNIVERSAL-ERROR-HANDLER notes where the stacks were when the error was signalled.
 * Nothing found that way is trusted: records must lie on the C stack, frames inside of the Lisp stack, arguments must
 * be objects.
 */
#include "config.h"

#include "backtrace.h"

#include <dlfcn.h>
#include <execinfo.h>
#include <gc/gc.h>
#include <link.h>
#include <stdint.h>

#include "recipes.h"

#define SEGMENTS_MAX 256
#define ARGUMENTS_MAX 256
#define C_FRAMES_MAX 48
#define IMMEDIATE_MASK 7

#if defined(HAVE_STRUCT_CL_ENV_STRUCT_STACK_FRAME) && defined(HAVE_STRUCT_CL_ENV_STRUCT_STACK_TOP) && \
	defined(HAVE_STRUCT_CL_ENV_STRUCT_CS_ORG)
#define POSSIBLE 1
#else
#define POSSIBLE 0
#endif

bool backtrace_is_possible(void)
{
	return POSSIBLE;
}

cl_object backtrace_c_names(void)
{
	void *counters[C_FRAMES_MAX];
	int count = backtrace(counters, C_FRAMES_MAX);
	cl_object names = ECL_NIL;

	for (int i = count - 1; i >= 0; i--) {
		Dl_info symbol;

		if (dladdr(counters[i], &symbol) && symbol.dli_sname)
			names = ecl_cons(ecl_make_simple_base_string(symbol.dli_sname, -1), names);
	}
	return names;
}

static bool on_stack(cl_env_ptr env, const void *at, const void *low, size_t size)
{
	const char *start = at;

	return start >= (const char *)low && start + size <= (const char *)env->cs_org &&
		((uintptr_t)at & IMMEDIATE_MASK) == 0;
}

static bool is_record(cl_env_ptr env, ecl_ihs_ptr record)
{
	/* What lies below our own frame is dead. */
	return record && on_stack(env, record, &env, sizeof(*record)) && record->index > 0;
}

#if POSSIBLE

struct segment {
	const char *low;
	const char *high;
};

static struct segment data_segments[SEGMENTS_MAX];
static int data_segment_count;
static cl_object original_handler, error_pointer, error_top;
static long frame_distance, record_distance;

static int note_data(struct dl_phdr_info *object, size_t size, void *unused)
{
	(void)size;
	(void)unused;
	for (int i = 0; i < object->dlpi_phnum && data_segment_count < SEGMENTS_MAX; i++) {
		const ElfW(Phdr) *part = &object->dlpi_phdr[i];

		if (part->p_type != PT_LOAD || (part->p_flags & PF_X))
			continue;
		const char *low = (const char *)object->dlpi_addr + part->p_vaddr;
		data_segments[data_segment_count++] = (struct segment){.low = low, .high = low + part->p_memsz};
	}
	return 0;
}

/* Symbols and constants of libecl are static data. */
static bool is_memory(const char *at, size_t size)
{
	if (GC_is_heap_ptr(at))
		return GC_base((void *)at) == (const void *)at;
	for (int i = 0; i < data_segment_count; i++)
		if (at >= data_segments[i].low && at + size <= data_segments[i].high)
			return true;
	return false;
}

static bool is_object(cl_object object)
{
	if (!object)
		return false;
	switch (ECL_IMMEDIATE(object)) {
	case 0:
		return ((uintptr_t)object & IMMEDIATE_MASK) == 0 &&
			is_memory((const char *)object, sizeof(struct ecl_symbol)) && object->d.t > t_start &&
			object->d.t < t_end && object->d.t != t_frame;
	case t_list:
		return Null(object) || is_memory((const char *)object - t_list, sizeof(struct ecl_cons));
	default:
		return true; /* a character or a fixnum */
	}
}

static const struct ecl_stack_frame *frame_at(cl_env_ptr env, const void *at, const void *low)
{
	const struct ecl_stack_frame *frame = at;

	if (!on_stack(env, at, low, sizeof(*frame)))
		return NULL;
	if (frame->t != t_frame || frame->env != env || frame->base < env->stack || frame->base > env->stack_top)
		return NULL;
	if (frame->size > ARGUMENTS_MAX || frame->base + frame->size > env->stack_top)
		return NULL;
	for (cl_index i = 0; i < frame->size; i++)
		if (!is_object(frame->base[i]))
			return NULL;
	return frame;
}

static cl_object frame_arguments(const struct ecl_stack_frame *frame)
{
	cl_object list = ECL_NIL;

	for (cl_index i = frame->size; i > 0; i--)
		list = ecl_cons(frame->base[i - 1], list);
	return list;
}

static cl_object describe(cl_object function, const struct ecl_stack_frame *frame, cl_object environment)
{
	return cl_list(4, function, frame ? frame_arguments(frame) : ECL_NIL, frame ? ECL_T : ECL_NIL, environment);
}

static cl_object note_error(cl_object continue_string, cl_object datum, cl_object arguments)
{
	cl_env_ptr env = ecl_process_env();
	char here;

	ecl_bds_bind(env, error_pointer, ecl_make_fixnum((cl_fixnum)&here));
	ecl_bds_bind(env, error_top, ecl_make_fixnum(env->stack_top - env->stack));
	cl_object result = cl_funcall(4, original_handler, continue_string, datum, arguments);
	ecl_bds_unwind1(env);
	ecl_bds_unwind1(env);
	return result;
}

/* Called by interpreted code in an interpreted function, see backtrace_init. */
static cl_object measure(cl_narg count, ...)
{
	cl_env_ptr env = ecl_process_env();

	(void)count;
	frame_distance = (char *)env->stack_frame - (char *)env->ihs_top;
	record_distance = (char *)env->ihs_top->next - (char *)env->ihs_top;
	return ECL_NIL;
}

/* The call that the innermost interpreted function was making. */
static cl_object innermost_call(cl_env_ptr env, ecl_ihs_ptr record, cl_object name, const char *low)
{
	const cl_object *top = env->stack + ecl_fixnum(ECL_SYM_VAL(env, error_top));
	const struct ecl_stack_frame *frame = frame_at(env, (char *)record + frame_distance, low);

	return describe(name, frame && frame->base + frame->size <= top ? frame : NULL, ECL_NIL);
}

cl_object backtrace_frames(long limit)
{
	cl_env_ptr env = ecl_process_env();
	cl_fixnum noted = ecl_fixnum(ECL_SYM_VAL(env, error_pointer));
	const char *low = noted ? (const char *)noted : (const char *)&env;
	cl_object frames = ECL_NIL, name = ECL_NIL;
	ecl_ihs_ptr record = env->ihs_top;
	bool with_arguments = recipe_is_active(RECIPE_ARGUMENTS);

	/* What was called after the error belongs to us. Symbols are builtins that left their names. */
	while (is_record(env, record) && (const char *)record < low)
		record = record->next;
	for (; is_record(env, record) && ECL_SYMBOLP(record->function); record = record->next)
		if (Null(name))
			name = record->function;
	if (is_record(env, record))
		frames = ecl_list1(
			with_arguments ? innermost_call(env, record, name, low) : describe(name, NULL, ECL_NIL));
	for (; is_record(env, record) && limit > 0; record = record->next, limit--) {
		ecl_ihs_ptr caller = record->next;
		const struct ecl_stack_frame *frame = NULL;

		if (!is_object(record->function))
			break;
		if (with_arguments && is_record(env, caller) && (char *)caller - (char *)record == record_distance)
			frame = frame_at(env, (char *)caller + frame_distance, low);
		cl_object environment = with_arguments && is_object(record->lex_env) ? record->lex_env : ECL_NIL;
		frames = ecl_cons(describe(record->function, frame, environment), frames);
	}
	return cl_nreverse(frames);
}

void backtrace_init(void)
{
	cl_object handler = ecl_make_symbol("UNIVERSAL-ERROR-HANDLER", "SI");
	cl_object calibrate = ecl_make_symbol("%MEASURE", "CL-MCP-RUNTIME");
	void *counters[4];

	backtrace(counters, 4); /* loads libgcc now, not in a crisis */
	dl_iterate_phdr(note_data, NULL);
	error_pointer = ecl_make_symbol("*ERROR-POINTER*", "CL-MCP-RUNTIME");
	error_top = ecl_make_symbol("*ERROR-TOP*", "CL-MCP-RUNTIME");
	original_handler = cl_symbol_function(handler);
	ecl_register_root(&error_pointer);
	ecl_register_root(&error_top);
	ecl_register_root(&original_handler);
	ecl_def_c_function(handler, (cl_objectfn_fixed)note_error, 3);
	ecl_def_c_function_va(calibrate, (cl_objectfn)measure, 0);
	cl_eval(ecl_read_from_cstring("(flet ((inner () (cl-mcp-runtime::%measure 1 2 3 4))) (inner))"));
}

#else

cl_object backtrace_frames(long limit)
{
	cl_env_ptr env = ecl_process_env();
	cl_object frames = ECL_NIL;

	for (ecl_ihs_ptr record = env->ihs_top; is_record(env, record) && limit > 0; record = record->next, limit--)
		frames = ecl_cons(cl_list(4, record->function, ECL_NIL, ECL_NIL, ECL_NIL), frames);
	return cl_nreverse(frames);
}

void backtrace_init(void)
{
}

#endif
