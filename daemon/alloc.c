/*
 * alloc.c - running out of memory ends the process, whoever asked for it.
 *
 * json-c, SQLite and libevent ask too, and json-c leaves out of an answer what it has no room for. So the malloc() of
 * all of them is this one, which comes back with memory or not at all. The sanitizers have such a one of their own.
 */
#include "alloc.h"

#if !defined(__SANITIZE_ADDRESS__) && defined(__GLIBC__)

/* What glibc has for programs that bring functions of the common names. */
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *memory, size_t size);

void *malloc(size_t size)
{
	return must(__libc_malloc(size));
}

void *calloc(size_t count, size_t size)
{
	return must(__libc_calloc(count, size));
}

void *realloc(void *memory, size_t size)
{
	void *more = __libc_realloc(memory, size);

	return size == 0 ? more : must(more);
}

#endif
