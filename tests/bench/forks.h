/*
 * forks.h - how long a clone of a session takes that has something in memory.
 */
#ifndef FORKS_H
#define FORKS_H

#include "client.h"
#include "sample.h"

struct forks {
	struct sample times;
	unsigned megabytes; /* what the original had in memory */
};

/* Makes a session of that size and clones it again and again. */
bool forks_measure(struct forks *forks, struct client *client) __attribute__((warn_unused_result));
void forks_print(struct forks *forks);
void forks_free(struct forks *forks);

#endif
