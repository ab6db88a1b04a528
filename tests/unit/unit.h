/*
 * unit.h - what every unit test includes: cmocka and the headers that it wants before it.
 */
#ifndef UNIT_H
#define UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* A copy that ends exactly where its buffer ends, so that the sanitizers see every byte read too much. */
static inline void *exact_copy(const void *data, size_t length)
{
	char *copy = malloc(length ? length : 1);

	assert_non_null(copy);
	if (length)
		memcpy(copy, data, length);
	return copy;
}

#endif
