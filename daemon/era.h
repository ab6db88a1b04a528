/*
 * era.h - the revisions of MCP, and which one a message is served by.
 *
 * The handshake revisions agree on a version once, in `initialize`; the stateless ones carry it in every request. Both
 * kinds may come interleaved over one connection, so the choice is made for each message.
 */
#ifndef ERA_H
#define ERA_H

#include "jsonrpc.h"

/* What a revision knows. The rest of the program asks these questions, never for a name. */
struct revision {
	const char *name;
	bool stateless;         /* no handshake; results carry resultType, lists a lifetime */
	bool batches;           /* arrays of messages */
	bool progress_message;  /* `message` in progress notifications */
	bool annotations;       /* hints on tools */
	bool structured;        /* titles, output schemas, structuredContent */
	bool argument_results;  /* wrong arguments of a tool are a result with isError, not a protocol error */
	bool unknown_id_absent; /* an error without a known id leaves it out instead of sending null */
	bool completions;       /* a capability of that name */
	int no_resource;        /* the code for a resource that is not there */
};

/* NULL for a name that is no revision of ours. */
const struct revision *revision_find(const char *name);
/* What an `initialize` for that version agrees on: the same if we know it, else our newest with a handshake. */
const struct revision *revision_negotiate(const char *name);

enum era_verdict {
	ERA_SERVE,     /* by the revision */
	ERA_HANDSHAKE, /* it is an initialize of the handshake era */
	ERA_FREE,      /* allowed before any agreement: ping, our own administrative methods */
	ERA_REFUSE,    /* with code, message and data */
};

struct era_choice {
	enum era_verdict verdict;
	const struct revision *revision; /* also for a refusal, if one applies */
	int code;
	const char *message;      /* NULL for the code's own */
	struct json_object *data; /* owned by the caller; NULL if there is none */
};

/* Chooses for a request. agreed is what the connection's handshake has settled, NULL before it. */
struct era_choice era_choose(const struct rpc_message *message, const struct revision *agreed);

/* Methods with this prefix are ours, for the person's tool. */
#define ERA_ADMINISTRATIVE_PREFIX "cl-mcpd/"

/* Where a stateless request tells who sends it. */
#define ERA_META_CLIENT "io.modelcontextprotocol/clientInfo"
/* Where its result tells who answers, and what is said on a subscription tells on which. */
#define ERA_META_SERVER "io.modelcontextprotocol/serverInfo"
#define ERA_META_SUBSCRIPTION "io.modelcontextprotocol/subscriptionId"

/* Only the revision's form of an unknown id; agreed may be NULL. */
enum rpc_unknown_id era_unknown_id(const struct revision *agreed);

#define ERA_UNSUPPORTED_VERSION (-32022)

#endif
