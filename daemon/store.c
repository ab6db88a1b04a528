/*
 * store.c - the queue between the event loop and the thread that owns the database.
 */
#include "store.h"

#include "alloc.h"
#include "database.h"
#include "log.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <sys/queue.h>
#include <time.h>
#include <unistd.h>

/* Records may wait this long for company, or until so many have come. */
#define GROUP_MS 50
#define GROUP_SIZE 512
/* Between two tries after a failure; and how long nothing must happen before the log is folded in. */
#define RETRY_MS 1000
#define IDLE_MS 1000
/* A shim that stays away longer is not expected back. */
#define CONVERSATION_SECONDS (30 * 24 * 3600)

#define IN_MAX 9
#define OUT_MAX 6

struct job {
	STAILQ_ENTRY(job) next;
	enum database_statement statement;
	/* Nobody waits for it: it may be grouped with others, and it is kept until the disk takes it. */
	bool patient;
	struct value in[IN_MAX];
	size_t in_count;
	struct value out[OUT_MAX];
	enum database_result result;
	void (*deliver)(struct job *job); /* on the event loop; may be NULL */
	union {
		store_status_callback status;
		store_session_callback session;
		store_answer_callback answer;
		store_output_callback output;
		store_conversation_callback conversation;
	} done;
	void *context;
	bool owns_context; /* it is freed with the job, also if the callback never comes */
};
STAILQ_HEAD(job_list, job);

struct store {
	char *directory;
	pthread_t thread;
	struct event *finished_event;
	int finished_fd;
	char problem_copy[512]; /* the event loop's own */

	pthread_mutex_t mutex; /* for all below */
	pthread_cond_t wake;
	struct job_list queued;
	size_t queued_count;
	bool urgent; /* somebody waits, or a group is complete */
	bool closing;
	struct job_list finished;
	char problem[512];
};

/* ---- jobs */

static struct job *job_new(enum database_statement statement, bool patient)
{
	struct job *job = new_zeroed(sizeof(*job));

	job->statement = statement;
	job->patient = patient;
	return job;
}

static void job_free(struct job *job)
{
	for (size_t i = 0; i < IN_MAX; i++)
		value_free(&job->in[i]);
	for (size_t i = 0; i < OUT_MAX; i++)
		value_free(&job->out[i]);
	if (job->owns_context)
		free(job->context);
	free(job);
}

static void put_bytes(struct job *job, enum value_kind kind, const void *data, size_t length)
{
	struct value *value = &job->in[job->in_count++];

	if (data)
		*value = (struct value){.kind = kind, .data = new_copy(data, length), .length = length};
}

static void put_text(struct job *job, const char *text)
{
	put_bytes(job, VALUE_TEXT, text, text ? strlen(text) : 0);
}

static void put_nonce(struct job *job, const uint8_t *nonce)
{
	put_bytes(job, VALUE_BLOB, nonce, LINK_NONCE_SIZE);
}

static void put_number(struct job *job, uint64_t number)
{
	job->in[job->in_count++] = (struct value){.kind = VALUE_NUMBER, .number = (int64_t)number};
}

/* The thread sleeps through patient jobs until its group is complete, so that a busy loop does not wake it each time.
 */
static void enqueue(struct store *store, struct job *job)
{
	pthread_mutex_lock(&store->mutex);
	bool first = STAILQ_EMPTY(&store->queued);
	STAILQ_INSERT_TAIL(&store->queued, job, next);
	store->queued_count++;
	bool urgent = !job->patient || store->queued_count >= GROUP_SIZE;
	bool signal = first || (urgent && !store->urgent);
	store->urgent |= urgent;
	pthread_mutex_unlock(&store->mutex);
	if (signal)
		pthread_cond_signal(&store->wake);
}

/* ---- the thread */

static struct timespec from_now(long milliseconds)
{
	struct timespec at;

	clock_gettime(CLOCK_MONOTONIC, &at);
	at.tv_sec += milliseconds / 1000;
	at.tv_nsec += milliseconds % 1000 * 1000000;
	if (at.tv_nsec >= 1000000000) {
		at.tv_sec++;
		at.tv_nsec -= 1000000000;
	}
	return at;
}

/* Waits with the mutex held until the condition signals urgency or the time is over. */
static void wait_urgent(struct store *store, long milliseconds)
{
	struct timespec until = from_now(milliseconds);

	while (!store->urgent && !store->closing)
		if (pthread_cond_timedwait(&store->wake, &store->mutex, &until) == ETIMEDOUT)
			break;
}

