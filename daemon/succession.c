/*
 * succession.c - what becomes of a session when its process dies.
 *
 * Usually its sleeping copy takes over, by itself and within milliseconds: it is reached under the same name, and tells
 * which evaluations it knows nothing of. Otherwise the session is empty, and the next evaluation gets a new process.
 * Nothing is run again unless the dead process had not begun it.
 */
#include "session.h"

#include "alloc.h"
#include "checkpoint.h"
#include "evaluation.h"
#include "hibernation.h"
#include "log.h"
#include "recollection.h"
#include "sessionlock.h"
#include "statefile.h"
#include "zygote.h"

#include <inttypes.h>
#include <stdio.h>
#include <sys/wait.h>

/* How long the zygote may take to tell how a process ended. */
static const struct timeval patience_time = {1, 0};
/* How often a copy that takes over is dialled, and how often in vain. */
static const struct timeval revival_time = {0, 2000};
#define REVIVALS_MAX 2500
/* A connection that is lost before the hello counts as so many. */
#define REVIVALS_FOR_SILENCE 500

/* ---- what is told */

static void put_undone(struct text *text, const struct worker_hello *hello)
{
	size_t count = hello->undone.count;

	if (count == 0) {
		text_puts(text, "The session goes on with everything that was answered before.");
		return;
	}
	text_printf(text, "The session goes on as it was %zu evaluation%s before. Undone, and not repeated: ", count,
		count == 1 ? "" : "s");
	for (size_t i = 0; i < count; i++)
		text_printf(text, "%s%s", i ? "; " : "", hello->undone.code[i]);
}

/* The evaluation whose state has come back; 0 if nothing is undone by that. */
static uint64_t restored_by(const struct worker_hello *hello)
{
	return hello && hello->is_heir && hello->undone.count > 0 ? hello->restored_seq : 0;
}

/* hello is NULL if nobody is there. */
static void put_succession(struct text *text, const struct worker_hello *hello)
{
	if (hello && hello->is_heir)
		put_undone(text, hello);
	else
		text_puts(text,
			"The session goes on in a new process, with what can be defined again; the next call tells what that is.");
}

static void end_interrupted(struct session *session, struct evaluation *evaluation, struct result *result)
{
	evaluation_finish(evaluation, session, result);
	hibernation_take_result(session, evaluation, result);
	if (result->seq > session->received_seq)
		session->received_seq = result->seq;
	result_free(result);
}

static void fail_interrupted(
	struct session *session, struct evaluation *evaluation, uint64_t seq, const struct worker_hello *hello)
{
	struct result result;
	struct text message = {0};

	bool rolls_back = hello && hello->is_heir && checkpoint_rolls_back(evaluation);
	text_printf(&message, "%s %s ", session->obituary,
		rolls_back ? "Nothing was rolled back." : "The evaluation was not completed and will not be repeated.");
	put_succession(&message, hello);
	result_make_error(&result, seq, rolls_back ? "NOT-ROLLED-BACK" : "WORKER-DIED", message.data);
	result.restored = restored_by(hello);
	end_interrupted(session, evaluation, &result);
	text_free(&message);
}

/* The process has left because it was to be rolled back, and so it was; or it has died of something else. */
static void settle_interrupted(
	struct session *session, struct evaluation *evaluation, uint64_t seq, const struct worker_hello *hello)
{
	struct result result;

	if (hello->rolled_back_seq != seq) {
		fail_interrupted(session, evaluation, seq, hello);
		return;
	}
	checkpoint_make_result(&result, session, evaluation, hello);
	end_interrupted(session, evaluation, &result);
	/* What was written before is of a branch that was left; the transcript, if there is one, says so too. */
	statefile_forget(session->server, session->id);
	session->saved_seq = 0;
}

static void set_epitaph(struct session *session, const struct worker_hello *hello)
{
	struct text epitaph = {0};

	text_printf(&epitaph, "%s: %s ", hello && hello->is_heir ? "SESSION-RESTORED" : "SESSION-RESTARTED",
		session->obituary);
	put_succession(&epitaph, hello);
	replace_text(&session->epitaph, epitaph.data);
	session->restored = restored_by(hello);
	text_free(&epitaph);
}

/* The evaluation that was sent to the process that died, if it is still open. */
static struct evaluation *take_sent(struct session *session)
{
	struct evaluation *first = TAILQ_FIRST(&session->evaluations);

	if (!first || first->seq == 0)
		return NULL;
	TAILQ_REMOVE(&session->evaluations, first, next);
	return first;
}

/* ---- nobody takes over */

/* Unless that is what ended its process, or it begins anew; of one whose row is not known yet opening.c decides. */
static void make_again(struct session *session, bool is_reset)
{
	if (is_reset || session->is_filed || session->is_undecided || !session->is_stored || session->last_seq == 0)
		return;
	replace_text(&session->last_words, session->obituary);
	recollection_begin(session, session_advance);
}

static void bury(struct session *session)
{
	struct evaluation *sent = take_sent(session);
	bool is_reset = false;

	event_del(session->patience);
	session_enter(session, SESSION_EMPTY);
	replace_text(&session->package, NULL);
	if (sent && session_reset_survives(session, sent, false)) {
		replace_text(&session->epitaph, NULL);
		is_reset = true;
	} else if (sent) {
		fail_interrupted(session, sent, sent->seq, NULL);
		evaluation_free(sent);
	} else {
		set_epitaph(session, NULL);
	}
	make_again(session, is_reset);
	replace_text(&session->obituary, NULL);
	session_note_adopted(session, session->adopting);
	session_advance(session);
}

/* ---- the copy takes over */

