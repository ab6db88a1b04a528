/*
 * overdue.h - ending a process that is stopped when it should end what it runs.
 *
 * A worker keeps time limits and cancellations by itself, by force if need be. It cannot while it is stopped, which any
 * code can bring about; its copy can go on without it.
 */
#ifndef OVERDUE_H
#define OVERDUE_H

#include <stdint.h>

struct session;

void overdue_make(struct session *session);
void overdue_free(struct session *session);

/* What runs should be over in so many milliseconds; the process has some time more for that. */
void overdue_expect(struct session *session, uint64_t milliseconds);
/* It is over. */
void overdue_forget(struct session *session);

#endif
