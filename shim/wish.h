/*
 * wish.h - which session a program is started for: what its arguments say, else the environment.
 */
#ifndef WISH_H
#define WISH_H

#include <stdbool.h>

struct wish {
	const char *session; /* id or name; NULL: none */
	bool resume;         /* the one used last by this client, from this directory */
};

/*
 * Takes what the arguments have set; an empty session is one that nobody wants, and said so. If they are silent,
 * CL_MCP_SESSION counts, then CL_MCP_RESUME. False if the arguments contradict each other.
 */
bool wish_settle(struct wish *wish) __attribute__((warn_unused_result));

/* What both programs say then. */
#define WISH_CONTRADICTION "only one of them can be given", "--session, --resume"

#endif
