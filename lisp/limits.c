/*
 * limits.c - heap and stack limits, float traps and the signal mask around every evaluation.
 *
 * ECL raises a limit each time it is hit, so that the error can be handled; here they are put back. Its own function
 * for that reallocates the frame stack while a jump through it is under way, whose target then points into freed
 * memory.
 */
#include "config.h"

#include "limits.h"

#include <dlfcn.h>
#include <ecl/ecl.h>
#include <fenv.h>
#include <gc/gc.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "evaluation.h"
#include "recipes.h"

#define PAGE 4096ul
#define DEFAULT_HEAP (1024ul << 20)
#define OWN_STACK (256 * 1024)
#define BIG_GROWTH (64ul << 20)

#if defined(HAVE_STRUCT_CL_ENV_STRUCT_CS_ORG) && defined(HAVE_STRUCT_CL_ENV_STRUCT_FRS_LIMIT) && \
	defined(HAVE_STRUCT_CL_ENV_STRUCT_BDS_LIMIT)
#define STACKS_POSSIBLE 1
#else
#define STACKS_POSSIBLE 0
#endif

#ifdef HAVE_STRUCT_CL_ENV_STRUCT_TRAP_FPE_BITS
#define TRAPS_POSSIBLE 1
#else
#define TRAPS_POSSIBLE 0
#endif

static cl_object heap_size, storage_exhausted, universal_handler, stack_handler, original_stack_handler;
static int trap_bits;
static size_t heap_limit = DEFAULT_HEAP;

bool limits_stacks_are_possible(void)
{
	return STACKS_POSSIBLE;
}

bool limits_float_traps_are_possible(void)
{
	return TRAPS_POSSIBLE;
}

/* libgc counts pages that it gave back as heap. Without them a session that was once full had no room for a big block.
 */
static void restore_heap(void)
{
	size_t given_back = GC_get_unmapped_bytes();
	size_t limit = heap_limit + (given_back < heap_limit ? given_back : heap_limit);

	if (recipe_is_active(RECIPE_HEAP_LIMIT))
		si_set_limit(heap_size, ecl_make_fixnum((cl_fixnum)limit));
}

long limits_heap(void)
{
	return (long)heap_limit;
}

void limits_set_heap(size_t size)
{
	size_t wanted = size ? size : DEFAULT_HEAP;

	if (wanted == heap_limit)
		return;
	heap_limit = wanted;
	restore_heap();
	evaluation_env()->disable_interrupts = 1; /* ECL enables them when it sets a limit */
}

/*
 * In place of the C library's. GMP aborts if a number would be longer than it can count, before it asks for the memory:
 * that too is an exhausted heap. Whoever else aborts means it.
 */
void abort(void)
{
	void (*original)(void);
	Dl_info caller;

	if (storage_exhausted && dladdr(__builtin_return_address(0), &caller) && caller.dli_fname &&
		strstr(caller.dli_fname, "libgmp")) {
		cl_env_ptr env = ecl_process_env_unsafe();

		if (env && !env->disable_interrupts)
			cl_error(1, storage_exhausted);
	}
	*(void **)&original = dlsym(RTLD_NEXT, "abort");
	original();
	__builtin_unreachable();
}

void limits_restore_float_traps(void)
{
#if TRAPS_POSSIBLE
	if (!recipe_is_active(RECIPE_FLOAT_TRAPS))
		return;
	feclearexcept(FE_ALL_EXCEPT);
	fedisableexcept(FE_ALL_EXCEPT);
	feenableexcept(evaluation_env()->trap_fpe_bits);
#endif
}

#if STACKS_POSSIBLE

static void restore_stacks(cl_env_ptr env)
{
	env->frs_limit = env->frs_org + (env->frs_size - 2 * (cl_index)ecl_get_option(ECL_OPT_FRAME_STACK_SAFETY_AREA));
	env->bds_limit = env->bds_org + (env->bds_size - 2 * (cl_index)ecl_get_option(ECL_OPT_BIND_STACK_SAFETY_AREA));
	env->cs_limit = env->cs_org - env->cs_size + 2 * ecl_get_option(ECL_OPT_C_STACK_SAFETY_AREA);
}

