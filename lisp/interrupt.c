/*
 * interrupt.c - the cancel signal.
 *
 * The I/O thread sends it with the evaluation's number, again and again until the evaluation has ended; a number that
 * is not the running one is stale and ignored. The handler lets the signal pass while it finds the main thread in the
 * collector, in libc, or where ECL has disabled interrupts. Otherwise it queues an interrupt of its own and lets ECL
 * process it, which throws to the evaluation's tag. None of ECL's ready-made ways survives this more than some hundred
 * times.
 */
#include "config.h"

#include "interrupt.h"

#include <ecl/ecl.h>
#include <errno.h>
#include <gc/gc.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>

#include "clock.h"
#include "evaluation.h"
#include "limits.h"
#include "recipes.h"
#include "registers.h"

/* Nobody else uses it, a second one merges with the first, and a process that does not expect it ignores it. */
#define CANCEL_SIGNAL SIGURG
#define UNSAFE_MAX 16
/* Cleanup forms get this long before they are interrupted themselves, first and from then on. */
#define CLEANUP_US 250000
#define FURTHER_CLEANUP_US 20000
/* So many signals are let pass for the sake of a wait queue. */
#define HELD_BACK_MAX 500

#if REGISTERS_KNOWN && defined(HAVE_STRUCT_CL_ENV_STRUCT_INTERRUPT_STRUCT) && \
	defined(HAVE_STRUCT_CL_ENV_STRUCT_DEFAULT_SIGMASK)
#define POSSIBLE 1
#else
#define POSSIBLE 0
#endif

struct code_range {
	uintptr_t low;
	uintptr_t high;
	bool is_libc;
};

static struct code_range unsafe[UNSAFE_MAX];
static int unsafe_count;
static volatile uint64_t running_seq;
static volatile uint64_t wanted_seq; /* a cancel of it has found no safe moment yet */
static volatile uint64_t quiet_until_us;
static volatile bool was_thrown;
static pthread_t main_thread;

bool interrupt_is_possible(void)
{
	return POSSIBLE;
}

static bool is_unsafe_object(const char *name, bool *is_libc)
{
	static const char *const others[] = {"libgc.so", "libpthread", "ld-linux", "linux-vdso"};

	*is_libc = strstr(name, "libc.so") != NULL;
	if (*is_libc)
		return true;
	for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++)
		if (strstr(name, others[i]))
			return true;
	return false;
}

static int note_object(struct dl_phdr_info *object, size_t size, void *unused)
{
	bool is_libc;

	(void)size;
	(void)unused;
	if (!is_unsafe_object(object->dlpi_name, &is_libc))
		return 0;
	for (int i = 0; i < object->dlpi_phnum && unsafe_count < UNSAFE_MAX; i++) {
		const ElfW(Phdr) *segment = &object->dlpi_phdr[i];

		if (segment->p_type != PT_LOAD || !(segment->p_flags & PF_X))
			continue;
		uintptr_t low = object->dlpi_addr + segment->p_vaddr;
		unsafe[unsafe_count++] =
			(struct code_range){.low = low, .high = low + segment->p_memsz, .is_libc = is_libc};
	}
	return 0;
}

static const struct code_range *unsafe_range_at(const void *context)
{
	uintptr_t counter = registers_program_counter(context);

	for (int i = 0; i < unsafe_count; i++)
		if (counter >= unsafe[i].low && counter < unsafe[i].high)
			return &unsafe[i];
	return NULL;
}

/* In libc only a system call that our signal has just broken off may be left. */
static bool is_broken_off_call(const struct code_range *range, const void *context)
{
	return range && range->is_libc && registers_result(context) == -EINTR;
}

bool interrupt_is_unsafe_at(const void *context)
{
	const struct code_range *range = unsafe_range_at(context);

	return range && !is_broken_off_call(range, context);
}

/*
 * ECL's threads wait for each other in queues guarded by spinlocks, and ECL leaves its interrupts enabled while it
 * holds one: who is torn away then leaves every thread that wants the queue spinning for ever, the thread that ends
 * included. A process that is entering, in or leaving a queue has lent it its record; it may be left only while it
 * sleeps there.
 */
#ifdef HAVE_STRUCT_ECL_PROCESS_QUEUE_RECORD

static volatile unsigned held_back;

/* Another thread's interrupt may have thrown out of a queue: nobody has put the record back then. */
static void renew_queue_record(void)
{
	cl_object process = evaluation_env()->own_process;

	if (process->process.queue_record == ECL_NIL)
		process->process.queue_record = ecl_list1(process);
	held_back = 0;
}

/* Not for ever, because the record may be missing for that reason. */
static bool is_queueing(cl_env_ptr env, const void *context)
{
	return env->own_process->process.queue_record == ECL_NIL &&
		!is_broken_off_call(unsafe_range_at(context), context) && held_back++ < HELD_BACK_MAX;
}

#else

static void renew_queue_record(void)
{
}

