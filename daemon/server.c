/*
 * server.c - who we are, how we are, and how we end.
 */
#include "config.h"
#include "server.h"

#include "alloc.h"
#include "client.h"
#include "clock.h"
#include "hibernation.h"
#include "session.h"
#include "store.h"
#include "subscription.h"
#include "zygote.h"

#include <unistd.h>

struct json_object *server_identity(void)
{
	struct json_object *identity = json_object_new_object();

	json_object_object_add(identity, "name", json_object_new_string(PACKAGE_NAME));
	json_object_object_add(identity, "version", json_object_new_string(PACKAGE_VERSION));
	return identity;
}

void server_complete_result(struct json_object *result)
{
	struct json_object *meta;

	json_object_object_add(result, "resultType", json_object_new_string("complete"));
	if (!json_object_object_get_ex(result, "_meta", &meta)) {
		meta = json_object_new_object();
		json_object_object_add(result, "_meta", meta);
	}
	json_object_object_add(meta, ERA_META_SERVER, server_identity());
}

/* What people should know of the database; nothing if it is well. */
static struct json_object *store_status(const struct server *server)
{
	const char *problem = store_problem(server->store), *notice = store_notice(server->store);
	struct json_object *status = json_object_new_object();

	if (problem)
		json_object_object_add(status, "problem", json_object_new_string(problem));
	if (notice)
		json_object_object_add(status, "notice", json_object_new_string(notice));
	return status;
}

struct json_object *server_status(struct server *server)
{
	struct json_object *status = json_object_new_object(), *sessions = json_object_new_array();
	struct session *session;

	json_object_object_add(status, "version", json_object_new_string(PACKAGE_VERSION));
	json_object_object_add(status, "pid", json_object_new_int64(getpid()));
	json_object_object_add(status, "uptimeMs", json_object_new_int64((int64_t)(clock_ms() - server->started_ms)));
	json_object_object_add(status, "clients", json_object_new_int64((int64_t)server->client_count));
	json_object_object_add(status, "store", store_status(server));
	json_object_object_add(status, "zygote", zygote_status(server->zygote));
	LIST_FOREACH(session, &server->roster.sessions, next)
	json_object_array_add(sessions, session_status(session));
	json_object_object_add(status, "sessions", sessions);
	return status;
}

static void leave(struct server *server)
{
	subscription_end(server, NULL); /* else their shims would start another daemon at once */
	session_end_all(server);
	zygote_end(server->zygote);
	event_base_loopexit(server->base, NULL);
}

void server_shut_down(struct server *server)
{
	hibernation_of_all(server, leave);
}
