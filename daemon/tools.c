/*
 * tools.c - listing tools, checking arguments, calling.
 */
#include "tools.h"

#include "alloc.h"
#include "embedded.h"
#include "frame.h"
#include "jsontext.h"

#include <stdio.h>

static const struct tool tools[] = {
	{embedded_tool_evaluate_lisp, tool_evaluate, NULL},
	{embedded_tool_list_definitions, tool_list_definitions, NULL},
	{embedded_tool_reset_session, tool_reset, NULL},
	{embedded_tool_load_system, tool_load_system, NULL},
	{embedded_tool_configure_limits, tool_configure_limits, NULL},
	{embedded_tool_read_output, tool_read_output, NULL},
	{embedded_tool_create_session, tool_create_session, finish_create_session},
	{embedded_tool_fork_session, tool_fork_session, finish_create_session},
	{embedded_tool_checkpoint_session, tool_checkpoint_session, NULL},
	{embedded_tool_rollback_session, tool_rollback_session, NULL},
	{embedded_tool_list_checkpoints, tool_list_checkpoints, NULL},
	{embedded_tool_list_sessions, tool_list_sessions, finish_list_sessions},
	{embedded_tool_session_info, tool_session_info, finish_session_info},
	{embedded_tool_resume_session, tool_resume_session, finish_resume_session},
	{embedded_tool_rename_session, tool_rename_session, finish_rename_session},
	{embedded_tool_delete_session, tool_delete_session, finish_delete_session},
	{embedded_tool_session_history, tool_session_history, finish_session_history},
	{embedded_tool_search_sessions, tool_search_sessions, finish_search_sessions},
	{embedded_tool_add_message, tool_add_message, finish_add_message},
	{embedded_tool_set_session_metadata, tool_set_session_metadata, finish_set_session_metadata},
	{embedded_tool_export_session, tool_export_session, finish_export_session},
	{embedded_tool_import_session, tool_import_session, finish_import_session},
};

#define TOOLS (sizeof(tools) / sizeof(*tools))

static struct json_object *definitions[TOOLS];

void tools_start(void)
{
	for (size_t i = 0; i < TOOLS; i++)
		definitions[i] = must(json_tokener_parse(tools[i].definition));
}

void tools_stop(void)
{
	for (size_t i = 0; i < TOOLS; i++)
		json_object_put(definitions[i]);
}

/* ---- listing */

static bool is_known(const char *key, const struct revision *revision)
{
	if (strcmp(key, "annotations") == 0)
		return revision->annotations;
	if (strcmp(key, "title") == 0 || strcmp(key, "outputSchema") == 0)
		return revision->structured;
	return true;
}

struct json_object *tools_list(const struct revision *revision)
{
	struct json_object *list = json_object_new_array();

	for (size_t i = 0; i < TOOLS; i++) {
		struct json_object *shown = json_object_new_object();
		json_object_object_foreach(definitions[i], key, value) if (is_known(key, revision))
			json_object_object_add(shown, key, json_object_get(value));
		json_object_array_add(list, shown);
	}
	return list;
}

/* ---- arguments */

static bool has_type(struct json_object *value, const char *type)
{
	if (strcmp(type, "string") == 0)
		return json_object_is_type(value, json_type_string);
	if (strcmp(type, "number") == 0)
		return json_object_is_type(value, json_type_double) || json_object_is_type(value, json_type_int);
	if (strcmp(type, "integer") == 0)
		return json_object_is_type(value, json_type_int);
	if (strcmp(type, "boolean") == 0)
		return json_object_is_type(value, json_type_boolean);
	if (strcmp(type, "object") == 0)
		return json_object_is_type(value, json_type_object);
	if (strcmp(type, "array") == 0)
		return json_object_is_type(value, json_type_array);
	return false;
}

static void put_words(char *problem, size_t size, struct json_object *words)
{
	for (size_t i = 0; i < json_object_array_length(words); i++) {
		size_t used = strlen(problem);
		snprintf(problem + used, size - used, "%s %s", i ? "," : "",
			json_object_get_string(json_object_array_get_idx(words, i)));
	}
}

static bool is_one_of(struct json_object *value, struct json_object *words)
{
	for (size_t i = 0; i < json_object_array_length(words); i++)
		if (json_object_equal(value, json_object_array_get_idx(words, i)))
			return true;
	return false;
}

/* The same for one argument. */
static bool find_misfit(
	const char *name, struct json_object *value, struct json_object *property, char *problem, size_t size)
{
	const char *type = json_object_get_string(json_object_object_get(property, "type"));
	struct json_object *words = json_object_object_get(property, "enum");
	struct json_object *minimum = json_object_object_get(property, "minimum");

	if (!has_type(value, type)) {
		snprintf(problem, size, "Argument %s must be %s %s", name, strchr("aio", *type) ? "an" : "a", type);
	} else if (words && !is_one_of(value, words)) {
		snprintf(problem, size, "Argument %s must be one of:", name);
		put_words(problem, size, words);
	} else if (minimum && json_object_get_double(value) < json_object_get_double(minimum)) {
		snprintf(problem, size, "Argument %s must be at least %s", name, json_object_get_string(minimum));
	} else {
		return false;
	}
	return true;
}

