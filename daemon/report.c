/*
 * report.c - the sections of an answer, and what they may take.
 */
#include "report.h"

#include "alloc.h"
#include "frame.h"
#include "jsontext.h"

#include <inttypes.h>
#include <stdio.h>

/*
 * Shares of one answer, in bytes of JSON after escaping. Each fact stands there twice, in the text and in the data, so
 * that the shares add up to less than half of FRAME_ANSWER_MAX.
 */
#define SHARE_STDOUT (1536u << 10)
#define SHARE_STDERR (768u << 10)
#define SHARE_VALUES (1280u << 10)
#define SHARE_WARNINGS (128u << 10)
#define SHARE_MESSAGE (128u << 10)
#define SHARE_FRAMES (128u << 10)
_Static_assert(2 * (SHARE_STDOUT + SHARE_STDERR + SHARE_VALUES + SHARE_WARNINGS + SHARE_MESSAGE + SHARE_FRAMES) <
		FRAME_ANSWER_MAX - (64u << 10),
	"an answer must stay under its limit");

/* A piece of a text that will be shown. */
struct shown {
	const char *data;
	size_t length;
	size_t dropped; /* bytes behind it that will not */
};

/* What may still be shown. */
struct share {
	size_t bytes; /* of JSON */
	size_t characters;
};

static bool is_first_byte(char c)
{
	return ((unsigned char)c & 0xC0) != 0x80;
}

static size_t count_characters(const char *data, size_t length)
{
	size_t count = 0;

	for (size_t i = 0; i < length; i++)
		count += is_first_byte(data[i]);
	return count;
}

/* As much of the text as the share pays for, whole characters; the share is reduced. */
static struct shown take(const char *data, size_t length, struct share *share)
{
	size_t end = 0, cost = 0, characters = 0;

	while (end < length) {
		size_t more = jsontext_byte_size((unsigned char)data[end]);
		if (cost + more > share->bytes || (is_first_byte(data[end]) && characters == share->characters))
			break;
		characters += is_first_byte(data[end]);
		cost += more;
		end++;
	}
	while (end > 0 && end < length && !is_first_byte(data[end]))
		end--;
	share->bytes -= cost;
	share->characters -= characters;
	return (struct shown){data, end, length - end};
}

/* Captured streams lose leading blank lines and trailing white space, nothing else. */
static struct result_text trim(const struct result_text *text)
{
	size_t start = 0, end = text->length;

	while (end > 0 && strchr(" \t\r\n\f\v", text->data[end - 1]) && text->data[end - 1])
		end--;
	for (size_t i = 0; i < end && strchr(" \t\r\n", text->data[i]) && text->data[i]; i++)
		if (text->data[i] == '\n')
			start = i + 1; /* never beyond end: what ends there is not blank */
	return (struct result_text){end ? text->data + start : NULL, end - start};
}

static bool has_data(const struct report *report)
{
	return report->data.length > 0;
}

static void note_cut(struct report *report, const char *what)
{
	if (report->truncated.length == 0)
		text_puts(&report->truncated, "[");
	jsontext_put_element(&report->truncated, what, strlen(what));
}

static void begin_section(struct text *text, const char *title)
{
	if (text->length > 0)
		text_puts(text, "\n\n");
	if (title)
		text_printf(text, "%s\n", title);
}

static void put_text(struct report *report, const char *key, const char *data, size_t length)
{
	if (!has_data(report))
		return;
	jsontext_put_name(&report->data, key);
	jsontext_put_string(&report->data, data ? data : "", length);
}

static void put_number(struct report *report, const char *key, uint64_t number)
{
	jsontext_put_name(&report->data, key);
	jsontext_put_number(&report->data, number);
}

/* The rest of a stream is kept, and the text says how it is had. */
static void note_kept_output(struct report *report, enum report_stream stream, const struct result *result,
	const struct result_text *trimmed, size_t shown, bool is_whole)
{
	const char *name = report_stream_name(stream);

	text_printf(&report->text,
		"\n[%s: cut here after %zu of %zu characters%s; read-output with evaluation %" PRIu64
		"%s and offset %zu shows what "
		"follows, configure-limits with max-output shows more at once]",
		name, count_characters(trimmed->data, shown), count_characters(trimmed->data, trimmed->length),
		is_whole ? "" : " that are kept, although more was written", result->seq,
		stream == REPORT_STDERR ? ", stream stderr" : "", count_characters(trimmed->data, shown));
	note_cut(report, name);
	report->cut[stream] = *trimmed;
	report->is_whole[stream] = is_whole;
}

