/*
 * zygote.h - the process that forks the workers: starting it, asking it, hearing from it.
 *
 * It lives on when the daemon dies; the next daemon finds it by its socket.
 */
#ifndef ZYGOTE_H
#define ZYGOTE_H

#include "server.h"

#include <stdint.h>

struct zygote;

/* Connects to the zygote, or starts one; spawn requests wait until it is ready. */
struct zygote *zygote_new(struct server *server);
/* Lets go of it; it lives on. */
void zygote_free(struct zygote *zygote);

/* Asks for a worker; session_spawned or session_refused follows. seq and incarnation are what it goes on from. */
void zygote_spawn(
	struct zygote *zygote, const char *session_id, const char *directory, uint64_t seq, uint64_t incarnation);
/* Ends that process of the session, whatever it does; session_died follows if it lived. */
void zygote_kill(struct zygote *zygote, const char *session_id, uint64_t pid);
/*
 * For one whose socket is gone: the next daemon could not find it. It is killed, which harms no session, and a new one
 * is started. Does nothing while there is none that is ready.
 */
void zygote_replace(struct zygote *zygote);
/* Ends it and all workers. */
void zygote_end(struct zygote *zygote);

struct json_object *zygote_status(const struct zygote *zygote);

#endif
