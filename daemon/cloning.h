/*
 * cloning.h - a session comes to be as a clone of what another one has in memory.
 *
 * In this order, which tool-create.c begins and ends:
 *
 *   its id is in the store's table of births
 *   its turn among the original's evaluations has come, and the worker is asked
 *   its process lives
 *   its row is there and its birth is over: one transaction, which keeps the answer too
 *
 * A daemon that dies before the last step is followed by one that ends what it finds of those in the table; a line that
 * comes again is then served from the beginning.
 */
#ifndef CLONING_H
#define CLONING_H

#include "server.h"

struct cloning;
struct evaluation;

/* What has come of it. The request may be cancelled, but lives; it is the callback's to end. */
struct cloning_said {
	struct session *clone;    /* NULL if there is none */
	const char *why_not;      /* a clause */
	struct json_object *from; /* of which session, after which evaluation; lives until the callback returns */
};

typedef void (*cloning_callback)(struct request *request, const struct cloning_said *said);

/* Waits in the original's queue, and can be cancelled there. The id is in the table of births. */
void cloning_start(struct session *original, struct request *request, const char *id, cloning_callback done);

/* Is there something to clone? */
bool cloning_is_possible(const struct session *original);

/* The clone is not to be after all: its process ends, and so does its birth. */
void cloning_undo(struct session *clone);
/* What a former daemon had begun. */
void cloning_undo_all(struct server *server);

/* One that waits in a queue leaves it, and its request has ended. */
void cloning_drop(struct cloning *cloning);

/* Steps that session.c takes: the evaluation, which is in no queue any more, stands for a clone whose turn it is; */
void cloning_begin(struct session *original, struct evaluation *evaluation);
/* the process has died, and all that wait to clone it are told so. */
void cloning_refuse_all(struct session *original);

#endif
