/*
 * tool-checkpoint.c - checkpoint-session, rollback-session, list-checkpoints: operations on the session's sleeping
 * copies. What they answer is worded in checkpoint.c.
 */
#include "tools.h"

#include "arguments.h"
#include "session.h"
#include "target.h"

#include <inttypes.h>
#include <string.h>

/* A name that can be one; false if the request has been answered. */
static bool check_name(struct request *request, const char *name, const char *problem)
{
	if (*name && session_name_valid(name))
		return true;
	tools_refuse_arguments(request, problem);
	return false;
}

/* A verb and what it is for. */
static void ask(struct server *server, struct request *request, struct json_object *arguments, const char *operation,
	const struct text *code)
{
	target_evaluate(server, request, arguments,
		&(struct work){
			.operation = operation, .code = code->data ? code->data : "", .code_length = code->length});
}

void tool_checkpoint_session(struct server *server, struct request *request, struct json_object *arguments)
{
	bool removes = argument_flag(arguments, "remove"), replaces = argument_flag(arguments, "replace");
	struct text code = {0};
	const char *name;

	if (!argument_text(request, arguments, "name", &name) ||
		!check_name(request, name, "Argument name is none: " SESSION_NAME_RULE))
		return;
	if (removes && replaces) {
		tools_refuse_arguments(request, "Arguments remove and replace exclude each other");
		return;
	}
	text_printf(&code, "%s %s", removes ? "remove" : replaces ? "replace" : "keep", name);
	ask(server, request, arguments, OPERATION_CHECKPOINT, &code);
	text_free(&code);
}

void tool_rollback_session(struct server *server, struct request *request, struct json_object *arguments)
{
	struct text code = {0};
	uint64_t evaluations = 0;
	const char *name;

	if (!argument_text(request, arguments, "to", &name) ||
		!argument_number(request, arguments, "evaluations", INT32_MAX, &evaluations))
		return;
	if ((name != NULL) == (evaluations > 0)) {
		tools_refuse_arguments(request,
			"One of the arguments is needed: to, the name of a checkpoint, or evaluations, how many to go back");
		return;
	}
	if (name && !check_name(request, name, "Argument to is no name: " SESSION_NAME_RULE))
		return;
	if (name)
		text_printf(&code, "to %s", name);
	else
		text_printf(&code, "back %" PRIu64, evaluations);
	ask(server, request, arguments, OPERATION_ROLLBACK, &code);
	text_free(&code);
}

void tool_list_checkpoints(struct server *server, struct request *request, struct json_object *arguments)
{
	ask(server, request, arguments, OPERATION_LIST_CHECKPOINTS, &(struct text){0});
}
