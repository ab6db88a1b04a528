/*
 * hibernation.c - the two ways, and who asked for the first.
 */
#include "hibernation.h"

#include "alloc.h"
#include "clock.h"
#include "conversation.h"
#include "evaluation.h"
#include "log.h"
#include "recollection.h"
#include "statefile.h"
#include "store.h"
#include "text.h"

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

/* Writing the state may take so long; when all sessions are hibernated, so long for all together. */
#define SAVE_MS 20000
static const struct timeval leave_time = {5, 0};
static const struct timeval at_once = {0, 0};
/* How often restoring may be the death of a process, before it is given up. */
#define RESTORES_MAX 2
/* Of what could not be kept, in bytes: the transcript has all of it. */
#define REPORT_MAX 3000

static bool is_operation(const struct evaluation *evaluation, const char *operation)
{
	return evaluation && evaluation->work.operation && strcmp(evaluation->work.operation, operation) == 0;
}

/* Before all others. */
static struct evaluation *enqueue(
	struct session *session, const char *operation, struct text *code, const struct work *how)
{
	struct work work = *how;

	work.operation = operation;
	work.code = code->data;
	work.code_length = code->length;
	struct evaluation *evaluation = evaluation_new_for_nobody(&work);
	TAILQ_INSERT_HEAD(&session->evaluations, evaluation, next);
	text_free(code);
	return evaluation;
}

static void enqueue_saving(struct session *session, const char *path)
{
	bool may_leave_out = session->is_saving || session->server->is_leaving;
	struct text code = {0};

	/* Better awake than without what is too big; but when all end, better that than without everything. */
	text_printf(&code, "%s\n%" PRIu64 "%s", path, session->last_seq + 1, may_leave_out ? "" : "\nwhole");
	struct evaluation *evaluation = enqueue(
		session, OPERATION_SAVE_STATE, &code, &(struct work){.is_timed = true, .time_limit_ms = SAVE_MS});
	evaluation->is_reading = true; /* it leaves no trace */
	session_advance(session);
}

static void enqueue_restoring(struct session *session)
{
	char path[PATH_MAX];
	struct text code = {0};

	statefile_path(session->server, session->id, path);
	if (session->is_cut_off)
		recollection_put_code(session, &code);
	else
		text_puts(&code, path);
	/* There is a copy that knows of it before the file is gone. */
	enqueue(session, session->is_cut_off ? OPERATION_RECOLLECT_STATE : OPERATION_RESTORE_STATE, &code,
		&(struct work){.protect = true});
}

static bool is_restoring(const struct evaluation *evaluation)
{
	return is_operation(evaluation, OPERATION_RESTORE_STATE) || is_operation(evaluation, OPERATION_RECOLLECT_STATE);
}

/* ---- waiting for the store's word */

struct pledge {
	struct server *server;
	char session_id[WORKLINK_SESSION_ID_LENGTH + 1];
	bool keeps_file; /* it could not be restored from, or there is none */
};

static struct pledge *pledge_new(const struct session *session)
{
	struct pledge *pledge = new_zeroed(sizeof(*pledge));

	pledge->server = session->server;
	memcpy(pledge->session_id, session->id, sizeof(pledge->session_id));
	return pledge;
}

/* ---- the way into the file */

static void end(struct session *session, const char *why_not)
{
	hibernation_callback done = session->hibernated;
	void *context = session->hibernated_context;

	session->hibernated = NULL;
	session->hibernated_context = NULL;
	session->is_hibernating = false;
	if (done)
		done(context, why_not);
}

static void stay(struct session *session, const char *why)
{
	log_info("%s: not hibernated: %s", session->id, why);
	statefile_remove(session->server, session->id);
	replace_text(&session->awake, why);
	session->idle_since_ms = clock_ms(); /* some time later it may be possible */
	end(session, why);
}

/* The file is the session now. Whoever came meanwhile wakes it at once. */
static void on_process_ended(struct session *session, bool has_ended)
{
	session->is_undecided = false;
	session->is_filed = true;
	if (!has_ended) {
		log_error("%s: it is hibernated, but its process does not end", session->id);
		session_refuse_all(
			session, "SESSION-UNAVAILABLE", "The session's old process does not end. Try again.");
	}
	end(session, NULL);
	if (TAILQ_EMPTY(&session->evaluations) && STAILQ_EMPTY(&session->visits))
		session_discard(session);
	else
		session_advance(session);
}

static void end_process(struct session *session)
{
	bool listens = session->state == SESSION_READY && session->kept == 0;

	session_begin_ending(session, on_process_ended);
	session_dismiss_process(session);
	if (!listens)
		session_kill_process(session);
}

