/*
 * wish.c - arguments before the environment, a certain session before the last one.
 */
#include "wish.h"

#include <stdlib.h>
#include <string.h>

static bool is_set(const char *value)
{
	return value && *value;
}

bool wish_settle(struct wish *wish)
{
	const char *session = getenv("CL_MCP_SESSION"), *resume = getenv("CL_MCP_RESUME");

	if (wish->session && wish->resume)
		return false;
	if (!wish->session && !wish->resume) {
		wish->session = session;
		wish->resume = !is_set(session) && is_set(resume) && strcmp(resume, "0") != 0;
	}
	if (!is_set(wish->session))
		wish->session = NULL;
	return true;
}
