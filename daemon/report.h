/*
 * report.h - an evaluation's result as the contract words it: a text in sections, and the same facts as data.
 *
 * Both together stay under half of what one answer may take on the wire, escapes included; what was cut is said.
 */
#ifndef REPORT_H
#define REPORT_H

#include "result.h"
#include "text.h"

#include <json-c/json.h>

struct report {
	struct text text;
	struct json_object *data; /* for structuredContent */
	bool is_error;
};

/* session is the id that the data names. */
void report_make(struct report *report, const struct result *result, const char *session);
void report_free(struct report *report);

#endif
