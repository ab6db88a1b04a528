/*
 * idling.c - looks at all sessions once a second while there are any.
 */
#include "idling.h"

#include "alloc.h"
#include "clock.h"
#include "hibernation.h"
#include "server.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* However short memory is, a session is let alone for so long after it was used: its client may be about to go on. */
#define LEAST_IDLE_MS 2000

/* Of all that runs, without anything that got on meanwhile; in percent. */
#define PRESSURE_LABEL "full avg10="
#define PRESSURE_MAX 10

static const struct timeval look_time = {1, 0};

struct idling {
	struct server *server;
	struct idling_limits limits;
	struct event *look;
};

/* What can be had without swapping, in megabytes; as much as one likes if the kernel does not tell. */
static uint64_t available_memory(void)
{
	static const char label[] = "MemAvailable:";
	uint64_t kilobytes = UINT64_MAX;
	char line[128];
	FILE *file = fopen("/proc/meminfo", "re");

	while (file && kilobytes == UINT64_MAX && fgets(line, sizeof(line), file))
		if (strncmp(line, label, sizeof(label) - 1) == 0)
			kilobytes = strtoull(line + sizeof(label) - 1, NULL, 10);
	if (file)
		fclose(file);
	return kilobytes / 1024;
}

/*
 * In so many hundredths of the last ten seconds nobody got on for want of memory: what is available may be a lot then,
 * but is what others are just about to need, or more than our control group may have.
 */
static double memory_pressure(void)
{
	double percentage = 0;
	char line[128];
	FILE *file = fopen("/proc/pressure/memory", "re");

	while (file && fgets(line, sizeof(line), file))
		if (strncmp(line, PRESSURE_LABEL, sizeof(PRESSURE_LABEL) - 1) == 0)
			percentage = strtod(line + sizeof(PRESSURE_LABEL) - 1, NULL);
	if (file)
		fclose(file);
	return percentage;
}

static bool is_memory_short(const struct idling_limits *limits)
{
	return limits->keep_free > 0 && (available_memory() < limits->keep_free || memory_pressure() >= PRESSURE_MAX);
}

static struct session *idle_longest(const struct server *server)
{
	struct session *session, *found = NULL;

	LIST_FOREACH(session, &server->roster.sessions, next)
	if (hibernation_is_possible(session) && (!found || session->idle_since_ms < found->idle_since_ms))
		found = session;
	return found;
}

static double idle_seconds(const struct session *session)
{
	return (double)(clock_ms() - session->idle_since_ms) / 1000;
}

/* One each time, so that the disk has nothing to do but for one. */
static void save_one(const struct idling *idling)
{
	struct session *session;

	LIST_FOREACH(session, &idling->server->roster.sessions, next)
	if (session->changed_seq > session->saved_seq && hibernation_is_possible(session) &&
		idle_seconds(session) >= idling->limits.save_after) {
		hibernation_save(session);
		return;
	}
}

/* One each time: then memory is looked at again, and whoever has many sessions does not feel it. */
static void on_look(evutil_socket_t fd, short what, void *context)
{
	const struct idling *idling = context;
	const struct idling_limits *limits = &idling->limits;
	struct session *session = idle_longest(idling->server);

	(void)fd;
	(void)what;
	if (!LIST_EMPTY(&idling->server->roster.sessions))
		event_add(idling->look, &look_time);
	if (!session || idling->server->is_leaving)
		return;
	if (limits->save_after > 0)
		save_one(idling);
	uint64_t idle_ms = clock_ms() - session->idle_since_ms;
	bool is_late = limits->after > 0 && (double)idle_ms >= limits->after * 1000;
	bool is_in_the_way = idle_ms >= LEAST_IDLE_MS && is_memory_short(limits);
	if (is_late || is_in_the_way)
		hibernation_begin(session, NULL, NULL);
}

struct idling *idling_start(struct server *server, const struct idling_limits *limits)
{
	struct idling *idling = new_zeroed(sizeof(*idling));

	idling->server = server;
	idling->limits = *limits;
	idling->look = must(evtimer_new(server->base, on_look, idling));
	return idling;
}

void idling_watch(struct idling *idling)
{
	bool is_on = idling->limits.after > 0 || idling->limits.keep_free > 0 || idling->limits.save_after > 0;

	if (is_on && !event_pending(idling->look, EV_TIMEOUT, NULL))
		event_add(idling->look, &look_time);
}

void idling_stop(struct idling *idling)
{
	event_free(idling->look);
	free(idling);
}
