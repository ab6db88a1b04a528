/*
 * clock.h - the one clock for deadlines and durations: it only goes forward, and asking it is no system call.
 */
#ifndef CLOCK_H
#define CLOCK_H

#include <stdint.h>
#include <time.h>

static inline uint64_t clock_microseconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

static inline uint64_t clock_ms(void)
{
	return clock_microseconds() / 1000;
}

#endif
