/*
 * watch.h - waiting for a descriptor or a signal, which is certain or the process is not.
 *
 * The kernel may have no room for it. Somebody would wait for ever then, who goes on after a pause if the daemon ends:
 * see docs/decisions/out-of-memory-is-fatal.md.
 */
#ifndef WATCH_H
#define WATCH_H

#include "alloc.h"

#include <event2/event.h>

static inline void watch(struct event *event)
{
	if (event_add(event, NULL) < 0)
		die("the kernel watches no further descriptor");
}

#endif
