/*
 * adoption.h - taking over the sessions that a former daemon left behind.
 *
 * Crash, upgrade and restart are this same path.
 */
#ifndef ADOPTION_H
#define ADOPTION_H

struct server;

/*
 * Dials every worker in the runtime directory, all at once, and calls done when each has told what it holds, or is
 * gone, or has been silent for too long. Before that no client must be served: a line that comes again may have been
 * answered by a worker that was not heard yet.
 */
void adoption_start(struct server *server, void (*done)(struct server *server));
/* One session has told all. */
void adoption_done_one(struct server *server);
/* When the daemon ends in the middle of it. */
void adoption_abandon(struct server *server);

#endif
