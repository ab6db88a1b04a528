/*
 * request.h - an evaluation or a clone that the daemon asked for, on its way from the I/O thread to the main thread.
 */
#ifndef REQUEST_H
#define REQUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "frame.h"

struct request {
	struct request *next;
	uint64_t incarnation;
	uint64_t seq;
	uint64_t time_limit_ms; /* 0: none */
	uint64_t heap_limit;    /* bytes; 0: the default */
	uint64_t protect;       /* 1: its result is not sent before a copy knows it */
	bool cancelled;         /* before it began */
	char *clone;            /* NULL; or no evaluation but a clone is asked for, and this is its session */
	uint8_t *bytes;         /* the frame's fields; the rest points into it */
	const uint8_t *origin;
	size_t origin_length;
	const uint8_t *package; /* NULL: the session's own */
	size_t package_length;
	const uint8_t *operation; /* NULL: a plain evaluation */
	size_t operation_length;
	const uint8_t *code;
	size_t code_length;
	const uint8_t *shown; /* what may be quoted of it; NULL: itself */
	size_t shown_length;
};

/* A copy of what an EVALUATE frame says; NULL if it is broken or says too little. */
struct request *request_read(const struct frame *frame) __attribute__((warn_unused_result));
/* What a CLONE frame says; NULL if it names no session. */
struct request *request_read_clone(const struct frame *frame) __attribute__((warn_unused_result));
void request_free(struct request *request);

/* In the order in which they came. */
struct request_queue {
	struct request *first;
	struct request *last;
	size_t length;
};

void request_queue_add(struct request_queue *queue, struct request *request);
/* The first one; there must be one. */
struct request *request_queue_take(struct request_queue *queue);

/* Could it be the id of a session? It is to be the name of files. */
bool request_is_session_id(const char *text);

#endif
