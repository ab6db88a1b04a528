/*
 * tool-evaluate.c - evaluate-lisp, and read-output for what its answers do not show.
 */
#include "tools.h"

#include "alloc.h"
#include "arguments.h"
#include "conversation.h"
#include "secrets.h"
#include "server.h"
#include "session.h"
#include "store.h"
#include "target.h"

#include <inttypes.h>
#include <stdio.h>

bool tool_time_limit(struct request *request, struct json_object *arguments, enum limit limit, struct work *work)
{
	struct json_object *value;
	char problem[256];

	if (!json_object_object_get_ex(arguments, "timeout", &value))
		return true;
	double seconds = json_object_get_double(value);
	if (!limit_allow(limit, seconds, problem, sizeof(problem))) {
		tools_refuse_arguments(request, problem);
		return false;
	}
	work->is_timed = true;
	work->time_limit_ms = limit_milliseconds(seconds);
	return true;
}

void tool_evaluate(struct server *server, struct request *request, struct json_object *arguments)
{
	struct json_object *code = json_object_object_get(arguments, "code");
	struct work work = {
		.code = json_object_get_string(code),
		.code_length = (size_t)json_object_get_string_len(code),
		.protect = argument_flag(arguments, "protect"),
		.secrets = json_object_object_get(arguments, "secrets"),
		.is_unrecorded = json_object_object_get(arguments, "history") && !argument_flag(arguments, "history"),
	};

	if (work.secrets && !secrets_valid(work.secrets)) {
		tools_refuse_arguments(request, SECRETS_RULE);
		return;
	}
	if (argument_text(request, arguments, "package", &work.package) &&
		tool_time_limit(request, arguments, LIMIT_TIMEOUT, &work))
		target_evaluate(server, request, arguments, &work);
}

/* ---- read-output */

/* A piece may be as long as what an answer shows of a stream at most. */
#define PIECE_MAX 1000000

struct reading {
	struct request *request;
	uint64_t seq; /* 0: the last one */
	uint64_t offset;
	const char *stream;
};

static void put_piece(struct text *text, const struct reading *reading, const struct store_found_output *found)
{
	uint64_t end = reading->offset;

	for (size_t i = 0; i < found->length; i++)
		end += ((unsigned char)found->text[i] & 0xC0) != 0x80;
	text_printf(text, "[%s of evaluation %" PRIu64 ", characters %" PRIu64 " to %" PRIu64 " of %" PRIu64 "%s]\n",
		reading->stream, found->seq, reading->offset, end, found->characters,
		found->is_whole ? "" : " that are kept; more was written");
	text_add(text, found->text, found->length);
	if (end < found->characters)
		text_printf(text, "\n[offset %" PRIu64 " goes on]", end);
}

static void on_output_found(void *context, enum store_status status, const struct store_found_output *found)
{
	const struct reading *reading = context;
	struct request *request = reading->request;
	const char *problem = store_problem(request->conversation->server->store);
	struct report report = {0};

	request->conversation->lookups--;
	if (request->unwanted) {
		request_withdraw(request);
	} else if (status == STORE_FAILED) {
		request_fail(request, "STORAGE-FAILED", "The output cannot be read: %s. Try again when that is mended.",
			problem ? problem : "unknown");
	} else if (!found) {
		request_fail(request, "OUTPUT-NOT-FOUND",
			"No %s of %s is kept. Only output that an answer did not show to its end is, that of a session's last 16 such "
			"evaluations.",
			reading->stream, reading->seq ? "that evaluation" : "any evaluation of this session");
	} else if (reading->offset > found->characters) {
		request_fail(request, "OUTPUT-NOT-FOUND",
			"The offset lies behind the end: %" PRIu64 " characters are kept.", found->characters);
	} else {
		put_piece(&report.text, reading, found);
		tools_report(request, &report);
		report_free(&report);
	}
}

void tool_read_output(struct server *server, struct request *request, struct json_object *arguments)
{
	uint64_t seq = 0, offset = 0, length = PIECE_MAX;
	bool answered;

	if (!argument_number(request, arguments, "evaluation", INT64_MAX, &seq) ||
		!argument_number(request, arguments, "offset", INT64_MAX, &offset) ||
		!argument_number(request, arguments, "length", PIECE_MAX, &length))
		return;
	struct session *session = target_known_session(server, request, arguments, &answered);
	if (!session) {
		if (!answered)
			request_fail(request, "OUTPUT-NOT-FOUND", "Nothing has been evaluated yet.");
		return;
	}
	if (session_postpone(session, request))
		return;
	if (!json_object_object_get(arguments, "length") && limit_get(&session->limits, LIMIT_OUTPUT) < PIECE_MAX)
		length = (uint64_t)limit_get(&session->limits, LIMIT_OUTPUT);
	struct json_object *stream = json_object_object_get(arguments, "stream");
	enum report_stream which =
		stream && strcmp(json_object_get_string(stream), "stderr") == 0 ? REPORT_STDERR : REPORT_STDOUT;
	struct reading *reading = new_zeroed(sizeof(*reading));
	*reading = (struct reading){request, seq, offset, report_stream_name(which)};
	request->conversation->lookups++;
	store_find_output(server->store, session->id, seq, reading->stream, offset, length, on_output_found, reading);
}
