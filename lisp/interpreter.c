/*
 * interpreter.c - looking into the interpreter's frames on the C stack.
 *
 * ECL_INTERPRET has four variables that tell everything: the frame of its own arguments, the frame of the call that it
 * is making, the next instruction, and the accumulator. They lie at fixed distances from its history record. The
 * distances depend on the compiler that built ECL, so errors are provoked at start of which everything is known, and
 * the stack is searched for it. A distance that is not the same in all trials is not used.
 *
 * Nothing found later is trusted either: frames must be frames, lie on the stack, and hold objects.
 */
#include "config.h"

#include "interpreter.h"

#include <dlfcn.h>
#include <ecl/bytecodes.h>
#include <stdint.h>
#include <string.h>

#include "objects.h"

#define ARGUMENTS_MAX 256
#define WORD_MASK 7
#define WORDS_SEARCHED 64 /* of the interpreter's frame, below the record */

/* Instructions are those of the versions that this was written for. */
#if defined(HAVE_STRUCT_CL_ENV_STRUCT_STACK_FRAME) && defined(HAVE_STRUCT_CL_ENV_STRUCT_STACK_TOP) && \
	defined(HAVE_STRUCT_CL_ENV_STRUCT_CS_ORG) && ECL_VERSION_NUMBER < 230000
#define POSSIBLE 1
#else
#define POSSIBLE 0
#endif

bool interpreter_is_possible(void)
{
	return POSSIBLE;
}

static bool on_stack(cl_env_ptr env, const void *at, size_t size)
{
	const char *low = __builtin_frame_address(0), *start = at; /* what lies below is dead */

	return start >= low && start + size <= (const char *)env->cs_org && ((uintptr_t)at & WORD_MASK) == 0;
}

bool interpreter_is_record(cl_env_ptr env, ecl_ihs_ptr record)
{
	return on_stack(env, record, sizeof(*record)) && record->index > 0 && objects_is_object(record->function) &&
		ecl_t_of(record->function) == t_bytecodes;
}

#if POSSIBLE

enum slot {
	SLOT_ARGUMENTS,   /* a pointer to the frame of the arguments */
	SLOT_CALL,        /* the frame of the call, itself */
	SLOT_INSTRUCTION, /* a pointer to the next instruction */
	SLOT_ACCUMULATOR, /* an object */
	SLOTS,
};

/* How many words below the record; 0: not known. */
static int slots[SLOTS];

static const cl_object *slot_at(ecl_ihs_ptr record, enum slot slot)
{
	return (const cl_object *)record - slots[slot];
}

/* ---- frames */

static bool is_frame(cl_env_ptr env, const void *at)
{
	const struct ecl_stack_frame *frame = at;

	return on_stack(env, at, sizeof(*frame)) && frame->t == t_frame && frame->env == env;
}

/* An old Lisp stack remains when ECL makes a bigger one. What lies in ENV->VALUES has been overwritten since. */
static bool holds_arguments(cl_env_ptr env, const struct ecl_stack_frame *frame)
{
	if (frame->size == 0 || frame->size > ARGUMENTS_MAX)
		return frame->size == 0;
	if (!(frame->base >= env->stack && frame->base + frame->size <= env->stack + env->stack_size) &&
		!objects_is_block(frame->base, frame->size * sizeof(cl_object)))
		return false;
	for (cl_index i = 0; i < frame->size; i++)
		if (!objects_is_object(frame->base[i]))
			return false;
	return true;
}

static cl_object list_arguments(const struct ecl_stack_frame *frame)
{
	cl_object list = ECL_NIL;

	for (cl_index i = frame->size; i > 0; i--)
		list = ecl_cons(frame->base[i - 1], list);
	return list;
}

static const struct ecl_stack_frame *arguments_frame(cl_env_ptr env, ecl_ihs_ptr record)
{
	const void *at = slots[SLOT_ARGUMENTS] ? *slot_at(record, SLOT_ARGUMENTS) : NULL;

	return at && is_frame(env, at) ? at : NULL;
}