static void on_filed(void *context, enum store_status status)
{
	const struct pledge *pledge = context;
	struct session *session = session_find(pledge->server, pledge->session_id);

	if (!session)
		return;
	if (session->state == SESSION_ENDING) { /* it is deleted, if that succeeds */
		session->is_undecided = false;
		session->is_filed = status == STORE_DONE;
		return;
	}
	if (status == STORE_DONE) {
		end_process(session);
		return;
	}
	session->is_undecided = false;
	stay(session, "The database cannot be written.");
	session_advance(session);
}

static void file(struct session *session)
{
	char name[64];

	statefile_name(session->id, name);
	session->is_undecided = true;
	store_set_state_file(session->server->store, session->id, name, on_filed, pledge_new(session));
}

static const char *save_failure(const struct result *result)
{
	if (result->outcome == OUTCOME_TIMEOUT)
		return "Writing its state took too long.";
	if (result->outcome == OUTCOME_CANCELLED)
		return "It was used meanwhile.";
	return result->error_message.data ? result->error_message.data : "Writing its state was broken off.";
}

static void write_state(struct session *session)
{
	char path[PATH_MAX];

	if (statefile_prepare(session->server, session->id, path))
		enqueue_saving(session, path);
	else
		stay(session, "There is no directory for its state.");
}

/* Of a session that goes on. It may be wanted to hibernate meanwhile. */
static void end_saving(struct session *session, uint64_t after, const char *why_not)
{
	session->is_saving = false;
	if (after > session->saved_seq)
		session->saved_seq = after;
	if (why_not)
		log_debug("%s: its state is not written: %s", session->id, why_not);
	if (session->is_hibernating && session->state == SESSION_READY)
		write_state(session);
	else if (session->is_hibernating)
		stay(session, "It was used meanwhile.");
}

static void take_saved(struct session *session, const struct result *result)
{
	const struct server *server = session->server;

	if (session->is_saving) {
		bool is_done = result->outcome != OUTCOME_CANCELLED; /* what fails need not be tried again at once */
		session->idle_since_ms = session->saving_since_ms;
		end_saving(session, is_done ? session->changed_seq : 0,
			result->outcome == OUTCOME_DONE ? NULL : save_failure(result));
		return;
	}
	if (session->state == SESSION_READY && result->outcome == OUTCOME_DONE &&
		(TAILQ_EMPTY(&session->evaluations) || server->is_leaving))
		file(session);
	else
		stay(session, result->outcome == OUTCOME_DONE ? "It was used meanwhile." : save_failure(result));
}

bool hibernation_is_possible(const struct session *session)
{
	return session->is_stored && session->state == SESSION_READY && session->kept == 0 && !session->is_undecided &&
		!session->is_filed && !session->is_hibernating && TAILQ_EMPTY(&session->evaluations) &&
		session->exposed_seq <= session->stored_seq;
}

static void break_saving_off(struct session *session)
{
	const struct evaluation *first = TAILQ_FIRST(&session->evaluations);

	if (session->state == SESSION_RUNNING && is_operation(first, OPERATION_SAVE_STATE))
		worker_cancel(session->worker, first->seq);
}

void hibernation_save(struct session *session)
{
	char path[PATH_MAX];

	if (!hibernation_is_possible(session) || session->changed_seq <= session->saved_seq ||
		!statefile_prepare(session->server, session->id, path))
		return;
	statefile_saved_path(session->server, session->id, path);
	session->is_saving = true;
	session->saving_since_ms = session->idle_since_ms; /* it counts as no use */
	enqueue_saving(session, path);
}

void hibernation_begin(struct session *session, hibernation_callback done, void *context)
{
	bool is_saving = session->is_saving && !session->is_hibernating;

	if (!is_saving && !hibernation_is_possible(session)) {
		if (done)
			done(context, "It is at work, or just beginning or ending. Try again.");
		return;
	}
	session->hibernated = done;
	session->hibernated_context = context;
	session->is_hibernating = true;
	if (is_saving)
		break_saving_off(session);
	else
		write_state(session);
}

void hibernation_disturb(struct session *session)
{
	if (!session->server->is_leaving)
		break_saving_off(session);
}

void hibernation_forget(struct session *session)
{
	if (session->is_hibernating)
		end(session, "It was deleted.");
}

/* ---- the way back */

