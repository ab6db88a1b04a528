/*
 * inbox.h - what has arrived from the daemon and is no whole frame yet.
 */
#ifndef INBOX_H
#define INBOX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "frame.h"

struct inbox {
	uint8_t *data;
	size_t length;
	size_t capacity;
};

/* Forgets the beginning of a frame: its connection is gone. */
void inbox_clear(struct inbox *inbox);
/*
 * Reads what the connection has and hands over each whole frame. False if the connection is to be closed: its end has
 * come, or the peer is not to be trusted, as the handler says by false or as a broken frame shows.
 */
bool inbox_read(struct inbox *inbox, int connection, bool (*handle)(const struct frame *frame))
	__attribute__((warn_unused_result));

#endif
