/*
 * tool-transfer.c - export-session and import-session. Files are read and written on the store's thread.
 */
#include "tools.h"

#include "alloc.h"
#include "arguments.h"
#include "card.h"
#include "conversation.h"
#include "inquiry.h"
#include "job.h"
#include "jsontext.h"
#include "log.h"
#include "quota.h"
#include "sessionid.h"
#include "target.h"
#include "transfer.h"

#include <inttypes.h>
#include <unistd.h>

/* A longer document is for a file: an answer holds it twice, once as text with blanks and escapes. */
#define ANSWER_MAX ((size_t)1 << 20)

/* Files are ours to open only for the user that we are. False if not; the request has been answered then. */
static bool may_use_files(struct request *request)
{
	if (request->conversation->owner == geteuid())
		return true;
	request_fail(request, "FILE-ERROR",
		"This daemon runs for another user and has no access to your files. Leave `file` out.");
	return false;
}

/* What a step on the store's thread had against it: "TYPE\nWORDS". */
static void refuse_job(struct job *job, const struct transfer_problem *problem)
{
	job_refuse(job, "%s\n%s", problem->type, problem->words);
}

/* True if the words were such a step's. */
static bool answer_refusal(struct request *request, const struct inquiry_said *said)
{
	const char *end = said->status == INQUIRY_REFUSED && said->words ? strchr(said->words, '\n') : NULL;
	char type[32];

	if (!end || (size_t)(end - said->words) >= sizeof(type))
		return false;
	memcpy(type, said->words, (size_t)(end - said->words));
	type[end - said->words] = '\0';
	request_fail(request, type, "%s", end + 1);
	return true;
}

/* ---- export-session */

enum { EXPORT_DOCUMENT, EXPORT_FILE, EXPORT_MESSAGES, EXPORT_ID };

/* The document goes into its file, and what was done takes its place. */
static void write_export(struct job *job)
{
	const struct value *document = &job->out[EXPORT_DOCUMENT];
	const char *path = job->out[EXPORT_FILE].data;
	struct transfer_problem problem;

	if (!path) {
		if (document->length > ANSWER_MAX)
			job_refuse(job, "TOO-LONG\nThe document has %zu bytes, too many for an answer. Give a `file`.",
				document->length);
		return;
	}
	if (!transfer_write_file(path, document->data, document->length, &problem)) {
		refuse_job(job, &problem);
		return;
	}
	struct json_object *summary = json_object_new_object();
	json_object_object_add(summary, "id", json_object_new_string(job->out[EXPORT_ID].data));
	json_object_object_add(summary, "file", json_object_new_string(path));
	json_object_object_add(summary, "bytes", json_object_new_int64((int64_t)document->length));
	json_object_object_add(summary, "messages", json_object_new_int64(job->out[EXPORT_MESSAGES].number));
	const char *text = json_object_to_json_string_ext(summary, JSON_C_TO_STRING_PLAIN);
	job_replace(&job->out[EXPORT_DOCUMENT], text, strlen(text));
	json_object_put(summary);
}

static void on_exported(struct request *request, const struct inquiry_said *said, void *context)
{
	if (said->status == INQUIRY_FOUND)
		tools_finish(request, "export-session", said->data);
	else if (!answer_refusal(request, said))
		inquiry_refuse(request, said, context);
}

void tool_export_session(struct server *server, struct request *request, struct json_object *arguments)
{
	const char *session = target_name(request, arguments), *file;

	(void)server;
	if (!session || !argument_text(request, arguments, "file", &file) || (file && !may_use_files(request)))
		return;
	char *path = file ? transfer_path(request->conversation->directory, file) : NULL;
	struct inquiry *inquiry = inquiry_new(request, DATABASE_EXPORT_SESSION);
	inquiry_text(inquiry, session);
	inquiry_text(inquiry, path);
	inquiry_set_aside(inquiry, NULL, write_export);
	if (path) /* a line that comes again finds the file, and must not complain of it */
		inquiry_keep_answer(inquiry, "export-session");
	inquiry_send(inquiry, on_exported, new_text(session));
	free(path);
}

void finish_export_session(struct request *request, struct json_object *data)
{
	struct text text = {0};

	if (json_object_object_get(data, "file"))
		text_printf(&text, "Exported %s to %s: %" PRId64 " messages, %" PRId64 " bytes.", card_text(data, "id"),
			card_text(data, "file"), card_number(data, "messages"), card_number(data, "bytes"));
	else
		text_puts(&text, json_object_to_json_string_ext(data, JSON_C_TO_STRING_PRETTY));
	tools_answer(request, &text, json_object_get(data));
	text_free(&text);
}

