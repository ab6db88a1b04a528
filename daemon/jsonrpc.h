/*
 * jsonrpc.h - JSON-RPC 2.0 on one line: what came in, and the text of what goes out.
 *
 * Knows nothing of MCP. Ids are kept as the text in which they came, so that they go back exactly.
 */
#ifndef JSONRPC_H
#define JSONRPC_H

#include "text.h"

#include <json-c/json.h>
#include <stdbool.h>
#include <stddef.h>

enum rpc_code {
	RPC_PARSE_ERROR = -32700,
	RPC_INVALID_REQUEST = -32600,
	RPC_METHOD_NOT_FOUND = -32601,
	RPC_INVALID_PARAMS = -32602,
	RPC_INTERNAL_ERROR = -32603,
};

/* A longer id is refused: it has to fit into every answer. */
#define RPC_ID_MAX 65536
/* More messages than this are not told apart: each would take its share of memory, and of the answer. */
#define RPC_BATCH_MAX 10000

enum rpc_kind {
	RPC_REQUEST,
	RPC_NOTIFICATION,
	RPC_RESPONSE, /* to a request of ours */
	RPC_INVALID,  /* code and problem say why; id if it could be told */
};

struct rpc_message {
	enum rpc_kind kind;
	struct json_object *object; /* owned; NULL if it was no JSON */
	char *id;                   /* owned; the raw text, at most RPC_ID_MAX bytes; NULL if there is none */
	const char *method;         /* within object */
	struct json_object *params; /* within object; NULL if there are none */
	const char *text;           /* within the line that was parsed */
	size_t length;
	enum rpc_code code;
	const char *problem;
};

struct rpc_line {
	bool batch;
	size_t count; /* 1 unless it is a batch; 0 for an empty batch */
	struct rpc_message *messages;
};

/* Text without its line end. What is wrong with it is found in the messages. */
void rpc_parse(const char *text, size_t length, struct rpc_line *line);
void rpc_line_free(struct rpc_line *line);

/* The raw text of an id that the message's params name; NULL if it is no legal one. The caller frees it. */
char *rpc_param_id(const struct rpc_message *message, const char *name);

/* Same id, by value and by type: "a" is "\u0061", but 7 is not "7". Both are raw texts. */
bool rpc_id_equal(const char *one, const char *other);

/* The standard name of a code: "Invalid Request". */
const char *rpc_code_message(enum rpc_code code);

/* How an error says that it knows no id. */
enum rpc_unknown_id { RPC_ID_NULL, RPC_ID_ABSENT };

/* Append the beginning of an answer: its result and one closing brace are to follow. */
void rpc_begin_result(struct text *text, const char *id);
/* The same of a notification: its params are to follow. */
void rpc_begin_notification(struct text *text, const char *method);
/* Append one whole message, without a line end. The objects stay the caller's. */
void rpc_put_result(struct text *text, const char *id, struct json_object *result);
/* id may be NULL; message NULL means rpc_code_message; data may be NULL. */
void rpc_put_error(struct text *text, const char *id, enum rpc_unknown_id unknown, int code, const char *message,
	struct json_object *data);
void rpc_put_notification(struct text *text, const char *method, struct json_object *params);

#endif
