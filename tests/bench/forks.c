/*
 * forks.c - fork-session of a session with 50 MB.
 */
#include "forks.h"

#include <stdio.h>

#define MEGABYTES 50
#define ROUNDS 40
#define GOAL_MS 10

/* Vectors of boxed elements, all of them touched: what a session has that has worked for a while. */
#define FILL                                                                           \
	"\"session\":\"big\",\"code\":\"(progn (defvar *big* (loop repeat 50 collect " \
	"(make-array 131072 :initial-element 7))) (length *big*))\""

/* A clone, which is there and has what the original had. */
static bool fork_once(struct forks *forks, struct client *client, unsigned number)
{
	char text[256];

	snprintf(text, sizeof(text), "\"session\":\"big\",\"name\":\"clone %u\"", number);
	if (!client_time_tool(client, "fork-session", text, &forks->times))
		return false;
	int length = snprintf(text, sizeof(text),
		"{\"jsonrpc\":\"2.0\",\"id\":%u,\"method\":\"tools/call\",\"params\":{\"name\":\"evaluate-lisp\","
		"\"arguments\":{\"session\":\"clone %u\",\"code\":\"(length *big*)\"}}}\n",
		700000 + number, number);
	return client_call(client, text, (size_t)length, "\"=> 50\"");
}

bool forks_measure(struct forks *forks, struct client *client)
{
	bool good =
		client_tool(client, "create-session", "\"name\":\"big\"") && client_tool(client, "evaluate-lisp", FILL);

	forks->megabytes = MEGABYTES;
	for (unsigned i = 0; good && i < ROUNDS; i++)
		good = fork_once(forks, client, i);
	if (!good)
		fprintf(stderr, "bench: a session could not be forked\n");
	return good;
}

void forks_print(struct forks *forks)
{
	double median = sample_percentile(&forks->times, 50) / 1e6;
	char title[64];

	snprintf(title, sizeof(title), "fork-session of a session with %u MB", forks->megabytes);
	printf("%-58s %8.2f ms %8.2f ms %6s   under %d ms %s\n", title, median,
		sample_percentile(&forks->times, 99) / 1e6, "", GOAL_MS, median < GOAL_MS ? "" : "MISSED");
}

void forks_free(struct forks *forks)
{
	sample_free(&forks->times);
}
