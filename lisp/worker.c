/*
 * worker.c - from a fresh fork of the zygote to a session that evaluates.
 */
#include "config.h"

#include "worker.h"

#include <ecl/ecl.h>
#include <errno.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "checkpoint.h"
#include "clone.h"
#include "descriptors.h"
#include "evaluation.h"
#include "fault.h"
#include "interrupt.h"
#include "iothread.h"
#include "limits.h"
#include "listener.h"
#include "output.h"
#include "sessionlock.h"
#include "snapshot.h"

#define EXIT_NO_START 72

static void refuse(const struct worker_birth *birth, const char *what, int error)
{
	char text[256];
	int length = snprintf(text, sizeof(text), "%s: %s", what, strerror(error));

	if (birth->ready >= 0 && write(birth->ready, text, (size_t)length) < 0)
		_exit(EXIT_NO_START);
	_exit(EXIT_NO_START);
}

/* What the first evaluation shows on its standard error. */
static void notice(const char *wanted, int error, const char *instead)
{
	char text[1024];
	int length =
		snprintf(text, sizeof(text), "; The directory %s cannot be entered (%s); the session runs in %s.\n",
			wanted, strerror(error), instead);

	output_lock();
	output_append(OUTPUT_STDERR, text, (size_t)length < sizeof(text) ? (size_t)length : sizeof(text) - 1);
	output_unlock();
}

static void enter_directory(const char *directory)
{
	const char *home = getenv("HOME");

	if (!home || *home != '/') {
		const struct passwd *entry = getpwuid(geteuid());
		home = entry ? entry->pw_dir : "/";
	}
	if (directory && chdir(directory) == 0)
		return;
	int error = directory ? errno : 0;
	if (chdir(home) < 0) {
		home = "/";
		if (chdir(home) < 0)
			return;
	}
	if (directory)
		notice(directory, error, home);
}

/* What Lisp remembers of the process that it comes from and must not: the random state, the zygote's directory. */
static void renew_lisp(const char *function)
{
	cl_env_ptr env = ecl_process_env();

	ECL_CATCH_ALL_BEGIN(env)
	{
		cl_funcall(1, ecl_make_symbol(function, "CL-MCP-RUNTIME"));
	}
	ECL_CATCH_ALL_END;
}

static int listen_as(const struct worker_birth *birth)
{
	if (!birth->runtime_directory)
		return -1;
	int listener = listener_open(birth->runtime_directory, birth->session);
	if (listener < 0)
		refuse(birth, "cannot listen", -listener);
	return descriptors_raise(listener);
}

/* All that a process must have of its own; a forked child of a worker makes it anew in the same way. */
static void equip(const struct worker_birth *birth)
{
	struct iothread_identity identity = {
		.session = birth->session,
		.lineage = birth->lineage,
		.incarnation = birth->incarnation,
		.last_seq = birth->last_seq,
		.connection = birth->connection,
	};
	int result = output_open_pipes();

	if (result < 0)
		refuse(birth, "cannot make pipes", -result);
	fault_enable();
	interrupt_enable();
	limits_restore(false);
	identity.listener = listen_as(birth);
	result = iothread_start(&identity);
	if (result < 0)
		refuse(birth, "cannot start a thread", -result);
}

/*
 * A copy takes the dead worker's place. It makes a copy of its own before anybody can reach it, because what killed the
 * worker may kill it too.
 */
static void succeed(struct worker_birth *birth)
{
	bool was_chosen;

	do {
		was_chosen = snapshot_was_chosen(birth->lineage);
		birth->incarnation = lineage_incarnate(birth->lineage);
		iothread_inherit(was_chosen);
	} while (snapshot_renew(birth->lineage));
	snapshot_settle(birth->lineage, was_chosen);
	equip(birth);
}

/* Makes a copy if it is time. True in a copy that has taken the dead worker's place. */
static bool protect(struct worker_birth *birth)
{
	if (!snapshot_attend(birth->lineage))
		return false;
	succeed(birth);
	return true;
}

/* In the strict form a copy has the result before anybody else gets it. */
static void answer(struct worker_birth *birth, bool strict)
{
	if (strict && birth->runtime_directory && snapshot_take(birth->lineage))
		succeed(birth);
	else
		iothread_release();
}

