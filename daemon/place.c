/*
 * place.c - one look a second at the directory, and a closer one when it has changed.
 */
#include "place.h"

#include "alloc.h"
#include "clock.h"
#include "hibernation.h"
#include "listener.h"
#include "log.h"
#include "paths.h"
#include "server.h"
#include "session.h"
#include "worklink.h"
#include "zygote.h"

#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

static const struct timeval look_time = {1, 0};
/* A change may be followed by another one at what the file system takes for the same time. */
#define CLOSE_LOOKS 2
/* Between two tries to hibernate a session. */
#define AGAIN_MS 30000
/* So long a daemon without a place waits for one. */
#define PATIENCE_MS 5000

struct place {
	struct server *server;
	struct event *look;
	ino_t inode; /* of the directory, when it was looked at last, */
	struct timespec changed;
	int close_looks;        /* that are still to be made */
	size_t homeless;        /* sessions that nobody else could find */
	uint64_t lost_since_ms; /* there can be no socket and no lock; 0: there are */
	char problem[PATH_MAX + 256];
};

static bool is_there(const struct server *server, const char *name)
{
	char path[PATHS_SOCKET_SIZE];

	return paths_beside(server->runtime_directory, name, path) < 0 || access(path, F_OK) == 0;
}

static bool has_changed(struct place *place)
{
	struct stat status = {0};

	if (stat(place->server->runtime_directory, &status) < 0 || status.st_ino != place->inode ||
		status.st_mtim.tv_sec != place->changed.tv_sec || status.st_mtim.tv_nsec != place->changed.tv_nsec)
		place->close_looks = CLOSE_LOOKS;
	place->inode = status.st_ino;
	place->changed = status.st_mtim;
	return place->close_looks > 0;
}

/* ---- sessions */

static bool is_homeless(const struct session *session)
{
	return (session->state == SESSION_READY || session->state == SESSION_RUNNING) &&
		!is_there(session->server, session->id);
}

static void find_homeless(struct place *place)
{
	struct session *session;

	place->homeless = 0;
	LIST_FOREACH(session, &place->server->roster.sessions, next)
	if (is_homeless(session)) {
		place->homeless++;
		if (session->homeless_pid != session->pid)
			log_warning(
				"%s: the socket of its process is gone; it is hibernated when it is idle", session->id);
		session->homeless_pid = session->pid;
	}
}

static bool is_due(const struct session *session)
{
	return session->homeless_pid == session->pid && hibernation_is_possible(session) && is_homeless(session) &&
		(!session->awake || clock_ms() - session->idle_since_ms >= AGAIN_MS);
}

static void house(const struct place *place)
{
	struct session *session, *next;

	for (session = LIST_FIRST(&place->server->roster.sessions); session; session = next) {
		next = LIST_NEXT(session, next);
		if (is_due(session))
			hibernation_begin(session, NULL, NULL);
	}
}

/* ---- the daemon's own */

static void tell(struct place *place, const char *problem)
{
	if (strcmp(place->problem, problem) != 0)
		log_error("%s: no new client can come", problem);
	snprintf(place->problem, sizeof(place->problem), "%s", problem);
}

/* False if it has been somebody else's for some time: one that only tries it lets go of it at once. */
static bool keep(struct place *place)
{
	char problem[sizeof(place->problem)] = "";
	enum listener_status status = listener_renew(place->server->listener, problem, sizeof(problem));

	if (status == LISTENER_READY) {
		place->lost_since_ms = 0;
		place->problem[0] = '\0';
		return true;
	}
	place->close_looks = CLOSE_LOOKS; /* until it succeeds */
	tell(place, problem);
	if (!place->lost_since_ms)
		place->lost_since_ms = clock_ms();
	return status != LISTENER_TAKEN || clock_ms() - place->lost_since_ms < PATIENCE_MS;
}

static bool is_forlorn(const struct place *place)
{
	return place->lost_since_ms && place->server->client_count == 0 &&
		clock_ms() - place->lost_since_ms >= PATIENCE_MS;
}

static void on_look(evutil_socket_t fd, short what, void *context)
{
	struct place *place = context;
	struct server *server = place->server;

	(void)fd;
	(void)what;
	event_add(place->look, &look_time);
	if (server->is_leaving || server->adoption)
		return;
	if (has_changed(place)) {
		place->close_looks--;
		if (!keep(place) || is_forlorn(place)) {
			log_error("leaving; sessions go into their files");
			server_shut_down(server);
			return;
		}
		if (!place->lost_since_ms && !is_there(server, WORKLINK_ZYGOTE_SOCKET))
			zygote_replace(server->zygote);
		find_homeless(place);
	}
	if (place->homeless > 0 && !place->lost_since_ms)
		house(place);
}

struct place *place_watch(struct server *server)
{
	struct place *place = new_zeroed(sizeof(*place));

	place->server = server;
	place->look = must(evtimer_new(server->base, on_look, place));
	event_add(place->look, &look_time);
	return place;
}

void place_forget(struct place *place)
{
	event_free(place->look);
	free(place);
}
