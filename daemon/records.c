/*
 * records.c - what the store keeps of sessions, evaluations and conversations: a function for each statement.
 */
#include "store.h"

#include "alloc.h"
#include "job.h"
#include "log.h"
#include "text.h"

#include <inttypes.h>
#include <limits.h>

/* What a shim that comes back has to know is looked for so many times more, a second apart, when the disk says no. */
#define LOOKUP_TRIES 3

/* Of code that is given to a session's process once more, in bytes: it has to fit into a frame, quoted. */
#define RECOLLECTED_MAX (UINT64_C(7) << 20)

/* ---- sessions */

static const enum store_status statuses[] = {
	[DATABASE_ROW] = STORE_DONE,
	[DATABASE_DONE] = STORE_DONE,
	[DATABASE_EXISTS] = STORE_EXISTS,
	[DATABASE_REFUSED] = STORE_FAILED,
	[DATABASE_BROKEN] = STORE_FAILED,
};

static void deliver_status(struct job *job)
{
	job->done.status(job->context, statuses[job->result]);
}

void store_add_session(
	struct store *store, const struct store_session *session, store_status_callback done, void *context)
{
	struct job *job = job_new(DATABASE_ADD_SESSION, false);

	job_put_text(job, session->id);
	job_put_text(job, session->name);
	job_put_number(job, session->owner);
	job_put_text(job, session->directory);
	job_put_number(job, session->created_at);
	job->deliver = deliver_status;
	job->done.status = done;
	job->context = context;
	store_enqueue(store, job);
}

void store_restore_session(struct store *store, const struct store_session *session)
{
	struct job *job = job_new(DATABASE_RESTORE_SESSION, true);

	job_put_text(job, session->id);
	job_put_text(job, session->name);
	job_put_number(job, session->owner);
	job_put_text(job, session->directory);
	job_put_number(job, session->created_at);
	job_put_number(job, session->has_history);
	job_put_text(job, session->limits);
	job_put_text(job, session->package);
	job_put_number(job, session->last_seq);
	store_enqueue(store, job);
}

static void deliver_session(struct job *job)
{
	struct store_found_session found = {
		.id = job->out[0].data,
		.name = job->out[1].data,
		.directory = job->out[2].data,
		.last_seq = (uint64_t)job->out[3].number,
		.limits = job->out[4].data,
		.reload = job->out[5].data,
		.created_at = (uint64_t)job->out[6].number,
		.has_history = job->out[7].number != 0,
		.state_file = job->out[8].data,
		.forgotten_seq = (uint64_t)job->out[9].number,
	};

	job->done.session(job->context, statuses[job->result], job->result == DATABASE_ROW ? &found : NULL);
}

static void find_session(struct store *store, unsigned tries, const char *id_or_name, unsigned owner,
	store_session_callback done, void *context)
{
	struct job *job = job_new(DATABASE_FIND_SESSION, false);

	job->tries = tries;
	job_put_text(job, id_or_name);
	job_put_number(job, owner);
	job->deliver = deliver_session;
	job->done.session = done;
	job->context = context;
	store_enqueue(store, job);
}

static void deliver_ids(struct job *job)
{
	job->done.ids(job->context, job->result == DATABASE_ROW ? job->out[0].data : NULL);
}

void store_find_births(struct store *store, store_ids_callback done, void *context)
{
	struct job *job = job_new(DATABASE_FIND_BIRTHS, true);

	job->deliver = deliver_ids;
	job->done.ids = done;
	job->context = context;
	store_enqueue(store, job);
}

void store_find_unused(
	struct store *store, unsigned owner, uint64_t since, uint64_t most, store_ids_callback done, void *context)
{
	struct job *job = job_new(DATABASE_FIND_UNUSED, false);

	job_put_number(job, owner);
	job_put_number(job, since);
	job_put_number(job, most);
	job->deliver = deliver_ids;
	job->done.ids = done;
	job->context = context;
	store_enqueue(store, job);
}

static void deliver_deleted(struct job *job)
{
	job->done.status(job->context, job->result == DATABASE_ROW ? STORE_DONE : STORE_FAILED);
}

