/*
 * mcp.c - the table of methods, and a line's way to one of them.
 */
#include "mcp.h"

#include "alloc.h"
#include "batch.h"
#include "completion.h"
#include "frame.h"
#include "hibernation.h"
#include "jsontext.h"
#include "resource.h"
#include "server.h"
#include "session.h"
#include "store.h"
#include "subscription.h"
#include "tools.h"
#include "embedded.h"

#include <limits.h>
#include <stdio.h>

/* In bytes; a longer one is not kept. */
#define CLIENT_NAME_MAX 256

static struct json_object *capabilities(const struct revision *revision)
{
	struct json_object *all = json_object_new_object(), *resources = json_object_new_object();

	json_object_object_add(all, "tools", json_object_new_object());
	json_object_object_add(resources, "subscribe", json_object_new_boolean(true));
	json_object_object_add(resources, "listChanged", json_object_new_boolean(true));
	json_object_object_add(all, "resources", resources);
	if (revision->completions)
		json_object_object_add(all, "completions", json_object_new_object());
	return all;
}

/* ---- methods */

/* What was agreed on is in the store: a daemon that dies now has a successor that knows it. */
static void on_agreed(void *context, enum store_status status)
{
	struct request *request = context;
	struct json_object *result = json_object_new_object();

	/* A full disk is no reason to turn the client away; the store tries again as soon as it can. */
	if (status != STORE_DONE)
		conversation_save(request->conversation, NULL, NULL);
	json_object_object_add(result, "protocolVersion", json_object_new_string(request->conversation->agreed->name));
	json_object_object_add(result, "capabilities", capabilities(request->conversation->agreed));
	json_object_object_add(result, "serverInfo", server_identity());
	json_object_object_add(result, "instructions", json_object_new_string(embedded_instructions));
	request_result(request, result);
}

/* {"clientInfo":{"name":...}} as both eras have it. */
static void note_client(struct conversation *conversation, struct json_object *holder, const char *key)
{
	struct json_object *client, *name;

	if (json_object_object_get_ex(holder, key, &client) && json_object_object_get_ex(client, "name", &name) &&
		json_object_is_type(name, json_type_string) && json_object_get_string_len(name) <= CLIENT_NAME_MAX) {
		replace_text(&conversation->client_name, json_object_get_string(name));
		conversation_forget_use(conversation);
	}
}

static void method_initialize(struct request *request)
{
	struct conversation *conversation = request->conversation;
	struct json_object *version;

	if (request->batch) {
		request_refuse(request, RPC_INVALID_REQUEST, "initialize must not be part of a batch");
		return;
	}
	if (conversation->agreed && conversation->initialize_line != request->line) {
		request_refuse(request, RPC_INVALID_REQUEST, "The connection is already initialized");
		return;
	}
	if (!json_object_object_get_ex(request->params, "protocolVersion", &version) ||
		!json_object_is_type(version, json_type_string)) {
		request_refuse(request, RPC_INVALID_PARAMS, "protocolVersion must be a string");
		return;
	}
	note_client(conversation, request->params, "clientInfo");
	conversation->agreed = revision_negotiate(json_object_get_string(version));
	conversation->initialize_line = request->line;
	conversation_save(conversation, on_agreed, request);
}

static void method_discover(struct request *request)
{
	struct json_object *result = json_object_new_object(), *versions = json_object_new_array();

	json_object_array_add(versions, json_object_new_string(request->revision->name));
	json_object_object_add(result, "supportedVersions", versions);
	json_object_object_add(result, "capabilities", capabilities(request->revision));
	json_object_object_add(result, "instructions", json_object_new_string(embedded_instructions));
	request_add_lifetime(request, result, true);
	request_result(request, result);
}

static void method_ping(struct request *request)
{
	request_result(request, json_object_new_object());
}

static void method_tools_list(struct request *request)
{
	struct json_object *result;

	if (!request_wants_first_page(request))
		return;
	result = json_object_new_object();
	json_object_object_add(result, "tools", tools_list(request->revision));
	request_add_lifetime(request, result, true);
	request_result(request, result);
}

static void method_tools_call(struct request *request)
{
	tools_call(request->conversation->server, request);
}

static void method_status(struct request *request)
{
	request_result(request, server_status(request->conversation->server));
}

static void method_shutdown(struct request *request)
{
	struct server *server = request->conversation->server;

	request_result(request, json_object_new_object());
	server_shut_down(server);
}

