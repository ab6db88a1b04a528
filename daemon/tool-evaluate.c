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
#define TIMEOUT_SECONDS_MAX 1e9

/* False if the argument holds a NUL, which no name does. */
static bool text_argument(struct json_object *arguments, const char *name, const char **text)
{
	struct json_object *value;

	*text = NULL;
	if (!json_object_object_get_ex(arguments, name, &value))
		return true;
	*text = json_object_get_string(value);
	return strlen(*text) == (size_t)json_object_get_string_len(value);
}

/* Milliseconds; false if it is no time. */
static bool time_argument(struct json_object *arguments, uint64_t *milliseconds)
{
	struct json_object *value;
	double seconds = DEFAULT_TIMEOUT_SECONDS;

	if (json_object_object_get_ex(arguments, "timeout", &value))
		seconds = json_object_get_double(value);
	if (!(seconds >= 0 && seconds <= TIMEOUT_SECONDS_MAX))
		return false;
	*milliseconds = (uint64_t)(seconds * 1000);
	if (seconds > 0 && *milliseconds == 0)
		*milliseconds = 1; /* 0 means no limit */
	return true;
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
	struct json_object *code = json_object_object_get(arguments, "code");
	struct work work = {.protect = json_object_get_boolean(json_object_object_get(arguments, "protect"))};
	const char *name;

	if (!text_argument(arguments, "session", &name) || !text_argument(arguments, "package", &work.package)) {
		tools_refuse_arguments(request, "Arguments session and package must not hold a NUL");
		return;
	}
	if (!time_argument(arguments, &work.time_limit_ms)) {
		tools_refuse_arguments(request, "Argument timeout must be a number of seconds from 0 to 1000000000");
		return;
	}
	if (store_problem(server->store)) {
		tools_fail(request, "STORAGE-FAILED",
			"Nothing is evaluated while transcripts cannot be kept: %s. Running sessions are untouched; try "
			"again when that is mended.",
			store_problem(server->store));
		return;
	}
	struct session *session = name ? named_session(server, request, name, NULL) : default_session(server, request);
	if (!session)
		return;
	if (!request->conversation->saved)
		conversation_save(request->conversation, NULL, NULL);
	work.code = json_object_get_string(code);
	work.code_length = (size_t)json_object_get_string_len(code);
	session_evaluate(session, request, &work);
}
