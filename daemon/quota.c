/*
 * quota.c - the table of quotas, and counting.
 */
#include "quota.h"

#include "descriptors.h"
#include "session.h"
#include "store.h"

#include <stdlib.h>
#include <string.h>

#define SLEEP "`cl-mcpctl hibernate` puts one that is idle into a file until it is used again. "
#define REMEDY "Delete sessions that you do not need (list-sessions shows them), or ask the administrator for more."

static const char *const names[QUOTAS] = {[QUOTA_SESSIONS] = "sessions", [QUOTA_STORAGE] = "storage"};
/* 0: any number. */
static double most[QUOTAS] = {[QUOTA_SESSIONS] = 100, [QUOTA_STORAGE] = 1024};

const char *quota_configure(const char *setting)
{
	const char *equals = strchr(setting, '=');
	size_t length = equals ? (size_t)(equals - setting) : 0;
	int quota = 0;
	char *end;

	while (quota < QUOTAS && (strlen(names[quota]) != length || strncmp(names[quota], setting, length) != 0))
		quota++;
	if (!equals || quota == QUOTAS)
		return "it must be NAME=NUMBER, NAME being sessions or storage";
	double number = strtod(equals + 1, &end);
	if (end == equals + 1 || *end || !(number >= 0 && number <= 1e12))
		return "its value must be a number, 0 for none";
	most[quota] = number;
	return NULL;
}

static bool is_live(const struct session *session)
{
	return session->state != SESSION_CREATING && session->state != SESSION_EMPTY;
}

bool quota_allows_process(const struct server *server, unsigned owner, const struct session *but, struct text *why_not)
{
	const struct session *session;
	unsigned count = 0;

	if (!descriptors_allow_session()) {
		text_printf(why_not,
			"the daemon has almost as many open files as it may have, %lu (`ulimit -n`), and each session and each "
			"client takes one. No further process was started, and nothing is lost. " SLEEP,
			descriptors_limit());
		return false;
	}
	LIST_FOREACH(session, &server->roster.sessions, next)
	count += session != but && session->owner == owner && is_live(session);
	if (most[QUOTA_SESSIONS] == 0 || count < most[QUOTA_SESSIONS])
		return true;
	text_printf(why_not,
		"%u sessions of yours have a process, and the administrator allows %.0f. No further one was started, and nothing is "
		"lost. " SLEEP REMEDY,
		count, most[QUOTA_SESSIONS]);
	return false;
}

bool quota_allows_storing(const struct server *server, struct text *why_not)
{
	double megabytes = (double)store_used_bytes(server->store) / (1 << 20);

	if (most[QUOTA_STORAGE] == 0 || megabytes < most[QUOTA_STORAGE])
		return true;
	text_printf(why_not,
		"what is stored of your sessions takes %.1f MB, and the administrator allows %g MB. " REMEDY, megabytes,
		most[QUOTA_STORAGE]);
	return false;
}
