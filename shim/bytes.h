/*
 * bytes.h - a queue of bytes: added at the end, taken at the start.
 *
 * A queue that has run empty gives large memory back, so that one long line does not cost memory for ever. Running out
 * of memory ends the process.
 */
#ifndef BYTES_H
#define BYTES_H

#include <stddef.h>
#include <stdint.h>

struct bytes {
	uint8_t *data;
	size_t start;
	size_t end;
	size_t capacity;
};

/* NULL if nothing was ever added. */
static inline uint8_t *bytes_first(const struct bytes *bytes)
{
	return bytes->data ? bytes->data + bytes->start : NULL;
}

static inline size_t bytes_length(const struct bytes *bytes)
{
	return bytes->end - bytes->start;
}

/* Where at least that many bytes can be written; *space is how many really fit. What is written counts once added. */
uint8_t *bytes_room(struct bytes *bytes, size_t at_least, size_t *space);
void bytes_added(struct bytes *bytes, size_t length);

void bytes_append(struct bytes *bytes, const void *data, size_t length);
void bytes_taken(struct bytes *bytes, size_t length);

/* Empties the queue and frees its memory. */
void bytes_free(struct bytes *bytes);

#endif
