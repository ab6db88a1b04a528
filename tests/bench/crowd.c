/*
 * crowd.c - three daemons: one that has little to do, one with many sessions, one with many messages.
 */
#include "crowd.h"

#include "client.h"

#include <stdio.h>
#include <string.h>

#define SESSIONS 1000
#define MESSAGES 100000
#define WARM_UP 200
#define ROUNDS 3000
#define LOOKS 100

static struct client alone, among_sessions, with_messages;

#define PLACES 3
static struct client *const clients[PLACES] = {&alone, &among_sessions, &with_messages};

static bool fill_with_sessions(struct client *client)
{
	char arguments[128];

	for (unsigned i = 1; i < SESSIONS; i++) {
		snprintf(arguments, sizeof(arguments), "\"name\":\"number %u\"", i);
		if (!client_tool(client, "create-session", arguments))
			return false;
		snprintf(arguments, sizeof(arguments), "\"code\":\"(+ 1 2)\",\"session\":\"number %u\"", i);
		if (!client_tool(client, "evaluate-lisp", arguments))
			return false;
	}
	return true;
}

/* Words that are in all messages, in a tenth of them, and in one. */
static bool write_document(const char *path)
{
	FILE *file = fopen(path, "w");

	if (!file) {
		perror("bench: a document");
		return false;
	}
	fputs("{\"id\":\"session-20260120-143022-A4F2\",\"created_at\":3978000000,\"updated_at\":3978000000,"
	      "\"conversation\":{\"messages\":[",
		file);
	for (unsigned i = 0; i < MESSAGES; i++)
		fprintf(file,
			"%s{\"role\":\"user\",\"created_at\":3978000000,\"content\":"
			"\"(defun function-%u (x y) (list x y some-tenth-%u (* x y) :and-so-on))\"}",
			i ? "," : "", i, i % 10);
	fputs("]}}", file);
	return fclose(file) == 0;
}

static bool fill_with_messages(struct client *client, const struct place *place)
{
	char path[128], arguments[256];

	snprintf(path, sizeof(path), "%s/document.json", place->runtime);
	snprintf(arguments, sizeof(arguments), "\"file\":\"%s\",\"name\":\"long\"", path);
	return write_document(path) && client_tool(client, "import-session", arguments) &&
		client_tool(client, "resume-session", "\"session\":\"long\"");
}

static bool time_sum(struct client *client, struct sample *sample)
{
	return client_time_tool(client, "evaluate-lisp", "\"code\":\"(+ 1 2)\"", sample);
}

static bool measure_round_trips(struct crowd *crowd)
{
	struct sample warm = {0};
	bool good = true;

	for (unsigned i = 0; good && i < WARM_UP + ROUNDS; i++) {
		bool counts = i >= WARM_UP;
		good = time_sum(&alone, counts ? &crowd->alone : &warm) &&
			time_sum(&among_sessions, counts ? &crowd->among_sessions : &warm) &&
			time_sum(&with_messages, counts ? &crowd->with_messages : &warm);
	}
	sample_free(&warm);
	return good;
}

static bool measure_looks(struct crowd *crowd)
{
	char arguments[128];

	for (unsigned i = 0; i < LOOKS; i++) {
		snprintf(arguments, sizeof(arguments), "\"session\":\"number %u\"", 1 + i * (SESSIONS - 1) / LOOKS);
		if (!client_time_tool(&among_sessions, "list-sessions", "", &crowd->listing) ||
			!client_time_tool(&among_sessions, "resume-session", arguments, &crowd->resuming))
			return false;
		snprintf(arguments, sizeof(arguments), "\"query\":\"function some-tenth-%u\"", i % 10);
		if (!client_time_tool(&with_messages, "search-sessions", arguments, &crowd->searching))
			return false;
	}
	return true;
}

bool crowd_measure(struct crowd *crowd, const char *build, const cpu_set_t *processors)
{
	struct place places[PLACES] = {0};
	bool good = true;
	size_t made = 0;

	for (; good && made < PLACES; made++) {
		snprintf(places[made].build, sizeof(places[made].build), "%s", build);
		good = place_make(&places[made], processors) && client_start(clients[made], &places[made]) &&
			client_open(clients[made]);
	}
	good = good && fill_with_sessions(&among_sessions) && fill_with_messages(&with_messages, &places[PLACES - 1]) &&
		measure_round_trips(crowd) && measure_looks(crowd);
	for (size_t i = 0; i < made; i++) {
		client_stop(clients[i]);
		good = place_shut_down(&places[i]) && good;
	}
	for (size_t i = 0; i < made; i++)
		place_remove(&places[i]);
	return good;
}

static void print_look(const char *title, struct sample *sample)
{
	double median = sample_percentile(sample, 50) / 1e6;

	printf("%-58s %8.2f ms %8.2f ms %6s   under 20 ms %s\n", title, median, sample_percentile(sample, 99) / 1e6, "",
		median < 20 ? "" : "MISSED");
}

void crowd_print(struct crowd *crowd)
{
	sample_print_pair("round trip of (+ 1 2) among 1,000 sessions", &crowd->among_sessions, "  with one session",
		&crowd->alone, 1e3, "us", 1.3);
	sample_print_pair("round trip of (+ 1 2) after 100,000 messages", &crowd->with_messages, "  after none",
		&crowd->alone, 1e3, "us", 1.2);
	print_look("list-sessions among 1,000 sessions", &crowd->listing);
	print_look("resume-session among 1,000 sessions", &crowd->resuming);
	print_look("search-sessions among 100,000 messages, 10,000 hits", &crowd->searching);
}

void crowd_free(struct crowd *crowd)
{
	sample_free(&crowd->alone);
	sample_free(&crowd->among_sessions);
	sample_free(&crowd->with_messages);
	sample_free(&crowd->listing);
	sample_free(&crowd->resuming);
	sample_free(&crowd->searching);
}
