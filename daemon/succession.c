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

/* A process that died before it had heard that it was told names it again. */
static size_t first_untold(const struct session *session, const struct worker_hello *hello)
{
	size_t first = 0;

	while (first < hello->undone.count && hello->undone.seq[first] != 0 &&
		hello->undone.seq[first] <= session->told_seq)
		first++;
	return first;
}

/* Of those before a seq. */
static void put_undone(
	struct text *text, const struct session *session, const struct worker_hello *hello, uint64_t before)
{
	size_t first = first_untold(session, hello), end = hello->undone.count;

	while (end > first && hello->undone.seq[end - 1] >= before)
		end--;
	if (end == first) {
		text_puts(text, "The session goes on with everything that was answered before.");
		return;
	}
	text_printf(text,
		"The session goes on as it was %zu evaluation%s before. Undone, and not repeated: ", end - first,
		end - first == 1 ? "" : "s");
	for (size_t i = first; i < end; i++)
		text_printf(text, "%s%s", i > first ? "; " : "", hello->undone.code[i]);
}

/* It has been, perhaps also to its client: then that will not see what is said now. */
static bool is_answered(const struct worker_hello *hello, uint64_t seq)
{
	return hello && hello->undone.count > 0 && hello->undone.seq[hello->undone.count - 1] == seq;
}

/* The evaluation whose state has come back; 0 if nothing is undone by that. */
static uint64_t restored_by(const struct worker_hello *hello)
{
	return hello && hello->is_heir && hello->undone.count > 0 ? hello->restored_seq : 0;
}

/* hello is NULL if nobody is there. */
static void put_succession(
	struct text *text, const struct session *session, const struct worker_hello *hello, uint64_t before)
{
	if (hello && hello->is_heir)
		put_undone(text, session, hello, before);
	else
		text_puts(text,
			"The session goes on in a new process, with what can be defined again; the next call tells what that is.");
}

/*
 * The evaluation is over. Nothing more is run until that is stored: the session's processes keep of the last evaluation
 * only for whom it was.
 */
static void end_interrupted(struct session *session, struct evaluation *evaluation, struct result *result)
{
	evaluation_finish(evaluation, session, result);
	evaluation_expose(session, result->seq);
	hibernation_take_result(session, evaluation, result);
	session->failed_seq = result->seq;
	evaluation_free(evaluation);
	result_free(result);
	free(result);
}

static void note_told(struct session *session, uint64_t told_seq, uint64_t telling_seq)
{
	if (told_seq > session->told_seq)
		session->told_seq = told_seq;
	session->telling_seq = telling_seq;
}

void session_add_notes(struct session *session, const struct evaluation *evaluation, struct result *result)
{
	struct text note = {0};

	if (!evaluation->request || evaluation->is_reading)
		return; /* nobody would read them there */
	if (session->epitaph) {
		result_add_warning(result, session->epitaph);
		replace_text(&session->epitaph, NULL);
		note_told(session, session->epitaph_seq, result->seq);
	}
	result->restored = session->restored;
	session->restored = 0;
	if (!evaluation->work.protect || session->protected_seq >= result->seq)
		return;
	text_printf(&note,
		"NOT-PROTECTED: No copy of the session could be made: %s. If its process died, this call would be undone.",
		session->unprotected ? session->unprotected : "unknown");
	result_add_warning(result, note.data);
	text_free(&note);
}

void session_settle_fallen(struct session *session)
{
	struct evaluation *fallen = session->fallen;

	if (!fallen)
		return;
	session->fallen = NULL;
	if (session->is_fallen_told)
		note_told(session, fallen->seq, fallen->seq);
	end_interrupted(session, fallen, session->fallen_result);
}

void session_drop_fallen(struct session *session)
{
	if (!session->fallen)
		return;
	evaluation_free(session->fallen);
	result_free(session->fallen_result);
	free(session->fallen_result);
}

static void make_failure(struct result *result, const struct session *session, const struct evaluation *evaluation,
	const struct worker_hello *hello)
{
	bool rolls_back = hello && hello->is_heir && checkpoint_rolls_back(evaluation);
	struct text words = {0};

	text_printf(&words, "%s %s ", session->obituary,
		rolls_back ? "Nothing was rolled back." : "The evaluation was not completed and will not be repeated.");
	put_succession(&words, session, hello, evaluation->seq);
	result_make_error(result, evaluation->seq, rolls_back ? "NOT-ROLLED-BACK" : "WORKER-DIED", words.data);
	result->restored = restored_by(hello);
	text_free(&words);
}