/* Of those that are no evaluations this one does something to the session. */
static bool counts(const struct request *request)
{
	static const char loading[] = "load-system";

	return !request->operation ||
		(request->operation_length == sizeof(loading) - 1 &&
			memcmp(request->operation, loading, sizeof(loading) - 1) == 0);
}

static void run(struct worker_birth *birth, const struct request *request)
{
	struct frame_builder result = {0};
	bool strict = request->protect != 0, is_counted = counts(request);
	uint64_t seq = request->seq;

	evaluation_run(request, &result);
	iothread_keep(&result);
	if (birth->runtime_directory)
		snapshot_note_answer(seq, is_counted);
	answer(birth, strict);
}

/* ---- checkpoints */

/* The copy has the answer, as in the strict form: of what it knows this is the last. */
static void keep_copy(struct worker_birth *birth, const struct checkpoint_plan *plan)
{
	struct frame_builder failure = plan->failure;
	bool is_kept;

	if (snapshot_keep(birth->lineage, plan->name, &is_kept)) {
		frame_builder_free(&failure);
		succeed(birth);
		return;
	}
	if (!is_kept)
		iothread_amend(&failure);
	else if (plan->place != SHELF_NONE)
		snapshot_dismiss(birth->lineage, plan->place);
	frame_builder_free(&failure);
	iothread_release();
}

/*
 * This process leaves, and the copy that was chosen takes over. Should that die in this moment, there is another one
 * that knows of everything.
 */
static void leave_to(struct worker_birth *birth, int place)
{
	shelf_choose(lineage_shelf(birth->lineage), place);
	if (snapshot_take_if_needed(birth->lineage))
		succeed(birth);
	else
		_exit(0);
}

static void serve_checkpoint(struct worker_birth *birth, const struct request *request)
{
	struct checkpoint_plan plan;
	uint64_t seq = request->seq;

	checkpoint_perform(request, birth->lineage, &plan);
	if (plan.step == CHECKPOINT_LEAVE) {
		leave_to(birth, plan.place);
		return;
	}
	iothread_keep(&plan.result);
	snapshot_note_answer(seq, false);
	if (plan.step == CHECKPOINT_KEEP)
		keep_copy(birth, &plan);
	else
		iothread_release();
}

/* ---- life */

/* Kept by this process and all that follow it, see sessionlock.h. */
static void lock_session(struct worker_birth *birth)
{
	if (!birth->runtime_directory)
		return;
	int lock = sessionlock_take(birth->runtime_directory, birth->session);
	if (lock < 0)
		refuse(birth, lock == -EWOULDBLOCK ? "the session has a process" : "cannot lock the session", -lock);
	birth->lock = descriptors_raise(lock);
}

static void begin_life(struct worker_birth *birth)
{
	lock_session(birth);
	lineage_begin(birth->lineage, birth->incarnation, birth->last_seq);
	equip(birth);
	enter_directory(birth->directory);
	renew_lisp("RENEW");
	if (birth->ready < 0)
		return;
	if (write(birth->ready, "", 1) < 0)
		_exit(EXIT_NO_START);
	close(birth->ready);
	birth->ready = -1;
}

/* In the clone. As soon as it idles it makes a copy of its own. */
static void begin_as_clone(struct worker_birth *birth)
{
	lock_session(birth);
	equip(birth);
	renew_lisp("RENEW-CLONE");
	snapshot_note_answer(0, false);
	clone_settle(birth);
}

void worker_main(struct worker_birth *birth)
{
	begin_life(birth);
	for (;;) {
		const struct request *request = iothread_next(snapshot_due_us());

		/* A copy that took over has dropped the request: the worker died with it. */
		if (((!request || snapshot_is_overdue()) && protect(birth)) || !request)
			continue;
		if (request->clone) {
			if (clone_make(request->clone, birth))
				begin_as_clone(birth);
			continue;
		}
		if (birth->runtime_directory && checkpoint_is_asked(request))
			serve_checkpoint(birth, request);
		else
			run(birth, request);
	}
}