static const struct ecl_stack_frame *call_frame(cl_env_ptr env, ecl_ihs_ptr record)
{
	const void *at = slots[SLOT_CALL] ? slot_at(record, SLOT_CALL) : NULL;

	return at && is_frame(env, at) ? at : NULL;
}

/* ---- instructions */

#define COUNTED 64 /* as many operands more as the first one says */

static const signed char operands[] = {
	[OP_QUOTE] = 1,
	[OP_LIST] = 1,
	[OP_LISTA] = 1,
	[OP_INT] = 1,
	[OP_PINT] = 1,
	[OP_VAR] = 1,
	[OP_VARS] = 1,
	[OP_PUSHV] = 1,
	[OP_PUSHVS] = 1,
	[OP_PUSHQ] = 1,
	[OP_CALLG1] = 1,
	[OP_CALLG2] = 1,
	[OP_CALL] = 1,
	[OP_CALLG] = 2,
	[OP_FCALL] = 1,
	[OP_PUSHKEYS] = 1,
	[OP_FLET] = COUNTED,
	[OP_LABELS] = COUNTED,
	[OP_LFUNCTION] = 1,
	[OP_FUNCTION] = 1,
	[OP_CLOSE] = 1,
	[OP_GO] = 2,
	[OP_RETURN] = 1,
	[OP_JMP] = 1,
	[OP_JNIL] = 1,
	[OP_JT] = 1,
	[OP_JEQL] = 2,
	[OP_JNEQL] = 2,
	[OP_UNBIND] = 1,
	[OP_UNBINDS] = 1,
	[OP_BIND] = 1,
	[OP_PBIND] = 1,
	[OP_VBIND] = 2,
	[OP_BINDS] = 1,
	[OP_PBINDS] = 1,
	[OP_VBINDS] = 2,
	[OP_SETQ] = 1,
	[OP_SETQS] = 1,
	[OP_PSETQ] = 1,
	[OP_PSETQS] = 1,
	[OP_VSETQ] = 2,
	[OP_VSETQS] = 2,
	[OP_BLOCK] = 1,
	[OP_FRAME] = 1,
	[OP_TAGBODY] = COUNTED,
	[OP_PROTECT] = 1,
	[OP_VALUES] = 1,
	[OP_CSET] = 1,
	[OP_STEPIN] = 1,
	[OP_STEPCALL] = 1,
	[OP_STEPOUT] = 0,
};

static const cl_opcode *next_instruction(const cl_opcode *at, const cl_opcode *end)
{
	cl_opcode code = *at++;

	if (code < 0 || (size_t)code >= sizeof(operands))
		return end;
	if (operands[code] != COUNTED)
		return at + operands[code];
	return at < end ? at + 1 + *at : end;
}

/* The instruction being executed is in[0], the ones before it are in[1] and in[2]. */
#define INSTRUCTIONS_KEPT 3

/* False if that cannot be found out. */
static bool find_instructions(ecl_ihs_ptr record, const cl_opcode *in[INSTRUCTIONS_KEPT])
{
	const struct ecl_bytecodes *function = &record->function->bytecodes;
	const cl_opcode *at = (const cl_opcode *)function->code, *end = at + function->code_size;
	const cl_opcode *next = slots[SLOT_INSTRUCTION] ? (const cl_opcode *)*slot_at(record, SLOT_INSTRUCTION) : NULL;

	in[0] = in[1] = in[2] = NULL;
	if (!objects_is_block(at, function->code_size * sizeof(*at)) || next <= at || next > end)
		return false;
	for (const cl_opcode *after; at < end; at = after) {
		after = next_instruction(at, end);
		in[2] = in[1];
		in[1] = in[0];
		in[0] = at;
		if (next <= after) /* it may not have been told yet that the operands have been read */
			return true;
	}
	return false;
}

