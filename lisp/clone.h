/*
 * clone.h - a second worker with all that the Lisp image of this one holds, for a session of its own.
 *
 * It is a fork, like a copy (snapshot.h), but it is awake at once, under another name, and from then on the two have
 * nothing to do with each other. Made between evaluations, while no threads run.
 */
#ifndef CLONE_H
#define CLONE_H

#include <stdbool.h>

#include "worker.h"

/*
 * Makes a clone that lives under that session's id, and answers the request. Returns false in the original, and true in
 * the clone, where birth is its own now: with none but the main thread, with no pipes, sockets or handlers of its own.
 * There clone_settle has to be called.
 */
bool clone_make(const char *session, struct worker_birth *birth) __attribute__((warn_unused_result));
/* In the clone: it can be connected to. Ends the process if nobody wants it any more. */
void clone_settle(struct worker_birth *birth);

#endif
