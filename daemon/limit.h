/*
 * limit.h - what an evaluation may take, for each session and each call, and how far the administrator lets it go.
 */
#ifndef LIMIT_H
#define LIMIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "text.h"

enum limit {
	LIMIT_TIMEOUT,      /* seconds of an evaluation */
	LIMIT_LOAD_TIMEOUT, /* seconds of load-system */
	LIMIT_HEAP,         /* megabytes */
	LIMIT_OUTPUT,       /* characters of each stream that an answer shows */
	LIMIT_VALUE,        /* characters of values that an answer shows */
	LIMIT_NESTING,      /* levels of lists in lists in the code */
	LIMITS
};

/* Of a session. */
struct limits {
	bool is_set[LIMITS]; /* the others have the default */
	double value[LIMITS];
};

/* Neither infinite, negative nor no number; false also if something follows it. */
bool limit_read_number(const char *text, double *number);
/* As users write it: max-heap. */
const char *limit_name(enum limit limit);
/* The administrator's words: NAME=VALUE sets a default, or the ceiling. NULL, or what is wrong with it. */
const char *limit_configure(const char *setting, bool is_ceiling);

/* May it be set to that? If not, says why. */
bool limit_allow(enum limit limit, double value, char *problem, size_t size);
/* What holds: the session's own, or the default. */
double limit_get(const struct limits *limits, enum limit limit);
/* The same for times, in milliseconds. */
uint64_t limit_milliseconds(double seconds);

/* All of them as a table for people. */
void limit_show(const struct limits *limits, struct text *text);

/* For the store: "max-heap=2048 timeout=10"; what is not understood is left out. */
void limit_encode(const struct limits *limits, struct text *text);
void limit_decode(struct limits *limits, const char *text);

#endif
