/*
 * client.c - hello, lines and back-pressure of one shim.
 */
#include "config.h"
#include "client.h"

#include "alloc.h"
#include "descriptors.h"
#include "log.h"
#include "mcp.h"
#include "peer.h"
#include "session.h"
#include "store.h"
#include "utf8.h"
#include "subscription.h"

#include <inttypes.h>
#include <limits.h>
#include <unistd.h>

/* A client that has this much unread is not read from, and nothing new is evaluated for it. */
#define BACKLOG_MAX (1u << 20)
/* Neither is one with so much unanswered; large, because what cancels the first of them may stand behind the others. */
#define REQUESTS_MAX 20000
#define REQUEST_BYTES_MAX (64u << 20)
/* Nor one with so many questions at the store, which answers in the order in which it is asked: others ask, too. */
#define INQUIRIES_MAX 8
#define SESSION_NAME_MAX 256
/* The store forgets settled answers so many lines at a time. */
#define SETTLE_STEP 64

struct client {
	LIST_ENTRY(client) next;
	struct server *server;
	struct peer *peer;
	unsigned uid, pid;                 /* of its process */
	bool is_too_many;                  /* it is told so */
	struct conversation *conversation; /* NULL before its hello */
	struct frame_builder builder;
};

/* ---- back-pressure */

static bool is_full(const struct client *client)
{
	const struct conversation *conversation = client->conversation;

	return peer_backlog(client->peer) > BACKLOG_MAX ||
		(conversation &&
			(conversation->recalling || conversation->request_count > REQUESTS_MAX ||
				conversation->request_bytes > REQUEST_BYTES_MAX ||
				conversation->inquiries >= INQUIRIES_MAX));
}

static bool is_congested(void *context)
{
	struct client *client = context;

	return peer_backlog(client->peer) > BACKLOG_MAX;
}

static bool is_owed(void *context)
{
	const struct client *client = context;

	return peer_backlog(client->peer) > 0;
}

static void on_drained(void *context)
{
	struct client *client = context;

	if (client->conversation && !is_full(client))
		peer_resume(client->peer);
	if (client->conversation)
		subscription_resume(client->conversation);
	session_advance_all(client->server);
}

/* ---- out */

static void send_answer(void *context, uint64_t line, const struct text *text)
{
	struct client *client = context;
	struct frame_builder *builder = &client->builder;

	frame_begin(builder, LINK_ANSWER);
	if (line)
		frame_put_number(builder, LINK_TAG_LINE, line);
	frame_put(builder, LINK_TAG_TEXT, text->data, text->length);
	frame_end(builder);
	peer_send(client->peer, builder);
	if (builder->capacity > BACKLOG_MAX)
		frame_builder_free(builder);
	if (!is_full(client))
		peer_resume(client->peer);
}

static void send_settled(void *context, uint64_t line)
{
	struct client *client = context;

	frame_begin(&client->builder, LINK_SETTLED);
	frame_put_number(&client->builder, LINK_TAG_LINE, line);
	frame_end(&client->builder);
	peer_send(client->peer, &client->builder);
}

static void on_relieved(void *context)
{
	struct client *client = context;

	if (!is_full(client))
		peer_resume(client->peer);
}

static const struct conversation_outlet outlet = {.answer = send_answer,
	.settle = send_settled,
	.relieved = on_relieved,
	.congested = is_congested,
	.owed = is_owed};

static void send_pong(struct client *client)
{
	frame_begin(&client->builder, LINK_PONG);
	frame_end(&client->builder);
	peer_send(client->peer, &client->builder);
}

static void send_welcome(struct client *client)
{
	frame_begin(&client->builder, LINK_WELCOME);
	frame_put_number(&client->builder, LINK_TAG_VERSION, LINK_VERSION);
	frame_put_number(&client->builder, LINK_TAG_PID, (uint64_t)getpid());
	frame_end(&client->builder);
	peer_send(client->peer, &client->builder);
}

/* ---- the end */

static void client_free(struct client *client)
{
	LIST_REMOVE(client, next);
	client->server->client_count--;
	if (client->conversation)
		conversation_detach(client->conversation);
	peer_close(client->peer);
	frame_builder_free(&client->builder);
	free(client);
}

static void on_gone(void *context, const char *reason)
{
	log_debug("a client is gone: %s", reason);
	client_free(context);
}

static void refuse(struct client *client, const char *why)
{
	frame_begin(&client->builder, LINK_REFUSED);
	frame_put_text(&client->builder, LINK_TAG_TEXT, why);
	frame_end(&client->builder);
	peer_send(client->peer, &client->builder);
	client_free(client);
}

