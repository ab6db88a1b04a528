/*
 * sample.c - collecting and sorting times.
 */
#include "sample.h"

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
