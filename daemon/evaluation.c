/*
 * evaluation.c - answering and recording.
 *
 * The answer goes out first and the record is committed some milliseconds later, with others; the worker keeps the
 * result until then, so that a daemon that dies in between loses nothing.
 */
#include "evaluation.h"

#include "alloc.h"
#include "checkpoint.h"
#include "cloning.h"
#include "conversation.h"
#include "log.h"
#include "quota.h"
#include "report.h"
#include "secrets.h"
#include "resource.h"
#include "store.h"
#include "subscription.h"
#include "tools.h"

#include <inttypes.h>
#include <stdio.h>

/* Of the last line of output in a progress message, in bytes. */
#define LAST_LINE_MAX 300

struct evaluation *evaluation_new_for_nobody(const struct work *work)
{
	struct evaluation *evaluation = new_zeroed(sizeof(*evaluation));

	evaluation->work = *work;
	evaluation->work.operation = new_text(work->operation);
	evaluation->work.package = new_text(work->package);
	evaluation->work.code = new_copy(work->code, work->code_length);
	json_object_get(work->secrets);
	return evaluation;
}

struct evaluation *evaluation_new(struct request *request, const struct work *work)
{
	struct evaluation *evaluation = evaluation_new_for_nobody(work);

	evaluation->request = request;
	evaluation->is_reading = request->uri != NULL;
	memcpy(evaluation->nonce, request->conversation->nonce, LINK_NONCE_SIZE);
	evaluation->line = request->line;
	evaluation->item = request->item;
	return evaluation;
}

/* The line has come again and waits to be run, but it has been run already. */
static bool take_place_of_waiting(struct evaluation *evaluation)
{
	struct evaluation *waiting = evaluation->request->evaluation;

	if (waiting->seq > 0)
		return false;
	if (!evaluation->work.code) {
		evaluation->work.code = waiting->work.code;
		evaluation->work.code_length = waiting->work.code_length;
		waiting->work.code = NULL;
	}
	TAILQ_REMOVE(&evaluation->request->session->evaluations, waiting, next);
	evaluation_free(waiting);
	return true;
}

struct evaluation *evaluation_adopt(struct server *server, struct session *session, const struct origin *origin)
{
	struct evaluation *evaluation = new_zeroed(sizeof(*evaluation));
	struct conversation *conversation = conversation_find(server, origin->nonce);

	if (!conversation)
		conversation = conversation_new(server, origin->nonce);
	/* The worker may know what the store was not told in time. */
	if (origin->is_default && !conversation->session)
		conversation_choose(conversation, session->id);
	evaluation->is_reading = origin->uri != NULL;
	if (!evaluation->is_reading)
		conversation_use(conversation, session->id);
	if (!origin->revision->stateless && !conversation->agreed)
		conversation->agreed = origin->revision;
	memcpy(evaluation->nonce, origin->nonce, LINK_NONCE_SIZE);
	evaluation->line = origin->line;
	evaluation->item = origin->item;
	evaluation->started_at = origin->started_at;
	if (!store_time_is_likely(origin->started_at)) { /* the clock was another then, or user code has been there */
		log_warning("%s: INVALID-TIMESTAMP: its evaluation of time %" PRIu64 " gets the current one",
			session->id, origin->started_at);
		evaluation->started_at = store_universal_time();
	}
	evaluation->work.operation = new_text(origin->operation);
	evaluation->work.package = new_text(origin->package);
	evaluation->work.output_max = origin->output_max;
	evaluation->work.value_max = origin->value_max;
	evaluation->work.secrets = json_object_get(origin->secrets);
	evaluation->work.is_unrecorded = origin->is_unrecorded;
	if (origin->code) {
		evaluation->work.code = new_copy(origin->code, origin->code_length);
		evaluation->work.code_length = origin->code_length;
	}
	evaluation->request = conversation_by_line(conversation, origin->line, origin->item);
	if (evaluation->request && evaluation->request->evaluation && !take_place_of_waiting(evaluation)) {
		evaluation->request = NULL; /* another evaluation will answer it */
		return evaluation;
	}
	if (!evaluation->request) {
		evaluation->request = request_new(conversation, origin->line, origin->item, origin->id, 0);
		evaluation->request->revision = origin->revision;
		evaluation->request->form = origin->uri ? &resource_form : &tools_form;
		evaluation->request->uri = new_text(origin->uri);
		evaluation->request->progress_token = new_text(origin->progress_token);
	}
	evaluation->request->session = session;
	evaluation->request->evaluation = evaluation;
	return evaluation;
}

