/*
 * tool-history.c - the tools for transcripts: reading and searching them, and adding to them.
 */
#include "tools.h"

#include "alloc.h"
#include "arguments.h"
#include "card.h"
#include "inquiry.h"
#include "log.h"
#include "quota.h"
#include "store.h"
#include "target.h"
#include "transcript.h"

#include <ctype.h>
#include <inttypes.h>

#define PAGE_DEFAULT 20
#define PAGE_MAX 1000
#define CHARACTERS_DEFAULT 4000
#define CHARACTERS_MAX 1000000
/* Of all messages that are shown; an answer takes fewer. */
#define CHARACTERS_TOGETHER (20 * CHARACTERS_MAX)
#define HITS_DEFAULT 10
#define HITS_MAX 100
#define TOKENS_MAX (UINT64_C(1) << 50)

/* ---- session-history */

void tool_session_history(struct server *server, struct request *request, struct json_object *arguments)
{
	uint64_t limit = PAGE_DEFAULT, characters = CHARACTERS_DEFAULT, after = 0;
	uint64_t before = INT64_MAX, since = 0, until = INT64_MAX;
	bool forward = json_object_object_get(arguments, "after") || json_object_object_get(arguments, "since");
	const char *session = target_name(request, arguments);

	(void)server;
	if (!session || !argument_number(request, arguments, "limit", PAGE_MAX, &limit) ||
		!argument_number(request, arguments, "characters", CHARACTERS_MAX, &characters) ||
		!argument_number(request, arguments, "after", INT64_MAX, &after) ||
		!argument_number(request, arguments, "before", INT64_MAX, &before) ||
		!argument_number(request, arguments, "since", INT64_MAX, &since) ||
		!argument_number(request, arguments, "until", INT64_MAX, &until))
		return;
	if (limit > 0 && characters > CHARACTERS_TOGETHER / limit)
		characters = CHARACTERS_TOGETHER / limit;
	struct inquiry *inquiry = inquiry_new(request, DATABASE_SHOW_HISTORY);
	inquiry_text(inquiry, session);
	if (forward)
		inquiry_number(inquiry, (int64_t)after);
	else
		inquiry_text(inquiry, NULL);
	inquiry_number(inquiry, (int64_t)before);
	inquiry_number(inquiry, (int64_t)since);
	inquiry_number(inquiry, (int64_t)until);
	inquiry_number(inquiry, (int64_t)limit);
	inquiry_number(inquiry, (int64_t)characters);
	inquiry_send_for_tool(inquiry, "session-history", session);
}

/* The text without its last newline. */
static void answer_lines(struct request *request, struct text *text, struct json_object *data)
{
	text->data[--text->length] = '\0';
	tools_answer(request, text, json_object_get(data));
	text_free(text);
}

static void put_next(struct text *text, struct json_object *data)
{
	struct json_object *next = json_object_object_get(data, "next"),
			   *before = json_object_object_get(next, "before");

	if (before)
		text_printf(
			text, "\nEarlier: session-history with before %" PRId64 "\n", json_object_get_int64(before));
	else
		text_printf(text, "\nLater: session-history with after %" PRId64 "\n", card_number(next, "after"));
}

void finish_session_history(struct request *request, struct json_object *data)
{
	struct json_object *messages = json_object_object_get(data, "messages");
	size_t count = json_object_array_length(messages);
	struct text text = {0};

	transcript_put_session(&text, data);
	if (count == 0) {
		text_printf(&text, ": none of its %" PRId64 " messages\n", card_number(data, "total"));
	} else {
		struct json_object *first = json_object_array_get_idx(messages, 0);
		struct json_object *last = json_object_array_get_idx(messages, count - 1);
		text_printf(&text, ": messages %" PRId64 " to %" PRId64 " of %" PRId64 "\n",
			card_number(first, "number"), card_number(last, "number"), card_number(data, "total"));
	}
	for (size_t i = 0; i < count; i++)
		transcript_put_message(&text, json_object_array_get_idx(messages, i));
	if (json_object_object_get(data, "next"))
		put_next(&text, data);
	else
		json_object_object_del(data, "next");
	answer_lines(request, &text, data);
}

