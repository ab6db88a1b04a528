/*
 * tool-image.c - the tools for what is in a session: list-definitions, reset-session, load-system.
 */
#include "tools.h"

#include "arguments.h"
#include "session.h"
#include "target.h"

#include <string.h>

/* The runtime knows the plurals. */
static const char *plural(const char *type)
{
	static const char *const plurals[] = {"functions", "variables", "macros", "classes", "systems"};

	for (size_t i = 0; i < sizeof(plurals) / sizeof(*plurals); i++)
		if (strncmp(plurals[i], type, strlen(type)) == 0)
			return plurals[i];
	return type;
}

/* Printing a value may run code of the user's, which may not come back; listing takes milliseconds. */
#define LISTING_MS 10000

struct work tools_listing(const char *kind)
{
	return (struct work){
		.operation = OPERATION_LIST_DEFINITIONS,
		.code = kind,
		.code_length = strlen(kind),
		.is_timed = true,
		.time_limit_ms = LISTING_MS,
	};
}

void tool_list_definitions(struct server *server, struct request *request, struct json_object *arguments)
{
	struct json_object *type = json_object_object_get(arguments, "type");
	struct work work = tools_listing(type ? plural(json_object_get_string(type)) : "all");

	target_evaluate(server, request, arguments, &work);
}

void tool_reset(struct server *server, struct request *request, struct json_object *arguments)
{
	target_evaluate(server, request, arguments, &(struct work){.operation = OPERATION_LOADED_SYSTEMS, .code = ""});
}

void tool_load_system(struct server *server, struct request *request, struct json_object *arguments)
{
	struct work work = {.operation = OPERATION_LOAD_SYSTEM};
	const char *alias;

	if (!argument_text(request, arguments, "system", &work.code) ||
		!argument_text(request, arguments, "system-name", &alias))
		return;
	if (!work.code)
		work.code = alias;
	if (!work.code || !*work.code) {
		tools_refuse_arguments(request, "Missing required argument: system");
		return;
	}
	work.code_length = strlen(work.code);
	if (tool_time_limit(request, arguments, LIMIT_LOAD_TIMEOUT, &work))
		target_evaluate(server, request, arguments, &work);
}
