/*
 * result.h - what a worker reports of an evaluation, decoded.
 *
 * A worker runs user code, so its frames are hostile input: lengths are checked, texts are made UTF-8, what does not
 * fit together is refused.
 */
#ifndef RESULT_H
#define RESULT_H

#include "frame.h"
#include "worklink.h"

struct result_text {
	char *data; /* UTF-8 */
	size_t length;
};

struct result_list {
	struct result_text *items;
	size_t count;
};

struct result {
	uint64_t seq;
	enum worker_outcome outcome;
	uint64_t elapsed_us;
	uint64_t forms;
	uint64_t exit_code;
	struct result_text package;
	struct result_text standard_output, error_output;
	uint64_t standard_output_total, error_output_total; /* bytes written, kept or not */
	struct result_list warnings, values, frames;
	/* Which of them the worker could not keep whole. */
	bool warnings_cut, values_cut, error_cut, frames_cut;
	struct result_text error_type, error_message;
	struct result_text data; /* an operation's answer as JSON, if the daemon has made one */
	uint64_t restored;       /* the state after that evaluation has come back with it or before it; 0: none */
	const uint8_t *origin;   /* within the frame */
	size_t origin_length;
};

/* False if the frame is no proper RESULT; the result is then empty. */
bool result_decode(struct frame *frame, struct result *result) __attribute__((warn_unused_result));
void result_free(struct result *result);

/* The daemon has something to say; it comes first. */
void result_add_warning(struct result *result, const char *text);

/* In place of what it was: an operation that went well. */
void result_set_value(struct result *result, const char *text);

/* A report that the daemon makes itself, for an evaluation that no worker can report on any more. */
void result_make_error(struct result *result, uint64_t seq, const char *type, const char *message);

#endif