void store_delete_unused(struct store *store, const char *id, uint64_t since, store_status_callback done, void *context)
{
	struct job *job = job_new(DATABASE_DELETE_UNUSED, true);

	job_put_text(job, id);
	job_put_number(job, since);
	job->deliver = deliver_deleted;
	job->done.status = done;
	job->context = context;
	job->owns_context = true;
	store_enqueue(store, job);
}

void store_forget_birth(struct store *store, const char *id)
{
	struct job *job = job_new(DATABASE_FORGET_BIRTH, true);

	job_put_text(job, id);
	store_enqueue(store, job);
}

void store_find_session(
	struct store *store, const char *id_or_name, unsigned owner, store_session_callback done, void *context)
{
	find_session(store, 0, id_or_name, owner, done, context);
}

void store_expect_session(
	struct store *store, const char *id, unsigned owner, store_session_callback done, void *context)
{
	find_session(store, UINT_MAX, id, owner, done, context);
}

static void set_column(struct store *store, enum database_statement statement, bool patient, const char *session,
	const char *value, store_status_callback done, void *context)
{
	struct job *job = job_new(statement, patient);

	job_put_text(job, session);
	job_put_text(job, value);
	job->deliver = done ? deliver_status : NULL;
	job->done.status = done;
	job->context = context;
	job->owns_context = true;
	store_enqueue(store, job);
}

void store_set_limits(
	struct store *store, const char *session, const char *limits, store_status_callback done, void *context)
{
	set_column(store, DATABASE_SET_LIMITS, !done, session, limits, done, context);
}

void store_set_reload(
	struct store *store, const char *session, const char *systems, store_status_callback done, void *context)
{
	set_column(store, DATABASE_SET_RELOAD, !done, session, systems, done, context);
}

void store_set_state_file(
	struct store *store, const char *session, const char *file, store_status_callback done, void *context)
{
	set_column(store, DATABASE_SET_STATE_FILE, false, session, file, done, context);
}

void store_clear_state_file(struct store *store, const char *session, store_status_callback done, void *context)
{
	set_column(store, DATABASE_SET_STATE_FILE, true, session, NULL, done, context);
}

static void deliver_mended(struct job *job)
{
	if (job->result == DATABASE_ROW)
		log_warning(
			"INVALID-TIMESTAMP: the times of %.60s and perhaps of others lay more than a day ahead; they are "
			"replaced by the current one",
			job->out[0].data);
}

void store_mend_times(struct store *store)
{
	static const enum database_statement statements[] = {DATABASE_MEND_MESSAGE_TIMES, DATABASE_MEND_SESSION_TIMES};
	uint64_t now = store_universal_time();

	if (now == STORE_FIRST_TIME)
		log_warning("INVALID-TIMESTAMP: the clock is before 2020; what is stored now is stored as of then");
	for (size_t i = 0; i < sizeof(statements) / sizeof(*statements); i++) {
		struct job *job = job_new(statements[i], true);
		job_put_number(job, now);
		job_put_number(job, now + STORE_DAY_SECONDS);
		job->deliver = deliver_mended;
		store_enqueue(store, job);
	}
}

/* ---- evaluations and their answers */

/* SQLite's functions for text end at a NUL: a transcript has its picture instead. */
static void put_readable(struct job *job, const char *data, size_t length)
{
	struct text text = {0};
	const char *nul;

	if (!data || !memchr(data, '\0', length)) {
		job_put_bytes(job, VALUE_TEXT, data, length);
		return;
	}
	while ((nul = memchr(data, '\0', length))) {
		text_add(&text, data, (size_t)(nul - data));
		text_puts(&text, "\u2400");
		length -= (size_t)(nul + 1 - data);
		data = nul + 1;
	}
	text_add(&text, data, length);
	job_put_bytes(job, VALUE_TEXT, text.data, text.length);
	text_free(&text);
}

void store_add_evaluation(
	struct store *store, const struct store_evaluation *evaluation, store_status_callback done, void *context)
{
	struct job *job = job_new(DATABASE_ADD_EVALUATION, true);

