/*
 * snapshot.h - a sleeping copy of the worker, which takes its place when it dies.
 *
 * The copy is a fork: it costs a millisecond or two and shares its memory with the worker until one of them writes. It
 * is made when the worker has been idle for a moment after an answer, so that back-to-back evaluations do not pay; but
 * never are many answered evaluations, or old ones, left unprotected. A worker whose user code runs threads makes none:
 * a fork has one thread, and what the others were at would be left half done. It keeps the copy of an earlier moment.
 */
#ifndef SNAPSHOT_H
#define SNAPSHOT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "lineage.h"

/* An evaluation has been answered. */
void snapshot_note_answer(void);
/* When snapshot_attend should be called if nothing else happens; 0: never. */
uint64_t snapshot_due_us(void);
/* Must a copy be made before anything else is evaluated? */
bool snapshot_is_overdue(void);

/*
 * Makes a copy if one is due, and reaps what is left of earlier ones. Returns false in the worker, and true in the
 * copy, once the worker is dead and the copy has to take its place: with none but the main thread, with no pipes,
 * sockets or handlers of its own.
 */
bool snapshot_attend(struct lineage *lineage) __attribute__((warn_unused_result));
/* The same, due or not. */
bool snapshot_take(struct lineage *lineage) __attribute__((warn_unused_result));

/* Is it one of our copies? */
bool snapshot_is_copy(pid_t pid);
/* In a fork: its parent's copies are not ours. */
void snapshot_disown(void);

/* Do threads run beside our own two? A fork would not have them. */
bool snapshot_finds_threads(void);

#endif
