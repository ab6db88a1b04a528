/*
 * roster.c - a hash table of sessions by id.
 */
#include "roster.h"

#include "session.h"

#include <string.h>

/* FNV-1a; ids are nobody's to choose but an import's, and one can only make one's own slow. */
static struct session_list *place_of(struct roster *roster, const char *id)
{
	uint32_t hash = 2166136261u;

	for (; *id; id++)
		hash = (hash ^ (unsigned char)*id) * 16777619u;
	return &roster->places[hash % ROSTER_PLACES];
}

void roster_add(struct roster *roster, struct session *session, const char *id)
{
	memcpy(session->id, id, sizeof(session->id));
	LIST_INSERT_HEAD(&roster->sessions, session, next);
	LIST_INSERT_HEAD(place_of(roster, id), session, next_alike);
}

void roster_change_id(struct roster *roster, struct session *session, const char *id)
{
	LIST_REMOVE(session, next_alike);
	memcpy(session->id, id, sizeof(session->id));
	LIST_INSERT_HEAD(place_of(roster, id), session, next_alike);
}

void roster_remove(struct session *session)
{
	LIST_REMOVE(session, next);
	LIST_REMOVE(session, next_alike);
}

struct session *session_find(struct server *server, const char *id)
{
	struct session *session;

	LIST_FOREACH(session, place_of(&server->roster, id), next_alike)
	if (strcmp(session->id, id) == 0)
		return session;
	return NULL;
}

struct session *session_find_of(struct server *server, unsigned owner, const char *id_or_name)
{
	struct session *session;

	if (session_id_valid(id_or_name)) {
		session = session_find(server, id_or_name);
		return session && session->owner == owner ? session : NULL;
	}
	LIST_FOREACH(session, &server->roster.sessions, next)
	if (session->owner == owner && session->name && strcmp(session->name, id_or_name) == 0)
		return session;
	return NULL;
}
