/*
 * evaluations.c - calls of evaluate-lisp with more than a sum.
 */
#include "evaluations.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define ROUNDS 400
#define OUTPUT_ROUNDS 40
#define OUTPUT_SIZE 1000000

/* As they stand in JSON. */
#define DEFINITION                                                \
	"(defun summarize (numbers &key (scale 1) (offset 0))\\n" \
	"  (let ((total 0) (count 0) (largest nil))\\n"           \
	"    (dolist (number numbers)\\n"                         \
	"      (let ((value (+ offset (* scale number))))\\n"     \
	"        (incf total value)\\n"                           \
	"        (incf count)\\n"                                 \
	"        (when (or (null largest) (> value largest))\\n"  \
	"          (setf largest value))))\\n"                    \
	"    (if (zerop count)\\n"                                \
	"        (values 0 nil nil) (values total (/ total count) largest))))"
#define OUTPUT                            \
	"(dotimes (i 10000) (write-line " \
	"\\\"ninety-nine characters and a line end: 0123456789 0123456789 0123456789 0123456789 0123456789 01234\\\"))"

static bool time_call(struct client *client, const char *arguments, struct sample *sample)
{
	return client_time_tool(client, "evaluate-lisp", arguments, sample);
}

static bool measure_definitions(struct evaluations *evaluations, struct client *client)
{
	static const char checks_on[] = "\"code\":\"(setf cl-mcp-runtime::*lint* t)\"";
	static const char checks_off[] = "\"code\":\"(setf cl-mcp-runtime::*lint* nil)\"";

	for (unsigned i = 0; i < ROUNDS; i++)
		if (!client_tool(client, "evaluate-lisp", checks_on) ||
			!time_call(client, "\"code\":\"" DEFINITION "\"", &evaluations->checked) ||
			!client_tool(client, "evaluate-lisp", checks_off) ||
			!time_call(client, "\"code\":\"" DEFINITION "\"", &evaluations->unchecked))
			return false;
	return client_tool(client, "evaluate-lisp", checks_on);
}

static bool measure_errors(struct evaluations *evaluations, struct client *client)
{
	for (unsigned i = 0; i < ROUNDS; i++)
		if (!time_call(client, "\"code\":\"(car 42)\"", &evaluations->error) ||
			!time_call(client, "\"code\":\"(cdr nil)\"", &evaluations->success))
			return false;
	return true;
}

/* ---- a megabyte of output */

struct plain_ecl {
	pid_t process;
	int to, from;
};

/* An ECL that writes the megabyte for each line that it reads. */
static bool plain_start(struct plain_ecl *ecl, const struct place *place)
{
	char *const argv[] = {(char *)"ecl", (char *)"--norc", (char *)"--eval",
		(char *)"(loop (unless (read-line *standard-input* nil) (ext:quit)) (dotimes (i 10000) (write-line "
			"\"ninety-nine characters and a line end: 0123456789 0123456789 0123456789 0123456789 0123456789 01234\"))"
			" (finish-output))",
		NULL};

	ecl->process = place_spawn(place, argv, &ecl->to, &ecl->from);
	return ecl->process > 0;
}

static bool plain_write(struct plain_ecl *ecl, struct sample *sample)
{
	static char buffer[65536];
	uint64_t start = sample_now();
	size_t total = 0;

	if (write(ecl->to, "\n", 1) != 1)
		return false;
	while (total < OUTPUT_SIZE) {
		ssize_t got = read(ecl->from, buffer, sizeof(buffer));
		if (got <= 0)
			return false;
		total += (size_t)got;
	}
	sample_add(sample, sample_now() - start);
	return true;
}

static void plain_stop(struct plain_ecl *ecl)
{
	close(ecl->to);
	close(ecl->from);
	kill(ecl->process, SIGKILL);
	waitpid(ecl->process, NULL, 0);
}

static bool measure_output(struct evaluations *evaluations, struct client *client, const struct place *place)
{
	struct plain_ecl ecl;
	struct sample unused = {0};

	if (!client_tool(client, "configure-limits", "\"max-output\":1000000") || !plain_start(&ecl, place))
		return false;
	bool good = plain_write(&ecl, &unused); /* it boots first */
	for (unsigned i = 0; good && i < OUTPUT_ROUNDS; i++)
		good = time_call(client, "\"code\":\"" OUTPUT "\"", &evaluations->output) &&
			plain_write(&ecl, &evaluations->plain_output);
	plain_stop(&ecl);
	sample_free(&unused);
	if (!good)
		fprintf(stderr, "bench: the output could not be measured\n");
	return good;
}

bool evaluations_measure(struct evaluations *evaluations, struct client *client, const struct place *place)
{
	return measure_definitions(evaluations, client) && measure_errors(evaluations, client) &&
		measure_output(evaluations, client, place);
}

void evaluations_print(struct evaluations *evaluations)
{
	double checking = sample_percentile(&evaluations->checked, 50) - sample_percentile(&evaluations->unchecked, 50);

	sample_print_pair("a defun of ten lines, checked", &evaluations->checked, "  unchecked",
		&evaluations->unchecked, 1e6, "ms", 10);
	printf("%-58s %8.2f ms %26s at most 3 ms %s\n", "  the checking", checking / 1e6, "",
		checking <= 3e6 ? "" : "MISSED");
	sample_print_pair(
		"an error with backtrace", &evaluations->error, "  a success", &evaluations->success, 1e3, "us", 4);
	sample_print_pair("1 MB of output", &evaluations->output, "  a plain ECL that writes it into a pipe",
		&evaluations->plain_output, 1e6, "ms", 3);
}

void evaluations_free(struct evaluations *evaluations)
{
	sample_free(&evaluations->checked);
	sample_free(&evaluations->unchecked);
	sample_free(&evaluations->error);
	sample_free(&evaluations->success);
	sample_free(&evaluations->output);
	sample_free(&evaluations->plain_output);
}