/* ---- import-session */

enum { IMPORT_OWNER, IMPORT_DOCUMENT, IMPORT_SPARE_ID, IMPORT_FILE, IMPORT_NAME, IMPORT_DIRECTORY, IMPORT_IS_NEW };

/* The statement gets the checked document in place of what is known of it. */
static bool prepare_import(struct job *job)
{
	struct value *in = job->in;
	const struct transfer_wishes wishes = {
		.id = in[IMPORT_IS_NEW].number ? in[IMPORT_SPARE_ID].data : NULL,
		.name = in[IMPORT_NAME].data,
		.directory = in[IMPORT_DIRECTORY].data,
	};
	struct transfer_problem problem = {0};
	struct text text = {0};
	struct json_object *document = NULL, *checked;

	if (in[IMPORT_FILE].data)
		document = transfer_read_file(in[IMPORT_FILE].data, &problem);
	else
		jsontext_read(in[IMPORT_DOCUMENT].data, in[IMPORT_DOCUMENT].length, &document);
	checked = problem.type ? NULL : transfer_check(document, &wishes, &problem);

	json_object_put(document);
	if (!checked) {
		refuse_job(job, &problem);
		return false;
	}
	jsontext_put(&text, checked);
	job_replace(&in[IMPORT_DOCUMENT], text.data, text.length);
	text_free(&text);
	json_object_put(checked);
	while (job->in_count > IMPORT_FILE)
		value_free(&in[--job->in_count]);
	return true;
}

static void on_imported(struct request *request, const struct inquiry_said *said, void *context)
{
	(void)context;
	if (said->status == INQUIRY_FOUND)
		tools_finish(request, "import-session", said->data);
	else if (said->status == INQUIRY_EXISTS)
		request_fail(request, "SESSION-EXISTS",
			"You have a session of that %s already. Import it with `%s`, or delete the other one first.",
			strstr(said->words, "name") ? "name" : "id", strstr(said->words, "name") ? "name" : "new-id");
	else if (!answer_refusal(request, said))
		inquiry_refuse(request, said, "");
}

void tool_import_session(struct server *server, struct request *request, struct json_object *arguments)
{
	struct json_object *document = json_object_object_get(arguments, "document");
	char id[WORKLINK_SESSION_ID_LENGTH + 1];
	const char *file, *name;

	(void)server;
	if (!argument_text(request, arguments, "file", &file) || !argument_text(request, arguments, "name", &name))
		return;
	if (!file == !document) {
		tools_refuse_arguments(request, "Give either file or document: where the session is");
		return;
	}
	if (name && !session_name_valid(name)) {
		tools_refuse_arguments(request, "Argument name is none: " SESSION_NAME_RULE);
		return;
	}
	if ((file && !may_use_files(request)) || !tool_may_store(request))
		return;
	char *path = file ? transfer_path(request->conversation->directory, file) : NULL;
	struct inquiry *inquiry = inquiry_new(request, DATABASE_IMPORT_SESSION);
	session_id_draw(id);
	inquiry_text(inquiry, document ? json_object_to_json_string_ext(document, JSON_C_TO_STRING_PLAIN) : NULL);
	inquiry_text(inquiry, id);
	inquiry_text(inquiry, path);
	inquiry_text(inquiry, name);
	inquiry_text(inquiry, request->conversation->directory);
	inquiry_number(inquiry, argument_flag(arguments, "new-id"));
	inquiry_set_aside(inquiry, prepare_import, NULL);
	inquiry_keep_answer(inquiry, "import-session");
	inquiry_send(inquiry, on_imported, NULL);
	free(path);
}

void finish_import_session(struct request *request, struct json_object *data)
{
	struct json_object *remarks = json_object_object_get(data, "remarks");
	struct text text = {0};

	text_printf(&text, "Imported %s", card_text(data, "id"));
	if (*card_text(data, "name"))
		text_printf(&text, " \"%s\"", card_text(data, "name"));
	text_printf(&text, " with %" PRId64 " message%s.", card_number(data, "messages"),
		card_number(data, "messages") == 1 ? "" : "s");
	for (size_t i = 0; i < json_object_array_length(remarks); i++) {
		const char *words = json_object_get_string(json_object_array_get_idx(remarks, i));
		text_printf(&text, "\n%s", words);
		log_warning("%s: imported: %s", card_text(data, "id"), words);
	}
	tools_answer(request, &text, json_object_get(data));
	text_free(&text);
}
