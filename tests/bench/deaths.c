/*
 * deaths.c - sessions with and without copies, and daemons that are killed.
 */
#include "deaths.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define WARM_UP 200
#define ROUNDS 4000
#define SESSIONS 99 /* and the one that the client has of its own */
#define KILLS 50

/* ---- sleeping copies */

bool deaths_measure_copies(struct deaths *deaths, struct client *client)
{
	static const char thread[] =
		"\"session\":\"uncopied\",\"code\":\"(mp:process-run-function 'idle #'sleep 100000)\"";
	struct sample warm = {0};
	bool good = client_tool(client, "create-session", "\"name\":\"copied\"") &&
		client_tool(client, "create-session", "\"name\":\"uncopied\"") &&
		client_tool(client, "evaluate-lisp", thread);

	for (unsigned i = 0; good && i < WARM_UP + ROUNDS; i++) {
		bool counts = i >= WARM_UP;
		good = client_time_tool(client, "evaluate-lisp", "\"code\":\"(+ 1 2)\",\"session\":\"copied\"",
			       counts ? &deaths->copied : &warm) &&
			client_time_tool(client, "evaluate-lisp", "\"code\":\"(+ 1 2)\",\"session\":\"uncopied\"",
				counts ? &deaths->uncopied : &warm);
	}
	sample_free(&warm);
	return good;
}

void deaths_print_copies(struct deaths *deaths)
{
	sample_print_pair("round trip of (+ 1 2) with sleeping copies", &deaths->copied,
		"  without, in a session that runs a thread", &deaths->uncopied, 1e3, "us", 1.1);
}

/* ---- daemons */

static bool make_sessions(struct client *client)
{
	char arguments[128];

	for (unsigned i = 0; i < SESSIONS; i++) {
		snprintf(arguments, sizeof(arguments), "\"name\":\"number %u\"", i);
		if (!client_tool(client, "create-session", arguments))
			return false;
		snprintf(arguments, sizeof(arguments), "\"code\":\"(+ 1 2)\",\"session\":\"number %u\"", i);
		if (!client_tool(client, "evaluate-lisp", arguments))
			return false;
	}
	return true;
}

static bool kill_daemon(const struct place *place)
{
	char path[128], line[32] = "";

	snprintf(path, sizeof(path), "%s/lock", place->runtime);
	FILE *lock = fopen(path, "r");
	if (lock) {
		if (!fgets(line, sizeof(line), lock))
			line[0] = '\0';
		(void)fclose(lock);
	}
	pid_t pid = (pid_t)strtol(line, NULL, 10);
	if (pid > 0 && kill(pid, SIGKILL) == 0)
		return true;
	fprintf(stderr, "bench: there is no daemon to be killed\n");
	return false;
}

bool deaths_measure_pauses(struct deaths *deaths, struct client *client, const struct place *place)
{
	static const struct timespec rest = {.tv_nsec = 100000000};
	bool good = make_sessions(client);

	for (unsigned i = 0; good && i < KILLS; i++) {
		struct sample call = {0};
		uint64_t start = sample_now();
		good = kill_daemon(place) &&
			client_time_tool(
				client, "evaluate-lisp", "\"code\":\"(+ 1 2)\",\"session\":\"number 0\"", &call);
		if (good)
			sample_add(&deaths->pause, sample_now() - start);
		sample_free(&call);
		nanosleep(&rest, NULL); /* what was answered is stored, and copies are made */
	}
	return good;
}

void deaths_print_pauses(struct deaths *deaths)
{
	double median = sample_percentile(&deaths->pause, 50) / 1e6,
	       worst = sample_percentile(&deaths->pause, 99) / 1e6;

	printf("%-58s %8.2f ms %8.2f ms %6s   p50 under 250 ms, p99 under 500 ms %s\n",
		"a daemon with 100 sessions killed, to the next answer", median, worst, "",
		median < 250 && worst < 500 ? "" : "MISSED");
}

void deaths_free(struct deaths *deaths)
{
	sample_free(&deaths->copied);
	sample_free(&deaths->uncopied);
	sample_free(&deaths->pause);
}
