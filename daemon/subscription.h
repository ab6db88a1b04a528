/*
 * subscription.h - who wants to hear of changes, and telling them.
 *
 * Whatever changes a session says so to subscription_announce: inquiry.c for what tools do in the store, session_enter
 * for states, evaluation.c for what is recorded. What is to be told waits a moment for more of the same, and as long as
 * its client does not read: then it is still told once, however often it has changed.
 *
 * A stream is what one conversation wants to hear: its own in the handshake revisions, which begins when the client
 * says that it is initialized, and one for each request subscriptions/listen that is open. A subscription by name is to
 * the session that had the name when it was made.
 */
#ifndef SUBSCRIPTION_H
#define SUBSCRIPTION_H

#include "resource.h"
#include "worklink.h"

#include <sys/queue.h>

struct conversation;
struct request;
struct server;
struct stream;
LIST_HEAD(stream_list, stream);

/* What an announcement is about: resources of a session, */
#define CHANGED(resource) (1u << (resource))
/* which sessions there are and what they are called, */
#define CHANGED_LIST (1u << RESOURCES)
/* and that one is no more. */
#define CHANGED_END (1u << (RESOURCES + 1))
/* Everything that shows how a session is. */
#define CHANGED_STATE (CHANGED(RESOURCE_SESSION) | CHANGED(RESOURCE_SESSIONS))
#define CHANGED_ALL (CHANGED_LIST | (CHANGED_LIST - 1))

/* One stream hears of no more. */
#define SUBSCRIPTIONS_MAX 1024

void subscription_start(struct server *server);
void subscription_stop(struct server *server);

void subscription_announce(struct server *server, unsigned owner, const char *session, unsigned changes);

/* ---- streams. A listening request is its stream's owner, or else its conversation is. */

struct stream *stream_new(struct conversation *conversation, struct request *listening);
void stream_free(struct stream *stream);
void stream_want_list(struct stream *stream);
bool stream_is_full(const struct stream *stream);
/* session is an id, NULL for RESOURCE_SESSIONS; a URI that it has already is replaced. False if it is full. */
bool stream_add(struct stream *stream, const char *uri, enum resource resource, const char *session);
void stream_remove(struct stream *stream, const char *uri);
/* {"resourcesListChanged":..., "resourceSubscriptions":...}: what it will tell. */
struct json_object *stream_wishes(const struct stream *stream);
/* Something may have happened that its client was not told of. */
void stream_renew(struct stream *stream);

/* ---- conversations and their clients */

/* Its own stream, which may have begun already. */
struct stream *subscription_begin(struct conversation *conversation);
/* The same for one that had begun with a former daemon; subscriptions as the store has them. */
void subscription_recall(struct conversation *conversation, const char *subscriptions);
/* The store has lost what it had of it. */
void subscription_restore(const struct conversation *conversation);
/* Its client has come back, and may have lost what it was told. */
void subscription_renew(struct conversation *conversation);
/* Its client reads again. */
void subscription_resume(struct conversation *conversation);
/* Answers all that listen, in that conversation or (NULL) in all: nothing more will be told. It may be gone then. */
void subscription_end(struct server *server, const struct conversation *conversation);

/* ---- methods (subscribe.c) */

void subscribe_add(struct request *request);
void subscribe_remove(struct request *request);
void subscribe_listen(struct request *request);
/* A listening request's line has come again: its client may not have heard that it is open. */
void subscribe_repeat(struct request *request);
/* The answer to a listening request. */
void subscribe_answer(struct request *request);

#endif
