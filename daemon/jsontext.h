/*
 * jsontext.h - JSON between its text and json-c's objects.
 */
#ifndef JSONTEXT_H
#define JSONTEXT_H

#include "text.h"

#include <json-c/json.h>

/* Returns what is wrong with the text, a sentence; or NULL and its value, which the caller owns. */
const char *jsontext_read(const char *text, size_t length, struct json_object **value);

/* Append a value, or a string that is UTF-8, without any blank. */
void jsontext_put(struct text *text, struct json_object *value);
void jsontext_put_string(struct text *text, const char *string, size_t length);

#endif
