/*
 * inbox.h - the daemon's bytes become frames.
 */
#ifndef INBOX_H
#define INBOX_H

#include "bytes.h"
#include "frame.h"

struct inbox {
	struct bytes bytes;
	size_t given;  /* size of the frame given out last; it goes when the next one is asked for */
	size_t wanted; /* size of the frame that is coming in */
};

/* Takes in what the socket has, without waiting. The number of bytes, 0 if the peer has closed, or a negative errno. */
long inbox_receive(struct inbox *inbox, int socket) __attribute__((warn_unused_result));

/* The next whole frame; it is valid until the next call. */
enum frame_status inbox_next(struct inbox *inbox, struct frame *frame) __attribute__((warn_unused_result));

/* Forgets everything; for a new connection and at the end. */
void inbox_free(struct inbox *inbox);

#endif
