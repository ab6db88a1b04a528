/*
 * target.h - which session a tool call is for.
 *
 * The one that it names by id or name; else the default of its conversation, which is made at the first call that needs
 * one, because clients probe servers that they never use.
 */
#ifndef TARGET_H
#define TARGET_H

#include "server.h"
#include "worker.h"

/* NULL if there is none, or none yet; the request has been answered then, or will be served again. */
struct session *target_session(struct server *server, struct request *request, struct json_object *arguments);
/* The same, but none is made for that: NULL without an answer if the conversation has none yet. */
struct session *target_known_session(
	struct server *server, struct request *request, struct json_object *arguments, bool *answered);

/* Can it be an id or a name? If not the request is answered. */
bool target_check_name(struct request *request, const char *name);

/*
 * For tools that need no more than what is stored of it: its id or name, within the arguments or the conversation. NULL
 * as above.
 */
const char *target_name(struct request *request, struct json_object *arguments);

/* The same, but a conversation's own session is made if it has none yet; NULL also if the request is served again
 * later. */
const char *target_own_name(struct server *server, struct request *request, struct json_object *arguments);

/* Has the session do it; the request is answered when it has. */
void target_evaluate(
	struct server *server, struct request *request, struct json_object *arguments, const struct work *work);

#endif
