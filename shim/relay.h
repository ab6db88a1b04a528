/*
 * relay.h - the shim's one loop: lines from stdin to the daemon, its answers to stdout.
 */
#ifndef RELAY_H
#define RELAY_H

#include <stdbool.h>

#include "wish.h"

struct relay_options {
	struct wish wish;
	bool wait; /* at end of input, for as long as it takes */
	int stop;  /* becomes readable when a signal asks us to end */
};

/* Returns when the client is gone or everything it asked was answered. */
void relay_run(const struct relay_options *options);

#endif
