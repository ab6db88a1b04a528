/*
 * resource.h - what clients can read of their sessions without calling a tool.
 *
 * lisp://sessions is all of them, lisp://session/ID one, lisp://session/ID/transcript and so on a part of it. In place
 * of the id a name may stand, with what a URI cannot hold as %XX. Reading changes nothing: it starts no process, leaves
 * no message, and makes no session the one that was used last.
 */
#ifndef RESOURCE_H
#define RESOURCE_H

#include "request.h"

/* Rows of the table in resource.c. */
enum resource {
	RESOURCE_SESSIONS,
	RESOURCE_SESSION,
	RESOURCE_TRANSCRIPT,
	RESOURCE_DEFINITIONS,
	RESOURCE_LAST_ERROR,
	RESOURCES
};

/* A longer URI names nothing. */
#define RESOURCE_URI_MAX 1024

/* RESOURCES if it names nothing. *session is its id or name, owned by the caller; NULL if it is none's. */
enum resource resource_parse(const char *uri, char **session);
/* True if that is what a client may complete. */
bool resource_is_template(const char *uri);

/* The methods. */
void resource_list(struct request *request);
void resource_list_templates(struct request *request);
void resource_read(struct request *request);

/* There is none, or it is somebody else's. */
void resource_refuse_unknown(struct request *request, const char *uri);

/* A report becomes the text of the resource at the request's uri; what goes wrong becomes a protocol error. */
extern const struct request_form resource_form;

#endif