/* A constant of the function. */
static cl_object constant(ecl_ihs_ptr record, cl_opcode index)
{
	cl_object data = record->function->bytecodes.data;

	if (!objects_is_object(data) || ecl_t_of(data) != t_vector || index < 0 ||
		(cl_index)index >= data->vector.fillp)
		return NULL;
	cl_object found = data->vector.self.t[index];
	return objects_is_object(found) ? found : NULL;
}

/* ---- answers */

cl_object interpreter_arguments(cl_env_ptr env, ecl_ihs_ptr record)
{
	const struct ecl_stack_frame *frame = arguments_frame(env, record);

	return frame && holds_arguments(env, frame) ? list_arguments(frame) : NULL;
}

bool interpreter_is_direct(cl_env_ptr env, ecl_ihs_ptr callee, ecl_ihs_ptr caller)
{
	const struct ecl_stack_frame *frame = arguments_frame(env, callee);

	return frame && frame == call_frame(env, caller);
}

bool interpreter_is_method_shell(cl_env_ptr env, ecl_ihs_ptr record)
{
	const struct ecl_stack_frame *frame = arguments_frame(env, record);

	return frame && frame->size == 2 && frame->base >= env->stack &&
		frame->base + 2 <= env->stack + env->stack_size && is_frame(env, frame->base[0]);
}

/* The arguments lie in the frame of the call, the function that was called by FUNCALL before them. */
static void stack_call(cl_env_ptr env, ecl_ihs_ptr record, struct interpreter_call *call)
{
	const struct ecl_stack_frame *frame = call_frame(env, record);

	if (frame && holds_arguments(env, frame))
		call->arguments = list_arguments(frame);
}

static void funcall_call(cl_env_ptr env, ecl_ihs_ptr record, struct interpreter_call *call)
{
	const struct ecl_stack_frame *frame = call_frame(env, record);

	stack_call(env, record, call);
	if (call->arguments && frame->base > env->stack && frame->base <= env->stack + env->stack_size &&
		objects_is_object(frame->base[-1]))
		call->function = frame->base[-1];
}

/* What an instruction has pushed, if that can be seen from it; else NULL. */
static cl_object pushed_by(ecl_ihs_ptr record, const cl_opcode *at, bool is_innermost)
{
	cl_object environment = record->lex_env;

	switch (*at) {
	case OP_PUSHNIL:
		return ECL_NIL;
	case OP_PINT:
		return ecl_make_fixnum(at[1]);
	case OP_PUSHQ:
		return constant(record, at[1]);
	case OP_PUSHV:
		for (cl_opcode i = at[1]; i > 0 && ECL_CONSP(environment); i--)
			environment = ECL_CONS_CDR(environment);
		if (!is_innermost || !ECL_CONSP(environment) || !ECL_CONSP(ECL_CONS_CAR(environment)))
			return NULL; /* who was called may have set the variable */
		return ECL_CONS_CDR(ECL_CONS_CAR(environment));
	default:
		return NULL;
	}
}

/* Does it put something into the accumulator and nothing else? */
static bool is_load(const cl_opcode *at)
{
	return *at == OP_QUOTE || *at == OP_INT || *at == OP_VAR || *at == OP_VARS || *at == OP_NIL;
}

static cl_object accumulator(ecl_ihs_ptr record)
{
	cl_object found = slots[SLOT_ACCUMULATOR] ? *slot_at(record, SLOT_ACCUMULATOR) : NULL;

	return objects_is_object(found) ? found : NULL;
}

static cl_object accumulated_function(ecl_ihs_ptr record)
{
	cl_object found = accumulator(record);

	return found && cl_functionp(found) == ECL_T ? found : NULL;
}