static void set_problem(struct store *store, const char *problem)
{
	pthread_mutex_lock(&store->mutex);
	snprintf(store->problem, sizeof(store->problem), "%s", problem ? problem : "");
	pthread_mutex_unlock(&store->mutex);
}

static void hand_back(struct store *store, struct job_list *jobs)
{
	uint64_t one = 1;

	pthread_mutex_lock(&store->mutex);
	STAILQ_CONCAT(&store->finished, jobs);
	pthread_mutex_unlock(&store->mutex);
	if (write(store->finished_fd, &one, sizeof(one)) < 0 && errno != EAGAIN)
		abort();
}

static bool run_all(struct database *database, struct job_list *jobs)
{
	struct job *job;

	if (!database_begin(database))
		return false;
	STAILQ_FOREACH(job, jobs, next)
	{
		for (size_t i = 0; i < OUT_MAX; i++)
			value_free(&job->out[i]);
		job->result = database_run(database, job->statement, job->in, job->in_count, job->out, OUT_MAX);
		if (job->result == DATABASE_BROKEN)
			break;
	}
	if (!job && database_commit(database))
		return true;
	database_rollback(database);
	return false;
}

/* The disk said no: those who wait are told, the others stay for the next try. */
static void fail_impatient(struct store *store, struct job_list *jobs)
{
	struct job_list kept = STAILQ_HEAD_INITIALIZER(kept), failed = STAILQ_HEAD_INITIALIZER(failed);
	struct job *job;

	while ((job = STAILQ_FIRST(jobs))) {
		STAILQ_REMOVE_HEAD(jobs, next);
		job->result = DATABASE_BROKEN;
		if (job->patient)
			STAILQ_INSERT_TAIL(&kept, job, next);
		else
			STAILQ_INSERT_TAIL(&failed, job, next);
	}
	STAILQ_CONCAT(jobs, &kept);
	hand_back(store, &failed);
}

/* Waits for work, or after a failure until it is time to try again; false when the store closes and nothing is left. */
static bool collect(struct store *store, struct database *database, struct job_list *jobs)
{
	bool retry = database_problem(database) != NULL;

	pthread_mutex_lock(&store->mutex);
	if (retry) {
		wait_urgent(store, RETRY_MS);
	} else {
		while (STAILQ_EMPTY(&store->queued) && !store->closing) {
			struct timespec until = from_now(IDLE_MS);
			if (pthread_cond_timedwait(&store->wake, &store->mutex, &until) == ETIMEDOUT) {
				pthread_mutex_unlock(&store->mutex);
				database_checkpoint(database, true);
				pthread_mutex_lock(&store->mutex);
				while (STAILQ_EMPTY(&store->queued) && !store->closing)
					pthread_cond_wait(&store->wake, &store->mutex);
			}
		}
		wait_urgent(store, GROUP_MS);
	}
	STAILQ_CONCAT(jobs, &store->queued);
	store->queued_count = 0;
	store->urgent = false;
	bool closing = store->closing;
	pthread_mutex_unlock(&store->mutex);
	return !(closing && (retry || STAILQ_EMPTY(jobs)));
}

static void *run(void *context)
{
	struct store *store = context;
	struct database *database = database_open(store->directory);
	struct job_list jobs = STAILQ_HEAD_INITIALIZER(jobs);
	struct job *job;

	set_problem(store, database_problem(database));
	while (collect(store, database, &jobs)) {
		bool good = run_all(database, &jobs); /* without jobs it finds out whether the disk is well again */
		set_problem(store, database_problem(database));
		if (good) {
			hand_back(store, &jobs);
			database_checkpoint(database, false);
		} else {
			fail_impatient(store, &jobs);
		}
	}
	while ((job = STAILQ_FIRST(&jobs))) {
		STAILQ_REMOVE_HEAD(&jobs, next);
		job_free(job);
	}
	database_close(database);
	return NULL;
}

/* ---- the event loop's side */

static void on_finished(evutil_socket_t fd, short what, void *context)
{
	struct store *store = context;
	struct job_list jobs = STAILQ_HEAD_INITIALIZER(jobs);
	uint64_t count;
	struct job *job;

	(void)what;
	if (read(fd, &count, sizeof(count)) < 0 && errno != EAGAIN)
		abort();
	pthread_mutex_lock(&store->mutex);
	STAILQ_CONCAT(&jobs, &store->finished);
	bool changed = strcmp(store->problem, store->problem_copy) != 0;
	memcpy(store->problem_copy, store->problem, sizeof(store->problem));
	pthread_mutex_unlock(&store->mutex);
	if (changed && store->problem_copy[0])
		log_error("transcripts cannot be kept now: %s", store->problem_copy);
	else if (changed)
		log_info("transcripts can be kept again");
	while ((job = STAILQ_FIRST(&jobs))) {
		STAILQ_REMOVE_HEAD(&jobs, next);
		if (job->deliver)
			job->deliver(job);
		job_free(job);
	}
}

