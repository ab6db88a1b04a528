/*
 * lastused.c - asking the store, keeping what it said, and serving those who waited.
 *
 * What was found is saved before anybody is told: a daemon that dies afterwards has a successor that goes on with the
 * same session, whatever others have used meanwhile.
 */
#include "lastused.h"

#include "conversation.h"
#include "server.h"
#include "session.h"
#include "store.h"
#include "tools.h"

/* Answering the last of them may be the end of the conversation. */
static void take_visits(struct conversation *conversation, struct visit_list *visits)
{
	STAILQ_INIT(visits);
	STAILQ_CONCAT(visits, &conversation->visits);
	conversation->seeks_last = false;
}

static void on_saved(void *context, enum store_status status)
{
	struct conversation *conversation = context;
	struct server *server = conversation->server;
	const struct session *session = conversation->session ? session_find(server, conversation->session) : NULL;
	struct visit_list visits;
	struct request *request;

	if (status != STORE_DONE)
		conversation->saved = false;
	if (session && session->deletion) /* it has a row only until its process has ended */
		conversation_choose(conversation, NULL);
	take_visits(conversation, &visits);
	while ((request = visit_next(&visits)))
		tools_call(server, request);
}

static void on_found(void *context, enum store_status status, const char *id)
{
	struct conversation *conversation = context;
	struct visit_list visits;
	struct request *request;

	if (status != STORE_DONE) {
		take_visits(conversation, &visits);
		while ((request = visit_next(&visits)))
			request_fail(request, "STORAGE-FAILED",
				"Which session was used last is not known while transcripts cannot be read. Try again.");
		return;
	}
	if (!conversation->session)
		conversation_choose(conversation, id);
	/* From now on it cannot be deleted unnoticed, and if it has been, that is known before the next job is done. */
	if (conversation->session)
		session_open(conversation->server, conversation->owner, conversation->session, NULL);
	conversation_save(conversation, on_saved, conversation);
}

bool lastused_postpone(struct request *request)
{
	struct conversation *conversation = request->conversation;
	const char *client = conversation->client_name;

	if (!conversation->seeks_last) {
		if (!conversation->wants_last || conversation->has_begun || conversation->session)
			return false;
		conversation->seeks_last = true;
		store_last_used_session(conversation->server->store, conversation->owner, conversation->directory,
			client ? client : "", on_found, conversation);
	}
	/* Its requests keep the conversation. */
	visit_add(&conversation->visits, request);
	return true;
}