static void on_unfiled(void *context, enum store_status status)
{
	const struct pledge *pledge = context;
	struct session *session = session_find(pledge->server, pledge->session_id);

	(void)status; /* it is tried until it succeeds */
	if (!session || session->deletion)
		return;
	if (!pledge->keeps_file)
		statefile_demote(pledge->server, pledge->session_id);
	session->is_undecided = false;
	session->is_filed = false;
	session->saved_seq = statefile_saved_seq(pledge->server, pledge->session_id);
	session->changed_seq = session->last_seq;
	recollection_end(session);
	session_advance(session);
}

static void unfile(struct session *session, bool keeps_file)
{
	struct pledge *pledge = pledge_new(session);

	pledge->keeps_file = keeps_file;
	session->is_undecided = true;
	session->restores = 0;
	store_clear_state_file(session->server->store, session->id, on_unfiled, pledge);
	store_hurry(session->server->store);
}

/* Each line names something; as many as fit. */
static void put_lost(struct text *text, const char *lines)
{
	const char *separator = " Not kept: ";

	while (*lines) {
		size_t length = strcspn(lines, "\n");
		if (text->length + length > REPORT_MAX) {
			text_puts(text, "; and more, which session-history shows");
			return;
		}
		text_puts(text, separator);
		text_add(text, lines, length);
		separator = "; ";
		lines += length + (lines[length] == '\n');
	}
}

static void tell_restored(struct session *session, const struct result *result)
{
	struct text epitaph = {0};

	session->epitaph_seq = 0;
	if (session->is_cut_off)
		recollection_put_report(session, &epitaph);
	else
		text_puts(&epitaph,
			"SESSION-RESTORED: The session was hibernated. It goes on in a new process, with what was defined before.");
	if (result->values.count > 0)
		put_lost(&epitaph, result->values.items[0].data);
	replace_text(&session->epitaph, epitaph.data);
	text_free(&epitaph);
	session_note_change(session); /* that is said also if we die before it is told */
}

static void tell_failed(struct session *session, const char *why)
{
	struct text epitaph = {0};
	char path[PATH_MAX];

	statefile_path(session->server, session->id, path);
	session->epitaph_seq = 0;
	if (session->is_cut_off)
		text_printf(&epitaph,
			"SESSION-RESTARTED: The session's Lisp process had ended, and it cannot be made again as it was: %s It goes "
			"on in a new process. What was defined before stands in the transcript.",
			why);
	else
		text_printf(&epitaph,
			"SESSION-RESTARTED: The session was hibernated and cannot be restored as it was: %s It goes on in a new process. "
			"What was defined before can be read in %s until it is hibernated again.",
			why, path);
	replace_text(&session->epitaph, epitaph.data);
	text_free(&epitaph);
	session_note_change(session); /* that is said also if we die before it is told */
}

static const char *restore_failure(const struct result *result)
{
	if (result->outcome == OUTCOME_TIMEOUT)
		return "It took longer than load-timeout allows.";
	return result->error_message.data ? result->error_message.data : "Restoring it was broken off.";
}

static void take_restored(struct session *session, const struct result *result)
{
	bool is_good = result->outcome == OUTCOME_DONE;

	if (session->state != SESSION_READY)
		return; /* the process died of it; hibernation_attend will see to that */
	if (is_good)
		tell_restored(session, result);
	else
		tell_failed(session, restore_failure(result));
	unfile(session, session->is_cut_off || !is_good);
}

void hibernation_attend(struct session *session)
{
	if (!session->is_filed || session->is_undecided || session->kept > 0 ||
		is_restoring(TAILQ_FIRST(&session->evaluations)))
		return;
	if (session->is_cut_off && !session->recollected) {
		recollection_ask(session);
		return;
	}
	if (session->restores++ < RESTORES_MAX) {
		enqueue_restoring(session);
		return;
	}
	tell_failed(session, "The process dies of it.");
	unfile(session, true);
}

void hibernation_take_result(struct session *session, const struct evaluation *evaluation, const struct result *result)
{
	if (is_operation(evaluation, OPERATION_SAVE_STATE))
		take_saved(session, result);
	else if (is_restoring(evaluation))
		take_restored(session, result);
	else
		replace_text(&session->awake, NULL);
	if (!evaluation->is_reading && result->seq > session->changed_seq)
		session->changed_seq = result->seq;
}

void hibernation_drop(struct session *session, const struct evaluation *evaluation)
{
	if (!is_operation(evaluation, OPERATION_SAVE_STATE))
		return;
	if (session->is_saving)
		end_saving(session, session->changed_seq, "Its process died.");
	else
		stay(session, "Its process died.");
}

/* ---- what the row says */

void hibernation_recall(struct session *session, const char *state_file)
{
	session->is_filed = state_file != NULL;
	session->is_cut_off = state_file && strcmp(state_file, RECOLLECTION_MARK) == 0;
}

