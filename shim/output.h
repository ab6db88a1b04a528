/*
 * output.h - lines on their way to the client's end of stdout.
 *
 * Nothing here ever waits: what the client does not take stays queued, and the caller stops adding. stdout's flags are
 * not touched, because the file description may be shared with others; see output_init for the ways around that.
 */
#ifndef OUTPUT_H
#define OUTPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bytes.h"

enum output_kind {
	OUTPUT_SOCKET, /* sent with MSG_DONTWAIT */
	OUTPUT_OWN,    /* a pipe, opened anew without blocking, or a plain file */
	OUTPUT_SHARED, /* anything else: asked each time, and then given no more than it is sure to take */
};

/* A line of the client's is settled when that much has been written. */
struct output_mark {
	uint64_t end;
	uint64_t line;
};

struct output {
	int descriptor; /* to poll: POLLOUT while something is queued, POLLERR and POLLHUP when the client is gone */
	enum output_kind kind;
	struct bytes bytes;
	uint64_t written; /* since the start */
	bool inside_line; /* the last byte written was not the end of a line */
	struct bytes marks;
};

void output_init(struct output *output, int descriptor);

/* Queues a line; an LF is added. line is the client's line that it settles, 0 for none. */
void output_add(struct output *output, const void *text, size_t length, uint64_t line);

static inline size_t output_waiting(const struct output *output)
{
	return bytes_length(&output->bytes);
}

/* True if some of what is queued settles a line. */
static inline bool output_holds_answer(const struct output *output)
{
	return bytes_length(&output->marks) > 0;
}

/* Writes what the client takes now. 0 or a negative errno; -EPIPE if the client has closed its end. */
int output_flush(struct output *output) __attribute__((warn_unused_result));

/* Finishes the line that was begun, if one was, as far as the client takes it now. Nothing may follow. */
void output_finish_line(struct output *output);

/* The next of the client's lines whose answer is fully written, 0 if there is none. */
uint64_t output_next_settled(struct output *output);

void output_free(struct output *output);

#endif
