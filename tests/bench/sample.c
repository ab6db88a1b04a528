/*
 * sample.c - collecting and sorting times.
 */
#include "sample.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

uint64_t sample_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

void sample_add(struct sample *sample, uint64_t nanoseconds)
{
	if (sample->count == sample->capacity) {
		sample->capacity = sample->capacity ? sample->capacity * 2 : 64;
		sample->nanoseconds = realloc(sample->nanoseconds, sample->capacity * sizeof(*sample->nanoseconds));
		if (!sample->nanoseconds)
			abort();
	}
	sample->nanoseconds[sample->count++] = nanoseconds;
}

static int compare(const void *left, const void *right)
{
	uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;

	return a < b ? -1 : a > b;
}

double sample_percentile(struct sample *sample, unsigned percent)
{
	size_t place = sample->count * percent / 100;

	qsort(sample->nanoseconds, sample->count, sizeof(*sample->nanoseconds), compare);
	return (double)sample->nanoseconds[place < sample->count ? place : sample->count - 1];
}

void sample_free(struct sample *sample)
{
	free(sample->nanoseconds);
	*sample = (struct sample){0};
}

void sample_print_pair(const char *title, struct sample *ours, const char *other_title, struct sample *other,
	double unit, const char *unit_name, double goal)
{
	double ratio = sample_percentile(ours, 50) / sample_percentile(other, 50);

	printf("%-58s %8.2f %s %8.2f %s\n", title, sample_percentile(ours, 50) / unit, unit_name,
		sample_percentile(ours, 99) / unit, unit_name);
	printf("%-58s %8.2f %s %8.2f %s %6.2f   at most %.1f %s\n", other_title, sample_percentile(other, 50) / unit,
		unit_name, sample_percentile(other, 99) / unit, unit_name, ratio, goal, ratio <= goal ? "" : "MISSED");
}
