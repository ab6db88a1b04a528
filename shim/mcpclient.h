/*
 * mcpclient.h - a small MCP client on the daemon's socket: requests and their answers, one at a time.
 *
 * It keeps the promises of the shim: it finds or starts the daemon, and when the connection is lost it finds it again
 * and repeats what is not answered, which the daemon runs only once.
 */
#ifndef MCPCLIENT_H
#define MCPCLIENT_H

#include <json-c/json.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#include "dial.h"
#include "inbox.h"
#include "pending.h"

struct mcp_client {
	struct dial dial;
	struct dial_hello hello;
	struct inbox inbox;
	struct pending pending;
	int link; /* -1 while there is no connection */
	bool may_start;
	const volatile sig_atomic_t *interrupted; /* ends a wait when it becomes true; may be NULL */
	int64_t last_id;
};

enum mcp_status {
	MCP_ANSWERED,    /* *answer is the caller's */
	MCP_UNANSWERED,  /* it is settled without an answer, as what was cancelled is */
	MCP_INTERRUPTED, /* still waiting; ask again */
	MCP_LATE,        /* still waiting, but the time given is over */
	MCP_LOST,        /* no daemon: see mcp_reason */
};

/* Connects. DIAL_WELCOMED, or anything that is not DIAL_WAITING. wish may be NULL. */
enum dial_status mcp_open(struct mcp_client *client, const struct wish *wish, bool may_start)
	__attribute__((warn_unused_result));

/* Why there is no daemon: a clause without a full stop. */
const char *mcp_reason(const struct mcp_client *client);

/* Sends a request; takes over params, which may be NULL. Returns the number of its line; its id is client->last_id. */
uint64_t mcp_request(struct mcp_client *client, const char *method, json_object *params);
void mcp_notify(struct mcp_client *client, const char *method, json_object *params);

/* Waits for what becomes of a line, for so many milliseconds, or for as long as it takes if that is negative. */
enum mcp_status mcp_wait(struct mcp_client *client, uint64_t line, int64_t limit, json_object **answer)
	__attribute__((warn_unused_result));

void mcp_close(struct mcp_client *client);

#endif
