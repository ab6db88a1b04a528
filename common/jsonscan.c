/*
 * jsonscan.c - skipping through JSON text by its brackets and quotes.
 *
 * Only as strict as skipping needs; whoever must know that the text is JSON parses it.
 */
#include "jsonscan.h"

#include <string.h>

struct cursor {
	const char *at;
	const char *end;
};

static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static void skip_blank(struct cursor *cursor)
{
	while (cursor->at < cursor->end && is_blank(*cursor->at))
		cursor->at++;
}

static bool skip_char(struct cursor *cursor, char wanted)
{
	skip_blank(cursor);
	if (cursor->at == cursor->end || *cursor->at != wanted)
		return false;
	cursor->at++;
	return true;
}

/* At the opening quote; ends behind the closing one. */
static bool skip_string(struct cursor *cursor)
{
	if (!skip_char(cursor, '"'))
		return false;
	while (cursor->at < cursor->end) {
		char c = *cursor->at++;
		if (c == '"')
			return true;
		if (c == '\\' && cursor->at < cursor->end)
			cursor->at++;
	}
	return false;
}

/* Any value: a string, a run of brackets that closes, or a word up to the next delimiter. */
static bool skip_value(struct cursor *cursor)
{
	size_t depth = 0;

	skip_blank(cursor);
	const char *start = cursor->at;
	while (cursor->at < cursor->end) {
		char c = *cursor->at;
		if (c == '"') {
			if (!skip_string(cursor))
				return false;
		} else if (c == '{' || c == '[') {
			depth++;
			cursor->at++;
		} else if (c == '}' || c == ']') {
			if (depth == 0)
				return cursor->at > start;
			depth--;
			cursor->at++;
		} else if (depth == 0 && (c == ',' || c == ':' || c == '\0' || is_blank(c))) {
			return cursor->at > start;
		} else {
			cursor->at++;
			continue;
		}
		if (depth == 0)
			return true;
	}
	return depth == 0 && cursor->at > start;
}

bool json_scan_member(const char *text, size_t length, const char *name, struct json_span *value)
{
	struct cursor cursor = {text, text + length};
	size_t name_length = strlen(name);
	bool found = false;

	if (!skip_char(&cursor, '{'))
		return false;
	if (skip_char(&cursor, '}'))
		return false;
	do {
		skip_blank(&cursor);
		const char *key = cursor.at;
		if (!skip_string(&cursor))
			return false;
		bool match = (size_t)(cursor.at - key) == name_length + 2 && memcmp(key + 1, name, name_length) == 0;
		if (!skip_char(&cursor, ':'))
			return false;
		skip_blank(&cursor);
		const char *start = cursor.at;
		if (!skip_value(&cursor))
			return false;
		if (match) {
			*value = (struct json_span){start, (size_t)(cursor.at - start)};
			found = true;
		}
	} while (skip_char(&cursor, ','));
	return found && skip_char(&cursor, '}');
}

bool json_scan_element(const char *text, size_t length, size_t *position, struct json_span *element)
{
	struct cursor cursor = {text + *position, text + length};

	if (!skip_char(&cursor, *position == 0 ? '[' : ','))
		return false;
	skip_blank(&cursor);
	const char *start = cursor.at;
	if (!skip_value(&cursor))
		return false;
	*element = (struct json_span){start, (size_t)(cursor.at - start)};
	*position = (size_t)(cursor.at - text);
	return true;
}