static void begin_chore(struct request *request, struct chore *chore)
{
	if (store_begin_chore(request->conversation->server->store, chore))
		request_result(request, json_object_new_object());
	else
		request_error(request, RPC_INVALID_REQUEST,
			"A backup or a compaction is at work already; try again later", NULL);
}

static void method_backup(struct request *request)
{
	struct json_object *file = json_object_object_get(request->params, "file");
	const char *path = json_object_get_string(file);

	if (!json_object_is_type(file, json_type_string) || *path != '/' || strlen(path) >= PATH_MAX)
		request_error(request, RPC_INVALID_PARAMS, "file must be an absolute path", NULL);
	else
		begin_chore(request, chore_copy(path));
}

static void method_compact(struct request *request)
{
	begin_chore(request, chore_compact());
}

/* How far backup or compact is: they are asked about, because they outlast what any client waits for. */
static void method_chore(struct request *request)
{
	static const char *const states[] = {
		[CHORE_NONE] = "none", [CHORE_RUNNING] = "running", [CHORE_DONE] = "done", [CHORE_FAILED] = "failed"};
	struct chore_said said = store_chore(request->conversation->server->store);
	struct json_object *result = json_object_new_object();

	json_object_object_add(result, "state", json_object_new_string(states[said.state]));
	json_object_object_add(result, "done", json_object_new_int64((int64_t)said.done));
	json_object_object_add(result, "total", json_object_new_int64((int64_t)said.total));
	if (said.state == CHORE_FAILED)
		json_object_object_add(result, "words", json_object_new_string(said.words));
	request_result(request, result);
}

static void method_hibernate(struct request *request)
{
	struct json_object *session = json_object_object_get(request->params, "session");

	if (json_object_is_type(session, json_type_string))
		hibernation_by_request(request, json_object_get_string(session));
	else
		request_refuse(request, RPC_INVALID_PARAMS, "session must be a string: an id or a name");
}

enum availability {
	WITH_HANDSHAKE = 1,
	STATELESS = 2,
	ADMINISTRATIVE = 4, /* before and after any agreement */
};

static const struct method {
	const char *name;
	void (*handle)(struct request *request);
	int available;
	bool once; /* has effects: a line that comes again must not run it again */
	const struct request_form *form;
} methods[] = {
	{"initialize", method_initialize, WITH_HANDSHAKE, false, NULL},
	{"ping", method_ping, WITH_HANDSHAKE, false, NULL},
	{"server/discover", method_discover, STATELESS, false, NULL},
	{"tools/list", method_tools_list, WITH_HANDSHAKE | STATELESS, false, NULL},
	{"tools/call", method_tools_call, WITH_HANDSHAKE | STATELESS, true, &tools_form},
	{"resources/list", resource_list, WITH_HANDSHAKE | STATELESS, false, &resource_form},
	{"resources/templates/list", resource_list_templates, WITH_HANDSHAKE | STATELESS, false, &resource_form},
	{"resources/read", resource_read, WITH_HANDSHAKE | STATELESS, false, &resource_form},
	{"resources/subscribe", subscribe_add, WITH_HANDSHAKE, false, &resource_form},
	{"resources/unsubscribe", subscribe_remove, WITH_HANDSHAKE, false, &resource_form},
	{"subscriptions/listen", subscribe_listen, STATELESS, false, &resource_form},
	{"completion/complete", completion_complete, WITH_HANDSHAKE | STATELESS, false, &resource_form},
	{ERA_ADMINISTRATIVE_PREFIX "status", method_status, ADMINISTRATIVE, false, NULL},
	{ERA_ADMINISTRATIVE_PREFIX "hibernate", method_hibernate, ADMINISTRATIVE, false, NULL},
	{ERA_ADMINISTRATIVE_PREFIX "backup", method_backup, ADMINISTRATIVE, false, NULL},
	{ERA_ADMINISTRATIVE_PREFIX "compact", method_compact, ADMINISTRATIVE, false, NULL},
	{ERA_ADMINISTRATIVE_PREFIX "chore", method_chore, ADMINISTRATIVE, false, NULL},
	{ERA_ADMINISTRATIVE_PREFIX "shutdown", method_shutdown, ADMINISTRATIVE, false, NULL},
};

