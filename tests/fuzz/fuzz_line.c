/*
 * fuzz_line.c - any line that a client may send: it is parsed, served by some revision, and answered.
 *
 * Not only must nothing crash: whatever the line was, each answer to it must be one line of valid UTF-8 JSON that
 * carries the id exactly, from the daemon as from a shim that has no daemon.
 */
#include "era.h"
#include "jsonrpc.h"
#include "jsonscan.h"
#include "selfanswer.h"
#include "text.h"
#include "utf8.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool condition)
{
	if (!condition)
		abort();
}

static void require_json_line(const char *text, size_t length)
{
	struct json_tokener *tokener = json_tokener_new_ex(200);

	require(utf8_valid(text, length));
	require(!memchr(text, '\n', length));
	json_tokener_set_flags(tokener, JSON_TOKENER_STRICT);
	struct json_object *value = json_tokener_parse_ex(tokener, text, (int)length);
	require(json_tokener_get_error(tokener) == json_tokener_success);
	require(json_tokener_get_parse_end(tokener) == length);
	json_object_put(value);
	json_tokener_free(tokener);
}

/* The answer's id, read back, is the request's. */
static void require_id(const struct text *answer, const char *id)
{
	struct rpc_line line;

	rpc_parse(answer->data, answer->length, &line);
	require(!line.batch && line.count == 1);
	if (id) {
		require(line.messages[0].id && strcmp(line.messages[0].id, id) == 0);
		require(rpc_id_equal(id, line.messages[0].id));
	}
	rpc_line_free(&line);
}

static void answer_message(const struct rpc_message *message)
{
	struct text text = {0};

	if (message->kind == RPC_INVALID) {
		struct json_object *why = json_object_new_string(message->problem);
		rpc_put_error(&text, message->id, RPC_ID_NULL, message->code, NULL, why);
		json_object_put(why);
	} else if (message->kind == RPC_REQUEST) {
		struct json_object *result = json_object_new_object();
		json_object_object_add(result, "method", json_object_new_string(message->method));
		json_object_object_add(result, "params", json_object_get(message->params));
		rpc_put_result(&text, message->id, result);
		json_object_put(result);
	} else {
		return;
	}
	require_json_line(text.data, text.length);
	require_id(&text, message->id);
	text_free(&text);
}

static void choose_revisions(const struct rpc_message *message)
{
	static const char *const agreed[] = {NULL, "2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"};

	for (size_t i = 0; i < sizeof(agreed) / sizeof(*agreed); i++) {
		struct text text = {0};
		struct era_choice choice = era_choose(message, agreed[i] ? revision_find(agreed[i]) : NULL);
		if (choice.verdict == ERA_SERVE)
			require(choice.revision != NULL);
		if (choice.verdict == ERA_REFUSE) {
			rpc_put_error(&text, message->id, era_unknown_id(choice.revision), choice.code, choice.message,
				choice.data);
			require_json_line(text.data, text.length);
			require_id(&text, message->id);
		}
		json_object_put(choice.data);
		text_free(&text);
	}
}

static void answer_without_daemon(const char *text, size_t length)
{
	struct bytes out = {0};

	if (selfanswer_make(text, length, "no \"daemon\"", &out))
		require_json_line((const char *)bytes_first(&out), bytes_length(&out));
	bytes_free(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	/* A copy of exactly this size, so that reading beyond it is seen. */
	char *text = malloc(size ? size : 1);
	struct rpc_line line;

	if (memchr(data, '\n', size)) { /* then it would be two lines */
		free(text);
		return -1;
	}
	memcpy(text, data, size);
	rpc_parse(text, size, &line);
	for (size_t i = 0; i < line.count; i++) {
		answer_message(&line.messages[i]);
		if (line.messages[i].kind == RPC_REQUEST)
			choose_revisions(&line.messages[i]);
	}
	rpc_line_free(&line);
	answer_without_daemon(text, size);
	free(text);
	return 0;
}