struct store *store_open(struct event_base *base, const char *directory)
{
	struct store *store = new_zeroed(sizeof(*store));
	pthread_condattr_t attributes;
	sigset_t all, old;

	store->directory = new_text(directory);
	STAILQ_INIT(&store->queued);
	STAILQ_INIT(&store->finished);
	pthread_mutex_init(&store->mutex, NULL);
	pthread_condattr_init(&attributes);
	pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	pthread_cond_init(&store->wake, &attributes);
	pthread_condattr_destroy(&attributes);
	store->finished_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (store->finished_fd < 0)
		abort();
	store->finished_event = must(event_new(base, store->finished_fd, EV_READ | EV_PERSIST, on_finished, store));
	event_add(store->finished_event, NULL);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old); /* signals are the event loop's */
	if (pthread_create(&store->thread, NULL, run, store) != 0)
		abort();
	pthread_sigmask(SIG_SETMASK, &old, NULL);

	struct job *job = job_new(DATABASE_FORGET_OLD_CONVERSATIONS, true);
	put_number(job, store_universal_time() - CONVERSATION_SECONDS);
	enqueue(store, job);
	enqueue(store, job_new(DATABASE_FORGET_LOST_ANSWERS, true));
	return store;
}

void store_close(struct store *store)
{
	struct job *job;

	pthread_mutex_lock(&store->mutex);
	store->closing = true;
	pthread_mutex_unlock(&store->mutex);
	pthread_cond_signal(&store->wake);
	pthread_join(store->thread, NULL);
	event_free(store->finished_event);
	close(store->finished_fd);
	while ((job = STAILQ_FIRST(&store->finished))) {
		STAILQ_REMOVE_HEAD(&store->finished, next);
		job_free(job);
	}
	pthread_cond_destroy(&store->wake);
	pthread_mutex_destroy(&store->mutex);
	free(store->directory);
	free(store);
}

const char *store_problem(const struct store *store)
{
	return store->problem_copy[0] ? store->problem_copy : NULL;
}

uint64_t store_universal_time(void)
{
	return (uint64_t)time(NULL) + UINT64_C(2208988800);
}

/* ---- sessions */

static void deliver_status(struct job *job)
{
	static const enum store_status statuses[] = {
		[DATABASE_ROW] = STORE_DONE,
		[DATABASE_DONE] = STORE_DONE,
		[DATABASE_EXISTS] = STORE_EXISTS,
		[DATABASE_BROKEN] = STORE_FAILED,
	};

	job->done.status(job->context, statuses[job->result]);
}

void store_add_session(
	struct store *store, const struct store_session *session, store_status_callback done, void *context)
{
	struct job *job = job_new(DATABASE_ADD_SESSION, false);

	put_text(job, session->id);
	put_text(job, session->name);
	put_number(job, session->owner);
	put_text(job, session->directory);
	put_number(job, session->created_at);
	job->deliver = deliver_status;
	job->done.status = done;
	job->context = context;
	enqueue(store, job);
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
	};

	job->done.session(job->context, job->result == DATABASE_ROW ? &found : NULL);
}

void store_find_session(
	struct store *store, const char *id_or_name, unsigned owner, store_session_callback done, void *context)
{
	struct job *job = job_new(DATABASE_FIND_SESSION, false);

	put_text(job, id_or_name);
	put_number(job, owner);
	job->deliver = deliver_session;
	job->done.session = done;
	job->context = context;
	enqueue(store, job);
}

static void set_column(struct store *store, enum database_statement statement, const char *session, const char *value,
	store_status_callback done, void *context)
{
	struct job *job = job_new(statement, !done);

	put_text(job, session);
	put_text(job, value);
	job->deliver = done ? deliver_status : NULL;
	job->done.status = done;
	job->context = context;
	job->owns_context = true;
	enqueue(store, job);
}

void store_set_limits(
	struct store *store, const char *session, const char *limits, store_status_callback done, void *context)
{
	set_column(store, DATABASE_SET_LIMITS, session, limits, done, context);
}

void store_set_reload(
	struct store *store, const char *session, const char *systems, store_status_callback done, void *context)
{
	set_column(store, DATABASE_SET_RELOAD, session, systems, done, context);
}

/* ---- evaluations and their answers */