static void release(const void *from, const void *to)
{
	uintptr_t low = ((uintptr_t)from + PAGE - 1) & ~(PAGE - 1), high = (uintptr_t)to & ~(PAGE - 1);

	if (high > low)
		madvise((void *)low, high - low, MADV_DONTNEED);
}

/* Deep recursion leaves megabytes of dead stack behind, which would stay with the session for the rest of its life. */
static void release_dead_stack(cl_env_ptr env)
{
	release(env->cs_org - env->cs_size, (char *)__builtin_frame_address(0) - OWN_STACK);
	release(env->frs_top + 64, env->frs_org + env->frs_size);
	release(env->bds_top + 64, env->bds_org + env->bds_size);
}

/* ECL's macro has a variable that the compiler worries about, and sets it on both ways. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wclobbered"

/* In place of SI::STACK-ERROR-HANDLER: the limits are back as soon as somebody has handled the overflow. */
static cl_object on_stack_error(cl_object continue_string, cl_object datum, cl_object arguments)
{
	cl_env_ptr env = ecl_process_env();
	volatile cl_object result = ECL_NIL;

	ECL_UNWIND_PROTECT_BEGIN(env)
	{
		result = cl_funcall(4, universal_handler, continue_string, datum, arguments);
	}
	ECL_UNWIND_PROTECT_EXIT
	{
		restore_stacks(env);
	}
	ECL_UNWIND_PROTECT_END;
	return result;
}

#pragma GCC diagnostic pop

#endif

void limits_init(void)
{
	heap_size = ecl_make_symbol("HEAP-SIZE", "EXT");
	storage_exhausted = ecl_make_symbol("STORAGE-EXHAUSTED", "EXT");
	universal_handler = ecl_make_symbol("UNIVERSAL-ERROR-HANDLER", "SI");
	ecl_register_root(&heap_size);
	ecl_register_root(&storage_exhausted);
	ecl_register_root(&universal_handler);
#if TRAPS_POSSIBLE
	trap_bits = ecl_process_env()->trap_fpe_bits;
#endif
#if STACKS_POSSIBLE
	stack_handler = ecl_make_symbol("STACK-ERROR-HANDLER", "SI");
	original_stack_handler = cl_fboundp(stack_handler) == ECL_NIL ? ECL_NIL : cl_symbol_function(stack_handler);
	ecl_register_root(&stack_handler);
	ecl_register_root(&original_stack_handler);
	ecl_def_c_function(stack_handler, (cl_objectfn_fixed)on_stack_error, 3);
#endif
}

void limits_leave_stacks_alone(void)
{
	if (original_stack_handler && original_stack_handler != ECL_NIL)
		si_fset(2, stack_handler, original_stack_handler);
}

void limits_give_back(void)
{
	static size_t usual;

	if (GC_get_heap_size() < usual + BIG_GROWTH)
		return;
	/* The first gives back only what earlier collections had found to be free. */
	GC_gcollect_and_unmap();
	GC_gcollect_and_unmap();
	usual = GC_get_heap_size();
	restore_heap();
}

void limits_restore(bool after_jump)
{
	cl_env_ptr env = evaluation_env();

	restore_heap();
#if STACKS_POSSIBLE
	if (recipe_is_active(RECIPE_STACK_LIMITS)) {
		if (after_jump)
			release_dead_stack(env);
		restore_stacks(env);
	}
#endif
#if TRAPS_POSSIBLE
	if (recipe_is_active(RECIPE_FLOAT_TRAPS))
		env->trap_fpe_bits = trap_bits;
#endif
	limits_restore_float_traps();
#ifdef HAVE_STRUCT_CL_ENV_STRUCT_DEFAULT_SIGMASK
	pthread_sigmask(SIG_SETMASK, env->default_sigmask, NULL);
#endif
	(void)after_jump;
	(void)env;
}
