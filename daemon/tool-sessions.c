/*
 * tool-sessions.c - the tools for sessions as a whole: list, describe, resume, rename.
 */
#include "tools.h"

#include "alloc.h"
#include "arguments.h"
#include "card.h"
#include "conversation.h"
#include "inquiry.h"
#include "server.h"
#include "session.h"
#include "store.h"
#include "target.h"

#include <inttypes.h>
#include <stdio.h>

#define PAGE_DEFAULT 20
#define PAGE_MAX 1000

/* ---- list-sessions */

void tool_list_sessions(struct server *server, struct request *request, struct json_object *arguments)
{
	uint64_t limit = PAGE_DEFAULT;
	const char *cursor, *id = NULL;
	int64_t updated_at = 0;

	(void)server;
	if (!argument_number(request, arguments, "limit", PAGE_MAX, &limit) ||
		!argument_text(request, arguments, "cursor", &cursor))
		return;
	if (cursor && !card_read_cursor(cursor, &updated_at, &id)) {
		tools_refuse_arguments(request, "Argument cursor must be one that list-sessions has given");
		return;
	}
	struct inquiry *inquiry = inquiry_new(request, DATABASE_LIST_SESSIONS);
	if (cursor)
		inquiry_number(inquiry, updated_at);
	else
		inquiry_text(inquiry, NULL);
	inquiry_text(inquiry, id);
	inquiry_number(inquiry, (int64_t)limit);
	inquiry_send_for_tool(inquiry, "list-sessions", NULL);
}

static void put_cursor(struct text *text, struct json_object *data, struct json_object *last)
{
	char cursor[CARD_CURSOR_SIZE];

	card_write_cursor(last, cursor);
	json_object_object_add(data, "next_cursor", json_object_new_string(cursor));
	text_printf(text, "More: list-sessions with cursor %s\n", cursor);
}

void finish_list_sessions(struct request *request, struct json_object *data)
{
	struct json_object *cards = json_object_object_get(data, "sessions");
	size_t count = json_object_array_length(cards);
	struct text text = {0};

	text_printf(&text, "%" PRId64 " session%s\n", card_number(data, "total"),
		card_number(data, "total") == 1 ? "" : "s");
	for (size_t i = 0; i < count; i++) {
		card_complete(request->conversation->server, json_object_array_get_idx(cards, i));
		card_put_line(&text, json_object_array_get_idx(cards, i));
	}
	if (json_object_get_boolean(json_object_object_get(data, "more")))
		put_cursor(&text, data, json_object_array_get_idx(cards, count - 1));
	json_object_object_del(data, "more");
	text.data[--text.length] = '\0';
	tools_answer(request, &text, json_object_get(data));
	text_free(&text);
}

/* ---- session-info, resume-session, rename-session */

static void show(struct request *request, struct json_object *arguments, const char *tool)
{
	const char *session = target_name(request, arguments);

	if (!session)
		return;
	struct inquiry *inquiry = inquiry_new(request, DATABASE_SHOW_SESSION);
	inquiry_text(inquiry, session);
	inquiry_send_for_tool(inquiry, tool, session);
}

void tool_session_info(struct server *server, struct request *request, struct json_object *arguments)
{
	(void)server;
	show(request, arguments, "session-info");
}

void finish_session_info(struct request *request, struct json_object *data)
{
	struct text text = {0};

	card_complete(request->conversation->server, data);
	card_put_all(&text, data);
	tools_answer(request, &text, json_object_get(data));
	text_free(&text);
}

void tool_resume_session(struct server *server, struct request *request, struct json_object *arguments)
{
	(void)server;
	show(request, arguments, "resume-session");
}

struct resumption {
	struct request *request;
	struct json_object *card;
};

/* The store knows the connection's new default: a daemon that dies now has a successor that goes on with it. */
static void on_resumed(void *context, enum store_status status)
{
	struct resumption *resumption = context;
	struct request *request = resumption->request;
	struct text text = {0};

	request->conversation->lookups--;
	if (request->unwanted) {
		request_withdraw(request);
	} else if (status != STORE_DONE) {
		request_fail(request, "STORAGE-FAILED", "That it is resumed could not be kept. Try again.");
	} else {
		text_puts(&text,
			request->revision->stateless ? "Pass the id as `session` in each call.\n"
						     : "It is this connection's own session now.\n");
		card_put_all(&text, resumption->card);
		tools_answer(request, &text, json_object_get(resumption->card));
		text_free(&text);
	}
	json_object_put(resumption->card);
	free(resumption);
}

void finish_resume_session(struct request *request, struct json_object *data)
{
	struct conversation *conversation = request->conversation;
	struct resumption *resumption = new_zeroed(sizeof(*resumption));

	if (!request->revision->stateless)
		conversation_choose(conversation, card_text(data, "id"));
	card_complete(conversation->server, data);
	*resumption = (struct resumption){request, json_object_get(data)};
	conversation->lookups++;
	conversation_save(conversation, on_resumed, resumption);
	conversation_use(conversation, card_text(data, "id"));
}

void tool_rename_session(struct server *server, struct request *request, struct json_object *arguments)
{
	const char *session = target_name(request, arguments), *name;

	(void)server;
	if (!session || !argument_new_name(request, arguments, &name))
		return;
	struct inquiry *inquiry = inquiry_new(request, DATABASE_RENAME_SESSION);
	inquiry_text(inquiry, session);
	inquiry_text(inquiry, *name ? name : NULL);
	inquiry_keep_answer(inquiry, "rename-session");
	inquiry_send_for_tool(inquiry, "rename-session", session);
}

void finish_rename_session(struct request *request, struct json_object *data)
{
	struct session *session = session_find(request->conversation->server, card_text(data, "id"));
	struct text text = {0};

	if (session) {
		replace_text(&session->name, *card_text(data, "name") ? card_text(data, "name") : NULL);
		session_note_change(session);
	}
	if (*card_text(data, "name"))
		text_printf(&text, "%s is called \"%s\" now.", card_text(data, "id"), card_text(data, "name"));
	else
		text_printf(&text, "%s has no name now.", card_text(data, "id"));
	tools_answer(request, &text, json_object_get(data));
	text_free(&text);
}
