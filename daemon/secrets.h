/*
 * secrets.h - texts that a client has marked, and what is stored in their place.
 *
 * A list of them is a JSON array of strings; NULL is a list without any. They belong to one call: what shows them
 * later, in a call that does not mark them, is stored.
 */
#ifndef SECRETS_H
#define SECRETS_H

#include "result.h"

#include <json-c/json.h>
#include <stdbool.h>

#define SECRETS_MAX 64
#define SECRETS_BYTES_MAX (16u << 10) /* together */
#define SECRETS_BYTES_MIN 4           /* each: a shorter one would be found everywhere */
#define SECRETS_RULE \
	"Argument secrets must be at most 64 strings, each of at least 4 bytes and without a NUL, 16 KB together"

/* Is it such a list? */
bool secrets_valid(struct json_object *secrets);

/* [secret] stands in the text, allocated, wherever one of them stood as it is or as Lisp prints it in a string. */
void secrets_hide(struct json_object *secrets, char **text, size_t *length);
/* In all texts of a result. */
void secrets_hide_result(struct json_object *secrets, struct result *result);

#endif
