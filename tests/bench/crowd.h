/*
 * crowd.h - what many sessions and many messages cost, on one core, against a daemon that has one session and none:
 *
 *   the round trip of (+ 1 2) while 999 other sessions live;
 *   the same in a session whose transcript has 100,000 messages;
 *   and listing, searching and resuming among them.
 */
#ifndef CROWD_H
#define CROWD_H

#include "sample.h"

#include <sched.h>
#include <stdbool.h>

struct crowd {
	struct sample alone, among_sessions, with_messages;
	struct sample listing, searching, resuming;
};

/* False with a message on stderr. */
bool crowd_measure(struct crowd *crowd, const char *build, const cpu_set_t *processors)
	__attribute__((warn_unused_result));
void crowd_print(struct crowd *crowd);
void crowd_free(struct crowd *crowd);

#endif
