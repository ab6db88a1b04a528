/*
 * idling.h - which sessions are hibernated by themselves: those that nobody has used for long, and while memory is
 * short those that were used longest ago. And which have their state written while they rest, because a machine may
 * lose its power: those that have changed since it was written last.
 */
#ifndef IDLING_H
#define IDLING_H

#include <stdint.h>

struct idling;
struct server;

struct idling_limits {
	double after;       /* seconds; 0 for never */
	uint64_t keep_free; /* megabytes of memory; 0 for none */
	double save_after;  /* seconds; 0 for never */
};

#define IDLING_LIMITS_DEFAULT                                             \
	{                                                                 \
		.after = 7 * 86400.0, .keep_free = 128, .save_after = 120 \
	}

struct idling *idling_start(struct server *server, const struct idling_limits *limits);
/* There is a session. */
void idling_watch(struct idling *idling);
void idling_stop(struct idling *idling);

#endif
