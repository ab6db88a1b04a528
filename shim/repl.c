/*
 * repl.c - cl-mcpctl repl: reads forms, has them evaluated by the tool evaluate-lisp, prints what comes back.
 *
 * At a terminal with prompt, history and Ctrl-C; otherwise it reads forms from stdin and prints the same.
 */
#include "config.h"

#include "repl.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "form.h"
#include "mcpclient.h"
#include "paths.h"
#include "terminal.h"
#include "utf8.h"

#define PROTOCOL "2025-11-25"
/* How the answer of a tool begins that knows no such session. */
#define NOT_FOUND "[ERROR] SESSION-NOT-FOUND\n"
/* How long a cancelled evaluation may take to stop before the prompt comes back without it. */
#define CANCEL_WAIT 10000

struct repl {
	struct mcp_client client;
	struct terminal *terminal; /* NULL when stdin or stdout is none */
	bool colour;
	char *session;
	char *package;
	struct bytes text; /* what was read and not evaluated yet */
	bool last_erred;
	bool lost;
};

static volatile sig_atomic_t interrupted;

static void on_interrupt(int number)
{
	(void)number;
	interrupted = 1;
}

/* ---- printing */

static void begin_colour(const struct repl *repl, const char *code)
{
	if (repl->colour)
		printf("\033[%sm", code);
}

static void end_colour(const struct repl *repl)
{
	begin_colour(repl, "0");
}

/* Ends in a line end, whether the text had one or not. */
static void print_whole_lines(FILE *file, json_object *text)
{
	size_t length = text ? (size_t)json_object_get_string_len(text) : 0;
	const char *bytes = text ? json_object_get_string(text) : "";

	if (length == 0)
		return;
	fwrite(bytes, 1, length, file);
	if (bytes[length - 1] != '\n')
		fputc('\n', file);
	fflush(file);
}

static size_t count_of(json_object *array)
{
	return json_object_is_type(array, json_type_array) ? json_object_array_length(array) : 0;
}

static const char *text_at(json_object *array, size_t index)
{
	return json_object_get_string(json_object_array_get_idx(array, index));
}

static const char *text_of(json_object *object, const char *name)
{
	json_object *member;

	return json_object_object_get_ex(object, name, &member) ? json_object_get_string(member) : NULL;
}

/* A remark behind semicolons, on each of its lines. */
static void print_remark(const char *text)
{
	while (*text) {
		int length = (int)strcspn(text, "\n");

		printf("; %.*s\n", length, text);
		text += length + (text[length] == '\n');
	}
}

static void print_error(const struct repl *repl, json_object *error)
{
	json_object *frames = NULL;
	const char *type = text_of(error, "type"), *message = text_of(error, "message");

	begin_colour(repl, "31");
	printf("%s: %s", type ? type : "ERROR", message ? message : "");
	end_colour(repl);
	putchar('\n');
	json_object_object_get_ex(error, "backtrace", &frames);
	for (size_t i = 0; i < count_of(frames); i++) {
		const char *frame = text_at(frames, i);

		/* Numbered by the server or by us. */
		if (frame[0] >= '0' && frame[0] <= '9')
			printf("  %s\n", frame);
		else
			printf("  %zu: %s\n", i, frame);
	}
}

static void print_warnings(const struct repl *repl, json_object *evaluation)
{
	json_object *warnings = NULL;

	json_object_object_get_ex(evaluation, "warnings", &warnings);
	begin_colour(repl, count_of(warnings) ? "33" : "0");
	for (size_t i = 0; i < count_of(warnings); i++)
		print_remark(text_at(warnings, i));
	end_colour(repl);
}

