/*
 * jsonrpc.c - telling requests, notifications and responses apart, and writing answers.
 */
#include "jsonrpc.h"

#include "alloc.h"
#include "jsonscan.h"
#include "jsontext.h"
#include "utf8.h"

const char *rpc_code_message(enum rpc_code code)
{
	switch (code) {
	case RPC_PARSE_ERROR:
		return "Parse error";
	case RPC_INVALID_REQUEST:
		return "Invalid Request";
	case RPC_METHOD_NOT_FOUND:
		return "Method not found";
	case RPC_INVALID_PARAMS:
		return "Invalid params";
	case RPC_INTERNAL_ERROR:
		return "Internal error";
	}
	return "Error";
}

static bool is_integer_text(const char *text, size_t length)
{
	size_t at = length && text[0] == '-' ? 1 : 0;

	if (at == length || (text[at] == '0' && at + 1 < length))
		return false;
	for (; at < length; at++)
		if (text[at] < '0' || text[at] > '9')
			return false;
	return true;
}

static char *written(struct json_object *id)
{
	struct text text = {0};

	jsontext_put(&text, id);
	if (text.length > RPC_ID_MAX)
		text_free(&text);
	return text.data;
}

/*
 * An id's text as it came; NULL if it is neither a string nor an integer, or too long. What was found may be another
 * one's, if the name stands there twice and once with escapes.
 */
static char *legal_id(struct json_object *id, bool found, const struct json_span *span)
{
	if (found && span->length > RPC_ID_MAX)
		return NULL;
	switch (json_object_get_type(id)) {
	case json_type_string:
		if (!found || span->text[0] != '"')
			return written(id);
		return new_copy(span->text, span->length);
	case json_type_int:
		if (!found)
			return written(id);
		/* fall through */
	case json_type_double: /* an integer beyond 64 bits may come as one */
		if (found && is_integer_text(span->text, span->length))
			return new_copy(span->text, span->length);
		return NULL;
	default:
		return NULL;
	}
}

char *rpc_param_id(const struct rpc_message *message, const char *name)
{
	struct json_object *id;
	struct json_span params, span = {0};

	if (!json_object_is_type(message->params, json_type_object) ||
		!json_object_object_get_ex(message->params, name, &id))
		return NULL;
	bool found = json_scan_member(message->text, message->length, "params", &params) &&
		json_scan_member(params.text, params.length, name, &span);
	return legal_id(id, found, &span);
}

/* A string that C can compare: without a NUL. */
static bool is_text(struct json_object *value)
{
	return json_object_is_type(value, json_type_string) &&
		strlen(json_object_get_string(value)) == (size_t)json_object_get_string_len(value);
}

static void invalid(struct rpc_message *message, enum rpc_code code, const char *problem)
{
	message->kind = RPC_INVALID;
	message->code = code;
	message->problem = problem;
}

static void classify(struct rpc_message *message, const char *text, size_t length, struct json_object *object)
{
	struct json_object *version, *id = NULL, *method, *unused;

	*message = (struct rpc_message){.object = object, .text = text, .length = length};
	if (!json_object_is_type(object, json_type_object)) {
		invalid(message, RPC_INVALID_REQUEST, "A message must be a JSON object");
		return;
	}
	bool has_id = json_object_object_get_ex(object, "id", &id);
	if (has_id) {
		struct json_span span = {0};
		bool found = json_scan_member(text, length, "id", &span);
		message->id = legal_id(id, found, &span);
	}
	if (!json_object_object_get_ex(object, "jsonrpc", &version)) {
		invalid(message, RPC_INVALID_REQUEST, "Missing required field: jsonrpc");
		return;
	}
	if (!is_text(version) || strcmp(json_object_get_string(version), "2.0") != 0) {
		invalid(message, RPC_INVALID_REQUEST, "Field jsonrpc must be \"2.0\"");
		return;
	}
	if (!json_object_object_get_ex(object, "method", &method)) {
		bool response = json_object_object_get_ex(object, "result", &unused) ||
			json_object_object_get_ex(object, "error", &unused);
		if (response)
			message->kind = RPC_RESPONSE;
		else
			invalid(message, RPC_INVALID_REQUEST, "Missing required field: method");
		return;
	}
	if (!is_text(method)) {
		invalid(message, RPC_INVALID_REQUEST, "Field method must be a string");
		return;
	}
	if (has_id && !message->id) {
		invalid(message, RPC_INVALID_REQUEST,
			"Field id must be a string or an integer, of at most 65536 bytes");
		return;
	}
	message->kind = has_id ? RPC_REQUEST : RPC_NOTIFICATION;
	message->method = json_object_get_string(method);
	json_object_object_get_ex(object, "params", &message->params);
}

