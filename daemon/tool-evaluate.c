/*
 * tool-evaluate.c - the tool evaluate-lisp: which session, and off it goes.
 */
#include "tools.h"

#include "alloc.h"
#include "conversation.h"
#include "server.h"
#include "session.h"
#include "store.h"

/* Generous, but it ends a loop whose client is gone. */
#define DEFAULT_TIMEOUT_SECONDS 300

static const char *text_argument(struct json_object *arguments, const char *name)
{
	struct json_object *value;

	return json_object_object_get_ex(arguments, name, &value) ? json_object_get_string(value) : NULL;
}

/* The session of that id or name; NULL if there can be none, and the request is then answered. */
static struct session *named_session(
	struct server *server, struct request *request, const char *name, const char *directory)
{
	if (*name && (strncmp(name, "session-", 8) != 0 || session_id_valid(name)))
		return session_open(server, name, directory);
	tools_fail(request, "INVALID-SESSION-ID",
		"\"%.64s\" is not a session id; one looks like session-20260120-143022-A4F2. Leave `session` out to use this "
		"connection's own.",
		name);
	return NULL;
}

/* The session of calls that name none; made when it is first needed. */
static struct session *default_session(struct server *server, struct request *request)
{
	struct conversation *conversation = request->conversation;
	struct session *session;

	if (conversation->session)
		return session_open(server, conversation->session, NULL);
	if (conversation->wanted_session)
		session = named_session(server, request, conversation->wanted_session, conversation->directory);
	else
		session = session_new(server, conversation->directory);
	if (!session)
		return NULL;
	conversation->session = new_text(session->id);
	conversation->saved = false;
	return session;
}

void tool_evaluate(struct server *server, struct request *request, struct json_object *arguments)
{
	struct conversation *conversation = request->conversation;
	struct json_object *code = json_object_object_get(arguments, "code"), *timeout;
	const char *name = text_argument(arguments, "session");
	double seconds = DEFAULT_TIMEOUT_SECONDS;

	if (store_problem(server->store)) {
		tools_fail(request, "STORAGE-FAILED",
			"Nothing is evaluated while transcripts cannot be kept: %s. Running sessions are untouched; try "
			"again when that is mended.",
			store_problem(server->store));
		return;
	}
	if (json_object_object_get_ex(arguments, "timeout", &timeout))
		seconds = json_object_get_double(timeout);
	if (!(seconds >= 0 && seconds <= 1e9)) {
		tools_fail(request, "INVALID-ARGUMENTS", "Argument timeout must be a number of seconds from 0 to 1e9.");
		return;
	}
	struct session *session = name ? named_session(server, request, name, NULL) : default_session(server, request);
	if (!session)
		return;
	if (!conversation->saved)
		conversation_save(conversation, NULL, NULL);
	session_evaluate(session, request, text_argument(arguments, "package"), json_object_get_string(code),
		(size_t)json_object_get_string_len(code), (uint64_t)(seconds * 1000));
}
