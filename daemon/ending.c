/*
 * ending.c - a session's process is ended on purpose: because it is reset, put to sleep or deleted.
 *
 * It has ended when nobody holds the session's lock any more, neither it nor a copy, and the zygote has told so.
 */
#include "session.h"

#include "alloc.h"
#include "hibernation.h"
#include "log.h"
#include "paths.h"
#include "sessionlock.h"
#include "unixsocket.h"
#include "zygote.h"

#include <unistd.h>

#define POLL_MS 2
/* A zygote that died cannot end it: whoever listens is told to leave, this often. */
#define POLLS_UNTIL_ASKED 100
/* The zygote tells of the end, unless it is dead itself. */
#define POLLS_UNTIL_UNTOLD 500
/* The process leaves by itself; if not, the zygote ends it; and then it must be gone. */
#define POLLS_UNTIL_KILLED 1000
#define POLLS_MAX 5000

static const struct timeval poll_time = {0, POLL_MS * 1000};

void session_begin_ending(struct session *session, session_ended_callback ended)
{
	session_enter(session, SESSION_ENDING);
	session->revivals = 0;
	session->ended_pid = session->reaped ? 0 : session->pid; /* it may have died by itself */
	session->reaped = false;
	session->ended = ended;
	event_del(session->tick);
	replace_text(&session->obituary, NULL);
}

void session_dismiss_process(struct session *session)
{
	if (session->worker)
		worker_quit(session->worker);
	event_add(session->patience, &poll_time); /* it may be stopped, and hear nothing */
}

void session_kill_process(struct session *session)
{
	if (session->worker)
		worker_close(session->worker);
	session->worker = NULL;
	zygote_kill(session->server->zygote, session->id, 0);
	event_add(session->patience, &poll_time);
}

/* What a zygote that died could not do. */
static void clear_names(const struct session *session)
{
	const char *directory = session->server->runtime_directory;
	char path[PATHS_SOCKET_SIZE];

	sessionlock_remove(directory, session->id);
	if (paths_beside(directory, session->id, path) == 0)
		unlink(path);
}

/* It may also be a copy that has just taken over from the one that was told. */
static void ask_to_leave(const struct session *session)
{
	struct frame_builder quit = {0};
	char path[PATHS_SOCKET_SIZE];

	if (paths_beside(session->server->runtime_directory, session->id, path) < 0)
		return;
	int fd = unixsocket_connect(path);
	if (fd < 0)
		return;
	frame_begin(&quit, WORKER_QUIT);
	frame_end(&quit);
	if (write(fd, quit.data, quit.length) < 0)
		log_warning("%s: its process could not be told to leave", session->id);
	frame_builder_free(&quit);
	close(fd);
}

static void end(struct session *session)
{
	event_del(session->patience);
	if (session->worker)
		worker_close(session->worker);
	session->worker = NULL;
	session->pid = 0;
	session->ended_pid = 0;
	session->revivals = 0;
	session->protected_seq = 0;
	replace_text(&session->package, NULL);
	replace_text(&session->epitaph, NULL);
	replace_text(&session->unprotected, NULL);
	clear_names(session);
	session_enter(session, SESSION_EMPTY);
	session->ended(session, true);
}

void session_await_end(struct session *session)
{
	struct server *server = session->server;
	bool is_told = session->ended_pid == 0 || session->revivals >= POLLS_UNTIL_UNTOLD;

	if (is_told && !sessionlock_is_held(server->runtime_directory, session->id)) {
		end(session);
		return;
	}
	if (++session->revivals == POLLS_UNTIL_KILLED)
		zygote_kill(server->zygote, session->id, 0);
	else if (session->revivals % POLLS_UNTIL_ASKED == 0)
		ask_to_leave(session);
	if (session->revivals < POLLS_MAX) {
		event_add(session->patience, &poll_time);
		return;
	}
	session_enter(session, SESSION_EMPTY);
	session->ended(session, false);
}

void session_discard(struct session *session)
{
	hibernation_forget(session);
	session_refuse_all(session, "SESSION-DELETED", SESSION_WAS_DELETED);
	session_release(session);
}

static void on_late_process_ended(struct session *session, bool has_ended)
{
	if (!has_ended)
		log_error("%s: it is deleted, but its process does not end", session->id);
	session_discard(session);
}

/* Somebody may have opened it while the store was at work. */
void session_drop(struct session *session)
{
	if (session->state == SESSION_CREATING || session->deletion)
		return; /* the store is asked about it, and will say that there is none; or this comes again */
	if (session->state == SESSION_EMPTY) {
		session_discard(session);
		return;
	}
	session_refuse_all(session, "SESSION-DELETED", SESSION_WAS_DELETED);
	session->is_stored = false;
	session_begin_ending(session, on_late_process_ended);
	session_kill_process(session);
}
