/*
 * visit.h - tool calls that wait until something is known, to be served again then, in their order.
 */
#ifndef VISIT_H
#define VISIT_H

#include <sys/queue.h>

struct request;
struct visit;
STAILQ_HEAD(visit_list, visit);

/* It can be cancelled while it waits. */
void visit_add(struct visit_list *visits, struct request *request);
/* The next one, which waits no longer; NULL if there is none. Those that were cancelled have ended. */
struct request *visit_next(struct visit_list *visits);
/* Forgets them all, when the daemon ends. */
void visit_drop_all(struct visit_list *visits);

#endif
