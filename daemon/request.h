/*
 * request.h - one request of a client's, from its arrival to its one answer.
 *
 * A request ends by exactly one of request_result, request_error, request_refuse, request_fail, request_answer and
 * request_withdraw; it is gone then.
 * It may outlive its client's connection: the conversation takes the answer, and delivers it if a client is there.
 */
#ifndef REQUEST_H
#define REQUEST_H

#include "era.h"
#include "text.h"

#include <stdint.h>
#include <sys/queue.h>

struct conversation;
struct batch;
struct evaluation;
struct report;
struct request;
struct session;
struct stream;

/* How others than its own method answer a request: with what its session reports, and with what went wrong. */
struct request_form {
	void (*compose)(const struct request *request, const struct report *report, struct text *answer);
	/* Ends it. */
	void (*fail)(struct request *request, const char *type, const char *message);
};

struct request {
	TAILQ_ENTRY(request) next;
	LIST_ENTRY(request) same_hash; /* in its conversation's index by id */
	struct conversation *conversation;
	uint64_t line;
	uint32_t item;       /* position in its batch, 0 outside of one */
	struct batch *batch; /* NULL outside of one */
	size_t size;         /* of the line that it came on */
	char *id;
	const struct revision *revision; /* NULL before any agreement */
	const struct request_form *form; /* of its method; NULL if nobody else answers */
	struct json_object *message;     /* owned; NULL for a request that was adopted from a worker */
	struct json_object *params;      /* within message */
	char *uri;                       /* of the resource that is read; NULL if it is another method */
	char *progress_token;            /* JSON text; NULL if no progress is wanted */
	struct stream *stream;           /* of one that listens; owned, NULL until it is open */
	struct session *session;         /* that evaluates for it, NULL otherwise */
	struct evaluation *evaluation;   /* in that session */
	bool again;                      /* its line had come before, perhaps to a former daemon */
	bool unwanted;                   /* cancelled before it could begin */
};
TAILQ_HEAD(request_list, request);
LIST_HEAD(request_bucket, request);

/* size is that of its line, for what the client may have open at once. */
struct request *request_new(
	struct conversation *conversation, uint64_t line, uint32_t item, const char *id, size_t size);

/* Appends what the revision adds to every result, as further members of the one that is being written. */
void request_put_completion(const struct request *request, struct text *result);

/* How long a client may keep it, where the revision knows of that: an hour if nothing changes it while this daemon
 * runs. */
void request_add_lifetime(const struct request *request, struct json_object *result, bool is_fixed);

/* Of a list that is never paged; false if another page is asked for, and the request is then answered. */
bool request_wants_first_page(struct request *request);

/* A text among its params, without a NUL; NULL if it is none, and the request is then answered. */
const char *request_param_text(struct request *request, struct json_object *params, const char *name);

/* Appends the whole answer. */
void request_put_result(const struct request *request, struct json_object *result, struct text *answer);
/* The result passes into the request's ownership. */
void request_result(struct request *request, struct json_object *result);
/* message NULL: the code's own; data passes into the request's ownership and may be NULL. */
void request_error(struct request *request, int code, const char *message, struct json_object *data);
/* An error whose data is a sentence. */
void request_refuse(struct request *request, int code, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* What its method is told has gone wrong, in its form: a type in capitals and a message for people. */
void request_fail(struct request *request, const char *type, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
/* An answer that is already text. */
void request_answer(struct request *request, const struct text *answer);
/* Ends it without an answer: its client has cancelled it. */
void request_withdraw(struct request *request);

void request_progress(struct request *request, double progress, const char *message);

#endif
