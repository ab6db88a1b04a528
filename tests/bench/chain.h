/*
 * chain.h - the bare chain that our round trip is measured against: the same processes on the same kinds of links,
 * which do nothing but copy.
 *
 *   this process -pipes- relay -Unix socket- relay -Unix socket- echo
 */
#ifndef CHAIN_H
#define CHAIN_H

#include <stddef.h>
#include <sys/types.h>

struct chain {
	int to, from; /* our ends of the pipes */
	size_t request_size, answer_size;
	char *buffer;
	pid_t processes[3];
};

/* Each request of request_size bytes is answered by answer_size bytes. 0 or a negative errno. */
int chain_start(struct chain *chain, size_t request_size, size_t answer_size) __attribute__((warn_unused_result));
/* One round trip. */
int chain_call(struct chain *chain) __attribute__((warn_unused_result));
void chain_stop(struct chain *chain);

#endif
