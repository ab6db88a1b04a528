/*
 * conversation.c - the table of conversations and their open requests.
 */
#include "conversation.h"

#include "alloc.h"
#include "server.h"
#include "store.h"
#include "subscription.h"

#include <event2/event.h>
#include <unistd.h>

/* How long a shim that was cut off may take to come back. */
static const struct timeval reconnect_time = {60, 0};

struct conversation *conversation_find(struct server *server, const uint8_t nonce[static LINK_NONCE_SIZE])
{
	struct conversation *conversation;

	LIST_FOREACH(conversation, &server->conversations, next)
	if (memcmp(conversation->nonce, nonce, LINK_NONCE_SIZE) == 0)
		return conversation;
	return NULL;
}

static void release(struct conversation *conversation)
{
	LIST_REMOVE(conversation, next);
	if (conversation->expiry)
		event_free(conversation->expiry);
	visit_drop_all(&conversation->visits);
	stream_free(conversation->stream);
	free(conversation->session);
	free(conversation->wanted_session);
	free(conversation->directory);
	free(conversation->client_name);
	free(conversation->used);
	free(conversation->place);
	free(conversation);
}

/* Frees it once nobody can come back for it and nothing is open. */
static void release_if_over(struct conversation *conversation)
{
	if (conversation->client || !conversation->ended || conversation->request_count > 0)
		return;
	if (conversation->saved)
		store_forget_conversation(conversation->server->store, conversation->nonce);
	release(conversation);
}

static void on_expiry(evutil_socket_t fd, short what, void *context)
{
	struct conversation *conversation = context;

	(void)fd;
	(void)what;
	subscription_end(conversation->server, conversation);
	conversation->ended = true;
	release_if_over(conversation);
}

struct conversation *conversation_new(struct server *server, const uint8_t nonce[static LINK_NONCE_SIZE])
{
	struct conversation *conversation = new_zeroed(sizeof(*conversation));

	conversation->server = server;
	conversation->owner = geteuid(); /* of one that an adopted worker tells of */
	memcpy(conversation->nonce, nonce, LINK_NONCE_SIZE);
	TAILQ_INIT(&conversation->requests);
	STAILQ_INIT(&conversation->visits);
	conversation->expiry = must(evtimer_new(server->base, on_expiry, conversation));
	event_add(conversation->expiry, &reconnect_time);
	LIST_INSERT_HEAD(&server->conversations, conversation, next);
	return conversation;
}

void conversation_free_all(struct server *server)
{
	struct conversation *conversation;

	while ((conversation = LIST_FIRST(&server->conversations))) {
		struct request *request;

		conversation->ended = false; /* else its last request would free it */
		while ((request = TAILQ_FIRST(&conversation->requests)))
			request_withdraw(request);
		release(conversation);
	}
}

/* Who has a session open is a part of how it is. */
static void announce_presence(const struct conversation *conversation)
{
	if (conversation->session)
		subscription_announce(conversation->server, conversation->owner, conversation->session, CHANGED_STATE);
}

void conversation_attach(struct conversation *conversation, const struct conversation_outlet *outlet, void *client)
{
	event_del(conversation->expiry);
	conversation->outlet = outlet;
	conversation->client = client;
	conversation->ended = false;
	conversation->since = store_universal_time();
	announce_presence(conversation);
	subscription_renew(conversation);
}

void conversation_detach(struct conversation *conversation)
{
	conversation->client = NULL;
	announce_presence(conversation);
	event_add(conversation->expiry, &reconnect_time);
	release_if_over(conversation);
}

static unsigned hash(const char *id)
{
	unsigned value = 5381;

	for (; *id; id++)
		value = value * 33 + (unsigned char)*id;
	return value % CONVERSATION_BUCKETS;
}

void conversation_add(struct conversation *conversation, struct request *request)
{
	TAILQ_INSERT_TAIL(&conversation->requests, request, next);
	LIST_INSERT_HEAD(&conversation->by_id[hash(request->id)], request, same_hash);
	conversation->request_count++;
	conversation->request_bytes += request->size;
}

