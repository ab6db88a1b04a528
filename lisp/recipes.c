/*
 * recipes.c - the table of recipes, and their trials.
 *
 * A trial is an evaluation in a worker of its own, over the same protocol that a daemon speaks. So what is tried is
 * what sessions will use, and a recipe that crashes crashes a child.
 */
#include "config.h"

#include "recipes.h"

#include <ecl/ecl.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backtrace.h"
#include "clock.h"
#include "fault.h"
#include "interrupt.h"
#include "limits.h"
#include "log.h"
#include "spawn.h"
#include "worklink.h"

#define TRIAL_PATIENCE_US 10000000
#define REASON_SIZE 200

struct trial {
	const char *name;
	const char *setup; /* evaluated before, if there is any */
	const char *code;
	bool is_cancelled; /* while it runs */
	enum worker_outcome outcome;
	uint8_t tag;                 /* of a field that must be there, */
	const char *text;            /* with this text */
	bool (*is_possible)(void);   /* in this build; NULL: always */
	void (*do_without)(void);    /* what else it takes to switch it off */
	const char *lisp_do_without; /* the same, a function of the runtime */
};

static const struct trial trials[RECIPES] = {
	[RECIPE_INTERRUPT] =
		{
			.name = "interrupt",
			.code = "(loop)",
			.is_cancelled = true,
			.outcome = OUTCOME_CANCELLED,
			.is_possible = interrupt_is_possible,
		},
	[RECIPE_FAULT_HANDLER] =
		{
			.name = "fault-handler",
			.code = "(read-from-string (make-string 2000000 :initial-element (code-char 40)))",
			.outcome = OUTCOME_OVERFLOW,
			.is_possible = fault_is_possible,
		},
	[RECIPE_STACK_LIMITS] =
		{
			.name = "stack-limits",
			.setup = "(defvar *v*) (defun f (n) (let ((*v* n)) (1+ (f n))))",
			.code = "(loop repeat 3 collect (handler-case (f 1) (storage-condition () 'full)))",
			.outcome = OUTCOME_DONE,
			.tag = WORK_VALUE,
			.text = "(FULL FULL FULL)",
			.is_possible = limits_stacks_are_possible,
			.do_without = limits_leave_stacks_alone,
		},
	[RECIPE_HEAP_LIMIT] =
		{
			.name = "heap-limit",
			.code = "(handler-case (make-array 500000000) (storage-condition () 'full))",
			.outcome = OUTCOME_DONE,
			.tag = WORK_VALUE,
			.text = "FULL",
		},
	[RECIPE_FLOAT_TRAPS] =
		{
			.name = "float-traps",
			.setup = "(ext:trap-fpe t nil)",
			.code = "(handler-case (/ 1.0 0.0) (division-by-zero () 'trapped))",
			.outcome = OUTCOME_DONE,
			.tag = WORK_VALUE,
			.text = "TRAPPED",
			.is_possible = limits_float_traps_are_possible,
		},
	[RECIPE_ARGUMENTS] =
		{
			.name = "backtrace-arguments",
			.setup = "(defun f (a b) (setf a 1) (/ b 0))",
			.code = "(f 42 7)",
			.outcome = OUTCOME_ERROR,
			.tag = WORK_FRAME,
			.text = "(F 42 7)",
			.is_possible = backtrace_is_possible,
		},
	[RECIPE_DEBUGGER_HOOK] =
		{
			.name = "debugger-hook",
			.code = "(error \"tried\")",
			.outcome = OUTCOME_ERROR,
			.tag = WORK_ERROR_MESSAGE,
			.text = "tried",
			.lisp_do_without = "DO-WITHOUT-HOOK",
		},
	[RECIPE_EXIT_REPLACEMENT] =
		{
			.name = "exit-replacement",
			.code = "(unwind-protect (ext:quit 3) (si:exit 4))",
			.outcome = OUTCOME_EXIT,
			.lisp_do_without = "DO-WITHOUT-EXIT",
		},
	[RECIPE_OUTPUT_STREAM] =
		{
			.name = "output-stream",
			.code = "(format t \"~C~%b~&~A\" (code-char 233) \"c\")",
			.outcome = OUTCOME_DONE,
			.tag = WORK_STDOUT,
			.text = "\303\251\nb\nc",
			.lisp_do_without = "DO-WITHOUT-CHANNELS",
		},
	[RECIPE_PACKAGE_LOCK] =
		{
			.name = "package-lock",
			.code = "(defun cl-mcp-runtime::evaluate () nil)",
			.outcome = OUTCOME_ERROR,
			.tag = WORK_ERROR_TYPE,
			.text = "PACKAGE-ERROR",
			.lisp_do_without = "DO-WITHOUT-LOCK",
		},
	[RECIPE_LINT] =
		{
			.name = "lint",
			.code = "(defun foo () (let ((x 10))))",
			.outcome = OUTCOME_DONE,
			.tag = WORK_WARNING,
			.text = "STYLE-WARNING: The variable X is defined but never used.",
			.lisp_do_without = "DO-WITHOUT-LINT",
		},
};

