/*
 * subscribe.c - the methods by which clients say what they want to hear of: resources/subscribe and unsubscribe in the
 * handshake revisions, subscriptions/listen since then.
 *
 * The former are kept in the store, so that a restarted daemon goes on with them; of the latter the shim keeps the
 * request, which is open, and sends it again.
 */
#include "subscription.h"

#include "alloc.h"
#include "conversation.h"
#include "inquiry.h"
#include "jsontext.h"
#include "server.h"

/* ---- resources/subscribe, resources/unsubscribe */

static const char *text_of(struct json_object *object, const char *name)
{
	return json_object_get_string(json_object_object_get(object, name));
}

static void on_subscribed(struct request *request, const struct inquiry_said *said, void *context)
{
	struct stream *stream = subscription_begin(request->conversation);
	const char *uri = text_of(request->params, "uri");
	char *name;

	(void)context;
	if (said->status == INQUIRY_FOUND) {
		enum resource resource = resource_parse(uri, &name);
		free(name);
		stream_add(stream, uri, resource, text_of(said->data, "session"));
		request_result(request, json_object_new_object());
	} else if (said->status != INQUIRY_NOTHING) {
		inquiry_refuse(request, said, NULL);
	} else if (stream_is_full(stream)) {
		request_refuse(request, RPC_INVALID_PARAMS,
			"This connection has %d subscriptions, and no more are served", SUBSCRIPTIONS_MAX);
	} else {
		resource_refuse_unknown(request, uri);
	}
}

void subscribe_add(struct request *request)
{
	const char *uri = request_param_text(request, request->params, "uri");
	char *session;

	if (!uri)
		return;
	if (resource_parse(uri, &session) == RESOURCES) {
		resource_refuse_unknown(request, uri);
	} else {
		struct inquiry *inquiry = inquiry_new(request, DATABASE_SUBSCRIBE);
		inquiry_nonce(inquiry);
		inquiry_text(inquiry, uri);
		inquiry_text(inquiry, session);
		inquiry_number(inquiry, SUBSCRIPTIONS_MAX);
		inquiry_send(inquiry, on_subscribed, NULL);
	}
	free(session);
}

static void on_unsubscribed(struct request *request, const struct inquiry_said *said, void *context)
{
	(void)context;
	if (said->status == INQUIRY_REFUSED || said->status == INQUIRY_EXISTS) {
		inquiry_refuse(request, said, NULL);
		return;
	}
	if (request->conversation->stream)
		stream_remove(request->conversation->stream, text_of(request->params, "uri"));
	request_result(request, json_object_new_object());
}

void subscribe_remove(struct request *request)
{
	const char *uri = request_param_text(request, request->params, "uri");

	if (!uri)
		return;
	struct inquiry *inquiry = inquiry_new(request, DATABASE_UNSUBSCRIBE);
	inquiry_nonce(inquiry);
	inquiry_text(inquiry, uri);
	inquiry_send(inquiry, on_unsubscribed, NULL);
}

/* ---- subscriptions/listen */

static bool is_list_of_texts(struct json_object *list)
{
	if (!json_object_is_type(list, json_type_array))
		return false;
	for (size_t i = 0; i < json_object_array_length(list); i++)
		if (!json_object_is_type(json_object_array_get_idx(list, i), json_type_string))
			return false;
	return true;
}

/* False if it is none; the request has been answered then. */
static bool check_filter(struct request *request, struct json_object *filter)
{
	static const char *const flags[] = {"toolsListChanged", "promptsListChanged", "resourcesListChanged"};
	struct json_object *value;

	if (!json_object_is_type(filter, json_type_object)) {
		request_refuse(request, RPC_INVALID_PARAMS, "notifications must be an object");
		return false;
	}
	for (size_t i = 0; i < sizeof(flags) / sizeof(*flags); i++)
		if (json_object_object_get_ex(filter, flags[i], &value) &&
			!json_object_is_type(value, json_type_boolean)) {
			request_refuse(request, RPC_INVALID_PARAMS, "notifications.%s must be a boolean", flags[i]);
			return false;
		}
	if (json_object_object_get_ex(filter, "resourceSubscriptions", &value) && !is_list_of_texts(value)) {
		request_refuse(
			request, RPC_INVALID_PARAMS, "notifications.resourceSubscriptions must be an array of strings");
		return false;
	}
	return true;
}