/* ---- hello */

struct hello {
	uint64_t version, lines_read, lines_settled;
	const uint8_t *nonce;
	char *directory, *session;
	uint64_t resume;
};

/* Names are stored, and shown as JSON: NULL if this one cannot be. */
static char *take_name(const struct field *field, size_t limit)
{
	return utf8_valid(field->data, field->length) ? field_text(field, limit) : NULL;
}

static bool read_hello(struct frame *frame, struct hello *hello)
{
	enum frame_status status;
	struct field field;
	bool good = true;

	*hello = (struct hello){0};
	while (good && (status = frame_next(frame, &field)) == FRAME_READY) {
		if (field.tag == LINK_TAG_VERSION)
			good = field_number(&field, &hello->version);
		else if (field.tag == LINK_TAG_LINES_READ)
			good = field_number(&field, &hello->lines_read);
		else if (field.tag == LINK_TAG_LINES_SETTLED)
			good = field_number(&field, &hello->lines_settled);
		else if (field.tag == LINK_TAG_NONCE && field.length == LINK_NONCE_SIZE)
			hello->nonce = field.data;
		else if (field.tag == LINK_TAG_DIRECTORY && !hello->directory)
			hello->directory = take_name(&field, PATH_MAX);
		else if (field.tag == LINK_TAG_SESSION && !hello->session)
			good = (hello->session = take_name(&field, SESSION_NAME_MAX)) != NULL;
		else if (field.tag == LINK_TAG_RESUME)
			good = field_number(&field, &hello->resume);
	}
	return good && status == FRAME_INCOMPLETE;
}

/* What a lookup in the store is about; the conversation may be gone when it comes back. */
struct recall {
	struct server *server;
	uint8_t nonce[LINK_NONCE_SIZE];
};

/* It comes back, and perhaps the disk does until then. */
static void refuse_unknown(struct client *client)
{
	const char *problem = store_problem(client->server->store);
	char why[768];

	snprintf(why, sizeof(why), "what it had agreed on with this client cannot be looked up: %s",
		problem ? problem : "the database does not answer");
	refuse(client, why);
}

/* The shim has spoken with a former daemon: what it agreed on there holds on. */
static void on_conversation_found(void *context, enum store_status status, const struct store_conversation *found)
{
	struct recall *recall = context;
	struct conversation *conversation = conversation_find(recall->server, recall->nonce);

	if (!conversation)
		return;
	conversation->recalling = false;
	if (status == STORE_FAILED) {
		conversation->recalled = false;
		if (conversation->client)
			refuse_unknown(conversation->client);
		return;
	}
	if (found) {
		conversation->initialize_line = found->initialize_line;
		conversation->has_begun |= found->has_begun;
		if (found->revision)
			conversation->agreed = revision_find(found->revision);
		if (!conversation->client_name)
			conversation->client_name = new_text(found->client);
		if (!conversation->session)
			conversation->session = new_text(found->session);
		if (conversation->agreed)
			subscription_recall(conversation, found->subscriptions);
		conversation_forget_use(conversation); /* it was not known whose that was */
		/* A worker may have told of a session that the store was not told of in time. */
		conversation->saved = !conversation->session ||
			(found->session && strcmp(conversation->session, found->session) == 0);
		if (!conversation->saved)
			conversation_save(conversation, NULL, NULL);
	}
	if (conversation->client)
		peer_resume(((struct client *)conversation->client)->peer);
}

static void recall_agreement(struct conversation *conversation)
{
	struct recall *recall = new_zeroed(sizeof(*recall));

	recall->server = conversation->server;
	memcpy(recall->nonce, conversation->nonce, LINK_NONCE_SIZE);
	conversation->recalling = true;
	store_find_conversation(conversation->server->store, recall->nonce, on_conversation_found, recall);
}

static void join_conversation(struct client *client, struct hello *hello)
{
	struct conversation *conversation = conversation_find(client->server, hello->nonce);
	bool is_new = !conversation;

	if (is_new)
		conversation = conversation_new(client->server, hello->nonce);
	if (conversation->client) {
		/* Its old connection died without our noticing yet; the conversation passes to the new one. */
		struct client *old = conversation->client;
		old->conversation = NULL;
		client_free(old);
	}
	client->conversation = conversation;
	conversation_attach(conversation, &outlet, client);
	conversation->owner = client->uid;
	conversation->pid = client->pid;
	free(conversation->directory);
	if (!hello->directory)
		log_warning("a client runs where the name is not UTF-8; its session will run in /");
	conversation->directory = hello->directory ? hello->directory : new_text("/");
	conversation_forget_use(conversation);
	free(conversation->wanted_session);
	conversation->wanted_session = hello->session;
	conversation->wants_last = hello->resume && !hello->session;
	hello->directory = hello->session = NULL;
	if (hello->lines_read > conversation->lines_seen)
		conversation->lines_seen = hello->lines_read;
	send_welcome(client);
	if (!conversation->recalled && hello->lines_read > 0)
		recall_agreement(conversation);
	conversation->recalled = true;
	if (conversation->recalling)
		peer_pause(client->peer);
}