void evaluation_free(struct evaluation *evaluation)
{
	free((char *)evaluation->work.operation);
	free((char *)evaluation->work.package);
	free((char *)evaluation->work.code);
	json_object_put(evaluation->work.secrets);
	if (evaluation->cloning)
		cloning_drop(evaluation->cloning);
	free(evaluation);
}

void evaluation_withdraw(struct evaluation *evaluation, struct store *store)
{
	struct request *request = evaluation->request;

	if (!request)
		return;
	evaluation->request = NULL;
	request->conversation->answers_stored = true;
	store_add_answer(store, evaluation->nonce, evaluation->line, evaluation->item, NULL, 0);
	request_withdraw(request);
}

/* What the store needs to tell the worker that a result is safe. */
struct receipt {
	struct server *server;
	char session_id[WORKLINK_SESSION_ID_LENGTH + 1];
	uint64_t seq;
	unsigned changes; /* see subscription_announce */
};

static void on_recorded(void *context, enum store_status status)
{
	struct receipt *receipt = context;
	struct session *session = session_find(receipt->server, receipt->session_id);

	if (status != STORE_DONE)
		log_error("%s: evaluation %" PRIu64 " could not be kept", receipt->session_id, receipt->seq);
	if (!session)
		return;
	session_stored(session, receipt->seq);
	if (receipt->changes)
		subscription_announce(session->server, session->owner, session->id, receipt->changes);
}

static unsigned changes_by(const struct evaluation *evaluation, const struct result *result)
{
	const char *operation = evaluation->work.operation;
	unsigned changes = CHANGED_STATE | CHANGED(RESOURCE_TRANSCRIPT);

	if (evaluation->is_reading)
		return 0;
	if (!operation || (strcmp(operation, OPERATION_LIST_DEFINITIONS) != 0 && !checkpoint_only_looks(operation)))
		changes |= CHANGED(RESOURCE_DEFINITIONS);
	if (result->outcome != OUTCOME_DONE)
		changes |= CHANGED(RESOURCE_LAST_ERROR);
	return changes;
}

/* What was made from the transcript need not be in it again: the first line, a path, is enough. */
static size_t kept_length(const struct work *work)
{
	if (!work->code || !work->operation || strcmp(work->operation, OPERATION_RECOLLECT_STATE) != 0)
		return work->code_length;
	return strcspn(work->code, "\n");
}

static void record(struct evaluation *evaluation, struct session *session, const struct result *result,
	const struct text *text, bool is_kept)
{
	struct store *store = session->server->store;
	struct receipt *receipt = new_zeroed(sizeof(*receipt));
	struct store_evaluation row = {
		.session = session->id,
		.seq = result->seq,
		.operation = evaluation->work.operation,
		.code = evaluation->work.code,
		.code_length = kept_length(&evaluation->work),
		.text = text->data,
		.text_length = text->length,
		.given = evaluation->work.package,
		.package = session->package ? session->package : "",
		.forms = result->forms,
		.outcome = (int)result->outcome,
		.started_at = evaluation->started_at,
		.elapsed_us = result->elapsed_us,
		.restored = result->restored,
	};

	receipt->server = session->server;
	memcpy(receipt->session_id, session->id, sizeof(receipt->session_id));
	receipt->seq = result->seq;
	receipt->changes = changes_by(evaluation, result);
	if (evaluation->is_reading || !is_kept)
		store_skip_evaluation(store, session->id, result->seq, evaluation->is_reading ? NULL : row.package,
			on_recorded, receipt);
	else
		store_add_evaluation(store, &row, on_recorded, receipt);
}

void evaluation_skip(struct session *session, uint64_t seq)
{
	struct receipt *receipt = new_zeroed(sizeof(*receipt));

	receipt->server = session->server;
	memcpy(receipt->session_id, session->id, sizeof(receipt->session_id));
	receipt->seq = seq;
	store_skip_evaluation(session->server->store, session->id, seq, NULL, on_recorded, receipt);
}

/* What the answer could not show; before the record, because the worker may forget the result after that. */
static void keep_output(struct session *session, const struct result *result, const struct report *report)
{
	for (int i = 0; i < REPORT_STREAMS; i++)
		if (report->cut[i].length > 0)
			store_add_output(session->server->store,
				&(struct store_output){
					.session = session->id,
					.seq = result->seq,
					.stream = report_stream_name((enum report_stream)i),
					.data = report->cut[i].data,
					.length = report->cut[i].length,
					.is_whole = report->is_whole[i],
				});
}