static void print_evaluation(const struct repl *repl, json_object *evaluation)
{
	json_object *part = NULL, *error = NULL;

	if (json_object_object_get_ex(evaluation, "stdout", &part))
		print_whole_lines(stdout, part);
	if (json_object_object_get_ex(evaluation, "stderr", &part))
		print_whole_lines(stderr, part);
	print_warnings(repl, evaluation);
	if (json_object_object_get_ex(evaluation, "error", &error) && error) {
		print_error(repl, error);
	} else {
		json_object_object_get_ex(evaluation, "values", &part);
		for (size_t i = 0; i < count_of(part); i++)
			printf("=> %s\n", text_at(part, i));
		if (count_of(part) == 0)
			puts("; No values");
	}
	json_object_object_get_ex(evaluation, "truncated", &part);
	for (size_t i = 0; i < count_of(part); i++)
		printf("; cut because it was too long: %s\n", text_at(part, i));
}

/* ---- evaluating */

static void replace(char **text, const char *by)
{
	if (!by)
		return;
	free(*text);
	*text = strdup(by);
}

/* The plain text of a result: for answers that carry no data. */
static void print_content(json_object *result)
{
	json_object *content = NULL, *text;

	json_object_object_get_ex(result, "content", &content);
	for (size_t i = 0; i < count_of(content); i++)
		if (json_object_object_get_ex(json_object_array_get_idx(content, i), "text", &text))
			print_whole_lines(stdout, text);
}

/* True if the answer is no error. */
static bool print_answer(struct repl *repl, json_object *answer)
{
	json_object *result = NULL, *part = NULL;

	if (!json_object_object_get_ex(answer, "result", &result)) {
		json_object_object_get_ex(answer, "error", &part);
		begin_colour(repl, "31");
		printf("; %s",
			text_of(part, "message") ? text_of(part, "message") : "the daemon's answer has no result");
		end_colour(repl);
		putchar('\n');
		return false;
	}
	if (json_object_object_get_ex(result, "structuredContent", &part) && part) {
		replace(&repl->package, text_of(part, "package"));
		replace(&repl->session, text_of(part, "session"));
		print_evaluation(repl, part);
	} else {
		print_content(result);
	}
	return !json_object_object_get_ex(result, "isError", &part) || !json_object_get_boolean(part);
}

static json_object *evaluation_params(const char *code, size_t length)
{
	json_object *params = json_object_new_object(), *arguments = json_object_new_object();
	size_t repaired_length;
	char *repaired = utf8_repair(code, length, &repaired_length);

	json_object_object_add(arguments, "code", json_object_new_string_len(repaired, (int)repaired_length));
	json_object_object_add(params, "name", json_object_new_string("evaluate-lisp"));
	json_object_object_add(params, "arguments", arguments);
	free(repaired);
	return params;
}

/* Asks the daemon to stop a request; the next wait tells whether it did. */
static void cancel(struct repl *repl, int64_t id)
{
	json_object *params = json_object_new_object();

	interrupted = 0;
	json_object_object_add(params, "requestId", json_object_new_int64(id));
	json_object_object_add(params, "reason", json_object_new_string("Ctrl-C"));
	mcp_notify(&repl->client, "notifications/cancelled", params);
}

static void evaluate(struct repl *repl, const char *code, size_t length)
{
	json_object *answer = NULL;
	uint64_t line = mcp_request(&repl->client, "tools/call", evaluation_params(code, length));
	enum mcp_status status = mcp_wait(&repl->client, line, -1, &answer);
	bool cancelled = status == MCP_INTERRUPTED;

	if (cancelled) {
		cancel(repl, repl->client.last_id);
		status = mcp_wait(&repl->client, line, CANCEL_WAIT, &answer);
		interrupted = 0;
	}
	repl->last_erred = true;
	switch (status) {
	case MCP_ANSWERED:
		repl->last_erred = !print_answer(repl, answer);
		json_object_put(answer);
		break;
	case MCP_UNANSWERED:
		puts("; interrupted");
		break;
	case MCP_INTERRUPTED:
	case MCP_LATE:
		puts("; interrupted; it has not stopped yet, and the next form waits for it");
		break;
	case MCP_LOST:
		fflush(stdout);
		fprintf(stderr, "cl-mcpctl: the daemon (cl-mcpd) cannot be reached: %s\n", mcp_reason(&repl->client));
		repl->lost = true;
		break;
	}
	fflush(stdout);
}

