/*
 * limit.c - the table of limits.
 */
#include "limit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Whoever wants no limit on time says 0. */
struct row {
	const char *name;
	const char *unit;
	double value; /* the default */
	double least, most;
	bool zero_is_none;
};

static struct row rows[LIMITS] = {
	[LIMIT_TIMEOUT] = {"timeout", "seconds", 300, 0, 1e9, true},
	[LIMIT_LOAD_TIMEOUT] = {"load-timeout", "seconds", 1800, 0, 1e9, true},
	[LIMIT_HEAP] = {"max-heap", "megabytes", 1024, 64, 1048576, false},
	[LIMIT_OUTPUT] = {"max-output", "characters", 100000, 100, 1000000, false},
	[LIMIT_VALUE] = {"max-value", "characters", 100000, 100, 1000000, false},
	[LIMIT_NESTING] = {"max-nesting", "levels", 10000, 10, 1000000, false},
};
static bool has_ceiling[LIMITS];

const char *limit_name(enum limit limit)
{
	return rows[limit].name;
}

bool limit_read_number(const char *text, double *number)
{
	char *end;

	*number = strtod(text, &end);
	return end != text && *end == '\0' && *number >= 0 && *number <= 1e12;
}

static int find_row(const char *name, size_t length)
{
	for (int i = 0; i < LIMITS; i++)
		if (strlen(rows[i].name) == length && memcmp(rows[i].name, name, length) == 0)
			return i;
	return -1;
}

const char *limit_configure(const char *setting, bool is_ceiling)
{
	const char *equals = strchr(setting, '=');
	int limit = equals ? find_row(setting, (size_t)(equals - setting)) : -1;
	static char problem[256];
	double number;

	if (limit < 0)
		return "it must be NAME=NUMBER, NAME being one of timeout, load-timeout, max-heap, max-output, max-value, max-nesting";
	if (!limit_read_number(equals + 1, &number))
		return "its value must be a number";
	if (is_ceiling) {
		if (number < rows[limit].least || number > rows[limit].most ||
			(rows[limit].zero_is_none && number == 0))
			return "no such ceiling can be set";
		rows[limit].most = number;
		has_ceiling[limit] = true;
		if (rows[limit].value > number || (rows[limit].zero_is_none && rows[limit].value == 0))
			rows[limit].value = number;
		return NULL;
	}
	if (!limit_allow((enum limit)limit, number, problem, sizeof(problem)))
		return problem;
	rows[limit].value = number;
	return NULL;
}

bool limit_allow(enum limit limit, double value, char *problem, size_t size)
{
	const struct row *row = &rows[limit];

	if (row->zero_is_none && has_ceiling[limit] && value == 0)
		snprintf(problem, size, "%s cannot be switched off here: the administrator allows %g %s at most",
			row->name, row->most, row->unit);
	else if (has_ceiling[limit] && value > row->most)
		snprintf(problem, size, "%s can be %g %s at most, which is the administrator's ceiling", row->name,
			row->most, row->unit);
	else if (!(value >= row->least && value <= row->most))
		snprintf(problem, size, "%s must be a number of %s from %.15g to %.15g%s", row->name, row->unit,
			row->least, row->most, row->zero_is_none ? ", 0 for no limit" : "");
	else
		return true;
	return false;
}

double limit_get(const struct limits *limits, enum limit limit)
{
	return limits->is_set[limit] ? limits->value[limit] : rows[limit].value;
}

uint64_t limit_milliseconds(double seconds)
{
	uint64_t milliseconds = (uint64_t)(seconds * 1000);

	return seconds > 0 && milliseconds == 0 ? 1 : milliseconds; /* 0 means no limit */
}

void limit_show(const struct limits *limits, struct text *text)
{
	for (int i = 0; i < LIMITS; i++) {
		const struct row *row = &rows[i];
		double value = limit_get(limits, (enum limit)i);

		text_printf(text, "%s%s: ", i ? "\n" : "", row->name);
		if (row->zero_is_none && value == 0)
			text_puts(text, "none");
		else
			text_printf(text, "%.15g %s", value, row->unit);
		text_puts(text, limits->is_set[i] ? "" : " (default)");
		if (has_ceiling[i])
			text_printf(text, ", at most %.15g", row->most);
	}
}

void limit_encode(const struct limits *limits, struct text *text)
{
	text_puts(text, "");
	for (int i = 0; i < LIMITS; i++)
		if (limits->is_set[i])
			text_printf(text, "%s%s=%.15g", text->length ? " " : "", rows[i].name, limits->value[i]);
}

void limit_decode(struct limits *limits, const char *text)
{
	*limits = (struct limits){0};
	while (text && *text) {
		size_t length = strcspn(text, " ");
		const char *equals = memchr(text, '=', length);
		int limit = equals ? find_row(text, (size_t)(equals - text)) : -1;
		char problem[256];

		if (limit >= 0) {
			limits->value[limit] = strtod(equals + 1, NULL);
			/* The ceiling may have come down since. */
			limits->is_set[limit] =
				limit_allow((enum limit)limit, limits->value[limit], problem, sizeof(problem));
		}
		text += length;
		text += strspn(text, " ");
	}
}
