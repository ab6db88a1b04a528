/*
 * bench.c - figures that a user feels, each beside what it is measured against, interleaved in one run:
 *
 *   the round trip of (+ 1 2), against a bare chain of the same processes that only copies (chain.h), on one core;
 *   the start of a shim up to its first answer while a daemon runs, against the start of ECL itself, on one core;
 *   the same from nothing at all, on all cores;
 *   what single evaluations cost, see evaluations.h; what a clone of a session costs, see forks.h; and what many
 *   sessions and messages cost, see crowd.h;
 *   what precautions against deaths cost, and how long a client waits when a daemon dies, see deaths.h.
 *
 * Figures are reported, not asserted: the exit status is 0 unless something could not be measured.
 */
#include "chain.h"
#include "client.h"
#include "crowd.h"
#include "deaths.h"
#include "evaluations.h"
#include "forks.h"
#include "sample.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define WARM_UP 300
#define ROUND_TRIPS 4000
#define STARTS 25
#define COLD_STARTS 7

static cpu_set_t all_processors, one_processor;
static struct client client;

/* Ends the client, the daemon and the place. */
static bool leave(struct place *place)
{
	client_stop(&client);
	bool good = place_shut_down(place);

	place_remove(place);
	return good;
}

/* One request through the real chain. The ids all have the same length, so that the messages have. */
static bool real_call(unsigned number)
{
	char line[256], expected[32];
	int length = snprintf(line, sizeof(line),
		"{\"jsonrpc\":\"2.0\",\"id\":%u,\"method\":\"tools/call\",\"params\":{\"name\":\"evaluate-lisp\","
		"\"arguments\":{\"code\":\"(+ 1 2)\"}}}\n",
		100000 + number);

	snprintf(expected, sizeof(expected), "\"id\":%u", 100000 + number);
	return client_call(&client, line, (size_t)length, expected);
}

static size_t request_size(void)
{
	return strlen(
		"{\"jsonrpc\":\"2.0\",\"id\":100000,\"method\":\"tools/call\",\"params\":{\"name\":\"evaluate-lisp\","
		"\"arguments\":{\"code\":\"(+ 1 2)\"}}}\n");
}

static bool measure_pairs(struct chain *chain, struct sample *real, struct sample *bare)
{
	for (unsigned i = 0; i < WARM_UP + ROUND_TRIPS; i++) {
		uint64_t start = sample_now();
		if (!real_call(WARM_UP + i))
			return false;
		uint64_t middle = sample_now();
		if (chain_call(chain) < 0) {
			fprintf(stderr, "bench: the bare chain broke\n");
			return false;
		}
		uint64_t end = sample_now();
		if (i >= WARM_UP) {
			sample_add(real, middle - start);
			sample_add(bare, end - middle);
		}
	}
	return true;
}

static bool measure_round_trips(struct sample *real, struct sample *bare)
{
	struct chain chain;

	for (unsigned i = 0; i < WARM_UP; i++)
		if (!real_call(i))
			return false;
	int error = chain_start(&chain, request_size(), client.answer_size);
	if (error < 0) {
		fprintf(stderr, "bench: the bare chain: %s\n", strerror(-error));
		return false;
	}
	bool good = measure_pairs(&chain, real, bare);
	chain_stop(&chain);
	return good;
}

static bool time_ecl(const struct place *place, struct sample *sample)
{
	char *const argv[] = {(char *)"ecl", (char *)"--norc", (char *)"--eval", (char *)"(ext:quit)", NULL};
	uint64_t start = sample_now();
	pid_t process = place_spawn(place, argv, NULL, NULL);
	int status;

	if (process < 0 || waitpid(process, &status, 0) < 0 || status != 0) {
		fprintf(stderr, "bench: ecl could not be run\n");
		return false;
	}
	sample_add(sample, sample_now() - start);
	return true;
}

static bool time_start(const struct place *place, struct client *starting, struct sample *sample)
{
	uint64_t start = sample_now();

	if (!client_start(starting, place) || !client_open(starting))
		return false;
	sample_add(sample, sample_now() - start);
	return true;
}

