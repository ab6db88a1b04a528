/*
 * tool-create.c - create-session: a row, or a clone of another session and then its row; and fork-session, which is the
 * latter.
 */
#include "tools.h"

#include "alloc.h"
#include "arguments.h"
#include "card.h"
#include "cloning.h"
#include "conversation.h"
#include "inquiry.h"
#include "quota.h"
#include "server.h"
#include "session.h"
#include "store.h"
#include "target.h"

#include <inttypes.h>

#define FORK "fork-session"

/* Ids clash when two sessions are made in one second and draw the same of 65,536 suffixes. */
#define DRAWS_MAX 20

static const char taken_id[] = "s.id", /* of sessions, or of births */
	taken_name[] = "sessions.name";

/* One try: another follows if its id is taken. */
struct attempt {
	unsigned draws; /* before it */
	char id[WORKLINK_SESSION_ID_LENGTH + 1];
};

static struct attempt *attempt_new(const struct attempt *before)
{
	struct attempt *attempt = new_zeroed(sizeof(*attempt));

	attempt->draws = before ? before->draws + 1 : 0;
	session_id_draw(attempt->id);
	return attempt;
}

static bool may_draw_again(const struct attempt *attempt, const struct inquiry_said *said)
{
	return said->words && strstr(said->words, taken_id) && attempt->draws < DRAWS_MAX;
}

/* As the client has given it; checked when the call came. */
static struct json_object *given(const struct request *request, const char *name)
{
	return json_object_object_get(json_object_object_get(request->params, "arguments"), name);
}

static const char *given_text(const struct request *request, const char *name)
{
	const char *text = json_object_get_string(given(request, name));

	return text && *text ? text : NULL;
}

/* What is cloned, by id or name; NULL if a session begins empty. */
static const char *original_of(const struct request *request)
{
	const struct conversation *conversation = request->conversation;
	const char *tool = json_object_get_string(json_object_object_get(request->params, "name"));

	if (strcmp(tool, FORK) != 0)
		return given_text(request, "from");
	if (given_text(request, "session"))
		return given_text(request, "session");
	return conversation->session ? conversation->session : conversation->wanted_session;
}

static void put_given(struct inquiry *inquiry, const struct request *request)
{
	struct json_object *metadata = given(request, "metadata"), *history = given(request, "history");

	inquiry_text(inquiry, given_text(request, "model"));
	inquiry_text(inquiry, metadata ? json_object_to_json_string_ext(metadata, JSON_C_TO_STRING_PLAIN) : NULL);
	inquiry_number(inquiry, !history || json_object_get_boolean(history));
}

/* ---- an empty one */

static void create(struct request *request, struct attempt *attempt);

static void on_created(struct request *request, const struct inquiry_said *said, void *context)
{
	const struct attempt *attempt = context;

	if (said->status == INQUIRY_FOUND)
		tools_finish(request, "create-session", said->data);
	else if (may_draw_again(attempt, said))
		create(request, attempt_new(attempt));
	else
		inquiry_refuse(request, said, NULL);
}

static void create(struct request *request, struct attempt *attempt)
{
	struct inquiry *inquiry = inquiry_new(request, DATABASE_CREATE_SESSION);

	inquiry_text(inquiry, attempt->id);
	inquiry_text(inquiry, given_text(request, "name"));
	inquiry_text(inquiry, request->conversation->directory);
	put_given(inquiry, request);
	inquiry_text(inquiry, "");
	inquiry_number(inquiry, (int64_t)store_universal_time());
	inquiry_keep_answer(inquiry, "create-session");
	inquiry_send(inquiry, on_created, attempt);
}

/* ---- a clone */

/* Its row cannot be. */
static void undo(struct server *server, const void *context)
{
	const struct attempt *attempt = context;
	struct session *clone = session_find(server, attempt->id);

	if (clone)
		cloning_undo(clone);
}

static void on_row_added(struct request *request, const struct inquiry_said *said, void *context)
{
	const struct attempt *attempt = context;
	struct session *clone = session_find(request->conversation->server, attempt->id);

	if (said->status != INQUIRY_FOUND) {
		inquiry_refuse(request, said, NULL);
		return;
	}
	if (clone) {
		replace_text(&clone->name, given_text(request, "name"));
		clone->changed_seq = 1; /* what it has stands in no transcript of its own */
		session_learn(clone);
	}
	tools_finish(request, "create-session", said->data);
}

