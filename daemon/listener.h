/*
 * listener.h - the locks that decide who is the daemon, and the socket that clients find.
 *
 * There is one for the place, beside the socket, and one for the sessions, beside the database: two daemons at two
 * places must not serve the same sessions.
 */
#ifndef LISTENER_H
#define LISTENER_H

#include "server.h"

struct listener;

enum listener_status {
	LISTENER_READY,
	LISTENER_TAKEN, /* another daemon holds a lock */
	LISTENER_FAILED
};

/*
 * Takes the locks and makes server->listener; else problem says why not, for people. Clients can connect from now on;
 * they are served from listener_serve on.
 */
enum listener_status listener_open(struct server *server, const char *socket_path, char *problem, size_t size)
	__attribute__((warn_unused_result));
void listener_serve(struct listener *listener);
/* Makes socket and lock anew if somebody has removed them. */
enum listener_status listener_renew(struct listener *listener, char *problem, size_t size)
	__attribute__((warn_unused_result));
void listener_close(struct listener *listener);

#endif
