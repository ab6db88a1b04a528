/*
 * client.h - the connection of one shim.
 */
#ifndef CLIENT_H
#define CLIENT_H

#include "server.h"

/* Takes the accepted socket over. */
void client_new(struct server *server, int fd, unsigned uid, unsigned pid);
void client_close_all(struct server *server);

#endif