static void add_row(struct request *request, const struct cloning_said *said)
{
	struct inquiry *inquiry = inquiry_new(request, DATABASE_CREATE_SESSION);
	struct attempt *attempt = attempt_new(NULL);
	const struct session *clone = said->clone;
	struct text limits = {0};

	memcpy(attempt->id, clone->id, sizeof(attempt->id));
	limit_encode(&clone->limits, &limits);
	inquiry_text(inquiry, clone->id);
	inquiry_text(inquiry, given_text(request, "name"));
	inquiry_text(inquiry, clone->directory);
	put_given(inquiry, request);
	inquiry_text(inquiry, limits.data ? limits.data : "");
	inquiry_number(inquiry, (int64_t)store_universal_time());
	inquiry_text(inquiry, clone->package);
	inquiry_text(inquiry, json_object_to_json_string_ext(said->from, JSON_C_TO_STRING_PLAIN));
	inquiry_keep_answer(inquiry, "create-session");
	inquiry_otherwise(inquiry, undo);
	inquiry_send(inquiry, on_row_added, attempt);
	text_free(&limits);
}

static void refuse_clone(struct request *request, const char *why_not)
{
	request_fail(request, "SESSION-NOT-CLONED", "\"%.64s\" was not cloned: %s. Nothing was created. %s",
		original_of(request), why_not,
		strstr(why_not, "threads") ? "End its threads (mp:process-kill, then mp:process-join) and try again."
					   : "Try again.");
}

static void on_cloned(struct request *request, const struct cloning_said *said)
{
	if (request->unwanted)
		request_withdraw(request);
	else if (!said->clone)
		refuse_clone(request, said->why_not);
	else
		add_row(request, said);
}

static void plan(struct request *request, struct attempt *attempt);

static void on_planned(struct request *request, const struct inquiry_said *said, void *context)
{
	const struct attempt *attempt = context;
	struct server *server = request->conversation->server;

	if (may_draw_again(attempt, said)) {
		plan(request, attempt_new(attempt));
	} else if (said->status == INQUIRY_FOUND) {
		struct session *original = session_find(server, card_text(said->data, "original"));
		struct text why_not = {0};
		if (!quota_allows_process(server, request->conversation->owner, NULL, &why_not)) {
			store_forget_birth(server->store, attempt->id);
			request_fail(request, QUOTA_EXCEEDED, "%s", why_not.data);
			text_free(&why_not);
			return;
		}
		if (cloning_is_possible(original)) {
			cloning_start(original, request, attempt->id, on_cloned);
			return;
		}
		store_forget_birth(server->store, attempt->id);
		request_fail(request, "SESSION-NOT-CLONED",
			"\"%.64s\" has no process now, and only what a process has in memory can be cloned. Nothing was created. "
			"Evaluate something in that session first, and try again.",
			original_of(request));
	} else if (said->words && strstr(said->words, taken_name)) {
		inquiry_refuse(request, &(struct inquiry_said){.status = INQUIRY_EXISTS}, NULL);
	} else {
		inquiry_refuse(request, said, original_of(request));
	}
}

static void plan(struct request *request, struct attempt *attempt)
{
	struct inquiry *inquiry = inquiry_new(request, DATABASE_PLAN_CLONE);

	inquiry_text(inquiry, original_of(request));
	inquiry_text(inquiry, attempt->id);
	inquiry_text(inquiry, given_text(request, "name"));
	inquiry_send(inquiry, on_planned, attempt);
}

/* ---- the tools */

void tool_create_session(struct server *server, struct request *request, struct json_object *arguments)
{
	const char *name, *model, *from;

	(void)server;
	if (!argument_text(request, arguments, "model", &model) || !argument_new_name(request, arguments, &name) ||
		!argument_text(request, arguments, "from", &from) || (from && !target_check_name(request, from)))
		return;
	if (from)
		plan(request, attempt_new(NULL));
	else
		create(request, attempt_new(NULL));
}

/* The same under the name that people look for, and of this connection's own session if none is named. */
void tool_fork_session(struct server *server, struct request *request, struct json_object *arguments)
{
	const char *name, *model;

	(void)server;
	if (argument_text(request, arguments, "model", &model) && argument_new_name(request, arguments, &name) &&
		target_name(request, arguments))
		plan(request, attempt_new(NULL));
}

void finish_create_session(struct request *request, struct json_object *data)
{
	struct json_object *from = json_object_object_get(data, "cloned_from");
	struct text text = {0};

	text_printf(&text, "Created %s", card_text(data, "id"));
	if (*card_text(data, "name"))
		text_printf(&text, " \"%s\"", card_text(data, "name"));
	if (from)
		text_printf(&text, ", a clone of %s as it was after its evaluation %" PRId64,
			card_text(from, "session"), card_number(from, "evaluation"));
	else
		json_object_object_del(data, "cloned_from");
	text_puts(&text,
		request->revision->stateless
			? ".\nPass it as `session`."
			: ".\nPass it as `session`, or make it this connection's own with resume-session.");
	tools_answer(request, &text, json_object_get(data));
	text_free(&text);
}
