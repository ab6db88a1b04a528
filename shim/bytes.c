/*
 * bytes.c - the queue of bytes.h.
 */
#include "bytes.h"

#include <stdlib.h>
#include <string.h>

#define FIRST_CAPACITY 4096
/* An empty queue keeps no more than this. */
#define KEPT_CAPACITY (256u << 10)

uint8_t *bytes_room(struct bytes *bytes, size_t at_least, size_t *space)
{
	size_t length = bytes_length(bytes);

	/* Moving pays only when it frees at least as much as it moves; otherwise a long queue would be moved for ever.
	 */
	if (bytes->capacity - bytes->end < at_least && bytes->start >= length && bytes->start > 0) {
		memcpy(bytes->data, bytes->data + bytes->start, length);
		bytes->start = 0;
		bytes->end = length;
	}
	if (bytes->capacity - bytes->end < at_least) {
		size_t capacity = bytes->capacity ? bytes->capacity : FIRST_CAPACITY;

		while (capacity - bytes->end < at_least)
			capacity *= 2;
		bytes->data = realloc(bytes->data, capacity);
		if (!bytes->data)
			abort();
		bytes->capacity = capacity;
	}
	*space = bytes->capacity - bytes->end;
	return bytes->data + bytes->end;
}

void bytes_added(struct bytes *bytes, size_t length)
{
	bytes->end += length;
}

void bytes_append(struct bytes *bytes, const void *data, size_t length)
{
	size_t space;

	if (length == 0)
		return;
	memcpy(bytes_room(bytes, length, &space), data, length);
	bytes->end += length;
}

void bytes_taken(struct bytes *bytes, size_t length)
{
	bytes->start += length;
	if (bytes->start < bytes->end)
		return;
	if (bytes->capacity > KEPT_CAPACITY)
		bytes_free(bytes);
	bytes->start = bytes->end = 0;
}

void bytes_free(struct bytes *bytes)
{
	free(bytes->data);
	*bytes = (struct bytes){0};
}
