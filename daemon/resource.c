/*
 * resource.c - the table of resources, listing and reading them.
 *
 * All but the definitions is read from the store; those are asked of the session's process, in its turn, as
 * list-definitions asks for them. A session without a process is told to have none: unlike a tool, a resource is read
 * by programs unasked, perhaps each that a list shows, and a thousand processes are not what somebody wants who looks
 * at a list.
 */
#include "resource.h"

#include "alloc.h"
#include "card.h"
#include "conversation.h"
#include "frame.h"
#include "inquiry.h"
#include "jsontext.h"
#include "report.h"
#include "server.h"
#include "session.h"
#include "tools.h"
#include "transcript.h"
#include "utf8.h"

#include <inttypes.h>
#include <stdio.h>

#define URI_SESSIONS "lisp://sessions"
#define URI_SESSION "lisp://session/"
#define URI_ID URI_SESSION "{id}"

/* What a text may take as JSON: around it there are the URI, twice, and the id. */
#define ROOM (FRAME_ANSWER_MAX - (256u << 10))
#define MODEL_ROOM (64u << 10)
/* Sessions of one page of resources/list, and those in lisp://sessions. */
#define PAGE 25
#define SESSIONS_MAX 1000
/* Messages of a transcript, the newest ones, and characters of each. */
#define MESSAGES_MAX 500
#define CHARACTERS_MAX 8000
#define ERROR_CHARACTERS_MAX 200000

static void read_sessions(struct request *request, const char *session);
static void read_session(struct request *request, const char *session);
static void read_transcript(struct request *request, const char *session);
static void read_definitions(struct request *request, const char *session);
static void read_last_error(struct request *request, const char *session);

static const struct {
	const char *uri;  /* of the first one; a template for the others */
	const char *path; /* behind a session's URI; NULL: it is none's */
	const char *name, *title, *description, *type;
	void (*read)(struct request *request, const char *session);
} resources[RESOURCES] = {
	[RESOURCE_SESSIONS] = {URI_SESSIONS, NULL, "sessions", "Sessions",
		"All sessions, last used first: state, counts, memory, who has them open.", "application/json",
		read_sessions},
	[RESOURCE_SESSION] = {URI_ID, "", "session", "Session", "All about one session, by id or name.",
		"application/json", read_session},
	[RESOURCE_TRANSCRIPT] = {URI_ID "/transcript", "/transcript", "transcript", "Transcript",
		"What was evaluated in a session and what came of it, and its messages; the newest ones, last.",
		"text/plain", read_transcript},
	[RESOURCE_DEFINITIONS] = {URI_ID "/definitions", "/definitions", "definitions", "Definitions",
		"Functions, variables, macros, classes and systems that a session has got since it began.",
		"text/plain", read_definitions},
	[RESOURCE_LAST_ERROR] = {URI_ID "/last-error", "/last-error", "last-error", "Last error",
		"The last evaluation of a session that ended with an error: its code, the message, the backtrace.",
		"text/plain", read_last_error},
};

/* ---- URIs */

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if ((c | 0x20) >= 'a' && (c | 0x20) <= 'f')
		return (c | 0x20) - 'a' + 10;
	return -1;
}

/* NULL if it stands for no text. */
static char *decode(const char *text, size_t length)
{
	char *decoded = must(malloc(length + 1));
	size_t end = 0;

	for (size_t i = 0; i < length; i++) {
		char c = text[i];
		if (c == '%') {
			int high = i + 2 < length ? hex_digit(text[i + 1]) : -1;
			int low = i + 2 < length ? hex_digit(text[i + 2]) : -1;
			c = high < 0 || low < 0 ? '\0' : (char)(high << 4 | low);
			i += 2;
		}
		decoded[end++] = c;
	}
	decoded[end] = '\0';
	if (end > 0 && strlen(decoded) == end && utf8_valid(decoded, end))
		return decoded;
	free(decoded);
	return NULL;
}

enum resource resource_parse(const char *uri, char **session)
{
	*session = NULL;
	if (strcmp(uri, URI_SESSIONS) == 0)
		return RESOURCE_SESSIONS;
	if (strncmp(uri, URI_SESSION, strlen(URI_SESSION)) != 0 || strlen(uri) > RESOURCE_URI_MAX)
		return RESOURCES;
	uri += strlen(URI_SESSION);
	size_t length = strcspn(uri, "/");
	for (size_t i = RESOURCE_SESSION; i < RESOURCES; i++)
		if (strcmp(resources[i].path, uri + length) == 0 && (*session = decode(uri, length)))
			return (enum resource)i;
	return RESOURCES;
}

bool resource_is_template(const char *uri)
{
	for (size_t i = RESOURCE_SESSION; i < RESOURCES; i++)
		if (strcmp(resources[i].uri, uri) == 0)
			return true;
	return false;
}

