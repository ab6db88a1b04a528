/*
 * jsontext.h - JSON between its text and json-c's objects.
 */
#ifndef JSONTEXT_H
#define JSONTEXT_H

#include "text.h"

#include <json-c/json.h>
#include <stdint.h>

/* Returns what is wrong with the text, a sentence; or NULL and its value, which the caller owns. */
const char *jsontext_read(const char *text, size_t length, struct json_object **value);

/* Append a value, or a string that is UTF-8, without any blank. */
void jsontext_put(struct text *text, struct json_object *value);
void jsontext_put_string(struct text *text, const char *string, size_t length);
/* How many bytes of a string that is UTF-8, whole characters, take no more than so many in JSON. */
size_t jsontext_fit(const char *string, size_t length, size_t room);

static inline size_t jsontext_byte_size(unsigned char c)
{
	if (c == '"' || c == '\\' || c == '\n' || c == '\t' || c == '\r' || c == '\b' || c == '\f')
		return 2;
	return c < 0x20 ? 6 : 1;
}

void jsontext_put_number(struct text *text, uint64_t number);

/* For objects and lists that are written piece by piece: what goes before a member's value, and an element. */
void jsontext_put_name(struct text *text, const char *name);
void jsontext_put_element(struct text *text, const char *string, size_t length);
/* The members of an object as further ones of the one that is being written. */
void jsontext_put_members(struct text *text, struct json_object *object);

#endif