/* Says what does not fit the schema, and how it would; false if everything fits. */
static bool find_problem(struct json_object *schema, struct json_object *arguments, char *problem, size_t size)
{
	struct json_object *properties = json_object_object_get(schema, "properties");
	struct json_object *required = json_object_object_get(schema, "required"), *property;

	for (size_t i = 0; required && i < json_object_array_length(required); i++) {
		const char *name = json_object_get_string(json_object_array_get_idx(required, i));
		if (!json_object_object_get_ex(arguments, name, &property)) {
			snprintf(problem, size, "Missing required argument: %s", name);
			return true;
		}
	}
	json_object_object_foreach(arguments, key, value)
	{
		if (!json_object_object_get_ex(properties, key, &property)) {
			snprintf(problem, size, "Unknown argument: %.100s. This tool takes:", key);
			json_object_object_foreach(properties, known, unused)
			{
				(void)unused;
				size_t used = strlen(problem);
				snprintf(problem + used, size - used, " %s", known);
			}
			return true;
		}
		if (find_misfit(key, value, property, problem, size))
			return true;
	}
	return false;
}

void tools_refuse_arguments(struct request *request, const char *problem)
{
	if (request->revision->argument_results)
		request_fail(request, "INVALID-ARGUMENTS", "%s.", problem);
	else
		request_refuse(request, RPC_INVALID_PARAMS, "%s", problem);
}

/* ---- calling */

/* TOOLS if there is none. */
static size_t find(const char *name)
{
	size_t i = 0;

	while (i < TOOLS && strcmp(json_object_get_string(json_object_object_get(definitions[i], "name")), name) != 0)
		i++;
	return i;
}

void tools_call(struct server *server, struct request *request)
{
	struct json_object *name, *arguments = NULL, *none;
	char problem[512];
	size_t i;

	if (!json_object_object_get_ex(request->params, "name", &name) ||
		!json_object_is_type(name, json_type_string)) {
		request_refuse(request, RPC_INVALID_PARAMS, "name must be a string: the tool to call");
		return;
	}
	if (json_object_object_get_ex(request->params, "arguments", &arguments) &&
		!json_object_is_type(arguments, json_type_object)) {
		request_refuse(request, RPC_INVALID_PARAMS, "arguments must be an object");
		return;
	}
	i = find(json_object_get_string(name));
	if (i == TOOLS || strlen(json_object_get_string(name)) != (size_t)json_object_get_string_len(name)) {
		snprintf(problem, sizeof(problem), "Unknown tool: %.200s", json_object_get_string(name));
		request_error(request, RPC_INVALID_PARAMS, problem, NULL);
		return;
	}
	none = arguments ? NULL : json_object_new_object();
	if (none)
		arguments = none;
	if (find_problem(json_object_object_get(definitions[i], "inputSchema"), arguments, problem, sizeof(problem)))
		tools_refuse_arguments(request, problem);
	else
		tools[i].call(server, request, arguments);
	json_object_put(none);
}

void tools_finish(struct request *request, const char *tool, struct json_object *data)
{
	size_t i = find(tool);

	if (i < TOOLS && tools[i].finish)
		tools[i].finish(request, data);
	else /* of a newer version */
		request_fail(request, "INTERRUPTED",
			"The call has been served, but what it answered is not known any more.");
}

void tools_answer(struct request *request, const struct text *text, struct json_object *data)
{
	struct report report = {.text = *text};

	if (data)
		jsontext_put(&report.data, data);
	json_object_put(data);
	tools_report(request, &report);
	text_free(&report.data);
}

static void compose(const struct request *request, const struct report *report, struct text *answer)
{
	rpc_begin_result(answer, request->id);
	text_puts(answer, "{\"content\":[{\"type\":\"text\",\"text\":");
	jsontext_put_string(answer, report->text.data, report->text.length);
	text_puts(answer, "}]");
	if (report->data.length > 0 && request->revision->structured) {
		jsontext_put_name(answer, "structuredContent");
		text_add(answer, report->data.data, report->data.length);
	}
	jsontext_put_name(answer, "isError");
	text_puts(answer, report->is_error ? "true" : "false");
	request_put_completion(request, answer);
	text_puts(answer, "}}");
}

void tools_report(struct request *request, const struct report *report)
{
	struct text answer = {0};

	compose(request, report, &answer);
	if (answer.length < FRAME_ANSWER_MAX)
		request_answer(request, &answer);
	else
		request_fail(request, "TOO-LONG",
			"The answer would have %zu bytes, and clients take less than %u. Ask for less at once: a smaller limit, fewer "
			"characters, one session.",
			answer.length, FRAME_ANSWER_MAX);
	text_free(&answer);
}

static void fail(struct request *request, const char *type, const char *message)
{
	struct report report = {.is_error = true};

	text_printf(&report.text, "[ERROR] %s\n%s", type, message);
	tools_report(request, &report);
	report_free(&report);
}

const struct request_form tools_form = {.compose = compose, .fail = fail};
