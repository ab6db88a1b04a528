/*
 * roster.h - the sessions that the daemon has in hand, found by id at once, however many there are.
 */
#ifndef ROSTER_H
#define ROSTER_H

#include <sys/queue.h>

struct session;
LIST_HEAD(session_list, session);

#define ROSTER_PLACES 1024

struct roster {
	struct session_list sessions; /* all of them */
	struct session_list places[ROSTER_PLACES];
};

void roster_add(struct roster *roster, struct session *session, const char *id);
void roster_change_id(struct roster *roster, struct session *session, const char *id);
void roster_remove(struct session *session);

#endif