static void refuse_late(struct client *client)
{
	char why[256];

	snprintf(why, sizeof(why),
		"it has almost as many open files as it may have, %lu (`ulimit -n`), and each client and each session takes one. "
		"Close clients that you do not need.",
		descriptors_limit());
	refuse(client, why);
}

static void take_hello(struct client *client, struct frame *frame)
{
	struct hello hello = {0};

	if (client->is_too_many)
		refuse_late(client);
	else if (!read_hello(frame, &hello) || !hello.nonce)
		refuse(client, "The shim's hello makes no sense; a session's name is UTF-8 of at most 256 bytes.");
	else if (hello.version != LINK_VERSION)
		refuse(client,
			"This daemon (" PACKAGE_VERSION
			") and the shim are of different versions. Restart the client, so "
			"that it starts the shim that is installed now.");
	else
		join_conversation(client, &hello);
	free(hello.directory);
	free(hello.session);
}

/* ---- lines */

static void note_settled(struct conversation *conversation, uint64_t line, const uint64_t *open, size_t open_count)
{
	if (line < conversation->lines_settled + SETTLE_STEP || !conversation->answers_stored)
		return;
	conversation->lines_settled = line;
	conversation->answers_stored = false;
	store_settle(conversation->server->store, conversation->nonce, line, open, open_count);
}

static void take_line(struct client *client, struct frame *frame)
{
	uint64_t line = 0, settled = 0, open[LINK_OPEN_MAX];
	size_t open_count = 0;
	struct field field, text = {0};
	enum frame_status status;
	bool good = true;

	while (good && (status = frame_next(frame, &field)) == FRAME_READY) {
		if (field.tag == LINK_TAG_LINE)
			good = field_number(&field, &line);
		else if (field.tag == LINK_TAG_LINES_SETTLED)
			good = field_number(&field, &settled);
		else if (field.tag == LINK_TAG_TEXT)
			text = field;
		else if (field.tag == LINK_TAG_OPEN)
			good = open_count < LINK_OPEN_MAX && field_number(&field, &open[open_count++]);
	}
	if (!good || status == FRAME_BROKEN || line == 0) {
		refuse(client, "The shim sent a line that makes no sense.");
		return;
	}
	note_settled(client->conversation, settled, open, open_count);
	if (frame->type == LINK_OVERSIZE)
		mcp_oversize(client->conversation, line);
	else
		mcp_line(client->conversation, line, (const char *)text.data, text.length);
	if (is_full(client))
		peer_pause(client->peer);
}

/* Its client says nothing more, and is told nothing more than it has asked for. */
static void end_conversation(struct client *client)
{
	client->conversation->ended = true;
	subscription_end(client->server, client->conversation);
}

static void on_frame(void *context, struct frame *frame)
{
	struct client *client = context;

	if (frame->type == LINK_PING)
		send_pong(client);
	else if (frame->type == LINK_HELLO && !client->conversation)
		take_hello(client, frame);
	else if (!client->conversation)
		refuse(client, "The shim must say hello first.");
	else if (frame->type == LINK_LINE || frame->type == LINK_OVERSIZE)
		take_line(client, frame);
	else if (frame->type == LINK_END)
		end_conversation(client);
	else
		refuse(client, "The shim sent something that this daemon does not know. Restart the client.");
}

static const struct peer_handler peer_handler = {.frame = on_frame, .gone = on_gone, .drained = on_drained};

void client_new(struct server *server, int fd, unsigned uid, unsigned pid)
{
	struct client *client = new_zeroed(sizeof(*client));

	client->server = server;
	client->uid = uid;
	client->pid = pid;
	client->is_too_many = descriptors_is_late(fd);
	client->peer = peer_new(server->base, fd, &peer_handler, client);
	LIST_INSERT_HEAD(&server->clients, client, next);
	server->client_count++;
}

void client_close_all(struct server *server)
{
	struct client *client;

	while ((client = LIST_FIRST(&server->clients)))
		client_free(client);
}
