/*
 * subscription.c - streams, what is due on them, and when it is told.
 */
#include "subscription.h"

#include "alloc.h"
#include "conversation.h"
#include "jsontext.h"
#include "server.h"
#include "store.h"

#include <event2/event.h>

/* An evaluation changes a session's state twice and then its transcript: that is one thing to be told. */
static const struct timeval gathering_time = {0, 50000};

struct subscription {
	LIST_ENTRY(subscription) next;
	enum resource resource;
	char session[WORKLINK_SESSION_ID_LENGTH + 1]; /* "" for RESOURCE_SESSIONS */
	bool is_due;
	bool is_over; /* its session is no more: that is told, and it is forgotten */
	char uri[];
};
LIST_HEAD(subscription_list, subscription);

struct stream {
	LIST_ENTRY(stream) next;            /* of all */
	LIST_ENTRY(stream) next_subscriber; /* of those that have subscriptions */
	struct conversation *conversation;
	struct request *listening; /* NULL if it is the conversation's own */
	bool wants_list;
	bool list_is_due;
	size_t count;
	struct subscription_list subscriptions;
};

/* ---- what is due */

static void tell_soon(struct server *server)
{
	if (!evtimer_pending(server->announcement, NULL))
		evtimer_add(server->announcement, &gathering_time);
}

static bool is_about(const struct subscription *subscription, const char *session, unsigned changes)
{
	return (changes & CHANGED(subscription->resource)) &&
		(subscription->resource == RESOURCE_SESSIONS || strcmp(subscription->session, session) == 0);
}

static bool note_changes(struct stream *stream, const char *session, unsigned changes)
{
	struct subscription *subscription;
	bool is_due = false;

	LIST_FOREACH(subscription, &stream->subscriptions, next)
	if (is_about(subscription, session, changes)) {
		subscription->is_due = is_due = true;
		subscription->is_over = (changes & CHANGED_END) && subscription->resource != RESOURCE_SESSIONS;
	}
	return is_due;
}

static bool note_list(struct server *server, unsigned owner)
{
	struct stream *stream;
	bool is_due = false;

	LIST_FOREACH(stream, &server->streams, next)
	if (stream->conversation->owner == owner && stream->wants_list)
		stream->list_is_due = is_due = true;
	return is_due;
}

void subscription_announce(struct server *server, unsigned owner, const char *session, unsigned changes)
{
	/* Clients that only want to know of the list may be many, and sessions change more often than it. */
	bool is_due = (changes & CHANGED_LIST) && note_list(server, owner);
	struct stream *stream;

	LIST_FOREACH(stream, &server->subscribers, next_subscriber)
	if (stream->conversation->owner == owner)
		is_due |= note_changes(stream, session, changes);
	if (is_due)
		tell_soon(server);
}

void stream_renew(struct stream *stream)
{
	struct subscription *subscription;

	stream->list_is_due = stream->wants_list;
	LIST_FOREACH(subscription, &stream->subscriptions, next)
	subscription->is_due = true;
	tell_soon(stream->conversation->server);
}

/* ---- telling */

static void tell(const struct stream *stream, const char *method, const char *uri)
{
	struct text text = {0};

	rpc_begin_notification(&text, method);
	text_puts(&text, "{");
	if (uri) {
		jsontext_put_name(&text, "uri");
		jsontext_put_string(&text, uri, strlen(uri));
	}
	if (stream->listening) {
		jsontext_put_name(&text, "_meta");
		text_puts(&text, "{");
		jsontext_put_name(&text, ERA_META_SUBSCRIPTION);
		text_printf(&text, "%s}", stream->listening->id);
	}
	text_puts(&text, "}}");
	conversation_notify(stream->conversation, &text);
	text_free(&text);
}

static void forget(struct stream *stream, struct subscription *subscription)
{
	LIST_REMOVE(subscription, next);
	free(subscription);
	if (--stream->count == 0)
		LIST_REMOVE(stream, next_subscriber);
}

/* A client that has said its last line only waits for what it has asked. */
static bool is_listened_to(const struct stream *stream)
{
	const struct conversation *conversation = stream->conversation;

	return conversation->client && !conversation->ended && !conversation_congested(conversation);
}

static void tell_all(struct stream *stream)
{
	struct subscription *subscription, *next;

	if (stream->list_is_due && is_listened_to(stream)) {
		stream->list_is_due = false;
		tell(stream, "notifications/resources/list_changed", NULL);
	}
	for (subscription = LIST_FIRST(&stream->subscriptions); subscription; subscription = next) {
		next = LIST_NEXT(subscription, next);
		if (!subscription->is_due || !is_listened_to(stream))
			continue;
		subscription->is_due = false;
		tell(stream, "notifications/resources/updated", subscription->uri);
		if (subscription->is_over)
			forget(stream, subscription);
	}
}

static void on_gathered(evutil_socket_t fd, short what, void *context)
{
	struct server *server = context;
	struct stream *stream;

	(void)fd;
	(void)what;
	LIST_FOREACH(stream, &server->streams, next)
	tell_all(stream);
}