void store_add_evaluation(
	struct store *store, const struct store_evaluation *evaluation, store_status_callback done, void *context)
{
	struct job *job = job_new(DATABASE_ADD_EVALUATION, true);

	put_text(job, evaluation->session);
	put_number(job, evaluation->seq);
	put_bytes(job, VALUE_TEXT, evaluation->code, evaluation->code_length);
	put_bytes(job, VALUE_TEXT, evaluation->text, evaluation->text_length);
	put_text(job, evaluation->package);
	put_number(job, (uint64_t)evaluation->outcome);
	put_number(job, evaluation->started_at);
	put_number(job, evaluation->elapsed_us);
	put_text(job, evaluation->operation);
	job->deliver = deliver_status;
	job->done.status = done;
	job->context = context;
	job->owns_context = true;
	enqueue(store, job);
}

void store_add_output(struct store *store, const struct store_output *output)
{
	struct job *job = job_new(DATABASE_ADD_OUTPUT, true);

	put_text(job, output->session);
	put_number(job, output->seq);
	put_text(job, output->stream);
	put_bytes(job, VALUE_TEXT, output->data, output->length);
	put_number(job, output->is_whole);
	enqueue(store, job);
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

	job->done.output(job->context, job->result == DATABASE_ROW ? &found : NULL);
}

void store_find_output(struct store *store, const char *session, uint64_t seq, const char *stream, uint64_t offset,
	uint64_t length, store_output_callback done, void *context)
{
	struct job *job = job_new(DATABASE_FIND_OUTPUT, false);

	put_text(job, session);
	put_number(job, seq);
	put_text(job, stream);
	put_number(job, offset);
	put_number(job, length);
	job->deliver = deliver_output;
	job->done.output = done;
	job->context = context;
	job->owns_context = true;
	enqueue(store, job);
}

void store_add_answer(struct store *store, const uint8_t nonce[static LINK_NONCE_SIZE], uint64_t line, uint32_t item,
	const char *answer, size_t length)
{
	struct job *job = job_new(DATABASE_ADD_ANSWER, true);

	put_nonce(job, nonce);
	put_number(job, line);
	put_number(job, item);
	put_bytes(job, VALUE_TEXT, answer, length);
	enqueue(store, job);
}

void store_settle(struct store *store, const uint8_t nonce[static LINK_NONCE_SIZE], uint64_t line)
{
	struct job *job = job_new(DATABASE_SETTLE, true);

	put_nonce(job, nonce);
	put_number(job, line);
	enqueue(store, job);
}

static void deliver_answer(struct job *job)
{
	job->done.answer(job->context, job->result == DATABASE_ROW, job->out[0].data, job->out[0].length);
}

void store_find_answer(struct store *store, const uint8_t nonce[static LINK_NONCE_SIZE], uint64_t line, uint32_t item,
	store_answer_callback done, void *context)
{
	struct job *job = job_new(DATABASE_FIND_ANSWER, false);

	put_nonce(job, nonce);
	put_number(job, line);
	put_number(job, item);
	job->deliver = deliver_answer;
	job->done.answer = done;
	job->context = context;
	job->owns_context = true;
	enqueue(store, job);
}

/* ---- conversations */

void store_save_conversation(struct store *store, const uint8_t nonce[static LINK_NONCE_SIZE], const char *revision,
	uint64_t initialize_line, const char *session, store_status_callback done, void *context)
{
	struct job *job = job_new(DATABASE_SAVE_CONVERSATION, !done);

	put_nonce(job, nonce);
	put_text(job, revision);
	put_number(job, initialize_line);
	put_text(job, session);
	put_number(job, store_universal_time());
	job->deliver = done ? deliver_status : NULL;
	job->done.status = done;
	job->context = context;
	enqueue(store, job);
}

void store_forget_conversation(struct store *store, const uint8_t nonce[static LINK_NONCE_SIZE])
{
	struct job *job = job_new(DATABASE_FORGET_CONVERSATION, true);

	put_nonce(job, nonce);
	enqueue(store, job);
	store_settle(store, nonce, INT64_MAX);
}

static void deliver_conversation(struct job *job)
{
	job->done.conversation(job->context, job->result == DATABASE_ROW, job->out[0].data,
		(uint64_t)job->out[1].number, job->out[2].data);
}

void store_find_conversation(struct store *store, const uint8_t nonce[static LINK_NONCE_SIZE],
	store_conversation_callback done, void *context)
{
	struct job *job = job_new(DATABASE_FIND_CONVERSATION, false);

	put_nonce(job, nonce);
	job->deliver = deliver_conversation;
	job->done.conversation = done;
	job->context = context;
	job->owns_context = true;
	enqueue(store, job);
}
