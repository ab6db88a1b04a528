/*
 * objects.h - is what lies there an object? Asked before anything is believed that was found on a stack.
 */
#ifndef OBJECTS_H
#define OBJECTS_H

#include <ecl/ecl.h>
#include <stdbool.h>
#include <stddef.h>

/* Once, in the zygote: notes where static data lie. */
void objects_init(void);

bool objects_is_object(cl_object object);

/* Does the memory at this address belong to one block of the collector's, as old Lisp stacks do? */
bool objects_is_block(const void *at, size_t size);

#endif
