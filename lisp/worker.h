/*
 * worker.h - the life of one session's process.
 */
#ifndef WORKER_H
#define WORKER_H

#include <stdint.h>

#include "lineage.h"

struct worker_birth {
	const char *session;
	struct lineage *lineage;
	const char *runtime_directory; /* where it listens under the session's name, or NULL */
	const char *directory;         /* where user code runs */
	uint64_t incarnation;
	uint64_t last_seq; /* evaluations are numbered on from here */
	int connection;    /* of a worker that does not listen, or -1 */
	int ready;         /* gets a byte once the worker can be connected to, or a text that says why not; or -1 */
	int lock;          /* the session's, see sessionlock.h */
};

/* Serves evaluations until the process ends, in this process and in those that follow it. Called in a child of the
 * zygote, on its main thread. */
void worker_main(struct worker_birth *birth) __attribute__((noreturn));

#endif
