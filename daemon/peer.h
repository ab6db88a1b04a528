/*
 * peer.h - one connected socket that speaks the frames of frame.h, without ever blocking.
 *
 * A shim, the zygote and each worker is a peer. Sending writes at once what the socket takes and queues the rest.
 */
#ifndef PEER_H
#define PEER_H

#include "frame.h"

#include <event2/event.h>

struct peer;

struct peer_handler {
	/* A whole frame has come. The handler may close the peer. */
	void (*frame)(void *context, struct frame *frame);
	/* The connection ended, was cut or sent something that is no frame. The handler must close the peer. */
	void (*gone)(void *context, const char *reason);
	/* The queue has shrunk to nothing. May be NULL. */
	void (*drained)(void *context);
};

/* Takes the descriptor over. */
struct peer *peer_new(struct event_base *base, int fd, const struct peer_handler *handler, void *context);

/* Also from within a handler. Queued output that the socket does not take at once is lost. */
void peer_close(struct peer *peer);

/* Sends a finished frame. */
void peer_send(struct peer *peer, const struct frame_builder *builder);

/* Bytes that wait for the socket. */
size_t peer_backlog(const struct peer *peer);

/* While paused no frame is delivered and nothing is read: the other side feels it as back-pressure. */
void peer_pause(struct peer *peer);
void peer_resume(struct peer *peer);

#endif
