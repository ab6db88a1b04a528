/*
 * client.h - an MCP client: one cl-mcp-shim and the pipes to it.
 */
#ifndef CLIENT_H
#define CLIENT_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <sched.h>
#include <sys/types.h>

/* Where programs run: their directory and what they are told. */
struct place {
	char build[PATH_MAX];
	char runtime[64];
	const cpu_set_t *processors;
};

/* Starts a program with little in its environment but the place. Its stdin and stdout are returned if wanted. */
pid_t place_spawn(const struct place *place, char *const argv[], int *to, int *from);

/* Ends the daemon and all sessions. False with a message on stderr, as for all below. */
bool place_shut_down(const struct place *place) __attribute__((warn_unused_result));

struct client {
	pid_t process;
	int to, from;
	size_t answer_size; /* of the last answer, with its line end */
	size_t length;      /* in buffer */
	size_t scanned;     /* of it, for a line end */
	char buffer[4 << 20];
};

bool client_start(struct client *client, const struct place *place) __attribute__((warn_unused_result));
/* The handshake and one evaluation. */
bool client_open(struct client *client) __attribute__((warn_unused_result));
/* Sends a line and waits for one that has `expected` in it; others before it are dropped. */
bool client_call(struct client *client, const char *line, size_t length, const char *expected)
	__attribute__((warn_unused_result));
/* Closes the pipes and waits for the shim. */
void client_stop(struct client *client);

#endif
