/*
 * tool-limits.c - configure-limits: reading and setting what a session's evaluations may take.
 */
#include "tools.h"

#include "alloc.h"
#include "conversation.h"
#include "session.h"
#include "store.h"
#include "target.h"

/* Takes over what the arguments set. False if one of them is not allowed; the request has been answered then. */
static bool take_arguments(struct request *request, struct json_object *arguments, struct limits *limits)
{
	char problem[256];

	for (int i = 0; i < LIMITS; i++) {
		struct json_object *value = json_object_object_get(arguments, limit_name((enum limit)i));
		if (!value)
			continue;
		limits->value[i] = json_object_get_double(value);
		limits->is_set[i] = true;
		if (!limit_allow((enum limit)i, limits->value[i], problem, sizeof(problem))) {
			tools_refuse_arguments(request, problem);
			return false;
		}
	}
	return true;
}

static bool sets_any(struct json_object *arguments)
{
	for (int i = 0; i < LIMITS; i++)
		if (json_object_object_get(arguments, limit_name((enum limit)i)))
			return true;
	return false;
}

static void show(struct request *request, const struct limits *limits)
{
	struct report report = {0};

	limit_show(limits, &report.text);
	tools_report(request, &report);
	report_free(&report);
}

/* A request that waits for the store. */
struct change {
	struct request *request;
	struct limits limits;
};

static void on_stored(void *context, enum store_status status)
{
	struct change *change = context;
	struct request *request = change->request;

	request->conversation->lookups--;
	if (request->unwanted)
		request_withdraw(request);
	else if (status != STORE_DONE)
		request_fail(request, "STORAGE-FAILED",
			"The limits hold for now, but cannot be kept: the next daemon would not know them. Try again.");
	else
		show(request, &change->limits);
}

static void set_limits(struct session *session, struct request *request, const struct limits *limits)
{
	struct change *change = new_zeroed(sizeof(*change));

	*change = (struct change){request, *limits};
	request->conversation->lookups++;
	session_set_limits(session, limits, on_stored, change);
}

void tool_configure_limits(struct server *server, struct request *request, struct json_object *arguments)
{
	struct limits limits = {0};
	struct session *session;
	bool answered = true;

	if (!take_arguments(request, arguments, &limits)) /* before a session is made for nothing */
		return;
	session = sets_any(arguments) ? target_session(server, request, arguments)
				      : target_known_session(server, request, arguments, &answered);
	if ((!session && answered) || (session && session_postpone(session, request)))
		return;
	if (!session || !sets_any(arguments)) {
		show(request, session ? &session->limits : &limits);
		return;
	}
	limits = session->limits;
	if (take_arguments(request, arguments, &limits))
		set_limits(session, request, &limits);
}
