/*
 * alloc.h - memory that is there or the process is not.
 *
 * Running out of memory ends the daemon at once: its sessions live in other processes, the next daemon adopts them, and
 * that path is tested, which half-finished operations in a starving process never are.
 */
#ifndef ALLOC_H
#define ALLOC_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* As EX_OSERR of sysexits.h. */
#define EXIT_STARVED 71

static inline void die(const char *why) __attribute__((noreturn));

static inline void die(const char *why)
{
	dprintf(STDERR_FILENO, "cl-mcpd: %s; the daemon ends, its sessions live on\n", why);
	_exit(EXIT_STARVED);
}

static inline void *must(void *memory)
{
	if (!memory)
		die("out of memory");
	return memory;
}

static inline void *new_zeroed(size_t size)
{
	return must(calloc(1, size));
}

static inline char *new_text(const char *text)
{
	return text ? must(strdup(text)) : NULL;
}

/* value may be NULL, and must not be *text itself. */
static inline void replace_text(char **text, const char *value)
{
	free(*text);
	*text = new_text(value);
}

static inline void *new_copy(const void *data, size_t length)
{
	char *copy = must(malloc(length + 1));

	if (length)
		memcpy(copy, data, length);
	copy[length] = '\0';
	return copy;
}

#endif