/* Evaluates the forms that are complete. True if one is open and needs more lines. */
static bool evaluate_complete_forms(struct repl *repl)
{
	while (!repl->lost) {
		size_t length = bytes_length(&repl->text), end;
		const char *text = (const char *)bytes_first(&repl->text);

		switch (form_scan(text, length, &end)) {
		case FORM_NONE:
			bytes_free(&repl->text);
			return false;
		case FORM_INCOMPLETE:
			return true;
		case FORM_COMPLETE:
			evaluate(repl, text, end);
			bytes_taken(&repl->text, end);
			break;
		}
	}
	return false;
}

/* ---- reading */

static void read_from_terminal(struct repl *repl)
{
	bool open = false;

	while (!repl->lost) {
		char prompt[128];
		const char *line;
		size_t length;

		if (open)
			snprintf(prompt, sizeof(prompt), "%*s> ", (int)strnlen(repl->package, 100), "");
		else
			snprintf(prompt, sizeof(prompt), "%.100s> ", repl->package);
		switch (terminal_read(repl->terminal, prompt, &line, &length)) {
		case TERMINAL_END:
			putchar('\n');
			return;
		case TERMINAL_INTERRUPTED:
			interrupted = 0;
			open = false;
			bytes_free(&repl->text);
			putchar('\n');
			break;
		case TERMINAL_LINE:
			if (strspn(line, " \t\n") < length)
				terminal_remember(repl->terminal, line);
			bytes_append(&repl->text, line, length);
			open = evaluate_complete_forms(repl);
			break;
		}
	}
}

static void read_from_stdin(struct repl *repl)
{
	char *line = NULL;
	size_t capacity = 0;
	ssize_t length;
	bool open = false;

	while (!repl->lost && (length = getline(&line, &capacity, stdin)) > 0) {
		bytes_append(&repl->text, line, (size_t)length);
		open = evaluate_complete_forms(repl);
	}
	/* What is still open is Lisp's to complain about. */
	if (open && !repl->lost)
		evaluate(repl, (const char *)bytes_first(&repl->text), bytes_length(&repl->text));
	free(line);
}

/* ---- beginning and end */

static json_object *initialize_params(void)
{
	json_object *params = json_object_new_object(), *info = json_object_new_object();

	json_object_object_add(info, "name", json_object_new_string("cl-mcpctl"));
	json_object_object_add(info, "version", json_object_new_string(PACKAGE_VERSION));
	json_object_object_add(params, "protocolVersion", json_object_new_string(PROTOCOL));
	json_object_object_add(params, "capabilities", json_object_new_object());
	json_object_object_add(params, "clientInfo", info);
	return params;
}

/* True if the answer came and is no error; what went wrong was said. */
static bool ask(struct repl *repl, const char *method, json_object *params, json_object **result)
{
	json_object *answer = NULL, *part;
	enum mcp_status status = mcp_wait(&repl->client, mcp_request(&repl->client, method, params), -1, &answer);
	bool good = status == MCP_ANSWERED && json_object_object_get_ex(answer, "result", result);

	if (good && json_object_object_get_ex(*result, "isError", &part) && json_object_get_boolean(part))
		good = false;
	if (good)
		json_object_get(*result);
	else if (status == MCP_ANSWERED)
		print_answer(repl, answer);
	else
		fprintf(stderr, "cl-mcpctl: the daemon (cl-mcpd) cannot be reached: %s\n", mcp_reason(&repl->client));
	json_object_put(answer);
	return good;
}