/* ---- what goes wrong */

void resource_refuse_unknown(struct request *request, const char *uri)
{
	struct json_object *data = json_object_new_object();

	json_object_object_add(
		data, "uri", json_object_new_string_len(uri, (int)jsontext_fit(uri, strlen(uri), RESOURCE_URI_MAX)));
	request_error(request, request->revision->no_resource, "Resource not found", data);
}

static void fail(struct request *request, const char *type, const char *message)
{
	/* It was there when the request came. */
	bool is_gone = strcmp(type, "SESSION-NOT-FOUND") == 0 || strcmp(type, "SESSION-DELETED") == 0;
	struct text text = {0};

	if (is_gone && request->uri) {
		resource_refuse_unknown(request, request->uri);
		return;
	}
	text_printf(&text, "%s: %s", type, message);
	request_error(request, RPC_INTERNAL_ERROR, text.data, NULL);
	text_free(&text);
}

/* What the store said is an answer, or the request is answered. */
static bool is_found(struct request *request, const struct inquiry_said *said)
{
	if (said->status == INQUIRY_FOUND)
		return true;
	if (said->status == INQUIRY_NOTHING && request->uri)
		resource_refuse_unknown(request, request->uri);
	else
		inquiry_refuse(request, said, NULL);
	return false;
}

/* ---- listing */

/* label is what people call the session, NULL for the first row. */
static void add_entry(struct json_object *list, const struct request *request, enum resource resource, const char *id,
	const char *label)
{
	struct json_object *entry = json_object_new_object();
	struct text uri = {0}, name = {0}, title = {0};

	text_puts(&uri, id ? URI_SESSION : resources[resource].uri);
	text_puts(&name, label ? label : resources[resource].name);
	text_puts(&title, resources[resource].title);
	if (id) {
		text_printf(&uri, "%s%s", id, resources[resource].path);
		text_puts(&name, resources[resource].path);
		text_printf(&title, resource == RESOURCE_SESSION ? " %s" : " of %s", label);
	}
	json_object_object_add(entry, "uri", json_object_new_string(uri.data));
	json_object_object_add(entry, "name", json_object_new_string(name.data));
	if (request->revision->structured)
		json_object_object_add(entry, "title", json_object_new_string(title.data));
	json_object_object_add(entry, "mimeType", json_object_new_string(resources[resource].type));
	json_object_array_add(list, entry);
	text_free(&uri);
	text_free(&name);
	text_free(&title);
}

static void on_page_found(struct request *request, const struct inquiry_said *said, void *context)
{
	struct json_object *result, *list, *cards, *card = NULL;
	char cursor[CARD_CURSOR_SIZE];

	(void)context;
	if (!is_found(request, said))
		return;
	result = json_object_new_object();
	list = json_object_new_array();
	if (!json_object_object_get(request->params, "cursor"))
		add_entry(list, request, RESOURCE_SESSIONS, NULL, NULL);
	cards = json_object_object_get(said->data, "sessions");
	for (size_t i = 0; i < json_object_array_length(cards); i++) {
		card = json_object_array_get_idx(cards, i);
		const char *id = card_text(card, "id"), *name = card_text(card, "name");
		for (int part = RESOURCE_SESSION; part < RESOURCES; part++)
			add_entry(list, request, (enum resource)part, id, *name ? name : id);
	}
	json_object_object_add(result, "resources", list);
	if (json_object_get_boolean(json_object_object_get(said->data, "more"))) {
		card_write_cursor(card, cursor);
		json_object_object_add(result, "nextCursor", json_object_new_string(cursor));
	}
	request_add_lifetime(request, result, false);
	request_result(request, result);
}

static struct inquiry *list_sessions(struct request *request, const char *id, int64_t updated_at, int64_t limit)
{
	struct inquiry *inquiry = inquiry_new(request, DATABASE_LIST_SESSIONS);

	if (id)
		inquiry_number(inquiry, updated_at);
	else
		inquiry_text(inquiry, NULL);
	inquiry_text(inquiry, id);
	inquiry_number(inquiry, limit);
	return inquiry;
}

void resource_list(struct request *request)
{
	const char *cursor = NULL, *id = NULL;
	int64_t updated_at = 0;

	if (json_object_object_get_ex(request->params, "cursor", NULL)) {
		cursor = request_param_text(request, request->params, "cursor");
		if (!cursor)
			return;
		if (!card_read_cursor(cursor, &updated_at, &id)) {
			request_refuse(request, RPC_INVALID_PARAMS, "Unknown cursor");
			return;
		}
	}
	inquiry_send(list_sessions(request, id, updated_at, PAGE), on_page_found, NULL);
}

