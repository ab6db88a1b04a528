/*
 * chore.h - long work on the database that a person asks for: a copy of it, and making it small.
 *
 * Done on the store's thread in slices, with everything else between them. One at a time.
 */
#ifndef CHORE_H
#define CHORE_H

#include <stdbool.h>
#include <stdint.h>

struct chore;
struct database;

enum chore_state { CHORE_NONE, CHORE_RUNNING, CHORE_DONE, CHORE_FAILED };

/* How far it is; of the last one if none runs. */
struct chore_said {
	enum chore_state state;
	uint64_t done, total; /* bytes of a copy, steps of others */
	char words[512];      /* of CHORE_FAILED: why, a sentence without a full stop */
};

/* A copy in a new file, which only its owner may read, and which has that name only when it is whole. */
struct chore *chore_copy(const char *path);
/* What nothing refers to any more leaves the file, and the index of words becomes one piece. */
struct chore *chore_compact(void);

/* One slice; true if there are more. */
bool chore_work(struct chore *chore, struct database *database, struct chore_said *said);
/* Also one that is not over: nothing is left of a copy then. */
void chore_free(struct chore *chore);

#endif