static void parse_batch(const char *text, size_t length, struct json_object *array, struct rpc_line *line)
{
	struct json_span span = {text, 0};
	size_t position = 0;

	line->batch = true;
	line->count = json_object_array_length(array);
	line->messages = new_zeroed((line->count + 1) * sizeof(*line->messages));
	for (size_t i = 0; i < line->count; i++) {
		struct json_object *member = json_object_get(json_object_array_get_idx(array, i));
		bool found = json_scan_element(text, length, &position, &span);
		classify(&line->messages[i], found ? span.text : "", found ? span.length : 0, member);
	}
	json_object_put(array);
}

void rpc_parse(const char *text, size_t length, struct rpc_line *line)
{
	struct json_object *value = NULL;
	const char *problem = jsontext_read(text, length, &value);

	*line = (struct rpc_line){0};
	bool is_batch = !problem && json_object_is_type(value, json_type_array);
	if (is_batch && json_object_array_length(value) <= RPC_BATCH_MAX) {
		parse_batch(text, length, value, line);
		return;
	}
	line->count = 1;
	line->messages = new_zeroed(sizeof(*line->messages));
	classify(&line->messages[0], text, length, value);
	if (problem)
		invalid(&line->messages[0], RPC_PARSE_ERROR, problem);
	else if (is_batch)
		invalid(&line->messages[0], RPC_INVALID_REQUEST, "A batch may hold 10000 messages");
}

void rpc_line_free(struct rpc_line *line)
{
	for (size_t i = 0; i < line->count; i++) {
		json_object_put(line->messages[i].object);
		free(line->messages[i].id);
	}
	free(line->messages);
	*line = (struct rpc_line){0};
}

bool rpc_id_equal(const char *one, const char *other)
{
	if (strcmp(one, other) == 0)
		return true;
	if (one[0] != '"' || other[0] != '"' || !(strchr(one, '\\') || strchr(other, '\\')))
		return false;
	struct json_object *first = NULL, *second = NULL;
	bool equal = !jsontext_read(one, strlen(one), &first) && !jsontext_read(other, strlen(other), &second) &&
		json_object_equal(first, second);
	json_object_put(first);
	json_object_put(second);
	return equal;
}

void rpc_begin_result(struct text *text, const char *id)
{
	text_puts(text, "{\"jsonrpc\":\"2.0\",\"id\":");
	text_puts(text, id);
	text_puts(text, ",\"result\":");
}

void rpc_put_result(struct text *text, const char *id, struct json_object *result)
{
	rpc_begin_result(text, id);
	jsontext_put(text, result);
	text_puts(text, "}");
}

/* Words for people quote what came from outside, and may have been cut in the middle of a character. */
static void add_words(struct text *text, const char *words)
{
	size_t length;
	char *valid = utf8_repair(words, strlen(words), &length);

	jsontext_put_string(text, valid, length);
	free(valid);
}

void rpc_put_error(struct text *text, const char *id, enum rpc_unknown_id unknown, int code, const char *message,
	struct json_object *data)
{
	text_puts(text, "{\"jsonrpc\":\"2.0\",");
	if (id || unknown == RPC_ID_NULL) {
		text_puts(text, "\"id\":");
		text_puts(text, id ? id : "null");
		text_puts(text, ",");
	}
	text_printf(text, "\"error\":{\"code\":%d,\"message\":", code);
	add_words(text, message ? message : rpc_code_message(code));
	if (json_object_is_type(data, json_type_string)) {
		text_puts(text, ",\"data\":");
		add_words(text, json_object_get_string(data));
	} else if (data) {
		text_puts(text, ",\"data\":");
		jsontext_put(text, data);
	}
	text_puts(text, "}}");
}

void rpc_begin_notification(struct text *text, const char *method)
{
	text_puts(text, "{\"jsonrpc\":\"2.0\",\"method\":");
	jsontext_put_string(text, method, strlen(method));
	text_puts(text, ",\"params\":");
}

void rpc_put_notification(struct text *text, const char *method, struct json_object *params)
{
	rpc_begin_notification(text, method);
	jsontext_put(text, params);
	text_puts(text, "}");
}
