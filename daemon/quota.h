/*
 * quota.h - how many live sessions, and how much stored of them, the administrator allows each user.
 *
 * At the first nobody gets a further process, and what has one goes on. At the second evaluations are answered as ever
 * and leave no messages, which they say; nothing that is stored goes away.
 */
#ifndef QUOTA_H
#define QUOTA_H

#include "server.h"

enum quota { QUOTA_SESSIONS, QUOTA_STORAGE, QUOTAS };

#define QUOTA_EXCEEDED "QUOTA-EXCEEDED"

/* The administrator's words: NAME=VALUE. NULL, or what is wrong with it. */
const char *quota_configure(const char *setting);

/* Whether that owner may have one more live session beside `but`, which may be NULL. If not, the text says why. */
bool quota_allows_process(const struct server *server, unsigned owner, const struct session *but, struct text *why_not);
/* Whether anything more is stored for whom this daemon serves. */
bool quota_allows_storing(const struct server *server, struct text *why_not);

#endif
