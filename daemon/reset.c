/*
 * reset.c - a session begins anew, under its own id.
 *
 * Nothing in a process that ran user code can be trusted to be as it was: threads, methods, readtables, streams. So the
 * process ends with all its copies and a new one takes its place, which loads the systems that the old one had. The old
 * one is asked for them first, in its turn; the new one loads them before anything else. Both are evaluations to the
 * rest of the daemon. A client may cancel the first; the second goes on without it, or the systems would be lost.
 * For the same reason the store knows them before the process ends: a daemon that dies in between is followed by one
 * that finishes what was begun.
 */
#include "session.h"

#include "alloc.h"
#include "evaluation.h"
#include "statefile.h"
#include "store.h"

static bool is_operation(const struct evaluation *evaluation, const char *operation)
{
	return evaluation->work.operation && strcmp(evaluation->work.operation, operation) == 0;
}

static void set_answer(struct result *result)
{
	struct text text = {0};

	text_puts(&text, "Session reset. All definitions cleared.\nCurrent package: CL-USER");
	if (result->outcome != OUTCOME_DONE)
		text_printf(&text, "\n\nThe systems that were loaded could not be loaded again: %s",
			result->error_message.data ? result->error_message.data : "loading was stopped");
	else if (result->values.count > 0 && result->values.items[0].length > 0)
		text_printf(&text, "\n\nNot loaded again:\n%s", result->values.items[0].data);
	result_set_value(result, text.data);
	text_free(&text);
}

static void turn_into(struct evaluation *evaluation, const char *operation, const char *code)
{
	free((char *)evaluation->work.operation);
	free((char *)evaluation->work.code);
	evaluation->work.operation = new_text(operation);
	evaluation->work.code = new_text(code);
	evaluation->work.code_length = strlen(evaluation->work.code);
}

/* Before all others but the one that runs. */
static void wait_again(struct session *session, struct evaluation *evaluation)
{
	struct evaluation *first = TAILQ_FIRST(&session->evaluations);

	evaluation->seq = 0;
	if (first && first->seq > 0)
		TAILQ_INSERT_AFTER(&session->evaluations, first, evaluation, next);
	else
		TAILQ_INSERT_HEAD(&session->evaluations, evaluation, next);
}

bool session_reset_goes_on_alone(const struct evaluation *evaluation)
{
	return is_operation(evaluation, OPERATION_RELOAD_SYSTEMS);
}

bool session_reset_survives(struct session *session, struct evaluation *evaluation, bool has_heir)
{
	if (!is_operation(evaluation, OPERATION_LOADED_SYSTEMS) || !evaluation->request || evaluation->is_repeated)
		return false;
	evaluation->is_repeated = true;
	if (!has_heir) /* the next process is a new one anyway, and nobody can be asked for the systems */
		turn_into(evaluation, OPERATION_RELOAD_SYSTEMS, "");
	wait_again(session, evaluation);
	return true;
}

/* A reset that waits until the store knows what is to be loaded again. */
struct pledge {
	struct server *server;
	char session_id[WORKLINK_SESSION_ID_LENGTH + 1];
};

static void on_pledged(void *context, enum store_status status)
{
	const struct pledge *pledge = context;
	struct session *session = session_find(pledge->server, pledge->session_id);

	/* Whatever has happened to the process meanwhile, a new one will load the systems. */
	(void)status;
	if (session && session->state == SESSION_ENDING)
		session_dismiss_process(session);
}

static void begin_anew(struct session *session, bool has_ended)
{
	if (has_ended)
		session_spawn(session);
	else
		session_refuse_all(
			session, "SESSION-UNAVAILABLE", "The session's old process does not end. Try again.");
}

static void pledge_systems(struct session *session, const char *systems)
{
	struct pledge *pledge = new_zeroed(sizeof(*pledge));

	session_begin_ending(session, begin_anew);
	pledge->server = session->server;
	memcpy(pledge->session_id, session->id, sizeof(pledge->session_id));
	store_set_reload(session->server->store, session->id, systems, on_pledged, pledge);
}

bool session_reset_goes_on(struct session *session, struct evaluation *evaluation, struct result *result)
{
	if (is_operation(evaluation, OPERATION_RELOAD_SYSTEMS)) {
		store_set_reload(session->server->store, session->id, NULL, NULL, NULL);
		statefile_forget(session->server, session->id);
		set_answer(result);
	}
	if (!is_operation(evaluation, OPERATION_LOADED_SYSTEMS) || !evaluation->request ||
		result->outcome == OUTCOME_CANCELLED)
		return false;
	const struct evaluation *first = TAILQ_FIRST(&session->evaluations);
	if (first && first->seq > 0) { /* the process is at work again: it is asked once more afterwards */
		wait_again(session, evaluation);
		return true;
	}
	const struct result_text *systems = result->values.count > 0 ? &result->values.items[0] : NULL;
	turn_into(evaluation, OPERATION_RELOAD_SYSTEMS, systems ? systems->data : "");
	wait_again(session, evaluation);
	pledge_systems(session, evaluation->work.code);
	return true;
}

void session_finish_reset(struct session *session, const char *systems)
{
	struct work work = {.operation = OPERATION_RELOAD_SYSTEMS, .code = systems};

	if (!systems)
		return;
	work.code_length = strlen(systems);
	wait_again(session, evaluation_new_for_nobody(&work));
}
