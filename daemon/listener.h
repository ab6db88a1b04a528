/*
 * listener.h - the one lock that decides who is the daemon, and the socket that clients find.
 */
#ifndef LISTENER_H
#define LISTENER_H

#include "server.h"

struct listener;

enum listener_status {
	LISTENER_READY,
	LISTENER_TAKEN, /* another daemon holds the lock */
	LISTENER_FAILED /* problem says why, for people */
};

/* Takes the lock and makes server->listener. Clients can connect from now on; they are served from listener_serve on.
 */
enum listener_status listener_open(struct server *server, const char *socket_path, char *problem, size_t size)
	__attribute__((warn_unused_result));
void listener_serve(struct listener *listener);
void listener_close(struct listener *listener);

#endif
