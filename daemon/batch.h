/*
 * batch.h - the answers to a line that holds several requests. They are one line, sent when the last of them is there.
 */
#ifndef BATCH_H
#define BATCH_H

#include "jsonrpc.h"
#include "text.h"

#include <stdint.h>

struct batch;
struct conversation;

/* Open until it is released once. NULL if the answers might be longer together than a client takes. */
struct batch *batch_new(uint64_t line, const struct rpc_line *parsed);
/* One more request is to be answered, and released. */
void batch_expect(struct batch *batch);
/* id may be NULL. */
void batch_add(struct batch *batch, const char *id, const struct text *answer);
/* Counts one off; answers the line when nothing is open. The conversation may have lost its client meanwhile. */
void batch_release(struct batch *batch, struct conversation *conversation);
/* The line has come again, and what was open goes on in another batch. */
void batch_abandon(struct batch *batch);

#endif
