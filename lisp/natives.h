/*
 * natives.h - which compiled functions of the user's are on the C stack.
 */
#ifndef NATIVES_H
#define NATIVES_H

#include <ecl/ecl.h>
#include <stddef.h>

/* Once, in the zygote: code that is there now is not the user's. */
void natives_init(void);

struct native {
	const char *at; /* where its frame ends on the stack */
	cl_object name;
};

/* Those that were called before the stack was at from, innermost first, at most limit. Their number. */
size_t natives_on_stack(const char *from, struct native *found, size_t limit);

#endif