/* A session that was asked for must exist, and its package is known only to itself. No form is evaluated. */
static bool resume(struct repl *repl)
{
	json_object *result, *evaluation;

	if (!ask(repl, "tools/call", evaluation_params("", 0), &result))
		return false;
	if (json_object_object_get_ex(result, "structuredContent", &evaluation)) {
		print_warnings(repl, evaluation); /* the session may have lost what it knew */
		replace(&repl->package, text_of(evaluation, "package"));
		replace(&repl->session, text_of(evaluation, "session"));
	}
	json_object_put(result);
	return true;
}

/* True if the daemon says that there is no such session. */
static bool is_not_found(json_object *answer)
{
	json_object *result, *content, *text;

	return json_object_object_get_ex(answer, "result", &result) &&
		json_object_object_get_ex(result, "content", &content) && count_of(content) > 0 &&
		json_object_object_get_ex(json_object_array_get_idx(content, 0), "text", &text) &&
		strncmp(json_object_get_string(text), NOT_FOUND, strlen(NOT_FOUND)) == 0;
}

/* Goes on with the session that was used last; if there is none, the first form makes a new one. */
static bool resume_last(struct repl *repl)
{
	json_object *answer = NULL, *params = json_object_new_object();

	json_object_object_add(params, "name", json_object_new_string("session-info"));
	uint64_t line = mcp_request(&repl->client, "tools/call", params);
	bool is_new = mcp_wait(&repl->client, line, -1, &answer) == MCP_ANSWERED && is_not_found(answer);
	json_object_put(answer);
	return is_new || resume(repl);
}

static bool begin(struct repl *repl, const struct wish *wish)
{
	json_object *result;

	if (mcp_open(&repl->client, wish, true) != DIAL_WELCOMED) {
		fprintf(stderr, "cl-mcpctl: the daemon (cl-mcpd) cannot be reached: %s\n", mcp_reason(&repl->client));
		return false;
	}
	if (!ask(repl, "initialize", initialize_params(), &result))
		return false;
	json_object_put(result);
	mcp_notify(&repl->client, "notifications/initialized", NULL);
	if (wish->resume)
		return resume_last(repl);
	return !wish->session || resume(repl);
}

static struct terminal *open_terminal(void)
{
	struct sigaction action = {.sa_handler = on_interrupt};
	char directory[PATHS_SOCKET_SIZE * 4], path[sizeof(directory) + 16];

	sigaction(SIGINT, &action, NULL);
	if (paths_state_directory(directory, sizeof(directory)) < 0 || paths_make_private(directory) < 0)
		return terminal_open(NULL, &interrupted);
	snprintf(path, sizeof(path), "%s/history", directory);
	return terminal_open(path, &interrupted);
}

int repl_run(const struct wish *wish)
{
	struct repl repl = {.package = strdup("CL-USER")};
	bool at_terminal = isatty(STDIN_FILENO) && isatty(STDOUT_FILENO);
	const char *terminal_type = getenv("TERM");
	int status = 1;

	if (at_terminal) {
		repl.colour = !getenv("NO_COLOR") && terminal_type && strcmp(terminal_type, "dumb") != 0;
		repl.terminal = open_terminal();
		repl.client.interrupted = &interrupted;
	}
	if (begin(&repl, wish)) {
		if (at_terminal) {
			printf("cl-mcp-server %s, %s%s. Ctrl-C interrupts, Ctrl-D leaves.\n", PACKAGE_VERSION,
				repl.session ? "session " : "a new session", repl.session ? repl.session : "");
			read_from_terminal(&repl);
			status = repl.lost ? 1 : 0;
			if (repl.session)
				printf("To come back: %s repl --session %s\n", program_invocation_name, repl.session);
		} else {
			read_from_stdin(&repl);
			status = repl.last_erred ? 1 : 0;
		}
	}
	if (repl.terminal)
		terminal_close(repl.terminal);
	mcp_close(&repl.client);
	bytes_free(&repl.text);
	free(repl.session);
	free(repl.package);
	return status;
}