void subscription_resume(struct conversation *conversation)
{
	struct stream *stream;

	LIST_FOREACH(stream, &conversation->server->streams, next)
	if (stream->conversation == conversation)
		tell_all(stream);
}

void subscription_start(struct server *server)
{
	server->announcement = must(evtimer_new(server->base, on_gathered, server));
}

void subscription_stop(struct server *server)
{
	event_free(server->announcement);
}

/* ---- streams */

struct stream *stream_new(struct conversation *conversation, struct request *listening)
{
	struct stream *stream = new_zeroed(sizeof(*stream));

	stream->conversation = conversation;
	stream->listening = listening;
	LIST_INIT(&stream->subscriptions);
	LIST_INSERT_HEAD(&conversation->server->streams, stream, next);
	return stream;
}

void stream_free(struct stream *stream)
{
	struct subscription *subscription;

	if (!stream)
		return;
	while ((subscription = LIST_FIRST(&stream->subscriptions)))
		forget(stream, subscription);
	LIST_REMOVE(stream, next);
	free(stream);
}

void stream_want_list(struct stream *stream)
{
	stream->wants_list = true;
}

void stream_remove(struct stream *stream, const char *uri)
{
	struct subscription *subscription;

	LIST_FOREACH(subscription, &stream->subscriptions, next)
	if (strcmp(subscription->uri, uri) == 0) {
		forget(stream, subscription);
		return;
	}
}

bool stream_is_full(const struct stream *stream)
{
	return stream->count == SUBSCRIPTIONS_MAX;
}

bool stream_add(struct stream *stream, const char *uri, enum resource resource, const char *session)
{
	struct subscription *subscription;

	stream_remove(stream, uri);
	if (stream_is_full(stream))
		return false;
	subscription = new_zeroed(sizeof(*subscription) + strlen(uri) + 1);
	memcpy(subscription->uri, uri, strlen(uri) + 1);
	subscription->resource = resource;
	if (session)
		memcpy(subscription->session, session, strnlen(session, WORKLINK_SESSION_ID_LENGTH));
	LIST_INSERT_HEAD(&stream->subscriptions, subscription, next);
	if (stream->count++ == 0)
		LIST_INSERT_HEAD(&stream->conversation->server->subscribers, stream, next_subscriber);
	return true;
}

struct json_object *stream_wishes(const struct stream *stream)
{
	struct json_object *wishes = json_object_new_object(), *uris = json_object_new_array();
	const struct subscription *subscription;

	if (stream->wants_list)
		json_object_object_add(wishes, "resourcesListChanged", json_object_new_boolean(true));
	LIST_FOREACH(subscription, &stream->subscriptions, next)
	json_object_array_add(uris, json_object_new_string(subscription->uri));
	if (stream->count > 0)
		json_object_object_add(wishes, "resourceSubscriptions", uris);
	else
		json_object_put(uris);
	return wishes;
}

/* ---- conversations */

struct stream *subscription_begin(struct conversation *conversation)
{
	if (!conversation->stream) {
		conversation->stream = stream_new(conversation, NULL);
		stream_want_list(conversation->stream);
	}
	return conversation->stream;
}

void subscription_recall(struct conversation *conversation, const char *subscriptions)
{
	struct stream *stream = subscription_begin(conversation);
	struct json_object *list = NULL;

	jsontext_read(subscriptions, strlen(subscriptions), &list); /* the statement made it */
	for (size_t i = 0; i < json_object_array_length(list); i++) {
		struct json_object *row = json_object_array_get_idx(list, i);
		const char *uri = json_object_get_string(json_object_object_get(row, "uri"));
		char *name;
		enum resource resource = resource_parse(uri, &name);
		if (resource < RESOURCES) /* a newer version may know more */
			stream_add(
				stream, uri, resource, json_object_get_string(json_object_object_get(row, "session")));
		free(name);
	}
	json_object_put(list);
	stream_renew(stream);
}

void subscription_restore(const struct conversation *conversation)
{
	const struct subscription *subscription;

	if (!conversation->stream)
		return;
	LIST_FOREACH(subscription, &conversation->stream->subscriptions, next)
	store_add_subscription(conversation->server->store, conversation->nonce,
		&(struct store_subscription){
			.owner = conversation->owner,
			.uri = subscription->uri,
			.session = subscription->session[0] ? subscription->session : NULL,
			.most = SUBSCRIPTIONS_MAX,
		});
}

void subscription_renew(struct conversation *conversation)
{
	if (conversation->stream)
		stream_renew(conversation->stream);
}

/* Its request is answered, and frees it. */
static bool end_one(struct server *server, const struct conversation *conversation)
{
	struct stream *stream;

	LIST_FOREACH(stream, &server->streams, next)
	if (stream->listening && (!conversation || stream->conversation == conversation)) {
		subscribe_answer(stream->listening);
		return true;
	}
	return false;
}

void subscription_end(struct server *server, const struct conversation *conversation)
{
	while (end_one(server, conversation))
		;
}
