/*
 * daemonlock.h - the lock on a directory that only one daemon may serve: the socket's, and the database's.
 *
 * The kernel lets go of it when the process ends, however it ends.
 */
#ifndef DAEMONLOCK_H
#define DAEMONLOCK_H

#include <stdbool.h>

/* A descriptor, or a negative errno: -EWOULDBLOCK if another daemon holds it. */
int daemonlock_take(const char *directory);

/* False if somebody has removed or replaced its file: whoever comes then takes another lock. */
bool daemonlock_is_in_place(const char *directory, int lock);

/* Who holds it, as far as the file tells; 0 if it does not. */
int daemonlock_holder(const char *directory);

#endif
