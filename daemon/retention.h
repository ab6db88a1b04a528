/*
 * retention.h - sessions that nobody has used for long are deleted, if the administrator wants it.
 *
 * Never one that has a process, waits for one, or is somebody's own just now.
 */
#ifndef RETENTION_H
#define RETENTION_H

#include "server.h"

/* Days, 0 for never. NULL, or what is wrong with it. */
const char *retention_configure(const char *days);

/* Looks soon, and then from time to time. */
void retention_start(struct server *server);
void retention_stop(void);

#endif
