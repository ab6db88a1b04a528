/*
 * server.h - the daemon as a whole: the parts that the modules share.
 */
#ifndef SERVER_H
#define SERVER_H

#include "conversation.h"
#include "roster.h"
#include "subscription.h"

#include <event2/event.h>

struct adoption;
struct client;
struct departure;
struct idling;
struct listener;
struct store;
struct zygote;
LIST_HEAD(client_list, client);

struct server {
	struct event_base *base;
	char *runtime_directory;
	uint64_t started_ms; /* on the monotonic clock */
	struct listener *listener;
	struct store *store; /* NULL at the very end */
	struct zygote *zygote;
	struct conversation_list conversations;
	struct stream_list streams, subscribers; /* see subscription.h */
	struct event *announcement;              /* runs while something is to be told on them */
	struct roster roster;
	struct client_list clients;
	size_t client_count;
	struct adoption *adoption; /* NULL when it is over */
	const char *state_directory;
	struct idling *idling;
	bool is_leaving;             /* sessions are hibernated, and nothing else is begun */
	struct departure *departure; /* while they are */
};

/* {"name":..., "version":...} */
struct json_object *server_identity(void);
/* Adds what every result of the stateless revisions carries. */
void server_complete_result(struct json_object *result);

/* The answer to cl-mcpd/status. */
struct json_object *server_status(struct server *server);
/* Ends zygote, workers and then the event loop. */
void server_shut_down(struct server *server);

#endif
