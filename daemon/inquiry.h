/*
 * inquiry.h - a tool call that the store answers.
 *
 * Its statement (sql/statements.sql) makes JSON; its first value is the owner of the sessions. What it changes and the
 * data of its answer reach the disk together, so that a line that comes again is answered from there, by the tool's
 * `finish`, and not served twice.
 */
#ifndef INQUIRY_H
#define INQUIRY_H

#include "database.h"

#include <json-c/json.h>
#include <stdbool.h>
#include <stdint.h>

struct inquiry;
struct job;
struct request;
struct server;

enum inquiry_status {
	INQUIRY_FOUND,
	INQUIRY_NOTHING, /* no such row */
	INQUIRY_EXISTS,  /* an id or a name is taken */
	INQUIRY_REFUSED, /* a constraint, or the values make no sense */
};

struct inquiry_said {
	enum inquiry_status status;
	struct json_object *data; /* of INQUIRY_FOUND; lives until the callback returns */
	const char *words;        /* SQLite's, of INQUIRY_EXISTS and INQUIRY_REFUSED */
};

/* Must end the request. A store that failed and a request that was cancelled never come here. */
typedef void (*inquiry_callback)(struct request *request, const struct inquiry_said *said, void *context);

struct inquiry *inquiry_new(struct request *request, enum database_statement statement);
/* The statement's further values, in their order. */
void inquiry_text(struct inquiry *inquiry, const char *text); /* NULL: NULL */
void inquiry_number(struct inquiry *inquiry, int64_t number);
void inquiry_nonce(struct inquiry *inquiry); /* of the request's conversation */
/* On the store's thread: see job.h. */
void inquiry_set_aside(struct inquiry *inquiry, bool (*prepare)(struct job *job), void (*conclude)(struct job *job));
/* It changes something: the answer is kept with it, as data for that tool's `finish`. */
void inquiry_keep_answer(struct inquiry *inquiry, const char *tool);
/* Called before all else if it has changed nothing, for whatever reason, and also if the request was cancelled. */
void inquiry_otherwise(struct inquiry *inquiry, void (*otherwise)(struct server *server, const void *context));
/* The context is freed afterwards; it may be NULL. */
void inquiry_send(struct inquiry *inquiry, inquiry_callback done, void *context);

/*
 * The tool's whole errand: a row is finished by the tool, and everything else is an error in the usual words. session
 * is what the call had named, for those words.
 */
void inquiry_send_for_tool(struct inquiry *inquiry, const char *tool, const char *session);
/* The usual words alone. */
void inquiry_refuse(struct request *request, const struct inquiry_said *said, const char *session);

#endif