/* A function of ECL's own that has taken its only argument from the accumulator. */
static void call_with_one(ecl_ihs_ptr record, struct interpreter_call *call)
{
	cl_object last = accumulator(record);

	if (last)
		call->arguments = ecl_list1(last);
}

/* One that has taken its second argument from there, and its first from the Lisp stack. */
static void call_with_two(ecl_ihs_ptr record, const cl_opcode *const in[], bool is_innermost, cl_object taken,
	struct interpreter_call *call)
{
	cl_object first = in[2] && is_load(in[1]) ? pushed_by(record, in[2], is_innermost) : NULL;

	call_with_one(record, call);
	call->is_doubtful = !first;
	if (!first)
		first = taken;
	if (call->arguments)
		call->arguments = first ? ecl_cons(first, call->arguments) : NULL;
}

bool interpreter_call(
	cl_env_ptr env, ecl_ihs_ptr record, bool is_innermost, cl_object taken, struct interpreter_call *call)
{
	const cl_opcode *in[INSTRUCTIONS_KEPT];

	*call = (struct interpreter_call){0};
	if (!find_instructions(record, in))
		return false;
	switch (*in[0]) {
	case OP_CALLG:
		stack_call(env, record, call);
		call->function = constant(record, in[0][2]);
		return true;
	case OP_CALL:
		stack_call(env, record, call);
		call->function = accumulated_function(record);
		return true;
	case OP_FCALL:
	case OP_MCALL:
		funcall_call(env, record, call);
		return true;
	case OP_CALLG1:
		call_with_one(record, call);
		call->function = constant(record, in[0][1]);
		return true;
	case OP_CALLG2:
		call_with_two(record, in, is_innermost, taken, call);
		call->function = constant(record, in[0][1]);
		return true;
	case OP_CAR:
	case OP_CDR:
	case OP_ENDP:
		call_with_one(record, call);
		call->function = ecl_make_symbol(*in[0] == OP_CAR ? "CAR" : *in[0] == OP_CDR ? "CDR" : "ENDP", "CL");
		return true;
	default:
		return false;
	}
}

/* ---- measuring */

/*
 * Each trial ends in an error while an interpreted function makes a call of a certain kind. MARKER is an object that
 * occurs nowhere else, and the only argument of the function.
 */
static const struct trial {
	const char *code;
	int opcode;
	bool is_call; /* with a frame */
} trials[] = {
	{"(flet ((trial (a) (symbol-name a))) #'trial)", OP_CALLG1, false},
	{"(flet ((trial (a) (car a))) #'trial)", OP_CAR, false},
	{"(flet ((trial (a) (cdr a))) #'trial)", OP_CDR, false},
	{"(flet ((trial (a) (error a))) #'trial)", OP_CALLG, true},
	{"(flet ((trial (a) (cl-mcp-runtime::no-such-function a))) #'trial)", OP_CALLG, true},
	{"(flet ((trial (a) (let ((f 'cl-mcp-runtime::no-such-function)) (funcall f a)))) #'trial)", OP_FCALL, true},
	{"(flet ((trial (a) a cl-mcp-runtime::no-such-variable)) #'trial)", OP_VARS, false},
};

static const struct trial *current_trial;
static cl_object marker;
static bool candidates[SLOTS][WORDS_SEARCHED + 1];

static bool is_marker_frame(cl_env_ptr env, const void *at)
{
	const struct ecl_stack_frame *frame = at;

	return is_frame(env, at) && frame->size == 1 && holds_arguments(env, frame) && frame->base[0] == marker;
}

static bool could_be(cl_env_ptr env, ecl_ihs_ptr record, enum slot slot, const cl_object *at)
{
	switch (slot) {
	case SLOT_ARGUMENTS:
		return (const char *)*at > (const char *)record && is_marker_frame(env, *at);
	case SLOT_CALL:
		return !current_trial->is_call || is_marker_frame(env, at);
	case SLOT_ACCUMULATOR:
		return current_trial->is_call || current_trial->opcode == OP_VARS || *at == marker;
	default:
		slots[SLOT_INSTRUCTION] = (int)((const cl_object *)record - at);
		const cl_opcode *in[INSTRUCTIONS_KEPT];
		return find_instructions(record, in) && *in[0] == current_trial->opcode;
	}
}