void resource_list_templates(struct request *request)
{
	struct json_object *result, *list;

	if (!request_wants_first_page(request))
		return;
	result = json_object_new_object();
	list = json_object_new_array();
	for (size_t i = RESOURCE_SESSION; i < RESOURCES; i++) {
		struct json_object *entry = json_object_new_object();
		json_object_object_add(entry, "uriTemplate", json_object_new_string(resources[i].uri));
		json_object_object_add(entry, "name", json_object_new_string(resources[i].name));
		if (request->revision->structured)
			json_object_object_add(entry, "title", json_object_new_string(resources[i].title));
		json_object_object_add(entry, "description", json_object_new_string(resources[i].description));
		json_object_object_add(entry, "mimeType", json_object_new_string(resources[i].type));
		json_object_array_add(list, entry);
	}
	json_object_object_add(result, "resourceTemplates", list);
	request_add_lifetime(request, result, true);
	request_result(request, result);
}

/* ---- reading */

static struct json_object *make_result(const struct request *request, enum resource resource, const struct text *text)
{
	struct json_object *result = json_object_new_object(), *contents = json_object_new_array();
	struct json_object *content = json_object_new_object();

	json_object_object_add(content, "uri", json_object_new_string(request->uri));
	json_object_object_add(content, "mimeType", json_object_new_string(resources[resource].type));
	json_object_object_add(content, "text", json_object_new_string_len(text->data, (int)text->length));
	json_object_array_add(contents, content);
	json_object_object_add(result, "contents", contents);
	request_add_lifetime(request, result, false);
	return result;
}

static void answer(struct request *request, enum resource resource, struct text *text)
{
	struct json_object *result = make_result(request, resource, text);

	text_free(text);
	request_result(request, result);
}

/* What a text takes as JSON within JSON. */
static size_t json_size(const struct text *text)
{
	size_t size = 0;

	for (size_t i = 0; i < text->length; i++)
		size += jsontext_byte_size((unsigned char)text->data[i]);
	return size;
}

/* The only part of a card that may be of any length. */
static void complete(struct request *request, struct json_object *card)
{
	const char *model = card_text(card, "model");
	size_t length = strlen(model), shown = jsontext_fit(model, length, MODEL_ROOM);

	if (shown < length) {
		json_object_object_add(card, "model", json_object_new_string_len(model, (int)shown));
		json_object_object_add(card, "model_is_cut", json_object_new_boolean(true));
	}
	card_complete(request->conversation->server, card);
}

static void on_sessions_found(struct request *request, const struct inquiry_said *said, void *context)
{
	struct json_object *cards;
	struct text text = {0}, piece = {0};
	int64_t total, shown = 0;
	size_t room = ROOM;

	(void)context;
	if (!is_found(request, said))
		return;
	total = card_number(said->data, "total");
	cards = json_object_object_get(said->data, "sessions");
	text_printf(&text, "{\"total\":%" PRId64 ",\"sessions\":[", total);
	for (size_t i = 0; i < json_object_array_length(cards); i++, shown++) {
		complete(request, json_object_array_get_idx(cards, i));
		piece.length = 0;
		text_puts(&piece, i ? "," : "");
		jsontext_put(&piece, json_object_array_get_idx(cards, i));
		size_t size = json_size(&piece);
		if (size > room)
			break;
		room -= size;
		text_add(&text, piece.data, piece.length);
	}
	text_puts(&text, "]");
	if (shown < total)
		text_printf(&text, ",\"omitted\":%" PRId64, total - shown);
	text_puts(&text, "}");
	text_free(&piece);
	answer(request, RESOURCE_SESSIONS, &text);
}

static void read_sessions(struct request *request, const char *session)
{
	(void)session;
	inquiry_send(list_sessions(request, NULL, 0, SESSIONS_MAX), on_sessions_found, NULL);
}

static void show_session(struct request *request, const char *session, inquiry_callback done)
{
	struct inquiry *inquiry = inquiry_new(request, DATABASE_SHOW_SESSION);

	inquiry_text(inquiry, session);
	inquiry_send(inquiry, done, NULL);
}

static void on_session_found(struct request *request, const struct inquiry_said *said, void *context)
{
	struct text text = {0};

	(void)context;
	if (!is_found(request, said))
		return;
	complete(request, said->data);
	jsontext_put(&text, said->data);
	answer(request, RESOURCE_SESSION, &text);
}

static void read_session(struct request *request, const char *session)
{
	show_session(request, session, on_session_found);
}

/* ---- transcripts */

/* before NULL: up to the last error. */
static void show_history(struct request *request, const char *session, bool to_error, int64_t limit, int64_t characters,
	inquiry_callback done)
{
	struct inquiry *inquiry = inquiry_new(request, DATABASE_SHOW_HISTORY);

	inquiry_text(inquiry, session);
	inquiry_text(inquiry, NULL);
	if (to_error)
		inquiry_text(inquiry, NULL);
	else
		inquiry_number(inquiry, INT64_MAX);
	inquiry_number(inquiry, 0);
	inquiry_number(inquiry, INT64_MAX);
	inquiry_number(inquiry, limit);
	inquiry_number(inquiry, characters);
	inquiry_send(inquiry, done, NULL);
}