/* [{"uri":..., "session":...}] for those that can name something. */
static void put_names(struct text *text, struct json_object *uris)
{
	text_puts(text, "[");
	for (size_t i = 0; i < (uris ? json_object_array_length(uris) : 0); i++) {
		const char *uri = json_object_get_string(json_object_array_get_idx(uris, i));
		char *session;
		if (resource_parse(uri, &session) == RESOURCES)
			continue;
		text_puts(text, text->length > 1 ? ",{" : "{");
		jsontext_put_name(text, "uri");
		jsontext_put_string(text, uri, strlen(uri));
		if (session) {
			jsontext_put_name(text, "session");
			jsontext_put_string(text, session, strlen(session));
		}
		text_puts(text, "}");
		free(session);
	}
	text_puts(text, "]");
}

static void acknowledge(const struct request *request)
{
	struct json_object *wishes = stream_wishes(request->stream);
	struct text text = {0};

	rpc_begin_notification(&text, "notifications/subscriptions/acknowledged");
	text_printf(&text, "{\"_meta\":{\"" ERA_META_SUBSCRIPTION "\":%s}", request->id);
	jsontext_put_name(&text, "notifications");
	jsontext_put(&text, wishes);
	text_puts(&text, "}}");
	conversation_notify(request->conversation, &text);
	json_object_put(wishes);
	text_free(&text);
}

static void on_names_found(struct request *request, const struct inquiry_said *said, void *context)
{
	struct json_object *filter = json_object_object_get(request->params, "notifications");

	(void)context;
	if (said->status != INQUIRY_FOUND) {
		inquiry_refuse(request, said, NULL);
		return;
	}
	request->stream = stream_new(request->conversation, request);
	if (json_object_get_boolean(json_object_object_get(filter, "resourcesListChanged")))
		stream_want_list(request->stream);
	for (size_t i = 0; i < json_object_array_length(said->data); i++) {
		struct json_object *row = json_object_array_get_idx(said->data, i);
		char *name;
		enum resource resource = resource_parse(text_of(row, "uri"), &name);
		free(name);
		stream_add(request->stream, text_of(row, "uri"), resource, text_of(row, "session"));
	}
	acknowledge(request);
	if (request->again)
		stream_renew(request->stream);
	if (request->conversation->ended)
		subscribe_answer(request);
}

void subscribe_listen(struct request *request)
{
	struct json_object *filter = json_object_object_get(request->params, "notifications");
	struct text names = {0};

	if (request->batch) {
		request_refuse(request, RPC_INVALID_REQUEST, "subscriptions/listen must not be part of a batch");
		return;
	}
	if (!check_filter(request, filter))
		return;
	put_names(&names, json_object_object_get(filter, "resourceSubscriptions"));
	struct inquiry *inquiry = inquiry_new(request, DATABASE_FIND_RESOURCES);
	inquiry_text(inquiry, names.data);
	inquiry_number(inquiry, SUBSCRIPTIONS_MAX);
	inquiry_send(inquiry, on_names_found, NULL);
	text_free(&names);
}

void subscribe_repeat(struct request *request)
{
	acknowledge(request);
	stream_renew(request->stream);
}

void subscribe_answer(struct request *request)
{
	struct json_object *identity = server_identity();
	struct text answer = {0};

	rpc_begin_result(&answer, request->id);
	text_printf(&answer, "{\"resultType\":\"complete\",\"_meta\":{\"" ERA_META_SUBSCRIPTION "\":%s", request->id);
	jsontext_put_name(&answer, ERA_META_SERVER);
	jsontext_put(&answer, identity);
	text_puts(&answer, "}}}");
	json_object_put(identity);
	request_answer(request, &answer);
	text_free(&answer);
}
