/*
 * opening.c - how a session comes to be: new, found in the store by id or name, or adopted with its process; and how it
 * gets its row back when the store has lost it.
 */
#include "alloc.h"
#include "conversation.h"
#include "hibernation.h"
#include "log.h"
#include "memo.h"
#include "recollection.h"
#include "session.h"
#include "statefile.h"
#include "store.h"

#include <stdio.h>
#include <unistd.h>

/* Ids clash when two sessions are made in one second and draw the same of 65,536 suffixes. */
#define DRAWS_MAX 20

static void change_id(struct session *session, const char *id)
{
	conversation_follow_session(session->server, session->id, id);
	roster_change_id(&session->server->roster, session, id);
}

/* It never came to be. */
static void abandon(struct session *session, const char *type, const char *why)
{
	conversation_follow_session(session->server, session->id, NULL);
	session_refuse_all(session, type, why);
	session_release(session);
}

static void add_row(struct session *session);

static void on_row_added(void *context, enum store_status status)
{
	struct session *session = context;
	const char *problem = store_problem(session->server->store);
	char id[sizeof(session->id)], message[640];

	if (status == STORE_EXISTS && session->draws++ < DRAWS_MAX) {
		session_id_draw(id);
		change_id(session, id);
		add_row(session);
	} else if (status != STORE_DONE) {
		snprintf(message, sizeof(message), "The session cannot be kept: %s.", problem ? problem : "unknown");
		abandon(session, "STORAGE-FAILED", message);
	} else {
		session->is_stored = true;
		subscription_announce(session->server, session->owner, session->id, CHANGED_LIST | CHANGED_STATE);
		session_spawn(session);
		session_take_visits(session);
	}
}

static void add_row(struct session *session)
{
	struct store_session row = {
		.id = session->id,
		.name = session->name,
		.directory = session->directory,
		.owner = session->owner,
		.created_at = session->created_at,
	};

	store_add_session(session->server->store, &row, on_row_added, session);
}

struct session *session_new(struct server *server, unsigned owner, const char *directory)
{
	char id[WORKLINK_SESSION_ID_LENGTH + 1];

	session_id_draw(id);
	struct session *session = session_make(server, owner, id);
	session->directory = new_text(directory);
	session->created_at = store_universal_time();
	session->has_history = true;
	session_enter(session, SESSION_CREATING);
	add_row(session);
	return session;
}

/* ---- sessions that have no process any more */

static void take_row(struct session *session, const struct store_found_session *found)
{
	session->is_stored = true;
	replace_text(&session->name, found->name);
	replace_text(&session->directory, found->directory);
	session->created_at = found->created_at;
	session->has_history = found->has_history;
	limit_decode(&session->limits, found->limits);
}

/* A state may have been written after an evaluation that the store was never told of. */
static uint64_t last_seq_of(const struct session *session, const struct store_found_session *found)
{
	uint64_t saved_seq = statefile_saved_seq(session->server, session->id);

	return saved_seq > found->last_seq ? saved_seq : found->last_seq;
}

static void say_began_anew(struct session *session)
{
	replace_text(&session->epitaph,
		"SESSION-RESTARTED: The session's Lisp process had ended. The session goes on in a new process; "
		"what was defined before is gone.");
	session->epitaph_seq = 0;
}

void session_look_whether_new(struct session *session)
{
	if (session->is_unmet && session->stored_before && !session->epitaph)
		say_began_anew(session);
}

static void begin_process(struct session *session)
{
	session_spawn(session);
	session_take_visits(session);
}

static void recall(struct session *session, const struct store_found_session *found)
{
	hibernation_recall(session, found->state_file);
	session_finish_reset(session, found->reload);
	if (recollection_is_possible(session, found)) {
		recollection_begin(session, begin_process);
		return;
	}
	if (found->last_seq > 0 && !found->state_file)
		say_began_anew(session);
	begin_process(session);
}

