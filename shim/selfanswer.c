/*
 * selfanswer.c - finding the ids of a line's requests and composing errors for them.
 *
 * The id goes back exactly as it came, so it is checked first: what is no JSON must not get onto stdout.
 */
#include "selfanswer.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "frame.h"
#include "jsonscan.h"
#include "utf8.h"

/* A longer id is treated as unusable: its answer would be longer than clients accept. */
#define ID_MAX (1u << 20)
/* Of the answers to a batch, before the last one is added. */
#define ANSWERS_MAX (FRAME_ANSWER_MAX / 2)

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool is_hex(char c)
{
	return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

static bool valid_string(const char *text, size_t length)
{
	if (length < 2 || text[length - 1] != '"' || !utf8_valid(text, length))
		return false;
	for (size_t i = 1; i < length - 1; i++) {
		if ((unsigned char)text[i] < 0x20 || text[i] == '"')
			return false;
		if (text[i] != '\\')
			continue;
		i++;
		if (text[i] == 'u') {
			for (int digit = 0; digit < 4; digit++)
				if (++i >= length - 1 || !is_hex(text[i]))
					return false;
		} else if (i >= length - 1 || !text[i] || !strchr("\"\\/bfnrt", text[i])) {
			return false;
		}
	}
	return true;
}

static size_t skip_digits(const char *text, size_t length, size_t at)
{
	while (at < length && is_digit(text[at]))
		at++;
	return at;
}

static bool valid_number(const char *text, size_t length)
{
	size_t at = text[0] == '-', digits;

	digits = skip_digits(text, length, at);
	if (digits == at || (text[at] == '0' && digits > at + 1))
		return false;
	at = digits;
	if (at < length && text[at] == '.') {
		digits = skip_digits(text, length, ++at);
		if (digits == at)
			return false;
		at = digits;
	}
	if (at < length && (text[at] == 'e' || text[at] == 'E')) {
		at++;
		if (at < length && (text[at] == '+' || text[at] == '-'))
			at++;
		digits = skip_digits(text, length, at);
		if (digits == at)
			return false;
		at = digits;
	}
	return at == length;
}

static bool usable_id(const struct json_span *id)
{
	if (id->length == 0 || id->length > ID_MAX)
		return false;
	return id->text[0] == '"' ? valid_string(id->text, id->length) : valid_number(id->text, id->length);
}

static void append_text(struct bytes *out, const char *text)
{
	bytes_append(out, text, strlen(text));
}

static void append_escaped(struct bytes *out, const char *text)
{
	size_t length;
	char *repaired = utf8_repair(text, strlen(text), &length);

	for (size_t i = 0; i < length; i++) {
		unsigned char c = (unsigned char)repaired[i];
		char escape[8];

		if (c == '"' || c == '\\')
			snprintf(escape, sizeof(escape), "\\%c", c);
		else if (c < 0x20)
			snprintf(escape, sizeof(escape), "\\u%04x", c);
		else
			snprintf(escape, sizeof(escape), "%c", c);
		append_text(out, escape);
	}
	free(repaired);
}

static void append_error(struct bytes *out, const struct json_span *id, const char *message)
{
	append_text(out, "{\"jsonrpc\":\"2.0\",\"id\":");
	if (id)
		bytes_append(out, id->text, id->length);
	else
		append_text(out, "null");
	append_text(out, ",\"error\":{\"code\":-32603,\"message\":\"");
	append_escaped(out, message);
	append_text(out, "\"}}");
}

/* One message, inside a batch or alone. */
static bool answer_one(const char *text, size_t length, const char *message, struct bytes *out)
{
	struct json_span id, other;
	bool has_id = json_scan_member(text, length, "id", &id);
	bool has_method = json_scan_member(text, length, "method", &other);

	if (has_method && !has_id)
		return false;
	if (has_id && !has_method &&
		(json_scan_member(text, length, "result", &other) || json_scan_member(text, length, "error", &other)))
		return false;
	append_error(out, has_id && usable_id(&id) ? &id : NULL, message);
	return true;
}

/*
 * False if text is no array that closes, or an empty one, or one that takes more answers than fit into a line; then
 * nothing was appended.
 */
static bool answer_batch(const char *text, size_t length, const char *message, struct bytes *out, bool *any)
{
	struct json_span element;
	size_t position = 0, before = bytes_length(out);

	*any = false;
	append_text(out, "[");
	while (bytes_length(out) - before < ANSWERS_MAX && json_scan_element(text, length, &position, &element)) {
		size_t mark = bytes_length(out);

		if (*any)
			append_text(out, ",");
		if (answer_one(element.text, element.length, message, out))
			*any = true;
		else
			out->end = out->start + mark;
	}
	append_text(out, "]");
	size_t rest = position;
	while (rest < length && text[rest] && strchr(" \t\r\n", text[rest]))
		rest++;
	bool closed = position > 0 && rest < length && text[rest] == ']';
	if (!closed || !*any)
		out->end = out->start + before;
	return closed;
}

bool selfanswer_make(const char *text, size_t length, const char *message, struct bytes *out)
{
	size_t start = 0;
	bool any;

	if (!text) {
		append_error(out, NULL, message);
		return true;
	}
	while (start < length && text[start] && strchr(" \t\r\n", text[start]))
		start++;
	if (start < length && text[start] == '[') {
		if (answer_batch(text + start, length - start, message, out, &any))
			return any;
		append_error(out, NULL, message);
		return true;
	}
	return answer_one(text + start, length - start, message, out);
}
