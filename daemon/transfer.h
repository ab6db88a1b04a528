/*
 * transfer.h - sessions as JSON documents, on their way to other machines and from there.
 *
 * What comes may have been written by anybody. A session without a conversation gets an empty one, and a time that
 * cannot be becomes the current one; the document's "remarks" tell. What cannot be put right is refused.
 */
#ifndef TRANSFER_H
#define TRANSFER_H

#include <json-c/json.h>
#include <stdbool.h>
#include <stddef.h>

struct transfer_problem {
	const char *type;
	char words[256];
};

/* What of a document is replaced; NULL: nothing. */
struct transfer_wishes {
	const char *id, *name;
	const char *directory; /* if that of the document is not there */
};

/* A new document as the statement import_session wants it; NULL if there is a problem. */
struct json_object *transfer_check(
	struct json_object *document, const struct transfer_wishes *wishes, struct transfer_problem *problem);

/* The path from a client's directory; NULL if it is too long. It is allocated. */
char *transfer_path(const char *directory, const char *file);
/* NULL if there is a problem. */
struct json_object *transfer_read_file(const char *path, struct transfer_problem *problem);
/* A new file that only its owner may read. */
bool transfer_write_file(const char *path, const char *data, size_t length, struct transfer_problem *problem);

#endif