static const struct method *find_method(const char *name, const struct era_choice *choice)
{
	int wanted = WITH_HANDSHAKE;

	if (choice->verdict == ERA_SERVE && choice->revision->stateless)
		wanted = STATELESS;
	else if (choice->verdict == ERA_FREE)
		wanted = ADMINISTRATIVE | WITH_HANDSHAKE;
	for (size_t i = 0; i < sizeof(methods) / sizeof(*methods); i++)
		if (strcmp(methods[i].name, name) == 0 && (methods[i].available & wanted))
			return &methods[i];
	return NULL;
}

/* ---- requests */

static void take_meta(struct request *request)
{
	struct json_object *meta, *token;

	if (!json_object_object_get_ex(request->params, "_meta", &meta))
		return;
	if (!request->conversation->client_name)
		note_client(request->conversation, meta, ERA_META_CLIENT);
	if (!json_object_object_get_ex(meta, "progressToken", &token))
		return;
	if (!json_object_is_type(token, json_type_string) && !json_object_is_type(token, json_type_int))
		return;
	const char *text = json_object_to_json_string_ext(token, JSON_C_TO_STRING_PLAIN);
	if (strlen(text) <= RPC_ID_MAX)
		request->progress_token = new_text(text);
}

/* A request that waits for the store's word. */
struct repeated {
	struct request *request;
	const struct method *method;
};

static void on_answer_found(void *context, enum store_status status, const struct store_found_answer *found)
{
	struct repeated *repeated = context;
	struct request *request = repeated->request;
	struct store *store = request->conversation->server->store;
	const char *problem = status == STORE_FAILED ? store_problem(store) : store_notice(store);

	request->conversation->lookups--;
	conversation_end_inquiry(request->conversation);
	if (request->unwanted) {
		request_withdraw(request);
	} else if (!found && problem) {
		request_fail(request, "STORAGE-FAILED",
			"The connection was lost, and whether this had been done by then cannot be known: %s. It is not done now. "
			"Look before you repeat it.",
			problem);
	} else if (!found) {
		repeated->method->handle(request);
	} else if (!found->text) {
		request_withdraw(request); /* it had been cancelled */
	} else if (found->tool) {
		struct json_object *data = NULL;
		jsontext_read(found->text, found->length, &data);
		tools_finish(request, found->tool, data);
		json_object_put(data);
	} else {
		struct text text = {0};
		text_add(&text, found->text, found->length);
		request_answer(request, &text);
		text_free(&text);
	}
}

/*
 * A request with effects on a line that came before: perhaps it has been answered already. Those behind it go the same
 * way, so that none overtakes another.
 */
static void answer_from_store(struct request *request, const struct method *method)
{
	struct repeated *repeated = new_zeroed(sizeof(*repeated));

	*repeated = (struct repeated){request, method};
	request->conversation->lookups++;
	conversation_begin_inquiry(request->conversation);
	store_find_answer(request->conversation->server->store, request->conversation->nonce, request->line,
		request->item, on_answer_found, repeated);
}

static void serve(struct request *request, const char *name, struct era_choice *choice, bool again)
{
	const struct method *method = NULL;

	request->revision = choice->revision;
	if (choice->verdict == ERA_REFUSE) {
		request_error(request, choice->code, choice->message, choice->data);
		return;
	}
	method = find_method(name, choice);
	if (!method) {
		request_refuse(request, RPC_METHOD_NOT_FOUND, "Method '%.200s' is not supported", name);
		return;
	}
	if (request->params && !json_object_is_type(request->params, json_type_object)) {
		request_refuse(request, RPC_INVALID_PARAMS, "params must be an object");
		return;
	}
	request->form = method->form;
	take_meta(request);
	if (method->once && (again || request->conversation->lookups > 0))
		answer_from_store(request, method);
	else
		method->handle(request);
}

/* ---- notifications */

static void cancel(struct conversation *conversation, const struct rpc_message *message)
{
	char *id = rpc_param_id(message, "requestId");
	struct request *request = id ? conversation_by_id(conversation, id) : NULL;

	if (request && request->session)
		session_cancel(request->session, request);
	else if (request && request->stream)
		request_withdraw(request);
	else if (request && conversation->lookups > 0)
		request->unwanted = true;
	free(id);
}

static void take_notification(struct conversation *conversation, const struct rpc_message *message)
{
	if (strcmp(message->method, "notifications/cancelled") == 0)
		cancel(conversation, message);
	else if (strcmp(message->method, "notifications/initialized") == 0 && conversation->agreed)
		subscription_begin(conversation);
}