	job_put_text(job, evaluation->session);
	job_put_number(job, evaluation->seq);
	put_readable(job, evaluation->code, evaluation->code_length);
	put_readable(job, evaluation->text, evaluation->text_length);
	job_put_text(job, evaluation->package);
	job_put_number(job, (uint64_t)evaluation->outcome);
	job_put_number(job, evaluation->started_at);
	job_put_number(job, evaluation->elapsed_us);
	job_put_text(job, evaluation->operation);
	if (evaluation->restored)
		job_put_number(job, evaluation->restored);
	else
		job_put_nothing(job);
	job_put_text(job, evaluation->given);
	job_put_number(job, evaluation->forms);
	job->deliver = deliver_status;
	job->done.status = done;
	job->context = context;
	job->owns_context = true;
	store_enqueue(store, job);
}

static void deliver_text(struct job *job)
{
	job->done.text(job->context, statuses[job->result], job->result == DATABASE_ROW ? job->out[0].data : NULL);
}

void store_recollect(struct store *store, const char *session, uint64_t since, store_text_callback done, void *context)
{
	struct job *job = job_new(DATABASE_RECOLLECT, false);

	job->tries = LOOKUP_TRIES;
	job_put_text(job, session);
	job_put_number(job, since);
	job_put_number(job, RECOLLECTED_MAX);
	job->deliver = deliver_text;
	job->done.text = done;
	job->context = context;
	job->owns_context = true;
	store_enqueue(store, job);
}

void store_skip_evaluation(struct store *store, const char *session, uint64_t seq, const char *package,
	store_status_callback done, void *context)
{
	struct job *job = job_new(DATABASE_SKIP_EVALUATION, true);

	job_put_text(job, session);
	job_put_number(job, seq);
	job_put_text(job, package);
	job->deliver = deliver_status;
	job->done.status = done;
	job->context = context;
	job->owns_context = true;
	store_enqueue(store, job);
}

void store_add_output(struct store *store, const struct store_output *output)
{
	struct job *job = job_new(DATABASE_ADD_OUTPUT, true);

	job_put_text(job, output->session);
	job_put_number(job, output->seq);
	job_put_text(job, output->stream);
	job_put_bytes(job, VALUE_TEXT, output->data, output->length);
	job_put_number(job, output->is_whole);
	store_enqueue(store, job);
}

static void deliver_output(struct job *job)
{
	struct store_found_output found = {
		.seq = (uint64_t)job->out[0].number,
		.text = job->out[1].data,
		.length = job->out[1].length,
		.characters = (uint64_t)job->out[2].number,
		.is_whole = job->out[3].number != 0,
	};

	job->done.output(job->context, statuses[job->result], job->result == DATABASE_ROW ? &found : NULL);
}

void store_find_output(struct store *store, const char *session, uint64_t seq, const char *stream, uint64_t offset,
	uint64_t length, store_output_callback done, void *context)
{
	struct job *job = job_new(DATABASE_FIND_OUTPUT, false);

	job_put_text(job, session);
	job_put_number(job, seq);
	job_put_text(job, stream);
	job_put_number(job, offset);
	job_put_number(job, length);
	job->deliver = deliver_output;
	job->done.output = done;
	job->context = context;
	job->owns_context = true;
	store_enqueue(store, job);
}

void store_add_answer(struct store *store, const uint8_t nonce[static LINK_NONCE_SIZE], uint64_t line, uint32_t item,
	const char *answer, size_t length)
{
	struct job *job = job_new(DATABASE_ADD_ANSWER, true);

	job_put_nonce(job, nonce);
	job_put_number(job, line);
	job_put_number(job, item);
	job_put_nothing(job);
	job_put_bytes(job, VALUE_TEXT, answer, length);
	store_enqueue(store, job);
}

void store_settle(struct store *store, const uint8_t nonce[static LINK_NONCE_SIZE], uint64_t line, const uint64_t *open,
	size_t open_count)
{
	struct job *job = job_new(DATABASE_SETTLE, true);
	struct text list = {0};

	for (size_t i = 0; i < open_count; i++)
		text_printf(&list, "%s%" PRIu64, i ? "," : "[", open[i]);
	text_puts(&list, open_count ? "]" : "[]");
	job_put_nonce(job, nonce);
	job_put_number(job, line);
	job_put_text(job, list.data);
	text_free(&list);
	store_enqueue(store, job);
}

