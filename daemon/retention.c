/*
 * retention.c - looking for them, and having the store delete them, a few at a time.
 */
#include "retention.h"

#include "alloc.h"
#include "log.h"
#include "session.h"
#include "statefile.h"
#include "store.h"
#include "subscription.h"

#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define DAY 86400
/* How many are looked at in one pass, and how many deleted: the store has other things to do. */
#define LOOKED_AT 1000
#define DELETED 20
/* A clock that goes wrong by so many seconds was set; for so long nobody knows whether it is right now. */
#define SET_SECONDS 3600
#define DOUBT_SECONDS DAY

static const struct timeval soon = {1, 0}, later = {3600, 0};

static struct {
	double days;
	struct event *timer;
	int64_t offset;         /* of the clock, from the one that counts since the machine has started */
	int64_t doubtful_until; /* on the latter */
} retention;

const char *retention_configure(const char *days)
{
	char *end;

	retention.days = strtod(days, &end);
	if (end == days || *end || !(retention.days >= 0 && retention.days <= 1e6))
		return "it must be a number of days, 0 for ever";
	return NULL;
}

/* Also while the machine was suspended. */
static int64_t seconds_since_boot(void)
{
	struct timespec now;

	clock_gettime(CLOCK_BOOTTIME, &now);
	return now.tv_sec;
}

/* By one that was set forth by years everything would be old. */
static bool is_clock_trusted(void)
{
	int64_t elapsed = seconds_since_boot(), offset = time(NULL) - elapsed, set = offset - retention.offset;

	if (set > SET_SECONDS || set < -SET_SECONDS) {
		log_warning("the clock was set by %.1f hours: for a day nothing is deleted for its age",
			(double)set / 3600);
		retention.offset = offset;
		retention.doubtful_until = elapsed + DOUBT_SECONDS;
	}
	return elapsed >= retention.doubtful_until;
}

static uint64_t unused_since(void)
{
	return store_universal_time() - (uint64_t)(retention.days * DAY);
}

static bool is_in_use(struct server *server, const char *id)
{
	const struct conversation *conversation;

	LIST_FOREACH(conversation, &server->conversations, next)
	if (conversation_is_in(conversation, id))
		return true;
	const struct session *session = session_find(server, id);
	return session && (session->state != SESSION_EMPTY || session->deletion || !TAILQ_EMPTY(&session->evaluations));
}

/* Some are asked for by name, and are not known by their id yet; what is asked for later comes behind the deletion. */
static bool are_some_unknown(struct server *server)
{
	const struct session *session;

	LIST_FOREACH(session, &server->roster.sessions, next)
	if (session->state == SESSION_CREATING)
		return true;
	return false;
}

struct deletion {
	struct server *server;
	char id[WORKLINK_SESSION_ID_LENGTH + 1];
};

static void on_deleted(void *context, enum store_status status)
{
	const struct deletion *deletion = context;
	struct session *session = session_find(deletion->server, deletion->id);

	if (status != STORE_DONE)
		return;
	conversation_follow_session(deletion->server, deletion->id, NULL);
	if (session)
		session_drop(session);
	statefile_forget(deletion->server, deletion->id);
}

static void delete_unused(struct server *server, const char *id)
{
	struct deletion *deletion = new_zeroed(sizeof(*deletion));

	deletion->server = server;
	memcpy(deletion->id, id, sizeof(deletion->id));
	log_info("%s: nobody has used it for %g days; it is deleted", id, retention.days);
	store_delete_unused(server->store, id, unused_since(), on_deleted, deletion);
}

static void on_found(void *context, const char *ids)
{
	struct server *server = context;
	char id[WORKLINK_SESSION_ID_LENGTH + 1] = "";
	int deleted = 0;

	if (!is_clock_trusted()) { /* it may have been set since the store was asked */
		event_add(retention.timer, &later);
		return;
	}
	if (are_some_unknown(server)) {
		event_add(retention.timer, &soon);
		return;
	}
	for (; ids && strlen(ids) >= sizeof(id) - 1 && deleted < DELETED;
		ids += strlen(id) + (ids[strlen(id)] == ' ')) {
		memcpy(id, ids, sizeof(id) - 1);
		if (is_in_use(server, id))
			continue;
		delete_unused(server, id);
		subscription_announce(server, geteuid(), id, CHANGED_ALL); /* who asks then, asks behind it */
		deleted++;
	}
	event_add(retention.timer, deleted == DELETED ? &soon : &later);
}

static void on_timer(evutil_socket_t fd, short what, void *context)
{
	struct server *server = context;

	(void)fd;
	(void)what;
	store_find_unused(server->store, geteuid(), unused_since(), LOOKED_AT, on_found, server);
}

void retention_start(struct server *server)
{
	if (retention.days == 0)
		return;
	retention.offset = time(NULL) - seconds_since_boot();
	retention.timer = must(evtimer_new(server->base, on_timer, server));
	event_add(retention.timer, &soon);
}

void retention_stop(void)
{
	if (retention.timer)
		event_free(retention.timer);
	retention.timer = NULL;
}