static void on_row_recalled(void *context, enum store_status status, const struct store_found_session *found)
{
	struct session *session = context;
	const char *problem = store_problem(session->server->store);
	char message[768];

	struct session *existing = found ? session_find(session->server, found->id) : NULL;
	if (existing && existing != session) {
		/* It was there all the time, under a name that was not known yet. */
		replace_text(&existing->name, found->name);
		conversation_follow_session(session->server, session->id, existing->id);
		session_hand_over(session, existing);
	} else if (found && session_id_valid(found->id)) {
		change_id(session, found->id);
		take_row(session, found);
		session->last_seq = last_seq_of(session, found);
		recall(session, found);
	} else if (status == STORE_FAILED) {
		snprintf(message, sizeof(message), "The session cannot be looked up: %s.",
			problem ? problem : "unknown");
		abandon(session, "STORAGE-FAILED", message);
	} else if (session->name && session->may_be_new) {
		session->created_at = store_universal_time();
		session->has_history = true;
		add_row(session);
	} else {
		snprintf(message, sizeof(message), SESSION_UNKNOWN, session->name ? session->name : session->id);
		abandon(session, "SESSION-NOT-FOUND", message);
	}
}

struct session *session_open(struct server *server, unsigned owner, const char *id_or_name, const char *directory)
{
	struct session *session = session_find_of(server, owner, id_or_name);
	char id[WORKLINK_SESSION_ID_LENGTH + 1];

	if (session)
		return session;
	if (session_id_valid(id_or_name)) {
		session = session_make(server, owner, id_or_name);
	} else {
		session_id_draw(id);
		session = session_make(server, owner, id);
		session->name = new_text(id_or_name);
		session->may_be_new = directory != NULL;
	}
	session->directory = new_text(directory ? directory : "/");
	session_enter(session, SESSION_CREATING);
	store_find_session(server->store, id_or_name, owner, on_row_recalled, session);
	return session;
}

/* ---- workers of a former daemon */

static void on_row_found(void *context, enum store_status status, const struct store_found_session *found)
{
	struct session *session = context;

	if (status == STORE_FAILED) /* the store closes */
		return;
	if (found)
		take_row(session, found);
	else
		session_restore(session);
	session->stored_before = found && found->last_seq > 0 && !found->state_file && !found->reload;
	session_look_whether_new(session);
	if (found && last_seq_of(session, found) > session->last_seq)
		session->last_seq = last_seq_of(session, found);
	if (!hibernation_adopt(session, found ? found->state_file : NULL))
		return;
	if (found && session->state == SESSION_EMPTY && recollection_is_possible(session, found)) {
		recollection_begin(session, session_advance);
		return;
	}
	session_finish_reset(session, found ? found->reload : NULL);
	session_note_change(session);
	session_advance(session);
}

void session_learn(struct session *session)
{
	store_expect_session(session->server->store, session->id, session->owner, on_row_found, session);
}

bool session_adopt(struct server *server, const char *id)
{
	struct session *session = session_make(server, geteuid(), id);

	replace_text(&session->directory, "/");
	session->created_at = store_universal_time();
	session->has_history = true;
	session->adopting = 1;
	session->is_undecided = true;
	if (!session_dial(session) && !session_await_heir(session)) {
		session_release(session);
		return false;
	}
	session_learn(session);
	return true;
}

/* ---- rows that the store has lost */

void session_note_change(struct session *session)
{
	struct frame_builder memo = {0};
	bool is_heard = session->state == SESSION_READY || session->state == SESSION_RUNNING;

	if (!session->is_stored || !is_heard)
		return;
	memo_encode(&memo, session);
	session->is_epitaph_noted = session->epitaph != NULL && session->epitaph_seq == 0;
	worker_remember(session->worker, &memo);
	frame_builder_free(&memo);
}

void session_restore(struct session *session)
{
	struct text limits = {0};

	bool is_given_up = session->deletion || (session->state == SESSION_ENDING && !session->is_stored);
	if (session->state == SESSION_CREATING || is_given_up)
		return;
	/* A process without a memo never had a row: it is a clone that was cut off, or has not said hello yet. */
	session->is_lost = !session->is_stored && !session->has_memo;
	if (session->is_lost)
		return;
	limit_encode(&session->limits, &limits);
	store_restore_session(session->server->store,
		&(struct store_session){
			.id = session->id,
			.name = session->name,
			.directory = session->directory,
			.owner = session->owner,
			.created_at = session->created_at,
			.has_history = session->has_history,
			.limits = limits.data,
			.package = session->package,
			.last_seq = session->last_seq,
		});
	text_free(&limits);
	log_warning("%s: its row was lost, and is made again from what is known of it", session->id);
	session->is_stored = true;
	session_note_change(session);
}