static bool is_off[RECIPES];
static bool is_unwanted[RECIPES];

bool recipe_is_active(enum recipe recipe)
{
	return !is_off[recipe];
}

bool recipes_do_without(const char *name)
{
	for (int i = 0; i < RECIPES; i++)
		if (strcmp(trials[i].name, name) == 0) {
			is_unwanted[i] = true;
			return true;
		}
	return false;
}

/* ---- one trial */

struct attempt {
	pid_t pid;
	int connection;
	uint64_t until_us;
	uint8_t buffer[16384]; /* a result of any trial fits */
	size_t length;
	size_t used; /* by the frame that was returned last */
};

static void ask(const struct attempt *attempt, const struct frame_builder *frame)
{
	/* If nobody listens any more, the answer will be missing. */
	if (send(attempt->connection, frame->data, frame->length, MSG_NOSIGNAL) < 0)
		return;
}

static void ask_evaluate(const struct attempt *attempt, uint64_t seq, const char *code)
{
	struct frame_builder frame = {0};

	frame_begin(&frame, WORKER_EVALUATE);
	frame_put_number(&frame, WORK_INCARNATION, 1);
	frame_put_number(&frame, WORK_SEQ, seq);
	frame_put_text(&frame, WORK_CODE, code);
	frame_end(&frame);
	ask(attempt, &frame);
	frame_builder_free(&frame);
}

static void ask_cancel(const struct attempt *attempt, uint64_t seq)
{
	struct frame_builder frame = {0};

	frame_begin(&frame, WORKER_CANCEL);
	frame_put_number(&frame, WORK_SEQ, seq);
	frame_end(&frame);
	ask(attempt, &frame);
	frame_builder_free(&frame);
}

/* The next frame. False if none comes. */
static bool hear(struct attempt *attempt, struct frame *frame)
{
	size_t size;

	attempt->length -= attempt->used;
	memmove(attempt->buffer, attempt->buffer + attempt->used, attempt->length);
	attempt->used = 0;
	while (frame_open(attempt->buffer, attempt->length, frame, &size) != FRAME_READY) {
		uint64_t now = clock_microseconds();
		struct pollfd readable = {.fd = attempt->connection, .events = POLLIN};

		if (now >= attempt->until_us || poll(&readable, 1, (int)((attempt->until_us - now) / 1000 + 1)) <= 0)
			return false;
		ssize_t got = recv(attempt->connection, attempt->buffer + attempt->length,
			sizeof(attempt->buffer) - attempt->length, 0);
		if (got <= 0)
			return false;
		attempt->length += (size_t)got;
	}
	attempt->used = size;
	return true;
}

/* Is the field there, with that text? Without a tag nothing is asked for. */
static bool has_text(struct frame frame, uint8_t tag, const char *text)
{
	struct field field;

	if (!tag)
		return true;
	while (frame_next(&frame, &field) == FRAME_READY)
		if (field.tag == tag && field.length == strlen(text) && memcmp(field.data, text, field.length) == 0)
			return true;
	return false;
}