void conversation_remove(struct conversation *conversation, struct request *request)
{
	TAILQ_REMOVE(&conversation->requests, request, next);
	LIST_REMOVE(request, same_hash);
	conversation->request_count--;
	conversation->request_bytes -= request->size;
	release_if_over(conversation);
}

struct request *conversation_by_id(struct conversation *conversation, const char *id)
{
	struct request *request;

	LIST_FOREACH(request, &conversation->by_id[hash(id)], same_hash)
	if (strcmp(request->id, id) == 0)
		return request;
	if (id[0] != '"')
		return NULL;
	/* The same string can be written with escapes or without. */
	TAILQ_FOREACH(request, &conversation->requests, next)
	if (rpc_id_equal(request->id, id))
		return request;
	return NULL;
}

struct request *conversation_by_line(struct conversation *conversation, uint64_t line, uint32_t item)
{
	struct request *request;

	TAILQ_FOREACH(request, &conversation->requests, next)
	if (request->line == line && request->item == item)
		return request;
	return NULL;
}

void conversation_answer(struct conversation *conversation, uint64_t line, const struct text *text)
{
	if (conversation->client)
		conversation->outlet->answer(conversation->client, line, text);
}

void conversation_notify(struct conversation *conversation, const struct text *text)
{
	conversation_answer(conversation, 0, text);
}

void conversation_settle(struct conversation *conversation, uint64_t line)
{
	if (conversation->client)
		conversation->outlet->settle(conversation->client, line);
}

void conversation_begin_inquiry(struct conversation *conversation)
{
	conversation->inquiries++;
}

void conversation_end_inquiry(struct conversation *conversation)
{
	conversation->inquiries--;
	if (conversation->client)
		conversation->outlet->relieved(conversation->client);
}

bool conversation_congested(const struct conversation *conversation)
{
	return conversation->client && conversation->outlet->congested(conversation->client);
}

bool conversation_owes(const struct conversation *conversation)
{
	return !conversation->client || conversation->outlet->owed(conversation->client);
}

void conversation_save(struct conversation *conversation, store_status_callback done, void *context)
{
	struct store_conversation row = {
		.revision = conversation->agreed ? conversation->agreed->name : NULL,
		.session = conversation->session,
		.directory = conversation->directory ? conversation->directory : "/",
		.client = conversation->client_name,
		.initialize_line = conversation->initialize_line,
		.has_begun = conversation->has_begun,
	};

	conversation->saved = true;
	store_save_conversation(conversation->server->store, conversation->nonce, &row, done, context);
}

void conversation_choose(struct conversation *conversation, const char *session)
{
	announce_presence(conversation);
	replace_text(&conversation->session, session);
	announce_presence(conversation);
	conversation->has_begun = true;
	conversation->saved = false;
}

static bool is_same(const char *one, const char *other)
{
	return one && other ? strcmp(one, other) == 0 : one == other;
}

void conversation_forget_use(struct conversation *conversation)
{
	replace_text(&conversation->used, NULL);
}

void conversation_use(struct conversation *conversation, const char *session)
{
	struct conversation *other;

	if (!is_same(conversation->place, session))
		replace_text(&conversation->place, session);
	if (is_same(conversation->used, session))
		return;
	/* Whoever goes by the same name, there, is behind now; what it does next is told to the store again. */
	LIST_FOREACH(other, &conversation->server->conversations, next)
	if (is_same(other->client_name, conversation->client_name) &&
		is_same(other->directory, conversation->directory))
		conversation_forget_use(other);
	replace_text(&conversation->used, session);
	store_use_session(conversation->server->store, conversation->nonce, session);
}

bool conversation_is_in(const struct conversation *conversation, const char *session)
{
	return conversation->client &&
		(is_same(conversation->session, session) || is_same(conversation->place, session));
}

void conversation_follow_session(struct server *server, const char *old_id, const char *new_id)
{
	struct conversation *conversation;

	LIST_FOREACH(conversation, &server->conversations, next)
	{
		if (is_same(conversation->place, old_id))
			replace_text(&conversation->place, new_id);
		if (!is_same(conversation->session, old_id))
			continue;
		conversation_choose(conversation, new_id);
		conversation_save(conversation, NULL, NULL);
	}
}
