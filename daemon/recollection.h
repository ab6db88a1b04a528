/*
 * recollection.h - a session whose process has ended without writing its state: after a power cut, or because it was
 * killed together with its copy.
 *
 * It is made again from the last state that was written while it was idle, if there is one, and the definitions that
 * its transcript has since (lisp/recollection.lisp). Until that is done its row names RECOLLECTION_MARK in place of a
 * state file, and it is handled as a hibernated one: a daemon that dies in between is followed by one that begins
 * again.
 */
#ifndef RECOLLECTION_H
#define RECOLLECTION_H

#include "session.h"

#define RECOLLECTION_MARK "transcript"

struct text;
struct store_found_session;

/* Of one that has no process: is there anything to make it from? */
bool recollection_is_possible(const struct session *session, const struct store_found_session *found);
/* Its row is marked; next comes then. It has no process. */
void recollection_begin(struct session *session, void (*next)(struct session *session));

/* Steps that hibernation.c takes. The store is asked for what was evaluated; the session advances when that is there.
 */
void recollection_ask(struct session *session);
/* What OPERATION_RECOLLECT_STATE gets. */
void recollection_put_code(const struct session *session, struct text *code);
/* How the report begins. */
void recollection_put_report(const struct session *session, struct text *report);
/* It is made again, or given up. */
void recollection_end(struct session *session);

#endif