/* Returns false if the answer may not have left us. */
static bool answer_request(struct evaluation *evaluation, const struct text *answer)
{
	struct request *request = evaluation->request;
	struct conversation *conversation = request->conversation;
	bool is_alone = !request->batch && conversation->client; /* with a client it outlives the request */

	evaluation->request = NULL;
	conversation->answers_stored = true;
	request_answer(request, answer);
	return is_alone && !conversation_owes(conversation);
}

void evaluation_expose(struct session *session, uint64_t seq)
{
	session->exposed_seq = seq;
	store_hurry(session->server->store);
}

/* Whether the transcript shall keep it; if it should and cannot, the answer says so. */
static bool is_to_be_kept(const struct evaluation *evaluation, const struct session *session, struct result *result)
{
	struct text warning = {0};

	if (evaluation->is_reading || evaluation->work.is_unrecorded)
		return false;
	if (!session->has_history)
		return true; /* as far as the session keeps anything */
	text_puts(&warning,
		"NOT-IN-TRANSCRIPT: This evaluation is not kept in the transcript, nor output that is cut here: ");
	bool is_allowed = quota_allows_storing(session->server, &warning);
	if (!is_allowed)
		result_add_warning(result, warning.data);
	text_free(&warning);
	return is_allowed;
}

static void make_report(struct report *report, const struct evaluation *evaluation, const struct session *session,
	const struct result *result)
{
	const struct request *request = evaluation->request;

	report_make(report, result,
		&(struct report_form){
			.session = session->id,
			.is_operation = evaluation->work.operation != NULL,
			.with_data = request && request->revision->structured,
			.output_max = evaluation->work.output_max,
			.value_max = evaluation->work.value_max,
		});
}

/* The report becomes the one that is stored, and so does the answer, which is empty before. */
static void hide_secrets(struct evaluation *evaluation, const struct session *session, struct result *result,
	struct report *report, struct text *answer)
{
	struct work *work = &evaluation->work;

	secrets_hide(work->secrets, (char **)&work->code, &work->code_length);
	secrets_hide_result(work->secrets, result);
	report_free(report);
	make_report(report, evaluation, session, result);
	if (evaluation->request)
		evaluation->request->form->compose(evaluation->request, report, answer);
}

void evaluation_finish(struct evaluation *evaluation, struct session *session, struct result *result)
{
	struct store *store = session->server->store;
	bool has_left = true, is_kept = is_to_be_kept(evaluation, session, result);
	bool has_request = evaluation->request != NULL;
	struct text answer = {0}, stored = {0};
	struct report report;

	make_report(&report, evaluation, session, result);
	if (has_request)
		evaluation->request->form->compose(evaluation->request, &report, &answer);
	if (evaluation->work.secrets)
		hide_secrets(evaluation, session, result, &report, &stored);
	if (has_request) {
		const struct text *kept = evaluation->work.secrets ? &stored : &answer;
		has_left = answer_request(evaluation, &answer);
		if (evaluation->is_reading)
			has_left = true; /* a line that comes again may as well read again */
		else
			store_add_answer(
				store, evaluation->nonce, evaluation->line, evaluation->item, kept->data, kept->length);
	}
	if (is_kept)
		keep_output(session, result, &report);
	record(evaluation, session, result, &report.text, is_kept);
	if (!has_left)
		evaluation_expose(session, result->seq);
	text_free(&answer);
	text_free(&stored);
	report_free(&report);
}

/* How much of the line is shown: whole characters. */
static int shown_length(const char *line)
{
	size_t length = strlen(line);

	if (length <= LAST_LINE_MAX)
		return (int)length;
	for (length = LAST_LINE_MAX; length > 0 && ((unsigned char)line[length] & 0xC0) == 0x80;)
		length--;
	return (int)length;
}

void evaluation_progress(struct evaluation *evaluation, uint64_t elapsed_us, uint64_t lines, const char *last_line)
{
	double seconds = (double)elapsed_us / 1e6;
	size_t length = last_line ? strlen(last_line) : 0;
	char message[LAST_LINE_MAX + 128];

	/* Progress must rise; a clock that does not is no progress. */
	if (!evaluation->request || seconds <= evaluation->last_progress)
		return;
	evaluation->last_progress = seconds;
	char *line = new_copy(last_line, length);
	secrets_hide(evaluation->work.secrets, &line, &length);
	if (lines == 0)
		snprintf(message, sizeof(message), "%.0f s", seconds);
	else
		snprintf(message, sizeof(message), "%.0f s, %" PRIu64 " line%s of output: %.*s", seconds, lines,
			lines == 1 ? "" : "s", shown_length(line), line);
	free(line);
	request_progress(evaluation->request, seconds, message);
}
