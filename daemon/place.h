/*
 * place.h - looking after the runtime directory, which somebody may delete while all runs, or what is in it.
 *
 * Socket and lock are made anew. A zygote whose socket is gone is replaced, and sessions whose sockets are gone go into
 * their files as soon as they are idle: they come back in processes that the next daemon can find. Where there can be
 * no such directory any more, the daemon leaves with its last client.
 */
#ifndef PLACE_H
#define PLACE_H

struct place;
struct server;

struct place *place_watch(struct server *server);
void place_forget(struct place *place);

#endif