static uint64_t number_of(struct frame frame, uint8_t tag)
{
	struct field field;
	uint64_t number = 0;

	while (frame_next(&frame, &field) == FRAME_READY)
		if (field.tag == tag && !field_number(&field, &number))
			return 0;
	return number;
}

/* Sends everything, so that all trials run side by side. */
static bool begin_attempt(const struct trial *trial, struct attempt *attempt, char reason[static REASON_SIZE])
{
	uint64_t seq = 0;

	if (trial->is_possible && !trial->is_possible()) {
		snprintf(reason, REASON_SIZE, "not known for this machine or this version of ECL");
		return false;
	}
	attempt->pid = spawn_connected(&attempt->connection);
	if (attempt->pid < 0) {
		snprintf(reason, REASON_SIZE, "no process to try it in: %s", strerror(-(int)attempt->pid));
		return false;
	}
	attempt->until_us = clock_microseconds() + TRIAL_PATIENCE_US;
	if (trial->setup)
		ask_evaluate(attempt, ++seq, trial->setup);
	ask_evaluate(attempt, ++seq, trial->code);
	if (trial->is_cancelled)
		ask_cancel(attempt, seq);
	return true;
}

static bool judge_attempt(const struct trial *trial, struct attempt *attempt, char reason[static REASON_SIZE])
{
	uint64_t seq = trial->setup ? 2 : 1;
	struct frame frame;

	while (hear(attempt, &frame)) {
		if (frame.type == WORKER_FATAL) {
			snprintf(reason, REASON_SIZE, "its process had to be ended");
			return false;
		}
		if (frame.type != WORKER_RESULT || number_of(frame, WORK_SEQ) != seq)
			continue;
		if (number_of(frame, WORK_OUTCOME) != trial->outcome || !has_text(frame, trial->tag, trial->text)) {
			snprintf(reason, REASON_SIZE, "it does something else here");
			return false;
		}
		return true;
	}
	snprintf(reason, REASON_SIZE, "its process died or did not answer");
	return false;
}

static void end_attempt(struct attempt *attempt)
{
	close(attempt->connection);
	kill(attempt->pid, SIGKILL);
	while (waitpid(attempt->pid, NULL, 0) < 0 && errno == EINTR)
		;
}

/* ---- all of them */

static void switch_off(enum recipe recipe)
{
	const struct trial *trial = &trials[recipe];

	is_off[recipe] = true;
	if (trial->do_without)
		trial->do_without();
	if (trial->lisp_do_without)
		cl_funcall(1, ecl_make_symbol(trial->lisp_do_without, "CL-MCP-RUNTIME"));
}

void recipes_test(bool verbose)
{
	struct attempt *attempts = calloc(RECIPES, sizeof(*attempts));
	char reasons[RECIPES][REASON_SIZE] = {0};
	bool begun[RECIPES];

	if (!attempts)
		abort();
	for (int i = 0; i < RECIPES; i++) {
		if (is_unwanted[i])
			snprintf(reasons[i], REASON_SIZE, "switched off by --without");
		begun[i] = !is_unwanted[i] && begin_attempt(&trials[i], &attempts[i], reasons[i]);
	}
	for (int i = 0; i < RECIPES; i++) {
		bool works = begun[i] && judge_attempt(&trials[i], &attempts[i], reasons[i]);

		if (begun[i])
			end_attempt(&attempts[i]);
		if (!works) {
			switch_off((enum recipe)i);
			log_line("the recipe %s is switched off: %s", trials[i].name, reasons[i]);
		}
		if (verbose && works)
			printf("ok %s\n", trials[i].name);
		else if (verbose)
			printf("fallback %s: %s\n", trials[i].name, reasons[i]);
	}
	free(attempts);
	if (verbose)
		fflush(stdout);
}

void recipes_put_fallbacks(struct frame_builder *ready)
{
	for (int i = 0; i < RECIPES; i++)
		if (is_off[i])
			frame_put_text(ready, WORK_FALLBACK, trials[i].name);
}
