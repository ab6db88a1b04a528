/*
 * jsonrpc.c - telling requests, notifications and responses apart, and writing answers.
 */
#include "jsonrpc.h"

#include "alloc.h"
#include "jsonscan.h"
#include "utf8.h"

/* Deeper than any sane message, shallower than any stack. */
#define NESTING_MAX 64

#define OUTPUT_STYLE (JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE)

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

/* Steps over a string, at its opening quote; false if it holds a control character. It may lack its end. */
static bool skip_string(const char *text, size_t length, size_t *at)
{
	for (++*at; *at < length && text[*at] != '"'; ++*at) {
		if ((unsigned char)text[*at] < 0x20)
			return false;
		if (text[*at] == '\\')
			++*at;
	}
	++*at;
	return true;
}

static bool skip_digits(const char *text, size_t length, size_t *at)
{
	size_t start = *at;

	while (*at < length && text[*at] >= '0' && text[*at] <= '9')
		++*at;
	return *at > start;
}

static bool skip_number(const char *text, size_t length, size_t *at)
{
	if (text[*at] == '-')
		++*at;
	bool zero = *at < length && text[*at] == '0';
	size_t start = *at;
	if (!skip_digits(text, length, at) || (zero && *at > start + 1))
		return false;
	if (*at < length && text[*at] == '.' && (++*at, !skip_digits(text, length, at)))
		return false;
	if (*at < length && (text[*at] == 'e' || text[*at] == 'E')) {
		++*at;
		if (*at < length && (text[*at] == '+' || text[*at] == '-'))
			++*at;
		return skip_digits(text, length, at);
	}
	return true;
}

static bool skip_word(const char *text, size_t length, size_t *at)
{
	static const char *const words[] = {"true", "false", "null"};

	for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++) {
		size_t size = strlen(words[i]);
		if (length - *at >= size && memcmp(text + *at, words[i], size) == 0) {
			*at += size;
			return true;
		}
	}
	return false;
}

/*
 * json-c lets pass what JSON forbids: 'single quotes', NaN, control characters in strings, 01 and 1. for numbers, a
 * comma before a closing bracket. (Its strict mode forbids some of that, and in version 0.18 every letter beyond ASCII,
 * too.) This looks at the single tokens; how they fit together json-c checks itself.
 */
static bool has_plain_tokens(const char *text, size_t length)
{
	char previous = '\0';

	for (size_t at = 0; at < length;) {
		char c = text[at];
		bool good = true;
		if (c == ' ' || c == '\t' || c == '\r') {
			at++;
			continue;
		}
		if (c == '"')
			good = skip_string(text, length, &at);
		else if (c == '-' || (c >= '0' && c <= '9'))
			good = skip_number(text, length, &at);
		else if (c >= 'a' && c <= 'z')
			good = skip_word(text, length, &at);
		else if (c != '\0' && strchr("{}[]:,", c))
			at++;
		else
			good = false;
		if (!good || (previous == ',' && (c == '}' || c == ']')))
			return false;
		previous = c;
	}
	return true;
}

/* Returns what is wrong, or NULL and the value. */
static const char *parse_json(const char *text, size_t length, struct json_object **value)
{
	if (!utf8_valid(text, length))
		return "The message is not valid UTF-8";
	if (!has_plain_tokens(text, length))
		return "The message is not valid JSON";
	struct json_tokener *tokener = must(json_tokener_new_ex(NESTING_MAX));
	*value = json_tokener_parse_ex(tokener, text, (int)length);
	enum json_tokener_error status = json_tokener_get_error(tokener);
	size_t used = json_tokener_get_parse_end(tokener);
	if (status == json_tokener_continue && used == length) {
		/* A number or a word at the very end is only complete when something follows it. */
		*value = json_tokener_parse_ex(tokener, "\n", 1);
		status = json_tokener_get_error(tokener);
	}
	json_tokener_free(tokener);
	if (status == json_tokener_error_depth)
		return "The message is nested too deeply";
	if (status == json_tokener_continue)
		return "The message ends before its JSON value does";
	if (status != json_tokener_success)
		return "The message is not valid JSON";
	for (; used < length; used++)
		if (!strchr(" \t\r", text[used])) {
			json_object_put(*value);
			*value = NULL;
			return "Something follows the JSON value";
		}
	return NULL;
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

/* An id's text as it came; NULL if it is neither a string nor an integer, or too long. */
static char *legal_id(struct json_object *id, bool found, const struct json_span *span)
{
	if (found && span->length > RPC_ID_MAX)
		return NULL;
	switch (json_object_get_type(id)) {
	case json_type_string:
		if (!found)
			return new_text(json_object_to_json_string_ext(id, OUTPUT_STYLE));
		return new_copy(span->text, span->length);
	case json_type_int:
		if (!found)
			return new_text(json_object_to_json_string_ext(id, OUTPUT_STYLE));
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
	const char *problem = parse_json(text, length, &value);

	*line = (struct rpc_line){0};
	if (!problem && json_object_is_type(value, json_type_array)) {
		parse_batch(text, length, value, line);
		return;
	}
	line->count = 1;
	line->messages = new_zeroed(sizeof(*line->messages));
	if (problem)
		invalid(&line->messages[0], RPC_PARSE_ERROR, problem);
	else
		classify(&line->messages[0], text, length, value);
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
	struct json_object *first = json_tokener_parse(one), *second = json_tokener_parse(other);
	bool equal = first && second && json_object_equal(first, second);
	json_object_put(first);
	json_object_put(second);
	return equal;
}

static void add_json(struct text *text, struct json_object *value)
{
	size_t length;
	const char *piece = json_object_to_json_string_length(value, OUTPUT_STYLE, &length);

	text_add(text, must((void *)piece), length);
}

static void add_string(struct text *text, const char *string)
{
	struct json_object *value = must(json_object_new_string(string));

	add_json(text, value);
	json_object_put(value);
}

void rpc_put_result(struct text *text, const char *id, struct json_object *result)
{
	text_puts(text, "{\"jsonrpc\":\"2.0\",\"id\":");
	text_puts(text, id);
	text_puts(text, ",\"result\":");
	add_json(text, result);
	text_puts(text, "}");
}

/* Words for people quote what came from outside, and may have been cut in the middle of a character. */
static void add_words(struct text *text, const char *words)
{
	size_t length;
	char *valid = utf8_repair(words, strlen(words), &length);

	add_string(text, valid);
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
		add_json(text, data);
	}
	text_puts(text, "}}");
}

void rpc_put_notification(struct text *text, const char *method, struct json_object *params)
{
	text_puts(text, "{\"jsonrpc\":\"2.0\",\"method\":");
	add_string(text, method);
	text_puts(text, ",\"params\":");
	add_json(text, params);
	text_puts(text, "}");
}
