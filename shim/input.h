/*
 * input.h - the client's bytes become lines.
 *
 * A line is what stands before an LF; the last one may lack it. Lines of nothing but blanks are skipped. Of a line
 * longer than FRAME_LINE_MAX nothing is kept: it is reported once, as soon as it is too long, and the rest of it is
 * dropped as it comes. No descriptor is touched here.
 */
#ifndef INPUT_H
#define INPUT_H

#include <stdbool.h>
#include <stddef.h>

#include "bytes.h"

struct input {
	struct bytes bytes;
	size_t given;    /* bytes of the line given out last; they go when the next one is asked for */
	size_t searched; /* that many of the waiting bytes hold no LF */
	bool dropping;   /* inside a line that was too long */
	bool ended;
};

enum input_status {
	INPUT_LINE,     /* a line, without its LF; it is valid until the next call */
	INPUT_OVERSIZE, /* a line that was too long */
	INPUT_MORE,     /* no further line before more bytes come */
};

struct input_line {
	const char *text;
	size_t length;
};

/* Where the next bytes of the client's go, *space of them at most; input_added says how many came. */
void *input_room(struct input *input, size_t *space);
void input_added(struct input *input, size_t length);

/* The client has closed its output: what waits is the last line. */
void input_end(struct input *input);

enum input_status input_next(struct input *input, struct input_line *line) __attribute__((warn_unused_result));

void input_free(struct input *input);

#endif