static void put_stream(
	struct report *report, enum report_stream stream, const struct result *result, const struct report_form *form)
{
	static const size_t shares[REPORT_STREAMS] = {SHARE_STDOUT, SHARE_STDERR};
	const struct result_text *text = stream == REPORT_STDOUT ? &result->standard_output : &result->error_output;
	uint64_t total = stream == REPORT_STDOUT ? result->standard_output_total : result->error_output_total;
	struct share share = {shares[stream], form->output_max};
	struct result_text trimmed = trim(text);
	struct shown piece = take(trimmed.data, trimmed.length, &share);
	/* Bytes may have grown in number when they were made UTF-8, so that only the comparison counts. */
	bool is_whole = total <= text->length;

	put_text(report, report_stream_name(stream), piece.data, piece.length);
	if (piece.length > 0) {
		begin_section(&report->text, stream == REPORT_STDOUT ? "[stdout]" : "[stderr]");
		text_add(&report->text, piece.data, piece.length);
	}
	if (piece.dropped > 0 || !is_whole)
		note_kept_output(report, stream, result, &trimmed, piece.length, is_whole);
}

/* How a list of items is shown. */
struct list_form {
	const char *name;
	const char *prefix; /* of each item */
	bool is_numbered;
	const char *remedy; /* for when it was cut */
};

static const struct list_form values_form = {"values", "=> ", false, "; configure-limits with max-value shows more"},
			      warnings_form = {"warnings", "", false, ""}, frames_form = {"backtrace", "", true, ""};

static void begin_list(struct report *report, const char *name)
{
	if (!has_data(report))
		return;
	jsontext_put_name(&report->data, name);
	text_puts(&report->data, "[");
}

static void end_list(struct report *report)
{
	if (has_data(report))
		text_puts(&report->data, "]");
}

/* One below the other; the data gets them as they are. */
static void put_list(struct report *report, const struct result_list *list, const struct list_form *form,
	struct share share, bool already_cut)
{
	bool cut = false;

	begin_list(report, form->name);
	for (size_t i = 0; i < list->count && !cut; i++) {
		struct shown piece = take(list->items[i].data, list->items[i].length, &share);
		cut = piece.dropped > 0;
		if (i > 0)
			text_puts(&report->text, "\n");
		if (form->is_numbered)
			text_printf(&report->text, "%zu: ", i);
		text_puts(&report->text, form->prefix);
		text_add(&report->text, piece.data, piece.length);
		if (has_data(report))
			jsontext_put_element(&report->data, piece.data, piece.length);
		if (cut)
			text_printf(&report->text, "\n[%s: cut here, %zu more bytes%s]", form->name, piece.dropped,
				form->remedy);
	}
	if (already_cut && !cut)
		text_printf(&report->text, "\n[%s: cut here, what follows was too long to keep]", form->name);
	if (cut || already_cut)
		note_cut(report, form->name);
	end_list(report);
}

static void put_warnings(struct report *report, const struct result *result)
{
	if (result->warnings.count > 0)
		begin_section(&report->text, "[warnings]");
	put_list(report, &result->warnings, &warnings_form, (struct share){SHARE_WARNINGS, SIZE_MAX},
		result->warnings.count > 0 && result->warnings_cut);
}

static void put_output(struct report *report, const struct result *result, const struct report_form *form)
{
	for (int i = 0; i < REPORT_STREAMS; i++)
		put_stream(report, (enum report_stream)i, result, form);
	put_warnings(report, result);
}

static void put_values(struct report *report, const struct result *result, const struct report_form *form)
{
	begin_section(&report->text, NULL);
	if (result->values.count == 0)
		text_puts(&report->text, "; No values");
	put_list(report, &result->values, &values_form, (struct share){SHARE_VALUES, form->value_max},
		result->values_cut);
}

/* What is said of ends that carry no condition of their own. */
static struct result_text default_text(const struct result_text *given, const char *otherwise)
{
	if (given->length > 0)
		return *given;
	return (struct result_text){(char *)otherwise, strlen(otherwise)};
}