static bool is_queueing(cl_env_ptr env, const void *context)
{
	(void)env;
	(void)context;
	return false;
}

#endif

void interrupt_begin(uint64_t seq)
{
	renew_queue_record();
	quiet_until_us = 0;
	was_thrown = false;
	running_seq = seq;
}

void interrupt_end(void)
{
	running_seq = 0;
}

#if POSSIBLE

static cl_object queue_record, abort_function, interrupts_enabled;
static sigset_t quiet_mask;

/* Called by ECL as a queued interrupt, on the main thread. */
static cl_object abort_evaluation(void)
{
	cl_env_ptr env = ecl_process_env();

	if (!running_seq)
		return ECL_NIL;
	quiet_until_us = clock_microseconds() + (was_thrown ? FURTHER_CLEANUP_US : CLEANUP_US);
	was_thrown = true;
	pthread_sigmask(SIG_SETMASK, env->default_sigmask, NULL);
	evaluation_throw(OUTCOME_CANCELLED);
}

static bool is_safe_now(cl_env_ptr env, const void *context)
{
	return !interrupt_is_unsafe_at(context) && !env->disable_interrupts &&
		ECL_SYM_VAL(env, interrupts_enabled) != ECL_NIL &&
		env->interrupt_struct->pending_interrupt == ECL_NIL && !is_queueing(env, context);
}

static void on_cancel(int signal, siginfo_t *info, void *context)
{
	int saved_errno = errno;
	cl_env_ptr env = evaluation_env();
	uint64_t seq = (uintptr_t)info->si_value.sival_ptr;

	(void)signal;
	if (!pthread_equal(pthread_self(), main_thread) || info->si_code != SI_QUEUE)
		goto out;
	if (seq == 0 || seq != running_seq || clock_microseconds() < quiet_until_us)
		goto out;
	if (!is_safe_now(env, context)) {
		wanted_seq = seq;
		goto out;
	}
	ECL_RPLACA(queue_record, abort_function);
	ECL_RPLACD(queue_record, ECL_NIL);
	env->interrupt_struct->pending_interrupt = queue_record;
	/*
	 * ECL allocates before it calls the function. Until then only the collector may interrupt: ECL's own wake-up
	 * signal (a thread that ends) would find our record pending and act on it, wherever we are.
	 */
	pthread_sigmask(SIG_SETMASK, &quiet_mask, NULL);
	limits_restore_float_traps();
	ecl_check_pending_interrupts(env);
out:
	errno = saved_errno;
}

void interrupt_point(void)
{
	cl_env_ptr env = evaluation_env();

	if (!wanted_seq || !pthread_equal(pthread_self(), main_thread) || wanted_seq != running_seq ||
		clock_microseconds() < quiet_until_us)
		return;
	wanted_seq = 0;
	if (!env->disable_interrupts && ECL_SYM_VAL(env, interrupts_enabled) != ECL_NIL)
		abort_evaluation();
}

void interrupt_init(void)
{
	const int never_blocked[] = {
		SIGSEGV, SIGBUS, SIGFPE, SIGILL, GC_get_suspend_signal(), GC_get_thr_restart_signal()};

	sigfillset(&quiet_mask);
	for (size_t i = 0; i < sizeof(never_blocked) / sizeof(*never_blocked); i++)
		sigdelset(&quiet_mask, never_blocked[i]);
	dl_iterate_phdr(note_object, NULL);
	interrupts_enabled = ecl_make_symbol("*INTERRUPTS-ENABLED*", "EXT");
	abort_function = ecl_make_cfun((cl_objectfn_fixed)abort_evaluation, ECL_NIL, ECL_NIL, 0);
	queue_record = ecl_list1(abort_function);
	ecl_register_root(&interrupts_enabled);
	ecl_register_root(&abort_function);
	ecl_register_root(&queue_record);
}

void interrupt_enable(void)
{
	/* No SA_RESTART: a blocking system call has to come back, or its evaluation could never be stopped. */
	struct sigaction action = {.sa_sigaction = on_cancel, .sa_flags = SA_SIGINFO};

	main_thread = pthread_self();
	running_seq = 0;
	if (!recipe_is_active(RECIPE_INTERRUPT))
		return;
	sigfillset(&action.sa_mask);
	sigaction(CANCEL_SIGNAL, &action, NULL);
}

void interrupt_send(uint64_t seq)
{
	union sigval value = {.sival_ptr = (void *)(uintptr_t)seq};

	/* While cleanup forms have their time even an ignored signal would break off their system calls. */
	if (recipe_is_active(RECIPE_INTERRUPT) && clock_microseconds() >= quiet_until_us)
		pthread_sigqueue(main_thread, CANCEL_SIGNAL, value);
}

#else

void interrupt_init(void)
{
	dl_iterate_phdr(note_object, NULL);
}

void interrupt_enable(void)
{
	main_thread = pthread_self();
}

void interrupt_send(uint64_t seq)
{
	(void)seq;
}

void interrupt_point(void)
{
}

#endif
