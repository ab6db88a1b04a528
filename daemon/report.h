/*
 * report.h - an evaluation's result as the contract words it: a text in sections, and the same facts as data.
 *
 * Both together stay under half of what one answer may take on the wire, escapes included; what was cut is said.
 */
#ifndef REPORT_H
#define REPORT_H

#include "result.h"
#include "text.h"

#include <stdbool.h>

enum report_stream { REPORT_STDOUT, REPORT_STDERR, REPORT_STREAMS };

const char *report_stream_name(enum report_stream stream);

struct report {
	struct text text;
	struct text data;      /* for structuredContent, a JSON object; empty if there is none */
	struct text truncated; /* what was cut, the beginning of a JSON list; empty if nothing was */
	bool is_error;
	/* A stream that is not shown to its end, all that came of it, within the result; else empty. */
	struct result_text cut[REPORT_STREAMS];
	bool is_whole[REPORT_STREAMS]; /* no more was written than that */
};

struct report_form {
	const char *session; /* the id that the data names */
	bool is_operation;   /* its value is the text of the answer; what it wrote is of no interest */
	bool with_data;      /* somebody wants it as data too */
	size_t output_max;   /* characters of each stream that are shown */
	size_t value_max;    /* characters of all values together */
};

void report_make(struct report *report, const struct result *result, const struct report_form *form);
void report_free(struct report *report);

#endif
