/*
 * place.h - where a daemon and its clients run: a directory of their own, and the processors that they may use.
 */
#ifndef PLACE_H
#define PLACE_H

#include <limits.h>
#include <sched.h>
#include <stdbool.h>
#include <sys/types.h>

struct place {
	char build[PATH_MAX];
	char runtime[64];
	const cpu_set_t *processors;
};

/* The build directory is there already. False with a message on stderr, as for all below. */
bool place_make(struct place *place, const cpu_set_t *processors) __attribute__((warn_unused_result));
/* Starts a program with little in its environment but the place. Its stdin and stdout are returned if wanted. */
pid_t place_spawn(const struct place *place, char *const argv[], int *to, int *from);
/* Ends the daemon and all sessions. */
bool place_shut_down(const struct place *place) __attribute__((warn_unused_result));
/* Waits for all processes, of other places too, and removes the directory. */
void place_remove(struct place *place);

#endif