void interpreter_measure(void)
{
	cl_env_ptr env = ecl_process_env();
	ecl_ihs_ptr record = env->ihs_top;

	if (!current_trial)
		return;
	while (!interpreter_is_record(env, record))
		record = record->next;
	for (int slot = 0; slot < SLOTS; slot++)
		for (int distance = 1; distance <= WORDS_SEARCHED; distance++)
			if (candidates[slot][distance] &&
				!could_be(env, record, (enum slot)slot, (const cl_object *)record - distance))
				candidates[slot][distance] = false;
	slots[SLOT_INSTRUCTION] = 0;
}

void interpreter_init(void)
{
	marker = ecl_alloc_simple_vector(1, ecl_aet_object);
	ecl_register_root(&marker);
	marker->vector.self.t[0] = ECL_NIL;
	memset(candidates, true, sizeof(candidates));
	for (size_t i = 0; i < sizeof(trials) / sizeof(trials[0]); i++) {
		cl_object function = cl_eval(ecl_read_from_cstring(trials[i].code));

		current_trial = &trials[i];
		cl_funcall(3, ecl_make_symbol("TRY", "CL-MCP-RUNTIME"), function, marker);
		current_trial = NULL;
	}
	/* Further below, the same values may lie in the frames of whom the interpreter had called. */
	for (int slot = 0; slot < SLOTS; slot++)
		for (int distance = WORDS_SEARCHED; distance > 0; distance--)
			if (candidates[slot][distance])
				slots[slot] = distance;
}

static cl_object (*original_interpret)(cl_object, cl_object, cl_object);

__attribute__((constructor)) static void find_original(void)
{
	*(void **)&original_interpret = dlsym(RTLD_NEXT, "ecl_interpret");
}

static cl_object interpret_copy(cl_object frame, cl_object environment, cl_object bytecodes)
{
	struct ecl_stack_frame copy;
	cl_object lasting = ecl_stack_frame_open(frame->frame.env, (cl_object)&copy, frame->frame.size);

	memcpy(copy.base, frame->frame.base, frame->frame.size * sizeof(cl_object));
	cl_object result = original_interpret(lasting, environment, bytecodes);
	ecl_stack_frame_close(lasting);
	return result;
}

/*
 * In place of ECL's own: functions called from C find their arguments in ENV->VALUES, where they do not last. They are
 * copied to where they do. In all other cases this is a jump.
 */
cl_object ecl_interpret(cl_object frame, cl_object environment, cl_object bytecodes)
{
	if (frame->frame.base == frame->frame.env->values && frame->frame.size > 0)
		return interpret_copy(frame, environment, bytecodes);
	return original_interpret(frame, environment, bytecodes);
}

#else

void interpreter_init(void)
{
}

void interpreter_measure(void)
{
}

cl_object interpreter_arguments(cl_env_ptr env, ecl_ihs_ptr record)
{
	(void)env;
	(void)record;
	return NULL;
}

bool interpreter_call(
	cl_env_ptr env, ecl_ihs_ptr record, bool is_innermost, cl_object taken, struct interpreter_call *call)
{
	(void)env;
	(void)record;
	(void)is_innermost;
	(void)taken;
	(void)call;
	return false;
}

bool interpreter_is_direct(cl_env_ptr env, ecl_ihs_ptr callee, ecl_ihs_ptr caller)
{
	(void)env;
	(void)callee;
	(void)caller;
	return false;
}

bool interpreter_is_method_shell(cl_env_ptr env, ecl_ihs_ptr record)
{
	(void)env;
	(void)record;
	return false;
}

#endif
