/*
 * recollection.c - marking the row, asking for the transcript, telling what came of it.
 */
#include "recollection.h"

#include "alloc.h"
#include "log.h"
#include "statefile.h"
#include "store.h"
#include "text.h"

#include <inttypes.h>

/* Waits for the store. */
struct question {
	struct server *server;
	char session_id[WORKLINK_SESSION_ID_LENGTH + 1];
	void (*next)(struct session *session);
};

static struct question *question_new(const struct session *session)
{
	struct question *question = new_zeroed(sizeof(*question));

	question->server = session->server;
	memcpy(question->session_id, session->id, sizeof(question->session_id));
	return question;
}

/* NULL if it is gone, or about to be. */
static struct session *find_again(const struct question *question)
{
	struct session *session = session_find(question->server, question->session_id);

	if (session)
		session->is_undecided = false;
	return session && session->state != SESSION_ENDING ? session : NULL;
}

bool recollection_is_possible(const struct session *session, const struct store_found_session *found)
{
	return !found->state_file && !found->reload &&
		(found->last_seq > found->forgotten_seq || statefile_saved_seq(session->server, session->id) > 0);
}

static void on_marked(void *context, enum store_status status)
{
	const struct question *question = context;
	struct session *session = find_again(question);

	/* If the disk does not take it, only a daemon that dies now would not know. */
	if (status != STORE_DONE)
		log_warning("%s: its row cannot be marked", question->session_id);
	if (session)
		question->next(session);
}

void recollection_begin(struct session *session, void (*next)(struct session *session))
{
	struct question *question = question_new(session);

	question->next = next;
	session->is_filed = true;
	session->is_cut_off = true;
	session->is_undecided = true;
	session->restores = 0;
	log_info("%s: its process had ended; it is made again from what is known of it", session->id);
	store_set_state_file(session->server->store, session->id, RECOLLECTION_MARK, on_marked, question);
}

static void on_recollected(void *context, enum store_status status, const char *text)
{
	struct session *session = find_again(context);

	if (!session)
		return;
	if (status != STORE_DONE)
		log_error("%s: its transcript cannot be read", session->id);
	replace_text(&session->recollected, text ? text : "");
	if (strtoull(session->recollected, NULL, 10) >= session->saved_seq)
		session->saved_seq = 0; /* what was written then was reset or rolled back */
	session_advance(session);
}

void recollection_ask(struct session *session)
{
	session->saved_seq = statefile_saved_seq(session->server, session->id);
	session->is_undecided = true;
	store_recollect(session->server->store, session->id, session->saved_seq, on_recollected, question_new(session));
}

void recollection_put_code(const struct session *session, struct text *code)
{
	char path[PATH_MAX];

	statefile_saved_path(session->server, session->id, path);
	text_printf(code, "%s\n%" PRIu64 "\n%s", path, session->saved_seq, session->recollected);
}

void recollection_put_report(const struct session *session, struct text *report)
{
	text_printf(report, "SESSION-RESTORED: %s ",
		session->last_words ? session->last_words : "The session's Lisp process had ended.");
	if (session->saved_seq > 0)
		text_printf(report,
			"It goes on in a new process, as it was after evaluation %" PRIu64
			" and with what was defined since. Nothing else was evaluated again.",
			session->saved_seq);
	else
		text_puts(report,
			"It goes on in a new process, with the definitions of its transcript. Nothing else was evaluated again.");
}

void recollection_end(struct session *session)
{
	session->is_cut_off = false;
	replace_text(&session->recollected, NULL);
	replace_text(&session->last_words, NULL);
}
