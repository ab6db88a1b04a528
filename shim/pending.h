/*
 * pending.h - the client's lines that are not settled yet, each as the frame that carries it to the daemon.
 *
 * They are numbered from 1 as they come, sent in that order, and sent again on a new connection. A line waits until an
 * answer to it has come; it is settled, and forgotten, once that answer is on stdout or the daemon says that none will
 * come. No descriptor is touched here.
 */
#ifndef PENDING_H
#define PENDING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "frame.h"

enum pending_state {
	PENDING_WAITING,
	PENDING_ANSWERED, /* its answer is on the way to stdout */
	PENDING_SETTLED,
};

struct pending_line {
	uint64_t number;
	enum pending_state state;
	bool was_sent; /* a daemon may have seen it */
	struct frame_builder frame;
};

struct pending {
	struct pending_line *lines; /* by rising number; settled ones are swept out now and then */
	size_t count;
	size_t capacity;
	size_t waiting;
	size_t settled;
	size_t memory;        /* bytes that the lines take */
	uint64_t last_number; /* of the last line added */
	size_t unsent;        /* index of the first line that this connection has not fully carried */
	size_t unsent_offset; /* how much of that one it has */
};

void pending_add(struct pending *pending, const char *text, size_t length);
/* A line that was too long: only the fact is sent. */
void pending_add_oversize(struct pending *pending);

/* False if no such line waits: then the answer is a second one and to be dropped. */
bool pending_answered(struct pending *pending, uint64_t number) __attribute__((warn_unused_result));
/* False if the line is settled already or was never read. */
bool pending_settle(struct pending *pending, uint64_t number) __attribute__((warn_unused_result));

/* All lines up to this number are settled; */
uint64_t pending_settled_up_to(const struct pending *pending);
/* or all save some, at most max, which come in open. */
uint64_t pending_settled_save(const struct pending *pending, uint64_t *open, size_t max, size_t *count);

/* The first line that waits for an answer, or NULL; and its text, NULL if it was too long. */
const struct pending_line *pending_first_waiting(const struct pending *pending);
const char *pending_text(const struct pending_line *line, size_t *length);

/* A new connection: everything that waits is to be sent again. */
void pending_rewind(struct pending *pending);
/* What is to be sent next, in up to max pieces; 0 if nothing is. pending_sent says how many bytes the socket took. */
size_t pending_gather(const struct pending *pending, struct iovec *pieces, size_t max);
void pending_sent(struct pending *pending, size_t length);

void pending_free(struct pending *pending);

#endif
