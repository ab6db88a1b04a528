/*
 * client.h - an MCP client: one cl-mcp-shim and the pipes to it.
 */
#ifndef CLIENT_H
#define CLIENT_H

#include "place.h"
#include "sample.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct client {
	pid_t process;
	int to, from;
	size_t answer_size; /* of the last answer, with its line end */
	size_t length;      /* in buffer */
	size_t scanned;     /* of it, for a line end */
	char buffer[4 << 20];
};

/* False with a message on stderr, as for all below. */
bool client_start(struct client *client, const struct place *place) __attribute__((warn_unused_result));
/* The handshake and one evaluation. */
bool client_open(struct client *client) __attribute__((warn_unused_result));
/* Sends a line and waits for one that has `expected` in it; others before it are dropped. */
bool client_call(struct client *client, const char *line, size_t length, const char *expected)
	__attribute__((warn_unused_result));
/* Calls a tool; arguments are the members of a JSON object. */
bool client_tool(struct client *client, const char *tool, const char *arguments) __attribute__((warn_unused_result));
bool client_time_tool(struct client *client, const char *tool, const char *arguments, struct sample *sample)
	__attribute__((warn_unused_result));
/* Closes the pipes and waits for the shim. */
void client_stop(struct client *client);

#endif