/* ---- search-sessions */

/* Each word as a quoted phrase that may go on: what people type is never FTS5's syntax. False if there is no word. */
static bool quote_words(const char *query, struct text *quoted)
{
	bool has_words = false;

	while (*query) {
		size_t length = strcspn(query, " \t\r\n"), i;
		for (i = 0; i < length && !isalnum((unsigned char)query[i]) && (unsigned char)query[i] < 0x80; i++)
			;
		if (i < length) { /* without a letter or a digit FTS5 finds no word in it */
			text_puts(quoted, has_words ? " \"" : "\"");
			for (i = 0; i < length; i++)
				text_add(quoted, query[i] == '"' ? "\"\"" : query + i, query[i] == '"' ? 2 : 1);
			text_puts(quoted, "\" *");
			has_words = true;
		}
		query += length + (query[length] != '\0');
	}
	return has_words;
}

void tool_search_sessions(struct server *server, struct request *request, struct json_object *arguments)
{
	uint64_t limit = HITS_DEFAULT, before = INT64_MAX;
	const char *query, *session;
	struct text quoted = {0};

	(void)server;
	session = json_object_object_get(arguments, "session") ? target_name(request, arguments) : "";
	if (!session || !argument_text(request, arguments, "query", &query) ||
		!argument_number(request, arguments, "limit", HITS_MAX, &limit) ||
		!argument_number(request, arguments, "before", INT64_MAX, &before))
		return;
	if (quote_words(query, &quoted)) {
		struct inquiry *inquiry = inquiry_new(request, DATABASE_SEARCH_SESSIONS);
		inquiry_text(inquiry, *session ? session : NULL);
		inquiry_text(inquiry, quoted.data);
		inquiry_number(inquiry, (int64_t)before);
		inquiry_number(inquiry, (int64_t)limit);
		inquiry_send_for_tool(inquiry, "search-sessions", session);
	} else {
		tools_refuse_arguments(request, "Argument query must hold a word: letters or digits");
	}
	text_free(&quoted);
}

static void put_hit(struct text *text, struct json_object *hit)
{
	text_puts(text, "\n--- ");
	transcript_put_session(text, hit);
	text_printf(text, ", message %" PRId64 ", %s, ", card_number(hit, "number"), card_text(hit, "role"));
	card_put_time(text, card_number(hit, "created_at"));
	text_printf(text, "\n%s\n", card_text(hit, "text"));
}

void finish_search_sessions(struct request *request, struct json_object *data)
{
	struct json_object *names = json_object_object_get(data, "names"), *hits = json_object_object_get(data, "hits");
	struct text text = {0};

	for (size_t i = 0; i < json_object_array_length(names); i++) {
		text_puts(&text, "named: ");
		transcript_put_session(&text, json_object_array_get_idx(names, i));
		text_puts(&text, "\n");
	}
	for (size_t i = 0; i < json_object_array_length(hits); i++)
		put_hit(&text, json_object_array_get_idx(hits, i));
	if (!text.length)
		text_puts(&text, "Nothing found.\n");
	if (json_object_object_get(data, "next_before"))
		text_printf(
			&text, "\nMore: search-sessions with before %" PRId64 "\n", card_number(data, "next_before"));
	else
		json_object_object_del(data, "next_before");
	answer_lines(request, &text, data);
}

/* ---- add-message */

bool tool_may_store(struct request *request)
{
	struct text why_not = {0};

	text_puts(&why_not, "Nothing was stored: ");
	bool is_allowed = quota_allows_storing(request->conversation->server, &why_not);
	if (!is_allowed)
		request_fail(request, QUOTA_EXCEEDED, "%s", why_not.data);
	text_free(&why_not);
	return is_allowed;
}

