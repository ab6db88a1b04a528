/*
 * request.c - answering a request, alone or as a part of its batch.
 */
#include "request.h"

#include "alloc.h"
#include "batch.h"
#include "conversation.h"
#include "jsontext.h"
#include "server.h"
#include "subscription.h"
#include "utf8.h"

#include <stdarg.h>
#include <stdio.h>

#define FIXED_LIFETIME_MS 3600000

struct request *request_new(
	struct conversation *conversation, uint64_t line, uint32_t item, const char *id, size_t size)
{
	struct request *request = new_zeroed(sizeof(*request));

	request->conversation = conversation;
	request->line = line;
	request->item = item;
	request->id = new_text(id);
	request->size = size;
	conversation_add(conversation, request);
	return request;
}

static void request_free(struct request *request)
{
	struct conversation *conversation = request->conversation;

	stream_free(request->stream);
	conversation_remove(conversation, request);
	json_object_put(request->message);
	free(request->id);
	free(request->uri);
	free(request->progress_token);
	free(request);
}

void request_answer(struct request *request, const struct text *answer)
{
	struct batch *batch = request->batch;

	if (batch) {
		batch_add(batch, request->id, answer);
		batch_release(batch, request->conversation);
	} else {
		conversation_answer(request->conversation, request->line, answer);
	}
	request_free(request);
}

void request_withdraw(struct request *request)
{
	if (request->batch)
		batch_release(request->batch, request->conversation);
	else
		conversation_settle(request->conversation, request->line);
	request_free(request);
}

void request_put_completion(const struct request *request, struct text *result)
{
	if (!request->revision || !request->revision->stateless)
		return;
	struct json_object *rest = json_object_new_object();
	server_complete_result(rest);
	jsontext_put_members(result, rest);
	json_object_put(rest);
}

void request_add_lifetime(const struct request *request, struct json_object *result, bool is_fixed)
{
	if (!request->revision->stateless)
		return;
	json_object_object_add(result, "ttlMs", json_object_new_int(is_fixed ? FIXED_LIFETIME_MS : 0));
	json_object_object_add(result, "cacheScope", json_object_new_string(is_fixed ? "public" : "private"));
}

bool request_wants_first_page(struct request *request)
{
	if (!json_object_object_get_ex(request->params, "cursor", NULL))
		return true;
	request_refuse(request, RPC_INVALID_PARAMS, "Unknown cursor: the list has one page");
	return false;
}

const char *request_param_text(struct request *request, struct json_object *params, const char *name)
{
	struct json_object *value = json_object_object_get(params, name);
	const char *text = json_object_is_type(value, json_type_string) ? json_object_get_string(value) : NULL;

	if (text && strlen(text) == (size_t)json_object_get_string_len(value))
		return text;
	request_refuse(request, RPC_INVALID_PARAMS, "%s must be a string", name);
	return NULL;
}

void request_put_result(const struct request *request, struct json_object *result, struct text *answer)
{
	if (request->revision && request->revision->stateless)
		server_complete_result(result);
	rpc_put_result(answer, request->id, result);
}

void request_result(struct request *request, struct json_object *result)
{
	struct text text = {0};

	request_put_result(request, result, &text);
	json_object_put(result);
	request_answer(request, &text);
	text_free(&text);
}

void request_error(struct request *request, int code, const char *message, struct json_object *data)
{
	struct text text = {0};

	rpc_put_error(&text, request->id, RPC_ID_NULL, code, message, data);
	json_object_put(data);
	request_answer(request, &text);
	text_free(&text);
}

void request_refuse(struct request *request, int code, const char *format, ...)
{
	char sentence[512];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(sentence, sizeof(sentence), format, arguments);
	va_end(arguments);
	request_error(request, code, NULL, json_object_new_string(sentence));
}

void request_fail(struct request *request, const char *type, const char *format, ...)
{
	char message[1024];
	va_list arguments;
	size_t length;

	va_start(arguments, format);
	vsnprintf(message, sizeof(message), format, arguments);
	va_end(arguments);
	char *valid = utf8_repair(message, strlen(message), &length); /* what it quotes may have been cut */
	request->form->fail(request, type, valid);
	free(valid);
}

void request_progress(struct request *request, double progress, const char *message)
{
	struct text text = {0};

	if (!request->progress_token)
		return;
	struct json_object *params = json_object_new_object();
	json_object_object_add(params, "progressToken", json_tokener_parse(request->progress_token));
	json_object_object_add(params, "progress", json_object_new_double(progress));
	if (request->revision && request->revision->progress_message)
		json_object_object_add(params, "message", json_object_new_string(message));
	rpc_put_notification(&text, "notifications/progress", params);
	json_object_put(params);
	conversation_notify(request->conversation, &text);
	text_free(&text);
}
