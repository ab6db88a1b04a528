/*
 * overdue.c - a timer that looks at the state of the process.
 */
#include "overdue.h"

#include "alloc.h"
#include "session.h"

#include <event2/event.h>
#include <inttypes.h>
#include <stdio.h>

/* As a worker gives to code that does not stop. */
#define GRACE_MS 2000
static const struct timeval again_time = {1, 0};

/* By a signal; who is stopped by a debugger has somebody who looks after it. */
static bool is_stopped(uint64_t pid)
{
	char path[32], status[512];
	size_t length = 0;

	snprintf(path, sizeof(path), "/proc/%" PRIu64 "/stat", pid);
	FILE *file = fopen(path, "re");
	if (file) {
		length = fread(status, 1, sizeof(status) - 1, file);
		(void)fclose(file);
	}
	status[length] = '\0';
	const char *name_end = strrchr(status, ')');
	return name_end && strncmp(name_end, ") T", 3) == 0;
}

static void on_overdue(evutil_socket_t fd, short what, void *context)
{
	struct session *session = context;

	(void)fd;
	(void)what;
	if (session->state != SESSION_RUNNING)
		return;
	if (!is_stopped(session->pid)) {
		event_add(session->overdue, &again_time);
		return;
	}
	replace_text(&session->obituary, "The Lisp process was stopped by a signal, and was killed.");
	session_lose_worker(session);
}

void overdue_make(struct session *session)
{
	session->overdue = must(evtimer_new(session->server->base, on_overdue, session));
}

void overdue_free(struct session *session)
{
	event_free(session->overdue);
}

void overdue_expect(struct session *session, uint64_t milliseconds)
{
	const uint64_t whole = milliseconds + GRACE_MS;
	const struct timeval time = {(time_t)(whole / 1000), (suseconds_t)(whole % 1000 * 1000)};

	event_add(session->overdue, &time);
}

void overdue_forget(struct session *session)
{
	event_del(session->overdue);
}