bool hibernation_adopt(struct session *session, const char *state_file)
{
	if (session->is_hibernating) /* a clone, whose row is looked up late */
		return true;
	session->saved_seq = statefile_saved_seq(session->server, session->id);
	if (!state_file) {
		session->is_undecided = false;
		statefile_remove(session->server, session->id);
		return true;
	}
	session->is_cut_off = strcmp(state_file, RECOLLECTION_MARK) == 0;
	log_info("%s: its row names its state; what there is of its process ends", session->id);
	session_note_adopted(session, session->adopting);
	end_process(session);
	return false;
}

/* ---- who asked */

static void answer(struct request *request, const char *why_not)
{
	struct json_object *result;

	request->conversation->lookups--;
	if (request->unwanted) {
		request_withdraw(request);
	} else if (why_not) {
		request_refuse(request, RPC_INVALID_REQUEST, "The session is not hibernated: %s", why_not);
	} else {
		result = json_object_new_object();
		json_object_object_add(result, "state", json_object_new_string("hibernated"));
		request_result(request, result);
	}
}

static void on_wish_done(void *context, const char *why_not)
{
	answer(context, why_not);
}

static void on_wished_found(void *context, enum store_status status, const struct store_found_session *found)
{
	struct request *request = context;

	if (status == STORE_FAILED)
		answer(request, "It cannot be looked up now.");
	else if (!found)
		answer(request, "There is none of that name. list-sessions shows those that there are.");
	else
		answer(request, found->state_file ? NULL : "It has no process, and so nothing to keep.");
}

void hibernation_by_request(struct request *request, const char *id_or_name)
{
	struct conversation *conversation = request->conversation;
	struct session *session = session_find_of(conversation->server, conversation->owner, id_or_name);

	conversation->lookups++;
	if (session)
		hibernation_begin(session, on_wish_done, request);
	else
		store_find_session(
			conversation->server->store, id_or_name, conversation->owner, on_wished_found, request);
}

/* All of them, before the daemon leaves. */
struct departure {
	struct server *server;
	void (*done)(struct server *server);
	struct event *timeout;
	struct event *again; /* a second try for those that something has hindered that may pass */
	size_t open;         /* sessions, and one for the search itself */
	bool has_failed, is_second;
};

static void free_events(struct departure *departure)
{
	if (departure->timeout)
		event_free(departure->timeout);
	if (departure->again)
		event_free(departure->again);
	departure->timeout = departure->again = NULL;
}

static void depart(struct departure *departure)
{
	struct server *server = departure->server;
	void (*done)(struct server * server) = departure->done;

	free_events(departure); /* the rest stays for those that come too late */
	done(server);
}

void hibernation_end(struct server *server)
{
	if (server->departure)
		free_events(server->departure);
	free(server->departure);
	server->departure = NULL;
}

static void on_one_done(void *context, const char *why_not)
{
	struct departure *departure = context;

	departure->has_failed |= why_not != NULL;
	if (--departure->open > 0 || !departure->timeout)
		return;
	if (departure->has_failed && !departure->is_second)
		event_add(departure->again, &at_once);
	else
		depart(departure);
}

static void hibernate_each(struct departure *departure)
{
	struct session *session, *next;

	departure->open = 1;
	for (session = LIST_FIRST(&departure->server->roster.sessions); session; session = next) {
		next = LIST_NEXT(session, next);
		departure->open++;
		hibernation_begin(session, on_one_done, departure);
	}
	on_one_done(departure, NULL);
}

static void on_again(evutil_socket_t fd, short what, void *context)
{
	struct departure *departure = context;

	(void)fd;
	(void)what;
	departure->is_second = true;
	hibernate_each(departure);
}

static void on_leave_time(evutil_socket_t fd, short what, void *context)
{
	struct departure *departure = context;

	(void)fd;
	(void)what;
	struct session *session;
	LIST_FOREACH(session, &departure->server->roster.sessions, next)
	if (session->is_hibernating)
		log_warning("%s: it could not be hibernated in time", session->id);
	depart(departure);
}

void hibernation_of_all(struct server *server, void (*done)(struct server *server))
{
	if (server->is_leaving)
		return;
	struct departure *departure = new_zeroed(sizeof(*departure));
	server->is_leaving = true;
	server->departure = departure;
	departure->server = server;
	departure->done = done;
	departure->again = must(evtimer_new(server->base, on_again, departure));
	departure->timeout = must(evtimer_new(server->base, on_leave_time, departure));
	event_add(departure->timeout, &leave_time);
	hibernate_each(departure);
}
