/*
 * arguments.c - reading single arguments, and refusing what no schema can say.
 */
#include "arguments.h"

#include "sessionid.h"
#include "tools.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

bool argument_text(struct request *request, struct json_object *arguments, const char *name, const char **text)
{
	struct json_object *value;
	char problem[128];

	*text = NULL;
	if (!json_object_object_get_ex(arguments, name, &value))
		return true;
	*text = json_object_get_string(value);
	if (strlen(*text) == (size_t)json_object_get_string_len(value))
		return true;
	snprintf(problem, sizeof(problem), "Argument %s must not hold a NUL", name);
	tools_refuse_arguments(request, problem);
	return false;
}

bool argument_new_name(struct request *request, struct json_object *arguments, const char **name)
{
	if (!argument_text(request, arguments, "name", name))
		return false;
	if (!*name || session_name_valid(*name))
		return true;
	tools_refuse_arguments(request, "Argument name is none: " SESSION_NAME_RULE);
	return false;
}

bool argument_number(
	struct request *request, struct json_object *arguments, const char *name, uint64_t most, uint64_t *number)
{
	struct json_object *value;
	char problem[160];

	if (!json_object_object_get_ex(arguments, name, &value))
		return true;
	int64_t given = json_object_get_int64(value);
	if (given >= 0 && (uint64_t)given <= most) {
		*number = (uint64_t)given;
		return true;
	}
	snprintf(problem, sizeof(problem), "Argument %s must be a number from 0 to %" PRIu64, name, most);
	tools_refuse_arguments(request, problem);
	return false;
}

bool argument_flag(struct json_object *arguments, const char *name)
{
	return json_object_get_boolean(json_object_object_get(arguments, name));
}