/* The first one from which on all have room. */
static size_t first_with_room(struct json_object *messages)
{
	size_t first = json_object_array_length(messages), room = ROOM, size;
	struct text piece = {0};

	while (first > 0) {
		piece.length = 0;
		transcript_put_message(&piece, json_object_array_get_idx(messages, first - 1));
		size = json_size(&piece);
		if (size > room)
			break;
		room -= size;
		first--;
	}
	text_free(&piece);
	return first;
}

static void on_transcript_found(struct request *request, const struct inquiry_said *said, void *context)
{
	struct json_object *messages;
	struct text text = {0};

	(void)context;
	if (!is_found(request, said))
		return;
	messages = json_object_object_get(said->data, "messages");
	size_t count = json_object_array_length(messages), first = first_with_room(messages);
	int64_t total = card_number(said->data, "total");
	transcript_put_session(&text, said->data);
	text_printf(&text, ": %" PRId64 " message%s\n", total, total == 1 ? "" : "s");
	if (first < count) {
		int64_t number = card_number(json_object_array_get_idx(messages, first), "number");
		if (number > 1)
			text_printf(&text, "(cut here; session-history with before %" PRId64 " shows earlier ones)\n",
				number);
	}
	for (size_t i = first; i < count; i++)
		transcript_put_message(&text, json_object_array_get_idx(messages, i));
	answer(request, RESOURCE_TRANSCRIPT, &text);
}

static void read_transcript(struct request *request, const char *session)
{
	show_history(request, session, false, MESSAGES_MAX, CHARACTERS_MAX, on_transcript_found);
}

static void on_error_found(struct request *request, const struct inquiry_said *said, void *context)
{
	struct json_object *messages;
	struct text text = {0};

	(void)context;
	if (!is_found(request, said))
		return;
	messages = json_object_object_get(said->data, "messages");
	size_t count = json_object_array_length(messages);
	struct json_object *last = count ? json_object_array_get_idx(messages, count - 1) : NULL;
	transcript_put_session(&text, said->data);
	text_puts(&text, last ? "\n" : ": no evaluation has ended with an error.\n");
	/* What came before it is its code, unless the transcript comes from elsewhere. */
	for (size_t i = 0; i < count; i++)
		if (card_number(json_object_array_get_idx(messages, i), "evaluation") ==
			card_number(last, "evaluation"))
			transcript_put_message(&text, json_object_array_get_idx(messages, i));
	answer(request, RESOURCE_LAST_ERROR, &text);
}

static void read_last_error(struct request *request, const char *session)
{
	show_history(request, session, true, 2, ERROR_CHARACTERS_MAX, on_error_found);
}

/* ---- definitions */

static void on_owner_of_definitions_found(struct request *request, const struct inquiry_said *said, void *context)
{
	struct text text = {0};

	(void)context;
	if (!is_found(request, said) || request->evaluation) /* an adopted process is at it already */
		return;
	struct session *session = session_find(request->conversation->server, card_text(said->data, "id"));
	if (session && session_has_process(session)) {
		struct work work = tools_listing("all");
		session_evaluate(session, request, &work);
		return;
	}
	if (json_object_get_boolean(json_object_object_get(said->data, "hibernated")))
		text_puts(&text,
			"The session is hibernated. Its definitions come back with its process; list-definitions starts it.");
	else
		text_puts(&text, "No definitions: the session has no process now. list-definitions starts one.");
	answer(request, RESOURCE_DEFINITIONS, &text);
}

static void read_definitions(struct request *request, const char *session)
{
	show_session(request, session, on_owner_of_definitions_found);
}

static void compose(const struct request *request, const struct report *report, struct text *answer)
{
	if (report->is_error) {
		rpc_put_error(answer, request->id, RPC_ID_NULL, RPC_INTERNAL_ERROR, report->text.data, NULL);
		return;
	}
	struct json_object *result = make_result(request, RESOURCE_DEFINITIONS, &report->text);
	request_put_result(request, result, answer);
	json_object_put(result);
}

const struct request_form resource_form = {.compose = compose, .fail = fail};

void resource_read(struct request *request)
{
	const char *uri = request_param_text(request, request->params, "uri");
	char *session;

	if (!uri)
		return;
	enum resource resource = resource_parse(uri, &session);
	if (resource == RESOURCES) {
		resource_refuse_unknown(request, uri);
	} else {
		replace_text(&request->uri, uri);
		resources[resource].read(request, session);
	}
	free(session);
}