/* ---- lines */

/* Where a message stood. */
struct place {
	uint64_t line;
	uint32_t item; /* in its batch */
	size_t size;   /* of the line */
	bool again;    /* the line had come before */
};

static void answer_invalid(struct conversation *conversation, struct batch *batch, uint64_t line, const char *id,
	enum rpc_code code, const char *problem)
{
	struct json_object *data = json_object_new_string(problem);
	struct text text = {0};

	rpc_put_error(&text, id, era_unknown_id(conversation->agreed), code, NULL, data);
	json_object_put(data);
	if (batch) {
		batch_add(batch, id, &text);
	} else {
		conversation_answer(conversation, line, &text);
	}
	text_free(&text);
}

static void take_request(
	struct conversation *conversation, struct batch *batch, const struct place *place, struct rpc_message *message)
{
	struct request *request = place->again ? conversation_by_line(conversation, place->line, place->item) : NULL;

	if (batch)
		batch_expect(batch);
	if (request) { /* it is being worked on; its answer goes to the new connection */
		if (request->batch)
			batch_abandon(request->batch);
		request->batch = batch;
		if (request->stream)
			subscribe_repeat(request);
		return;
	}
	struct era_choice choice = era_choose(message, conversation->agreed);
	request = request_new(conversation, place->line, place->item, message->id, place->size);
	request->batch = batch;
	request->again = place->again;
	request->message = message->object;
	request->params = message->params;
	message->object = NULL;
	serve(request, message->method, &choice, place->again);
}

static void take_message(
	struct conversation *conversation, struct batch *batch, const struct place *place, struct rpc_message *message)
{
	switch (message->kind) {
	case RPC_REQUEST:
		take_request(conversation, batch, place, message);
		return;
	case RPC_INVALID:
		answer_invalid(conversation, batch, place->line, message->id, message->code, message->problem);
		return;
	case RPC_NOTIFICATION:
		take_notification(conversation, message);
		break;
	case RPC_RESPONSE:
		break; /* we have asked nothing */
	}
	if (!batch)
		conversation_settle(conversation, place->line);
}

static void take_batch(struct conversation *conversation, struct place place, struct rpc_line *parsed)
{
	struct batch *batch;

	if (!conversation->agreed || !conversation->agreed->batches) {
		answer_invalid(conversation, NULL, place.line, NULL, RPC_INVALID_REQUEST,
			"Batches are not part of this protocol version; send each message on its own line");
		return;
	}
	if (parsed->count == 0) {
		answer_invalid(conversation, NULL, place.line, NULL, RPC_INVALID_REQUEST, "The batch is empty");
		return;
	}
	batch = batch_new(place.line, parsed);
	if (!batch) {
		answer_invalid(conversation, NULL, place.line, NULL, RPC_INVALID_REQUEST,
			"The batch holds too much for one answer; send its messages on lines of their own");
		return;
	}
	place.size /= parsed->count;
	for (; place.item < parsed->count; place.item++)
		take_message(conversation, batch, &place, &parsed->messages[place.item]);
	batch_release(batch, conversation);
}

static bool note_line(struct conversation *conversation, uint64_t line)
{
	bool again = line <= conversation->lines_seen;

	if (!again)
		conversation->lines_seen = line;
	return again;
}

void mcp_line(struct conversation *conversation, uint64_t line, const char *text, size_t length)
{
	struct place place = {.line = line, .size = length, .again = note_line(conversation, line)};
	struct rpc_line parsed;

	while (length > 0 && strchr(" \t\r", text[length - 1]) && text[length - 1])
		length--;
	if (length == 0) {
		conversation_settle(conversation, line);
		return;
	}
	rpc_parse(text, length, &parsed);
	if (parsed.batch)
		take_batch(conversation, place, &parsed);
	else
		take_message(conversation, NULL, &place, &parsed.messages[0]);
	rpc_line_free(&parsed);
}

void mcp_oversize(struct conversation *conversation, uint64_t line)
{
	char problem[128];

	note_line(conversation, line);
	snprintf(problem, sizeof(problem), "The message is longer than %u bytes and was dropped", FRAME_LINE_MAX);
	answer_invalid(conversation, NULL, line, NULL, RPC_INVALID_REQUEST, problem);
}
