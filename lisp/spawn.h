/*
 * spawn.h - forking a worker off the zygote.
 */
#ifndef SPAWN_H
#define SPAWN_H

#include <stdint.h>
#include <sys/types.h>

#include "lineage.h"

struct spawn_order {
	const char *runtime_directory; /* where it listens, under the session's name */
	const char *session;
	struct lineage *lineage;
	const char *directory; /* where user code runs */
	uint64_t incarnation;
	uint64_t last_seq; /* the last evaluation that the session has begun, in another process */
};

/*
 * Forks a worker. *ready becomes readable when it listens: a NUL byte if it does, a text if it cannot. The pid, or a
 * negative errno.
 */
pid_t spawn_worker(const struct spawn_order *order, int *ready) __attribute__((warn_unused_result));

/* A worker that nobody can connect to; *connection is its only link. For trying out recipes. */
pid_t spawn_connected(int *connection) __attribute__((warn_unused_result));

#endif
