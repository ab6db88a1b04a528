/*
 * target.c - finding the session that a call is for, and handing it the work.
 */
#include "target.h"

#include "alloc.h"
#include "arguments.h"
#include "conversation.h"
#include "lastused.h"
#include "session.h"
#include "store.h"

bool target_check_name(struct request *request, const char *name)
{
	if (*name && (strncmp(name, "session-", 8) != 0 || session_id_valid(name)))
		return true;
	request_fail(request, "INVALID-SESSION-ID",
		"\"%.64s\" is not a session id; one looks like session-20260120-143022-A4F2. Leave `session` out to use this "
		"connection's own.",
		name);
	return false;
}

/* The session of that id or name; NULL if there can be none, and the request is then answered. */
static struct session *named_session(
	struct server *server, struct request *request, const char *name, const char *directory)
{
	return target_check_name(request, name) ? session_open(server, request->conversation->owner, name, directory)
						: NULL;
}

/* The session of calls that name none; made when it is first needed. */
static struct session *default_session(struct server *server, struct request *request)
{
	struct conversation *conversation = request->conversation;
	struct session *session;

	if (conversation->session)
		return session_open(server, conversation->owner, conversation->session, NULL);
	if (conversation->wanted_session)
		session = named_session(server, request, conversation->wanted_session, conversation->directory);
	else
		session = session_new(server, conversation->owner, conversation->directory);
	if (!session)
		return NULL;
	conversation_choose(conversation, session->id);
	return session;
}

struct session *target_session(struct server *server, struct request *request, struct json_object *arguments)
{
	const char *name;

	if (!argument_text(request, arguments, "session", &name) || (!name && lastused_postpone(request)))
		return NULL;
	if (store_problem(server->store)) {
		request_fail(request, "STORAGE-FAILED",
			"Nothing is evaluated while transcripts cannot be kept: %s. Running sessions are untouched; try "
			"again when that is mended.",
			store_problem(server->store));
		return NULL;
	}
	struct session *session = name ? named_session(server, request, name, NULL) : default_session(server, request);
	if (session && !request->conversation->saved)
		conversation_save(request->conversation, NULL, NULL);
	return session;
}

struct session *target_known_session(
	struct server *server, struct request *request, struct json_object *arguments, bool *answered)
{
	const struct conversation *conversation = request->conversation;
	struct session *session = NULL;

	*answered = false;
	if (json_object_object_get(arguments, "session") || conversation->session || conversation->wanted_session) {
		session = target_session(server, request, arguments);
		*answered = session == NULL;
	} else {
		*answered = lastused_postpone(request);
	}
	return session;
}

const char *target_name(struct request *request, struct json_object *arguments)
{
	const struct conversation *conversation = request->conversation;
	const char *name;

	if (!argument_text(request, arguments, "session", &name))
		return NULL;
	if (name)
		return target_check_name(request, name) ? name : NULL;
	if (lastused_postpone(request))
		return NULL;
	if (conversation->session)
		return conversation->session;
	if (conversation->wanted_session)
		return conversation->wanted_session;
	request_fail(request, "SESSION-NOT-FOUND",
		"This connection has no session yet. Name one with `session` (list-sessions shows them), or evaluate something "
		"first.");
	return NULL;
}

const char *target_own_name(struct server *server, struct request *request, struct json_object *arguments)
{
	struct session *session;

	if (json_object_object_get(arguments, "session"))
		return target_name(request, arguments);
	session = target_session(server, request, arguments);
	return session && !session_postpone(session, request) ? session->id : NULL;
}

void target_evaluate(
	struct server *server, struct request *request, struct json_object *arguments, const struct work *work)
{
	struct session *session = target_session(server, request, arguments);

	if (session)
		session_evaluate(session, request, work);
}
