/*
 * snapshot.h - sleeping copies of the worker, one of which takes its place when it dies.
 *
 * The copy is a fork: it costs a millisecond or two and shares its memory with the worker until one of them writes. It
 * is made when the worker has been idle for a moment after an answer, so that back-to-back evaluations do not pay; but
 * never are many answered evaluations, or old ones, left unprotected. A worker whose user code runs threads makes none:
 * a fork has one thread, and what the others were at would be left half done. It keeps the copy of an earlier moment.
 *
 * A few earlier copies stay, of processes that are not large, so that one can go back to them; and those that were
 * given a name. See shelf.h.
 */
#ifndef SNAPSHOT_H
#define SNAPSHOT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "lineage.h"

/* A worker that is larger keeps none but the newest. */
#define SNAPSHOT_SMALL_BYTES (UINT64_C(64) << 20)

/* An evaluation has been answered; one that does not count leaves the state as it was. */
void snapshot_note_answer(uint64_t seq, bool counts);
/* How many evaluations that count have led to this state. */
uint64_t snapshot_depth(void);
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
/* The same if there is something that no copy knows of. */
bool snapshot_take_if_needed(struct lineage *lineage) __attribute__((warn_unused_result));
/* The same under a name; *is_kept says in the worker whether there is such a copy now. */
bool snapshot_keep(struct lineage *lineage, const char *name, bool *is_kept) __attribute__((warn_unused_result));
/* The copy with that place on the shelf is not needed any more. */
void snapshot_dismiss(struct lineage *lineage, int place);

/* In a copy that takes over: was it chosen for that? */
bool snapshot_was_chosen(struct lineage *lineage);
/* It makes a copy that is on the shelf in its place. */
bool snapshot_renew(struct lineage *lineage) __attribute__((warn_unused_result));
/* Then, if it was chosen, it leaves the branch that it was not on. */
void snapshot_settle(struct lineage *lineage, bool was_chosen);

/* What the process has in memory, shared with others or not. */
uint64_t snapshot_resident_bytes(void);

/* The one of this process, or NULL if nothing was put there yet. */
const struct shelf *snapshot_shelf(void);
/* Is it one of our copies? */
bool snapshot_is_copy(pid_t pid);
/* In a fork: its parent's copies are not ours. */
void snapshot_disown(void);

/* Do threads run beside our own two? A fork would not have them. */
bool snapshot_finds_threads(void);
/* The same, but those that are about to end get a moment for it: one that has been joined may not be quite gone. */
bool snapshot_threads_remain(void);

#endif
