/*
 * boot.c - ECL's options, what is preloaded, and the order in which our modules are initialised.
 *
 * The zygote must have exactly one thread, or forks could not be trusted: so the collector gets no marker threads and
 * ECL no signal thread.
 */
#include "config.h"

#include "boot.h"

#include <ecl/ecl.h>
#include <gc/gc.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "backtrace.h"
#include "evaluation.h"
#include "interrupt.h"
#include "limits.h"
#include "log.h"
#include "output.h"
#include "text.h"

#define STACK_SIZE (64ul << 20)
/* With its default ECL ends the process, silently and with status 0, when the frame stack overflows. */
#define FRAME_STACK_SIZE 65536
/* Each thread of the user's would otherwise get a frame stack of 15 MB. */
#define THREAD_FRAME_STACK_SIZE 2048
#define C_STACK_SAFETY_AREA (256 * 1024)

/* Made by the compiler from the Lisp files beside this one. */
extern void init_lib_cl_mcp_runtime(cl_object);

void boot_raise_stack(char **argv)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_STACK, &limit) < 0)
		return;
	rlim_t wanted = limit.rlim_max < STACK_SIZE ? limit.rlim_max : STACK_SIZE;
	if (limit.rlim_cur == wanted)
		return;
	limit.rlim_cur = wanted;
	if (setrlimit(RLIMIT_STACK, &limit) == 0)
		execv("/proc/self/exe", argv);
}

/* Called as EXT:*INVOKE-DEBUGGER-HOOK*: there is nobody to debug with. */
static cl_object on_boot_error(cl_object condition, cl_object hook)
{
	char text[512];
	size_t length = text_copy(cl_princ_to_string(condition), text, sizeof(text));

	(void)hook;
	log_line("Lisp does not boot: %.*s", (int)length, text);
	_exit(1);
}

/* Not SIG_IGN: that would survive exec into the user's subprocesses. */
static void on_broken_pipe(int signal)
{
	(void)signal;
}

static void set_options(void)
{
	struct sigaction broken_pipe = {.sa_handler = on_broken_pipe, .sa_flags = SA_RESTART};

	sigaction(SIGPIPE, &broken_pipe, NULL);
	GC_set_handle_fork(1);
	GC_set_markers_count(1);
	ecl_set_option(ECL_OPT_SIGNAL_HANDLING_THREAD, 0);
	ecl_set_option(ECL_OPT_TRAP_SIGINT, 0);
	ecl_set_option(ECL_OPT_TRAP_SIGPIPE, 0);
	ecl_set_option(ECL_OPT_FRAME_STACK_SIZE, FRAME_STACK_SIZE);
	ecl_set_option(ECL_OPT_C_STACK_SAFETY_AREA, C_STACK_SAFETY_AREA);
}

static void evaluate_text(const char *text)
{
	cl_eval(ecl_read_from_cstring(text));
}

#ifdef HAVE_STRUCT_ECL_PROCESS_START_STOP_LOCK
/*
 * Newer versions of ECL read pipes through stdio: a cancel that stops the main thread there leaves a file locked, which
 * nobody but the main thread can close then. So garbage is finalized there alone.
 */
static pthread_t main_thread;

static void on_garbage(void)
{
	if (pthread_equal(pthread_self(), main_thread))
		GC_invoke_finalizers();
}
#endif

void boot_lisp(char *program)
{
	static char *arguments[2]; /* ECL looks at them whenever it is asked for its command line */

	arguments[0] = program;
	prctl(PR_SET_NAME, "cl-mcp-worker"); /* not "exe", as it was run by boot_raise_stack */
	set_options();
	cl_boot(1, arguments);
	ecl_set_option(ECL_OPT_FRAME_STACK_SIZE, THREAD_FRAME_STACK_SIZE);
	cl_set(ecl_make_symbol("*INVOKE-DEBUGGER-HOOK*", "EXT"),
		ecl_make_cfun((cl_objectfn_fixed)on_boot_error, ECL_NIL, ECL_NIL, 2));
	evaluate_text("(let ((*load-verbose* nil)) (require :cmp))");
	evaluate_text("(let ((*load-verbose* nil)) (require :asdf))");
	if (output_init() < 0) {
		log_line("there is no memory for the output channels");
		_exit(1);
	}
	ecl_init_module(NULL, init_lib_cl_mcp_runtime);
	evaluation_init();
	interrupt_init();
	limits_init();
	backtrace_init();
	evaluate_text("(cl-mcp-runtime::prepare)");
#ifdef HAVE_STRUCT_ECL_PROCESS_START_STOP_LOCK
	main_thread = pthread_self();
	GC_set_finalizer_notifier(on_garbage);
	GC_set_finalize_on_demand(1);
#endif
	si_gc(1, ECL_T);
}

const char *boot_lisp_version(void)
{
	static char version[64];

	if (!*version) {
		char number[48];
		size_t length = text_copy(cl_lisp_implementation_version(), number, sizeof(number));
		snprintf(version, sizeof(version), "ECL %.*s", (int)length, number);
	}
	return version;
}
