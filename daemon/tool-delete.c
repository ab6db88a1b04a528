/*
 * tool-delete.c - delete-session: the end of a session, its processes first and then all that is stored of it.
 *
 * In this order, because a daemon that dies in between is followed by one that finds the row, and can do the rest when
 * the line comes again. The other way round it would find a process that belongs to nobody.
 */
#include "tools.h"

#include "alloc.h"
#include "arguments.h"
#include "card.h"
#include "conversation.h"
#include "hibernation.h"
#include "inquiry.h"
#include "server.h"
#include "session.h"
#include "statefile.h"

#include <inttypes.h>

static void delete_row(struct request *request, const char *id);

static void on_row_deleted(struct request *request, const struct inquiry_said *said, void *context)
{
	const char *id = context;
	struct server *server = request->conversation->server;
	struct session *session = session_find(server, id);

	if (said->status != INQUIRY_FOUND && said->status != INQUIRY_NOTHING) {
		inquiry_refuse(request, said, id);
		return;
	}
	bool is_own = session && session->owner == request->conversation->owner;
	if (is_own || said->status == INQUIRY_FOUND)
		conversation_follow_session(server, id, NULL);
	if (is_own)
		session_drop(session);
	if (said->status == INQUIRY_NOTHING)
		inquiry_refuse(request, said, id);
	else
		tools_finish(request, "delete-session", said->data);
}

static void delete_row(struct request *request, const char *id)
{
	struct inquiry *inquiry = inquiry_new(request, DATABASE_DELETE_SESSION);

	inquiry_text(inquiry, id);
	inquiry_keep_answer(inquiry, "delete-session");
	inquiry_send(inquiry, on_row_deleted, new_text(id));
}

static void on_process_ended(struct session *session, bool has_ended)
{
	struct request *request = session->deletion;

	session->deletion = NULL;
	request->conversation->lookups--;
	if (has_ended)
		delete_row(request, session->id);
	else
		request_fail(request, "SESSION-UNAVAILABLE", "The session's process does not end. Try again.");
}

void tool_delete_session(struct server *server, struct request *request, struct json_object *arguments)
{
	unsigned owner = request->conversation->owner;
	const char *id;

	if (!argument_text(request, arguments, "session", &id))
		return;
	if (!session_id_valid(id)) {
		request_fail(request, "INVALID-SESSION-ID",
			"delete-session wants the id, in full, so that nothing is deleted by mistake; list-sessions shows it. \"%.64s\" "
			"is none.",
			id);
		return;
	}
	struct session *session = session_find_of(server, owner, id);
	if (session && session_postpone(session, request))
		return;
	if (!session) {
		delete_row(request, id);
	} else if (session->deletion) {
		request_fail(request, "SESSION-NOT-FOUND", "The session is being deleted already.");
	} else if (session->state == SESSION_EMPTY) {
		delete_row(request, id);
	} else {
		session->deletion = request;
		request->conversation->lookups++;
		hibernation_forget(session);
		session_refuse_all(session, "SESSION-DELETED", SESSION_WAS_DELETED);
		session_begin_ending(session, on_process_ended);
		session_kill_process(session);
	}
}

void finish_delete_session(struct request *request, struct json_object *data)
{
	struct text text = {0};

	/* Also when the line comes again, because the daemon died before it could. */
	if (session_id_valid(card_text(data, "id")))
		statefile_forget(request->conversation->server, card_text(data, "id"));
	text_printf(&text, "Deleted %s", card_text(data, "id"));
	if (*card_text(data, "name"))
		text_printf(&text, " \"%s\"", card_text(data, "name"));
	text_printf(&text, " with its process and %" PRId64 " message%s.", card_number(data, "messages"),
		card_number(data, "messages") == 1 ? "" : "s");
	tools_answer(request, &text, json_object_get(data));
	text_free(&text);
}