void tool_add_message(struct server *server, struct request *request, struct json_object *arguments)
{
	uint64_t time = store_universal_time(), given = time;
	const char *session, *role, *content;

	if (!argument_text(request, arguments, "role", &role) ||
		!argument_text(request, arguments, "content", &content) ||
		!argument_number(request, arguments, "time", INT64_MAX, &given))
		return;
	if (!tool_may_store(request))
		return;
	session = target_own_name(server, request, arguments);
	if (!session)
		return;
	if (store_time_is_likely(given))
		time = given;
	else
		log_warning(
			"%s: INVALID-TIMESTAMP: a message of time %" PRIu64 " gets the current one", session, given);
	struct inquiry *inquiry = inquiry_new(request, DATABASE_ADD_MESSAGE);
	inquiry_text(inquiry, session);
	inquiry_text(inquiry, role);
	inquiry_text(inquiry, content);
	inquiry_number(inquiry, (int64_t)time);
	inquiry_keep_answer(inquiry, "add-message");
	inquiry_send_for_tool(inquiry, "add-message", session);
}

void finish_add_message(struct request *request, struct json_object *data)
{
	struct json_object *arguments = json_object_object_get(request->params, "arguments");
	struct json_object *time = json_object_object_get(arguments, "time");
	struct text text = {0};

	text_printf(&text, "Added as message %" PRId64 ".", card_number(data, "number"));
	if (time && json_object_get_int64(time) != card_number(data, "created_at"))
		text_puts(&text,
			"\nINVALID-TIMESTAMP: the time was before 2020 or more than a day ahead; it is now instead.");
	tools_answer(request, &text, json_object_get(data));
	text_free(&text);
}

/* ---- set-session-metadata */

/* What is set and what is removed as one patch; NULL if the request has been answered. */
static struct json_object *read_patch(struct request *request, struct json_object *arguments)
{
	struct json_object *set = json_object_object_get(arguments, "set");
	struct json_object *remove = json_object_object_get(arguments, "remove");
	struct json_object *patch = json_object_new_object();

	json_object_object_foreach(set ? set : patch, key, value)
	{
		json_object_object_add(patch, key, json_object_get(value));
	}
	for (size_t i = 0; remove && i < json_object_array_length(remove); i++) {
		struct json_object *name = json_object_array_get_idx(remove, i);
		if (!json_object_is_type(name, json_type_string)) {
			json_object_put(patch);
			tools_refuse_arguments(
				request, "Argument remove must be an array of strings: the keys to remove");
			return NULL;
		}
		json_object_object_add(patch, json_object_get_string(name), NULL);
	}
	return patch;
}

static void put_count(struct inquiry *inquiry, struct json_object *arguments, const char *name)
{
	struct json_object *count = json_object_object_get(arguments, name);

	if (count)
		inquiry_number(inquiry, json_object_get_int64(count));
	else
		inquiry_text(inquiry, NULL);
}

void tool_set_session_metadata(struct server *server, struct request *request, struct json_object *arguments)
{
	const char *session, *model;
	uint64_t tokens = 0;

	if (!argument_text(request, arguments, "model", &model) ||
		!argument_number(request, arguments, "input-tokens", TOKENS_MAX, &tokens) ||
		!argument_number(request, arguments, "output-tokens", TOKENS_MAX, &tokens))
		return;
	struct json_object *patch = read_patch(request, arguments);
	if (!patch)
		return;
	session = target_own_name(server, request, arguments);
	if (session) {
		struct inquiry *inquiry = inquiry_new(request, DATABASE_SET_METADATA);
		inquiry_text(inquiry, session);
		inquiry_text(inquiry, json_object_to_json_string_ext(patch, JSON_C_TO_STRING_PLAIN));
		put_count(inquiry, arguments, "input-tokens");
		put_count(inquiry, arguments, "output-tokens");
		inquiry_text(inquiry, model);
		inquiry_keep_answer(inquiry, "set-session-metadata");
		inquiry_send_for_tool(inquiry, "set-session-metadata", session);
	}
	json_object_put(patch);
}

void finish_set_session_metadata(struct request *request, struct json_object *data)
{
	struct text text = {0};

	text_printf(&text, "%s",
		json_object_to_json_string_ext(json_object_object_get(data, "metadata"), JSON_C_TO_STRING_PRETTY));
	tools_answer(request, &text, json_object_get(data));
	text_free(&text);
}
