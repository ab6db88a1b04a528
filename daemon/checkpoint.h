/*
 * checkpoint.h - a session's checkpoints: what its process reports of them, in words; and what becomes of a rollback.
 *
 * The process keeps them (lisp/checkpoint.h); the daemon has no list of its own. A rollback is an evaluation that ends
 * with the process: the copy that was chosen takes over as from one that died, and its hello is the result.
 */
#ifndef CHECKPOINT_H
#define CHECKPOINT_H

#include "result.h"
#include "worker.h"

#include <stdbool.h>

struct evaluation;
struct session;

bool checkpoint_rolls_back(const struct evaluation *evaluation);

/* Does the operation leave the session's state as it is? */
bool checkpoint_only_looks(const char *operation);

/*
 * A rollback takes along the results that the process still keeps. So it waits until the store has them; it is tried
 * again then.
 */
bool checkpoint_must_wait(const struct session *session, const struct evaluation *evaluation);

/* What the process has answered to one of the operations becomes a text for people, and data. */
void checkpoint_word(const struct session *session, const struct evaluation *evaluation, struct result *result);

/* Of a rollback that has succeeded. */
void checkpoint_make_result(struct result *result, const struct session *session, const struct evaluation *evaluation,
	const struct worker_hello *hello);

#endif