static void deliver_answer(struct job *job)
{
	struct store_found_answer found = {
		.text = job->out[0].data,
		.length = job->out[0].length,
		.tool = job->out[1].data,
	};

	job->done.answer(job->context, statuses[job->result], job->result == DATABASE_ROW ? &found : NULL);
}

void store_find_answer(struct store *store, const uint8_t nonce[static LINK_NONCE_SIZE], uint64_t line, uint32_t item,
	store_answer_callback done, void *context)
{
	struct job *job = job_new(DATABASE_FIND_ANSWER, false);

	job->tries = LOOKUP_TRIES;
	job_put_nonce(job, nonce);
	job_put_number(job, line);
	job_put_number(job, item);
	job->deliver = deliver_answer;
	job->done.answer = done;
	job->context = context;
	job->owns_context = true;
	store_enqueue(store, job);
}

/* ---- conversations */

void store_save_conversation(struct store *store, const uint8_t nonce[static LINK_NONCE_SIZE],
	const struct store_conversation *conversation, store_status_callback done, void *context)
{
	struct job *job = job_new(DATABASE_SAVE_CONVERSATION, !done);

	job_put_nonce(job, nonce);
	job_put_text(job, conversation->revision);
	job_put_number(job, conversation->initialize_line);
	job_put_text(job, conversation->session);
	job_put_number(job, conversation->has_begun);
	job_put_text(job, conversation->directory);
	job_put_text(job, conversation->client ? conversation->client : "");
	job_put_number(job, store_universal_time());
	job->deliver = done ? deliver_status : NULL;
	job->done.status = done;
	job->context = context;
	store_enqueue(store, job);
}

void store_forget_conversation(struct store *store, const uint8_t nonce[static LINK_NONCE_SIZE])
{
	struct job *job = job_new(DATABASE_FORGET_CONVERSATION, true);

	job_put_nonce(job, nonce);
	store_enqueue(store, job);
	store_settle(store, nonce, INT64_MAX, NULL, 0);
}

static void deliver_conversation(struct job *job)
{
	struct store_conversation found = {
		.revision = job->out[0].data,
		.initialize_line = (uint64_t)job->out[1].number,
		.session = job->out[2].data,
		.has_begun = job->out[3].number != 0,
		.client = job->out[4].data,
		.subscriptions = job->out[5].data,
	};

	job->done.conversation(job->context, statuses[job->result], job->result == DATABASE_ROW ? &found : NULL);
}

void store_find_conversation(struct store *store, const uint8_t nonce[static LINK_NONCE_SIZE],
	store_conversation_callback done, void *context)
{
	struct job *job = job_new(DATABASE_FIND_CONVERSATION, false);

	job->tries = LOOKUP_TRIES;
	job_put_nonce(job, nonce);
	job->deliver = deliver_conversation;
	job->done.conversation = done;
	job->context = context;
	job->owns_context = true;
	store_enqueue(store, job);
}

void store_add_subscription(
	struct store *store, const uint8_t nonce[static LINK_NONCE_SIZE], const struct store_subscription *subscription)
{
	struct job *job = job_new(DATABASE_SUBSCRIBE, true);

	job_put_number(job, subscription->owner);
	job_put_nonce(job, nonce);
	job_put_text(job, subscription->uri);
	job_put_text(job, subscription->session);
	job_put_number(job, subscription->most);
	store_enqueue(store, job);
}

void store_use_session(struct store *store, const uint8_t nonce[static LINK_NONCE_SIZE], const char *session)
{
	struct job *job = job_new(DATABASE_USE_SESSION, true);

	job_put_nonce(job, nonce);
	job_put_text(job, session);
	store_enqueue(store, job);
}

static void deliver_last_used(struct job *job)
{
	job->done.last_used(job->context, statuses[job->result], job->result == DATABASE_ROW ? job->out[0].data : NULL);
}

void store_last_used_session(struct store *store, unsigned owner, const char *directory, const char *client,
	store_last_used_callback done, void *context)
{
	struct job *job = job_new(DATABASE_LAST_USED_SESSION, false);

	job_put_number(job, owner);
	job_put_text(job, directory);
	job_put_text(job, client);
	job->deliver = deliver_last_used;
	job->done.last_used = done;
	job->context = context;
	store_enqueue(store, job);
}
