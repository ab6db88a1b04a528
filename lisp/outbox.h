/*
 * outbox.h - what the daemon has still to get: reports, and results until it says that they are stored.
 *
 * Nothing here blocks or locks; iothread.c holds its lock. A new connection gets all results again.
 */
#ifndef OUTBOX_H
#define OUTBOX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "frame.h"

#define OUTBOX_RESULTS_MAX 256
#define OUTBOX_BYTES_MAX (64u << 20)

struct outbox_result;

struct outbox {
	int connection; /* -1: none */
	/* Reports that are not fully sent, back to back. */
	struct frame_builder reports;
	size_t reports_sent;
	struct outbox_result *first;
	struct outbox_result *last;
	struct outbox_result *sending; /* the one that is being sent or comes next */
	struct outbox_result *held;    /* not to be sent before it is released; the last one, or NULL */
	size_t result_sent;            /* bytes of it that are gone */
	size_t count;
	size_t bytes;
};

/* Takes the connection over and closes the one before; results are due again. -1 to have none. */
void outbox_connect(struct outbox *outbox, int connection);
/* Adds a report, a finished frame, in front of all results that are not yet begun. */
void outbox_report(struct outbox *outbox, const struct frame_builder *frame);
/* Keeps a result and owns its bytes from now on. It is sent once it is released. */
void outbox_keep(struct outbox *outbox, uint64_t seq, struct frame_builder *frame);
void outbox_release(struct outbox *outbox);
/* What was kept last and is not released yet becomes this. */
void outbox_amend(struct outbox *outbox, struct frame_builder *frame);
/* Results up to seq are stored elsewhere. */
void outbox_forget(struct outbox *outbox, uint64_t seq);
/* True if no further result should be made before some are forgotten. */
bool outbox_is_full(const struct outbox *outbox);

/* True if something waits to be sent. */
bool outbox_is_pending(const struct outbox *outbox);
/* Sends as much as the connection takes. 0, or a negative errno if the connection is of no use any more. */
int outbox_send(struct outbox *outbox) __attribute__((warn_unused_result));

#endif
