/*
 * adoption.c - finding the workers and waiting for what they tell.
 */
#include "adoption.h"

#include "alloc.h"
#include "clock.h"
#include "log.h"
#include "paths.h"
#include "server.h"
#include "session.h"
#include "sessionlock.h"

#include <dirent.h>
#include <unistd.h>

/* How long a worker may be silent. Its I/O thread answers within microseconds, whatever the Lisp code does. */
static const struct timeval silence_time = {2, 0};

struct adoption {
	size_t open; /* workers still to be heard, and one for the search itself */
	size_t found;
	uint64_t started_ms;
	void (*done)(struct server *server);
	struct event *timeout;
};

void adoption_abandon(struct server *server)
{
	struct adoption *adoption = server->adoption;

	if (!adoption)
		return;
	event_free(adoption->timeout);
	free(adoption);
	server->adoption = NULL;
}

static void end(struct server *server)
{
	void (*done)(struct server * server) = server->adoption->done;

	if (server->adoption->found > 0)
		log_info("%zu sessions adopted in %d ms", server->adoption->found,
			(int)(clock_ms() - server->adoption->started_ms));
	adoption_abandon(server);
	done(server);
}

void adoption_done_one(struct server *server)
{
	if (server->adoption && --server->adoption->open == 0)
		end(server);
}

static void on_silence(evutil_socket_t fd, short what, void *context)
{
	struct server *server = context;

	(void)fd;
	(void)what;
	log_warning("%zu workers have not answered; going on without them", server->adoption->open);
	end(server);
}

static void adopt(struct server *server, const char *id)
{
	char path[PATHS_SOCKET_SIZE];

	if (session_find(server, id))
		return;
	server->adoption->open++;
	if (session_adopt(server, id)) {
		server->adoption->found++;
		return;
	}
	server->adoption->open--;
	/* Its last process is gone, and we hold the lock of the daemon: the name is free. */
	sessionlock_remove(server->runtime_directory, id);
	if (paths_beside(server->runtime_directory, id, path) == 0)
		unlink(path);
}

void adoption_start(struct server *server, void (*done)(struct server *server))
{
	DIR *directory = opendir(server->runtime_directory);
	const struct dirent *entry;

	server->adoption = new_zeroed(sizeof(*server->adoption));
	server->adoption->open = 1;
	server->adoption->done = done;
	server->adoption->started_ms = clock_ms();
	server->adoption->timeout = must(evtimer_new(server->base, on_silence, server));
	event_add(server->adoption->timeout, &silence_time);
	while (directory && (entry = readdir(directory)))
		if (session_id_valid(entry->d_name))
			adopt(server, entry->d_name);
	if (directory)
		closedir(directory);
	adoption_done_one(server);
}