static bool measure_starts(const struct place *place, struct sample *warm, struct sample *ecl)
{
	static struct client starting;
	bool good = true;

	for (unsigned i = 0; good && i < STARTS; i++) {
		good = time_start(place, &starting, warm);
		client_stop(&starting);
		good = good && time_ecl(place, ecl);
	}
	return good;
}

static bool measure_cold_starts(struct place *place, struct sample *cold)
{
	for (unsigned i = 0; i < COLD_STARTS; i++) {
		if (!place_make(place, &all_processors))
			return false;
		bool good = time_start(place, &client, cold);
		if (!leave(place) || !good)
			return false;
	}
	return true;
}

static bool measure_pinned(struct place *place)
{
	struct sample real = {0}, bare = {0}, warm = {0}, ecl = {0};

	if (!place_make(place, &one_processor))
		return false;
	bool good = client_start(&client, place) && client_open(&client) && measure_round_trips(&real, &bare) &&
		measure_starts(place, &warm, &ecl);
	struct evaluations evaluations = {0};
	struct forks forks = {0};
	struct deaths deaths = {0};
	good = good && evaluations_measure(&evaluations, &client, place) && forks_measure(&forks, &client) &&
		deaths_measure_copies(&deaths, &client);
	good = leave(place) && good;
	if (good) {
		printf("%-58s %11s %11s %6s   %s\n", "", "p50", "p99", "ratio", "goal");
		sample_print_pair("round trip of (+ 1 2), one core", &real, "  a bare chain of the same processes",
			&bare, 1e3, "us", 2.5);
		sample_print_pair("start to first answer, daemon running, one core", &warm,
			"  ecl --norc --eval '(ext:quit)'", &ecl, 1e6, "ms", 0.5);
		evaluations_print(&evaluations);
		forks_print(&forks);
		deaths_print_copies(&deaths);
	}
	evaluations_free(&evaluations);
	forks_free(&forks);
	deaths_free(&deaths);
	sample_free(&real);
	sample_free(&bare);
	sample_free(&warm);
	sample_free(&ecl);
	return good;
}

static bool measure_crowd(const struct place *place)
{
	struct crowd crowd = {0};
	bool good = crowd_measure(&crowd, place->build, &one_processor);

	if (good)
		crowd_print(&crowd);
	crowd_free(&crowd);
	return good;
}

static bool measure_pauses(struct place *place)
{
	struct deaths deaths = {0};

	if (!place_make(place, &all_processors))
		return false;
	bool good =
		client_start(&client, place) && client_open(&client) && deaths_measure_pauses(&deaths, &client, place);
	good = leave(place) && good;
	if (good)
		deaths_print_pauses(&deaths);
	deaths_free(&deaths);
	return good;
}

static bool measure_unpinned(struct place *place)
{
	struct sample cold = {0};
	bool good = measure_cold_starts(place, &cold);

	if (good) {
		double seconds = sample_percentile(&cold, 50) / 1e9;
		printf("%-58s %8.2f s  %8.2f s  %6s   under 1.5 s %s\n",
			"start to first answer from nothing, all cores", seconds, sample_percentile(&cold, 99) / 1e9,
			"", seconds < 1.5 ? "" : "MISSED");
	}
	sample_free(&cold);
	return good;
}

static void choose_processors(void)
{
	sched_getaffinity(0, sizeof(all_processors), &all_processors);
	CPU_ZERO(&one_processor);
	for (int i = CPU_SETSIZE - 1; i >= 0; i--)
		if (CPU_ISSET(i, &all_processors)) {
			CPU_SET(i, &one_processor);
			break;
		}
}

int main(int argc, char **argv)
{
	struct place place = {0};

	if (argc != 2 || !realpath(argv[1], place.build)) {
		fprintf(stderr, "usage: bench BUILD-DIRECTORY\n");
		return 2;
	}
	signal(SIGPIPE, SIG_IGN);
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	choose_processors();
	sched_setaffinity(0, sizeof(one_processor), &one_processor);
	bool good = measure_pinned(&place) && measure_crowd(&place);
	fflush(stdout);
	sched_setaffinity(0, sizeof(all_processors), &all_processors);
	return good && measure_unpinned(&place) && measure_pauses(&place) ? 0 : 1;
}
