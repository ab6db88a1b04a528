/*
 * sample.h - times of many runs, and what lies in their middle.
 */
#ifndef SAMPLE_H
#define SAMPLE_H

#include <stddef.h>
#include <stdint.h>

struct sample {
	uint64_t *nanoseconds;
	size_t count;
	size_t capacity;
};

/* CLOCK_MONOTONIC. */
uint64_t sample_now(void);

void sample_add(struct sample *sample, uint64_t nanoseconds);
/* 50 is the median; in nanoseconds. The sample must not be empty; it is sorted afterwards. */
double sample_percentile(struct sample *sample, unsigned percent);
void sample_free(struct sample *sample);

#endif