static void make_rollback(struct result *result, struct session *session, const struct evaluation *evaluation,
	const struct worker_hello *hello)
{
	checkpoint_make_result(result, session, evaluation, hello);
	/* What was written before is of a branch that was left; the transcript, if there is one, says so too. */
	statefile_forget(session->server, session->id);
	session->saved_seq = 0;
}

/*
 * The process has left because it was to be rolled back, and so it was; or it has died of something else. The
 * evaluation is over when the results before it have come: a transcript has its order, and of results that are stored
 * all before count as stored. True if somebody is told.
 */
static bool settle_interrupted(
	struct session *session, struct evaluation *evaluation, uint64_t seq, const struct worker_hello *hello)
{
	session_settle_fallen(session);
	evaluation->seq = seq;
	session->fallen = evaluation;
	session->fallen_result = new_zeroed(sizeof(*session->fallen_result));
	if (hello && hello->rolled_back_seq == seq)
		make_rollback(session->fallen_result, session, evaluation, hello);
	else
		make_failure(session->fallen_result, session, evaluation, hello);
	session->is_fallen_told = evaluation->request && !evaluation->is_reading && !is_answered(hello, seq);
	return session->is_fallen_told;
}

static void set_epitaph(struct session *session, const struct worker_hello *hello)
{
	bool has_heir = hello && hello->is_heir;
	struct text epitaph = {0};

	if (has_heir && session->epitaph) { /* that everything was gone, and nobody has been told */
		if (hello->undone.count == 0)
			return;
		text_printf(&epitaph, "%s Then: ", session->epitaph);
	}
	text_printf(&epitaph, "%s: %s ", has_heir ? "SESSION-RESTORED" : "SESSION-RESTARTED", session->obituary);
	put_succession(&epitaph, session, hello, UINT64_MAX);
	replace_text(&session->epitaph, epitaph.data);
	session->restored = restored_by(hello);
	session->epitaph_seq = hello && has_heir ? hello->inherited_seq : 0;
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
	} else {
		if (!sent || !settle_interrupted(session, sent, sent->seq, NULL))
			set_epitaph(session, NULL);
		session_settle_fallen(session);
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
	if (sent->seq <= hello->last_seq)
		return settle_interrupted(session, sent, sent->seq, hello);
	hibernation_drop(session, sent);
	evaluation_free(sent);
	return false;
}

/* The same for one that a former daemon had sent. */
static bool settle_stranger(struct session *session, const struct worker_hello *hello)
{
	struct origin origin;

	if (session->fallen && session->fallen->seq == hello->interrupted_seq)
		return session->is_fallen_told; /* the copy has died too, before it could send all results */
	if (hello->interrupted_seq <= session->received_seq || hello->interrupted_seq <= session->failed_seq ||
		!origin_decode(hello->interrupted_origin, hello->interrupted_origin_length, &origin))
		return false;
	struct evaluation *evaluation = evaluation_adopt(session->server, session, &origin);
	bool is_told = settle_interrupted(session, evaluation, hello->interrupted_seq, hello);
	origin_free(&origin);
	return is_told;
}

/* Only the connection was lost, and there was no zygote that could end the process: it goes on as it is. */
static void regain(struct session *session, const struct worker_hello *hello)
{
	const struct evaluation *first = TAILQ_FIRST(&session->evaluations);

	if (first && first->seq > hello->last_seq) /* it never got there */
		settle_sent(session, hello);
}

void session_revived(struct session *session, const struct worker_hello *hello)
{
	bool is_all_gone = session->epitaph && session->epitaph_seq == 0; /* and nobody has been told */

	if (session->obituary && hello->pid == session->pid) {
		regain(session, hello);
		replace_text(&session->obituary, NULL);
		return;
	}
	if (!session->obituary)
		replace_text(&session->obituary, "The session's Lisp process died.");
	if (!is_all_gone) /* what it tells is said by this hello too */
		replace_text(&session->epitaph, NULL);
	if (!settle_sent(session, hello) && !settle_stranger(session, hello))
		set_epitaph(session, hello);
	replace_text(&session->obituary, NULL);
	replace_text(&session->package, NULL);
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
