/*
 * store.c - the queue between the event loop and the thread that owns the database.
 */
#include "store.h"

#include "alloc.h"
#include "database.h"
#include "job.h"
#include "log.h"
#include "watch.h"

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

/* What the thread has to say of its database; a text is empty if there is nothing. */
struct said {
	char problem[640];
	char notice[640];
	uint64_t used_bytes;
};

struct store {
	char *directory;
	pthread_t thread;
	struct event *finished_event;
	int finished_fd;
	store_made_callback made;
	void *made_context;
	struct said said_copy; /* the event loop's own */
	bool is_filling;       /* what it adds goes before what waits */

	pthread_mutex_t mutex; /* for all below */
	pthread_cond_t wake;
	struct job_list queued;
	size_t queued_count;
	bool urgent; /* somebody waits, or a group is complete */
	bool closing;
	struct chore *chore; /* NULL if there is none */
	struct chore_said chore_said;
	struct job_list finished;
	bool wants_rows; /* the thread waits for what belongs into a new database */
	struct job_list rows;
	struct said said;
};

/* The thread sleeps through patient jobs until its group is complete, so that a busy loop does not wake it each time.
 */
void store_enqueue(struct store *store, struct job *job)
{
	pthread_mutex_lock(&store->mutex);
	if (store->is_filling) {
		STAILQ_INSERT_TAIL(&store->rows, job, next);
		pthread_mutex_unlock(&store->mutex);
		return;
	}
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

void store_hurry(struct store *store)
{
	pthread_mutex_lock(&store->mutex);
	store->urgent = true;
	pthread_mutex_unlock(&store->mutex);
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

static void tell(struct store *store, const struct database *database)
{
	const char *problem = database_problem(database), *notice = database_notice(database);

	pthread_mutex_lock(&store->mutex);
	snprintf(store->said.problem, sizeof(store->said.problem), "%s", problem ? problem : "");
	snprintf(store->said.notice, sizeof(store->said.notice), "%s", notice ? notice : "");
	pthread_mutex_unlock(&store->mutex);
}

static void note_used_bytes(struct store *store, struct database *database)
{
	struct value owner = {.kind = VALUE_NUMBER, .number = geteuid()}, used = {0};

	if (database_run(database, DATABASE_USED_BYTES, &owner, 1, &used, 1) != DATABASE_ROW)
		return;
	pthread_mutex_lock(&store->mutex);
	store->said.used_bytes = (uint64_t)used.number;
	pthread_mutex_unlock(&store->mutex);
}

static void wake_loop(struct store *store)
{
	uint64_t one = 1;

	ssize_t length;

	do /* until it is told, or will be: the count is full */
		length = write(store->finished_fd, &one, sizeof(one));
	while (length < 0 && errno == EINTR);
	if (length < 0 && errno != EAGAIN)
		die("the store cannot tell what it has done");
}

static void hand_back(struct store *store, struct job_list *jobs)
{
	pthread_mutex_lock(&store->mutex);
	STAILQ_CONCAT(&store->finished, jobs);
	pthread_mutex_unlock(&store->mutex);
	wake_loop(store);
}

/* The event loop knows what belongs into a new database; that goes first. False if it has no time for that any more. */
static bool fetch_rows(struct store *store, struct job_list *jobs)
{
	struct job_list rows = STAILQ_HEAD_INITIALIZER(rows);

	pthread_mutex_lock(&store->mutex);
	store->wants_rows = true;
	wake_loop(store);
	while (store->wants_rows && !store->closing)
		pthread_cond_wait(&store->wake, &store->mutex);
	bool is_served = !store->wants_rows;
	STAILQ_CONCAT(&rows, &store->rows);
	pthread_mutex_unlock(&store->mutex);
	STAILQ_CONCAT(&rows, jobs);
	STAILQ_CONCAT(jobs, &rows);
	return is_served;
}

static void run_statement(struct database *database, struct job *job)
{
	for (size_t i = 0; i < JOB_OUT_MAX; i++)
		value_free(&job->out[i]);
	if (job->prepare && !job->prepare(job))
		return;
	job->prepare = NULL; /* once is enough if the statement is tried again */
	job->result = database_run(database, job->statement, job->in, job->in_count, job->out, JOB_OUT_MAX);
	if (job->result == DATABASE_ROW && job->conclude)
		job->conclude(job);
}

/* The sequel gets what was found as its last value. */
static void run_sequel(struct database *database, struct job *job)
{
	struct job *sequel = job->sequel;

	sequel->in[sequel->in_count++] = job->out[0]; /* lent */
	run_statement(database, sequel);
	sequel->in[--sequel->in_count] = (struct value){0};
	if (sequel->result != DATABASE_DONE)
		job->result = sequel->result;
}

/* False if the transaction cannot go on. */
static bool run_one(struct database *database, struct job *job)
{
	run_statement(database, job);
	if (job->result == DATABASE_ROW && job->sequel)
		run_sequel(database, job);
	return job->result != DATABASE_BROKEN;
}

static bool run_all(struct database *database, struct job_list *jobs)
{
	struct job *job;

	if (!database_begin(database))
		return false;
	STAILQ_FOREACH(job, jobs, next)
	if (!run_one(database, job))
		break;
	if (!job && database_commit(database))
		return true;
	database_rollback(database);
	return false;
}

static bool may_wait(struct job *job)
{
	bool has_tries = job->tries > 0;

	job->tries -= has_tries;
	return job->patient || has_tries;
}

/* The disk said no: those who wait are told, the others stay for the next try. */
static void fail_impatient(struct store *store, struct job_list *jobs)
{
	struct job_list kept = STAILQ_HEAD_INITIALIZER(kept), failed = STAILQ_HEAD_INITIALIZER(failed);
	struct job *job;

	while ((job = STAILQ_FIRST(jobs))) {
		STAILQ_REMOVE_HEAD(jobs, next);
		job->result = DATABASE_BROKEN;
		if (may_wait(job))
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
		wait_urgent(store, database_is_doubted(database) ? 0 : RETRY_MS);
	} else {
		while (STAILQ_EMPTY(&store->queued) && !store->closing && !store->chore) {
			struct timespec until = from_now(IDLE_MS);
			if (pthread_cond_timedwait(&store->wake, &store->mutex, &until) == ETIMEDOUT) {
				pthread_mutex_unlock(&store->mutex);
				database_checkpoint(database, true);
				pthread_mutex_lock(&store->mutex);
				while (STAILQ_EMPTY(&store->queued) && !store->closing && !store->chore)
					pthread_cond_wait(&store->wake, &store->mutex);
			}
		}
		if (!store->chore)
			wait_urgent(store, GROUP_MS);
	}
	STAILQ_CONCAT(jobs, &store->queued);
	store->queued_count = 0;
	store->urgent = false;
	bool closing = store->closing;
	pthread_mutex_unlock(&store->mutex);
	return !(closing && (retry || STAILQ_EMPTY(jobs)));
}

static bool make_ready(struct store *store, struct database *database)
{
	bool is_ready = database_ready(database);

	tell(store, database);
	return is_ready;
}

/* A slice, between two groups of jobs. Without a database, which may be opened anew, there is none. */
static void work_on_chore(struct store *store, struct database *database, bool good)
{
	pthread_mutex_lock(&store->mutex);
	struct chore *chore = store->chore;
	struct chore_said said = store->chore_said;
	pthread_mutex_unlock(&store->mutex);
	if (!chore)
		return;
	bool goes_on = good && chore_work(chore, database, &said);
	if (!good) {
		said.state = CHORE_FAILED;
		snprintf(said.words, sizeof(said.words), "The database cannot be used: %.400s",
			database_problem(database));
	}
	if (!goes_on)
		chore_free(chore);
	pthread_mutex_lock(&store->mutex);
	store->chore = goes_on ? chore : NULL;
	store->chore_said = said;
	pthread_mutex_unlock(&store->mutex);
}

static void *run(void *context)
{
	struct store *store = context;
	struct database *database = database_new(store->directory);
	struct job_list jobs = STAILQ_HEAD_INITIALIZER(jobs);
	struct job *job;
	bool good = make_ready(store, database);

	while (collect(store, database, &jobs)) {
		good = good || make_ready(store, database);
		if (good && database_was_made(database) && !fetch_rows(store, &jobs))
			break;
		good = good && run_all(database, &jobs); /* without jobs it finds out whether the disk is well again */
		tell(store, database);
		if (good) {
			note_used_bytes(store, database);
			hand_back(store, &jobs);
			database_checkpoint(database, false);
		} else {
			fail_impatient(store, &jobs);
		}
		work_on_chore(store, database, good);
	}
	while ((job = STAILQ_FIRST(&jobs))) {
		STAILQ_REMOVE_HEAD(&jobs, next);
		job_free(job);
	}
	if (store->chore)
		chore_free(store->chore);
	database_free(database);
	return NULL;
}

/* ---- the event loop's side */

static void log_news(const struct said *before, const struct said *now)
{
	if (strcmp(before->notice, now->notice) != 0)
		log_error("%s", now->notice);
	if (strcmp(before->problem, now->problem) == 0)
		return;
	if (now->problem[0])
		log_error("transcripts cannot be kept now: %s", now->problem);
	else
		log_info("transcripts can be kept again");
}

static void fill(struct store *store)
{
	store->is_filling = true;
	store->made(store->made_context);
	store->is_filling = false;
	pthread_mutex_lock(&store->mutex);
	store->wants_rows = false;
	pthread_mutex_unlock(&store->mutex);
	pthread_cond_signal(&store->wake);
}

static void on_finished(evutil_socket_t fd, short what, void *context)
{
	struct store *store = context;
	struct job_list jobs = STAILQ_HEAD_INITIALIZER(jobs);
	struct said before = store->said_copy;
	uint64_t count;
	struct job *job;

	(void)what;
	if (read(fd, &count, sizeof(count)) < 0 && errno != EAGAIN && errno != EINTR)
		die("what the store has done cannot be heard");
	pthread_mutex_lock(&store->mutex);
	STAILQ_CONCAT(&jobs, &store->finished);
	store->said_copy = store->said;
	bool wants_rows = store->wants_rows;
	pthread_mutex_unlock(&store->mutex);
	log_news(&before, &store->said_copy);
	while ((job = STAILQ_FIRST(&jobs))) {
		STAILQ_REMOVE_HEAD(&jobs, next);
		if (job->deliver)
			job->deliver(job);
		job_free(job);
	}
	if (wants_rows)
		fill(store);
}

struct store *store_open(struct event_base *base, const char *directory, store_made_callback made, void *context)
{
	struct store *store = new_zeroed(sizeof(*store));
	pthread_condattr_t attributes;
	sigset_t all, old;

	store->directory = new_text(directory);
	store->made = made;
	store->made_context = context;
	STAILQ_INIT(&store->queued);
	STAILQ_INIT(&store->finished);
	STAILQ_INIT(&store->rows);
	pthread_mutex_init(&store->mutex, NULL);
	pthread_condattr_init(&attributes);
	pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	pthread_cond_init(&store->wake, &attributes);
	pthread_condattr_destroy(&attributes);
	store->finished_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (store->finished_fd < 0)
		die("no descriptor for the store");
	store->finished_event = must(event_new(base, store->finished_fd, EV_READ | EV_PERSIST, on_finished, store));
	watch(store->finished_event);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old); /* signals are the event loop's */
	if (pthread_create(&store->thread, NULL, run, store) != 0)
		die("no thread for the store");
	pthread_sigmask(SIG_SETMASK, &old, NULL);

	struct job *job = job_new(DATABASE_FORGET_OLD_CONVERSATIONS, true);
	job_put_number(job, store_universal_time() - CONVERSATION_SECONDS);
	store_enqueue(store, job);
	store_enqueue(store, job_new(DATABASE_FORGET_LOST_ANSWERS, true));
	store_mend_times(store);
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

bool store_begin_chore(struct store *store, struct chore *chore)
{
	pthread_mutex_lock(&store->mutex);
	bool is_free = !store->chore;
	if (is_free) {
		store->chore = chore;
		store->chore_said = (struct chore_said){.state = CHORE_RUNNING};
	}
	pthread_mutex_unlock(&store->mutex);
	if (is_free)
		pthread_cond_signal(&store->wake);
	else
		chore_free(chore);
	return is_free;
}

struct chore_said store_chore(struct store *store)
{
	pthread_mutex_lock(&store->mutex);
	struct chore_said said = store->chore_said;
	pthread_mutex_unlock(&store->mutex);
	return said;
}

uint64_t store_used_bytes(const struct store *store)
{
	return store->said_copy.used_bytes;
}

const char *store_problem(const struct store *store)
{
	return store->said_copy.problem[0] ? store->said_copy.problem : NULL;
}

const char *store_notice(const struct store *store)
{
	return store->said_copy.notice[0] ? store->said_copy.notice : NULL;
}

uint64_t store_universal_time(void)
{
	uint64_t now = (uint64_t)time(NULL) + STORE_UNIX_EPOCH;

	return now > STORE_FIRST_TIME ? now : STORE_FIRST_TIME;
}

bool store_time_is_likely(uint64_t universal_time)
{
	return universal_time >= STORE_FIRST_TIME && universal_time <= store_universal_time() + STORE_DAY_SECONDS;
}
