/*
 * start.h - starting the daemon as a process that belongs to nobody.
 */
#ifndef START_H
#define START_H

#include <stddef.h>

/* The daemon's output goes to this file in the runtime directory. */
#define START_LOG "log"

/*
 * Starts cl-mcpd on that socket in its own session, with / as its directory, no descriptor and no signal setting of
 * ours. Returns the reading end of a pipe, not blocking, on which it says "ready" or why it cannot serve, and which it
 * then closes. A negative errno if it could not be started; *hopeless if trying again is of no use, and in any case
 * reason is a clause that says what happened.
 */
int start_daemon(const char *directory, const char *socket, char *reason, size_t reason_size, int *hopeless)
	__attribute__((warn_unused_result));

#endif
