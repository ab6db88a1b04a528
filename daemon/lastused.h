/*
 * lastused.h - which session a client goes on with that asks for the one it used last.
 *
 * That is the last one in which a client of its name did anything from its directory, if it is still there. The store
 * is asked at the first call that needs the conversation's own session, once in a conversation; calls that come
 * meanwhile wait, in their order.
 */
#ifndef LASTUSED_H
#define LASTUSED_H

#include <stdbool.h>

struct request;

/*
 * For a call that names no session. True if it is not known yet which one its conversation goes on with: the call is
 * served again when it is. There may be none then.
 */
bool lastused_postpone(struct request *request);

#endif