static void try_to_reach(struct session *session)
{
	struct server *server = session->server;

	session_enter(session, SESSION_REVIVING);
	if (session->revivals < REVIVALS_MAX && session_dial(session))
		return;
	if (!sessionlock_is_held(server->runtime_directory, session->id)) {
		bury(session);
	} else if (++session->revivals < REVIVALS_MAX) {
		event_add(session->patience, &revival_time);
	} else {
		log_error("%s: its process lives but cannot be reached; it is ended", session->id);
		zygote_kill(server->zygote, session->id, 0);
		bury(session);
	}
}

void session_miss_process(struct session *session)
{
	if (++session->revivals < REVIVALS_MAX) {
		event_add(session->patience, &revival_time);
		return;
	}
	zygote_kill(session->server->zygote, session->id, 0);
	session->revivals = 0;
	session_enter(session, SESSION_EMPTY);
	session_refuse_all(session, "SESSION-UNAVAILABLE", "The session's process cannot be reached. Try again.");
}

bool session_await_heir(struct session *session)
{
	if (!sessionlock_is_held(session->server->runtime_directory, session->id))
		return false;
	try_to_reach(session);
	return true;
}

/* What the dead process had begun is over; what it had only been sent waits again. */
static bool settle_sent(struct session *session, const struct worker_hello *hello)
{
	struct evaluation *sent = take_sent(session);
	bool is_told = false;

	if (!sent)
		return false;
	if (sent->seq <= hello->restored_seq && hello->kept > 0) {
		TAILQ_INSERT_HEAD(&session->evaluations, sent, next); /* the copy has its result */
		return false;
	}
	if (sent->seq > hello->last_seq && sent->request) {
		sent->seq = 0;
		TAILQ_INSERT_HEAD(&session->evaluations, sent, next);
		return false;
	}
	if (session_reset_survives(session, sent, true))
		return true;
	if (sent->seq <= hello->last_seq) {
		settle_interrupted(session, sent, sent->seq, hello);
		is_told = true;
	} else {
		hibernation_drop(session, sent);
	}
	evaluation_free(sent);
	return is_told;
}

/* The same for one that a former daemon had sent. */
static bool settle_stranger(struct session *session, const struct worker_hello *hello)
{
	struct origin origin;

	if (hello->interrupted_seq <= session->received_seq ||
		!origin_decode(hello->interrupted_origin, hello->interrupted_origin_length, &origin))
		return false;
	struct evaluation *evaluation = evaluation_adopt(session->server, session, &origin);
	settle_interrupted(session, evaluation, hello->interrupted_seq, hello);
	evaluation_free(evaluation);
	origin_free(&origin);
	return true;
}

bool session_revived(struct session *session, const struct worker_hello *hello)
{
	if (session->obituary && hello->pid == session->pid) { /* it is not dead, but of no use */
		worker_close(session->worker);
		session->worker = NULL;
		bury(session);
		return false;
	}
	if (!session->obituary)
		replace_text(&session->obituary, "The session's Lisp process died.");
	if (!settle_sent(session, hello) && !settle_stranger(session, hello))
		set_epitaph(session, hello);
	replace_text(&session->obituary, NULL);
	replace_text(&session->package, NULL);
	return true;
}

/* ---- the end of a process */

/* How it ended is known as well as it will ever be. */
static void settle_death(struct session *session, bool has_heir)
{
	event_del(session->patience);
	session->reaped = false;
	log_warning("%s: %s", session->id, session->obituary);
	if (has_heir)
		try_to_reach(session);
	else
		bury(session);
}

void session_lose_patience(struct session *session)
{
	if (session->state == SESSION_REVIVING) {
		try_to_reach(session);
		return;
	}
	if (session->state == SESSION_ENDING) {
		session_await_end(session);
		return;
	}
	if (session->state == SESSION_WAITING) {
		session_spawn(session);
		return;
	}
	if (!session->obituary)
		replace_text(&session->obituary, "The Lisp process ended in an unknown way.");
	settle_death(session, true); /* nobody could tell us of a copy */
}

void session_lose_worker(struct session *session)
{
	worker_close(session->worker);
	session->worker = NULL;
	if (session->state == SESSION_DIALING)
		session->revivals += REVIVALS_FOR_SILENCE;
	else /* if it is not dead, it is of no use */
		zygote_kill(session->server->zygote, session->id, session->pid);
	session_enter(session, SESSION_DYING);
	event_del(session->tick);
	if (session->reaped)
		settle_death(session, session->has_heir);
	else
		event_add(session->patience, &patience_time);
}

void session_died(struct server *server, const char *id, uint64_t pid, int status, bool has_heir)
{
	struct session *session = session_find(server, id);
	char sentence[128];

	if (!session || session->state == SESSION_EMPTY || session->state == SESSION_WAITING)
		return;
	if (session->state == SESSION_ENDING) {
		if (pid == session->ended_pid)
			session->ended_pid = 0;
		return;
	}
	if ((session->state == SESSION_READY || session->state == SESSION_RUNNING) && pid != session->pid)
		return; /* one before */
	if (WIFSIGNALED(status))
		snprintf(sentence, sizeof(sentence), "The Lisp process was ended by signal %d (%s).", WTERMSIG(status),
			strsignal(WTERMSIG(status)));
	else
		snprintf(sentence, sizeof(sentence), "The Lisp process left with status %d.", WEXITSTATUS(status));
	if (!session->obituary) /* what the process said itself tells more */
		replace_text(&session->obituary, sentence);
	session->has_heir = has_heir;
	if (session->state == SESSION_DYING)
		settle_death(session, has_heir);
	else if (session->state == SESSION_REVIVING && !has_heir)
		bury(session);
	else if (session->state != SESSION_REVIVING)
		session->reaped = true; /* the connection will end in a moment */
}
