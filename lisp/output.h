/*
 * output.h - everything that an evaluation writes, in bounded channels.
 *
 * Lisp's streams append directly (stream.c); file descriptors 1 and 2 are pipes to ourselves that the I/O thread
 * drains, so that neither a subprocess nor foreign code ever blocks. What exceeds a channel's bound is counted, not
 * kept.
 *
 * Callers hold the lock around everything below output_lock(). Lisp code must not be torn away while it holds it: see
 * stream.c.
 */
#ifndef OUTPUT_H
#define OUTPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "frame.h"

enum output_channel {
	OUTPUT_STDOUT,
	OUTPUT_STDERR,
	/* Channels of items: each item becomes one field of the result. */
	OUTPUT_VALUES,
	OUTPUT_WARNINGS,
	OUTPUT_ERROR_TYPE,
	OUTPUT_ERROR_MESSAGE,
	OUTPUT_FRAMES,
	OUTPUT_CHANNELS
};

#define OUTPUT_LAST_LINE_MAX 200

struct output_progress {
	uint64_t lines; /* written since the evaluation began */
	size_t last_length;
	char last_line[OUTPUT_LAST_LINE_MAX]; /* the last one that is not empty */
};

/* Once, in the zygote: maps the channels. */
int output_init(void) __attribute__((warn_unused_result));
/* In every new process: descriptors 1 and 2 become pipes and the lock is new. Can be called again after a fork. */
int output_open_pipes(void) __attribute__((warn_unused_result));
/* In a forked copy. */
void output_close_pipes(void);
/* Is it a descriptor of ours? */
bool output_owns(int fd);
/* The end of a pipe that the I/O thread polls. */
int output_pipe(enum output_channel channel);

void output_lock(void);
void output_unlock(void);

/* An evaluation begins: what the streams hold was written before it. */
void output_begin(void);
/* Called before Lisp writes: what a subprocess wrote before that is to be shown before it. */
void output_catch_up(enum output_channel channel);
/* Moves what the pipes hold right now into their channels, no matter how fast somebody fills them again. */
void output_drain(void);
void output_append(enum output_channel channel, const char *bytes, size_t length);
/* True if something had to be dropped. */
bool output_is_full(enum output_channel channel);
/* The item that was being written is complete. */
void output_end_item(enum output_channel channel);
/* Drops what the channel holds. */
void output_clear(enum output_channel channel);
/* The column that Lisp's printer believes to be in. */
long output_column(enum output_channel channel);
void output_set_column(enum output_channel channel, long column);

/* Puts all channels into a result and begins anew. */
void output_take(struct frame_builder *result);
/* Begins anew. */
void output_forget(void);
void output_progress(struct output_progress *progress);

#endif
