/*
 * deaths.h - what a client notices of the precautions against deaths, and of the death of a daemon:
 *
 *   the round trip of (+ 1 2) in a session that keeps sleeping copies of itself, against one that cannot, because it
 *   runs a thread; on one core, interleaved;
 *   the time from the end of a daemon that has 100 sessions until the next one, which the client's shim starts, has
 *   adopted all and answers; on all cores.
 */
#ifndef DEATHS_H
#define DEATHS_H

#include "client.h"
#include "place.h"
#include "sample.h"

#include <stdbool.h>

struct deaths {
	struct sample copied, uncopied;
	struct sample pause;
};

/* False with a message on stderr, as for all below. The client has been opened. */
bool deaths_measure_copies(struct deaths *deaths, struct client *client) __attribute__((warn_unused_result));
bool deaths_measure_pauses(struct deaths *deaths, struct client *client, const struct place *place)
	__attribute__((warn_unused_result));
void deaths_print_copies(struct deaths *deaths);
void deaths_print_pauses(struct deaths *deaths);
void deaths_free(struct deaths *deaths);

#endif
