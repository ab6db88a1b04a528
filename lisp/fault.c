/*
 * fault.c - SIGSEGV and SIGBUS on an alternate stack.
 *
 * Three things arrive here. Recursion in C code (the reader, EQUAL) that ran over the end of the stack: the evaluation
 * is left by a throw and the session goes on. ECL's guard page: it protects its environment when an interrupt is queued
 * while interrupts are disabled, so this is no fault at all. Anything else: the heap cannot be trusted any more, so the
 * process reports and ends. ECL's own handler is not called, because it would run Lisp on this small stack, where the
 * collector gets lost.
 */
#include "config.h"

#include "fault.h"

#include <dlfcn.h>
#include <ecl/ecl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>

#include "evaluation.h"
#include "interrupt.h"
#include "iothread.h"
#include "limits.h"
#include "recipes.h"
#include "registers.h"

#define ALTERNATE_STACK_SIZE 65536
/* A fault this close to the stack pointer, and a stack pointer this close to the stack's end, are an overflow. */
#define NEAR_STACK_POINTER 65536
#define NEAR_END (512 * 1024)

#if REGISTERS_KNOWN && defined(HAVE_STRUCT_CL_ENV_STRUCT_CS_ORG) && defined(HAVE_STRUCT_CL_ENV_STRUCT_DEFAULT_SIGMASK)
#define POSSIBLE 1
#else
#define POSSIBLE 0
#endif

bool fault_is_possible(void)
{
	return POSSIBLE;
}

#if POSSIBLE

static pthread_t main_thread;
static char alternate_stack[ALTERNATE_STACK_SIZE] __attribute__((aligned(16)));
static char report[256];

/*
 * ECL would now run the queued interrupt from its handler. We let it do so on the proper stack: its own wake-up signal
 * is delivered as soon as this handler returns, before the store that faulted is tried again.
 */
static bool lift_guard_page(cl_env_ptr env, const char *address)
{
	const char *flag = (const char *)&env->disable_interrupts;

	if (!env || address < (const char *)env || address >= (const char *)(env + 1))
		return false;
	mprotect(env, sizeof(*env), PROT_READ | PROT_WRITE);
	if (address >= flag && address < flag + sizeof(env->disable_interrupts)) {
		env->disable_interrupts = 0;
		pthread_kill(pthread_self(), (int)ecl_get_option(ECL_OPT_THREAD_INTERRUPT_SIGNAL));
	}
	return true;
}

static bool is_overflow(cl_env_ptr env, const siginfo_t *info, const void *context)
{
	const char *address = info->si_addr;
	const char *pointer = (const char *)registers_stack_pointer(context);

	return info->si_code > 0 && address < env->cs_org && address > pointer - NEAR_STACK_POINTER &&
		address < pointer + NEAR_STACK_POINTER && pointer < env->cs_org - env->cs_size + NEAR_END;
}

static void die_of(int signal, const siginfo_t *info, const void *context, const char *where)
{
	void *counter = (void *)registers_program_counter(context);
	const char *what = signal == SIGBUS ? "Bus error" : "Segmentation fault";
	Dl_info symbol;

	if (info->si_code <= 0)
		snprintf(report, sizeof(report), "%s: the signal was sent by process %d.", what, (int)info->si_pid);
	else if (dladdr(counter, &symbol) && symbol.dli_sname)
		snprintf(report, sizeof(report), "%s%s at address %p in %s.", what, where, info->si_addr,
			symbol.dli_sname);
	else
		snprintf(report, sizeof(report), "%s%s at address %p.", what, where, info->si_addr);
	iothread_fatal(report);
}

static void on_fault(int signal, siginfo_t *info, void *context)
{
	bool on_main_thread = pthread_equal(pthread_self(), main_thread);
	cl_env_ptr env = on_main_thread ? evaluation_env() : ecl_process_env_unsafe();

	if (lift_guard_page(env, info->si_addr))
		return;
	if (!on_main_thread)
		die_of(signal, info, context, " in a thread");
	if (!is_overflow(env, info, context))
		die_of(signal, info, context, "");
	if (!evaluation_is_running() || env->disable_interrupts || interrupt_is_unsafe_at(context))
		die_of(signal, info, context, " by stack overflow inside of Lisp");
	pthread_sigmask(SIG_SETMASK, env->default_sigmask, NULL);
	limits_restore_float_traps();
	evaluation_throw(OUTCOME_OVERFLOW);
}

void fault_enable(void)
{
	struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK};
	stack_t stack = {.ss_sp = alternate_stack, .ss_size = sizeof(alternate_stack)};

	if (!recipe_is_active(RECIPE_FAULT_HANDLER))
		return;
	main_thread = pthread_self();
	sigaltstack(&stack, NULL);
	sigfillset(&action.sa_mask);
	sigaction(SIGSEGV, &action, NULL);
	sigaction(SIGBUS, &action, NULL);
}

#else

void fault_enable(void)
{
}

#endif