static const struct {
	const char *type, *message;
} endings[] = {
	[OUTCOME_ERROR] = {"ERROR", "The evaluation failed."},
	[OUTCOME_CANCELLED] = {"CANCELLED",
		"The evaluation was cancelled. The session and its definitions are intact."},
	[OUTCOME_TIMEOUT] = {"TIMEOUT",
		"The evaluation reached its time limit and was stopped. The session and its definitions are intact; pass a "
		"larger `timeout` (seconds, 0 for none) if it needs longer, or set it for the session with configure-limits "
		"(timeout, or load-timeout for load-system)."},
	[OUTCOME_OVERFLOW] = {"STACK-OVERFLOW",
		"The control stack is exhausted: infinite recursion, or data nested too deeply. The session and its "
		"definitions are intact."},
	[OUTCOME_EXIT] = {"EXIT",
		"The code asked Lisp to exit. The evaluation ended there; the session and its definitions are intact."},
	[OUTCOME_ABORTED] = {"ABORTED",
		"The code invoked the ABORT restart. The evaluation ended there; the session and its definitions are intact."},
};

static void put_error(struct report *report, const struct result *result)
{
	struct result_text type = default_text(&result->error_type, endings[result->outcome].type);
	struct result_text message = default_text(&result->error_message, endings[result->outcome].message);
	struct share share = {SHARE_MESSAGE, SIZE_MAX};
	struct shown type_piece = take(type.data, type.length, &share);
	struct shown message_piece = take(message.data, message.length, &share);

	text_printf(&report->text, "[ERROR] %.*s\n", (int)type_piece.length, type_piece.data);
	text_add(&report->text, message_piece.data, message_piece.length);
	if (message_piece.dropped > 0 || result->error_cut) {
		text_puts(&report->text, "\n[error: cut here, the message is too long]");
		note_cut(report, "error");
	}
	if (has_data(report)) {
		jsontext_put_name(&report->data, "error");
		text_puts(&report->data, "{");
	}
	put_text(report, "type", type_piece.data, type_piece.length);
	put_text(report, "message", message_piece.data, message_piece.length);
	if (result->frames.count > 0)
		begin_section(&report->text, "[Backtrace]");
	put_list(report, &result->frames, &frames_form, (struct share){SHARE_FRAMES, SIZE_MAX},
		result->frames.count > 0 && result->frames_cut);
	if (has_data(report))
		text_puts(&report->data, "}");
}

/* The text of an operation's answer, which comes as its value. */
static void put_answer(struct report *report, const struct result *result)
{
	struct share share = {SHARE_VALUES, SIZE_MAX};

	text_puts(&report->text, ""); /* a worker may be out of its mind and bring none */
	for (size_t i = 0; i < result->values.count; i++) {
		struct shown piece = take(result->values.items[i].data, result->values.items[i].length, &share);
		text_add(&report->text, piece.data, piece.length);
		if (piece.dropped > 0 || (result->values_cut && i + 1 == result->values.count))
			text_puts(&report->text, "\n[cut here, the answer is too long]");
	}
}

static void begin_data(struct report *report, const struct result *result, const char *session)
{
	text_puts(&report->data, "{");
	put_text(report, "session", session, strlen(session));
	put_text(report, "package", result->package.data, result->package.length);
	put_number(report, "evaluation", result->seq);
	put_number(report, "forms", result->forms);
	jsontext_put_name(&report->data, "elapsedMs");
	text_printf(&report->data, "%" PRIu64 ".%03" PRIu64, result->elapsed_us / 1000, result->elapsed_us % 1000);
}

static void end_data(struct report *report)
{
	if (!has_data(report))
		return;
	jsontext_put_name(&report->data, "truncated");
	text_puts(&report->data, report->truncated.length > 0 ? report->truncated.data : "[");
	text_puts(&report->data, "]}");
}

const char *report_stream_name(enum report_stream stream)
{
	return stream == REPORT_STDOUT ? "stdout" : "stderr";
}

static void put_operation(struct report *report, const struct result *result, bool with_data)
{
	if (!report->is_error)
		put_answer(report, result);
	put_warnings(report, result);
	if (with_data && !report->is_error)
		text_add(&report->data, result->data.data, result->data.length);
}

static void put_evaluation(struct report *report, const struct result *result, const struct report_form *form)
{
	put_output(report, result, form);
	if (!report->is_error) {
		put_values(report, result, form);
	} else {
		begin_list(report, "values");
		end_list(report);
	}
}

void report_make(struct report *report, const struct result *result, const struct report_form *form)
{
	*report = (struct report){.is_error = result->outcome != OUTCOME_DONE};
	if (form->with_data && !form->is_operation)
		begin_data(report, result, form->session);
	if (report->is_error)
		put_error(report, result);
	if (form->is_operation)
		put_operation(report, result, form->with_data);
	else
		put_evaluation(report, result, form);
	if (!form->is_operation)
		end_data(report);
}

void report_free(struct report *report)
{
	text_free(&report->text);
	text_free(&report->data);
	text_free(&report->truncated);
	*report = (struct report){0};
}
