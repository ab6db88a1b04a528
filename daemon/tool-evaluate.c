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

/* The session that was named; NULL if there is none, and the request is then answered. */
static struct session *named_session(struct server *server, struct request *request, const char *name)
{
	struct session *session = session_find(server, name);

	if (session)
		return session;
	if (strncmp(name, "session-", 8) == 0 && !session_id_valid(name))
		tools_fail(request, "INVALID-SESSION-ID",
			"\"%.64s\" is not a session id; one looks like session-20260120-143022-A4F2. Leave `session` out "
			"to use this connection's own.",
			name);
	else
		tools_fail(request, "SESSION-NOT-FOUND",
			"No session \"%.64s\". Leave `session` out to use this connection's own.", name);
	return NULL;
}

/* The session of calls that name none; made when it is first needed. */
static struct session *default_session(struct server *server, struct request *request)
{
	struct conversation *conversation = request->conversation;
	struct session *session = conversation->session ? session_find(server, conversation->session) : NULL;
	const char *wanted = conversation->wanted_session;

	if (session)
		return session;
	if (wanted)
		session = session_find(server, wanted);
	if (!session && wanted && strncmp(wanted, "session-", 8) == 0)
		return named_session(server, request, wanted);
	if (!session)
		session = session_new(server, wanted, conversation->directory);
	free(conversation->session);
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
	struct session *session = name ? named_session(server, request, name) : default_session(server, request);
	if (!session)
		return;
	if (!conversation->saved)
		conversation_save(conversation, NULL, NULL);
	session_evaluate(session, request, text_argument(arguments, "package"), json_object_get_string(code),
		(size_t)json_object_get_string_len(code), (uint64_t)(seconds * 1000));
}
