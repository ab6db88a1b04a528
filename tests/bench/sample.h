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

/* Two lines: ours, and the other with the ratio of the medians and the goal that it has. */
void sample_print_pair(const char *title, struct sample *ours, const char *other_title, struct sample *other,
	double unit, const char *unit_name, double goal);

#endif
