/*
 * session.c - the session's state machine.
 */
#include "session.h"

#include "adoption.h"
#include "alloc.h"
#include "checkpoint.h"
#include "clock.h"
#include "cloning.h"
#include "evaluation.h"
#include "hibernation.h"
#include "idling.h"
#include "log.h"
#include "memo.h"
#include "nesting.h"
#include "overdue.h"
#include "paths.h"
#include "quota.h"
#include "store.h"
#include "tools.h"
#include "worker.h"
#include "zygote.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

static const struct timeval tick_time = {1, 0};

static const char *const state_names[] = {
	[SESSION_CREATING] = "creating",
	[SESSION_WAITING] = "waiting",
	[SESSION_DIALING] = "dialing",
	[SESSION_READY] = "idle",
	[SESSION_RUNNING] = "running",
	[SESSION_DYING] = "dying",
	[SESSION_REVIVING] = "reviving",
	[SESSION_EMPTY] = "empty",
	[SESSION_ENDING] = "ending",
};

void session_enter(struct session *session, enum session_state state)
{
	unsigned changes = CHANGED_STATE;

	/* Another process, or none: what was defined may be gone. */
	if (state == SESSION_EMPTY || state == SESSION_REVIVING)
		changes |= CHANGED(RESOURCE_DEFINITIONS);
	session->state = state;
	subscription_announce(session->server, session->owner, session->id, changes);
}

/* ---- progress */

static void on_tick(evutil_socket_t fd, short what, void *context)
{
	struct session *session = context;

	(void)fd;
	(void)what;
	if (session->state == SESSION_RUNNING)
		worker_peek(session->worker);
}

static void start_tick(struct session *session, const struct evaluation *evaluation)
{
	if (evaluation->request && evaluation->request->progress_token)
		event_add(session->tick, &tick_time);
}

/* ---- evaluations */

void session_refuse_all(struct session *session, const char *type, const char *why)
{
	struct evaluation *evaluation;
	struct request *request;

	while ((evaluation = TAILQ_FIRST(&session->evaluations))) {
		TAILQ_REMOVE(&session->evaluations, evaluation, next);
		if (evaluation->request)
			request_fail(evaluation->request, type, "%s", why);
		evaluation_free(evaluation);
	}
	while ((request = visit_next(&session->visits)))
		request_fail(request, type, "%s", why);
}

void session_spawn(struct session *session)
{
	struct text why_not = {0};

	if (!quota_allows_process(session->server, session->owner, session, &why_not)) {
		session_enter(session, SESSION_EMPTY);
		session_refuse_all(session, QUOTA_EXCEEDED, why_not.data);
		text_free(&why_not);
		return;
	}
	session_enter(session, SESSION_WAITING);
	zygote_spawn(
		session->server->zygote, session->id, session->directory, session->last_seq, session->incarnation + 1);
}

static void set_limits(const struct session *session, struct work *work)
{
	bool loads = work->operation && strcmp(work->operation, OPERATION_LIST_DEFINITIONS) != 0;

	work->heap_limit = (uint64_t)limit_get(&session->limits, LIMIT_HEAP) << 20;
	work->output_max = (uint64_t)limit_get(&session->limits, LIMIT_OUTPUT);
	work->value_max = (uint64_t)limit_get(&session->limits, LIMIT_VALUE);
	if (!work->is_timed)
		work->time_limit_ms =
			limit_milliseconds(limit_get(&session->limits, loads ? LIMIT_LOAD_TIMEOUT : LIMIT_TIMEOUT));
}

static void put_origin(struct frame_builder *origin, const struct session *session, const struct evaluation *evaluation)
{
	const char *default_session = evaluation->request->conversation->session;
	bool is_default = default_session && strcmp(default_session, session->id) == 0;

	origin_encode(origin, evaluation->request, evaluation->started_at, is_default, &evaluation->work);
}

static void send_first(struct session *session)
{
	struct evaluation *evaluation = TAILQ_FIRST(&session->evaluations);
	struct frame_builder origin = {0};

	evaluation->seq = ++session->last_seq;
	evaluation->started_at = store_universal_time();
	set_limits(session, &evaluation->work);
	if (evaluation->request) {
		put_origin(&origin, session, evaluation);
		if (!evaluation->is_reading)
			conversation_use(evaluation->request->conversation, session->id);
	}
	worker_evaluate(session->worker, session->incarnation, evaluation->seq, &origin, &evaluation->work);
	frame_builder_free(&origin);
	session_enter(session, SESSION_RUNNING);
	if (evaluation->work.time_limit_ms > 0)
		overdue_expect(session, evaluation->work.time_limit_ms);
	start_tick(session, evaluation);
}

/*
 * The first evaluation whose client reads its answers; one that does not must not hold up the others. The second half
 * of a reset comes before all.
 */
static struct evaluation *first_wanted(struct session *session)
{
	struct evaluation *evaluation;

	TAILQ_FOREACH(evaluation, &session->evaluations, next)
	if (!evaluation->request)
		return evaluation;
	else if (session->server->is_leaving)
		continue;
	else if (session_reset_goes_on_alone(evaluation) || !conversation_congested(evaluation->request->conversation))
		return evaluation;
	return NULL;
}

/* Code that is nested too deep would exhaust the stack of whoever reads it. */
static bool refuse_deep(struct session *session, struct evaluation *evaluation)
{
	size_t depth = nesting_depth(evaluation->work.code, evaluation->work.code_length);
	double most = limit_get(&session->limits, LIMIT_NESTING);

	if (evaluation->work.operation || (double)depth <= most)
		return false;
	request_fail(evaluation->request, "NESTING-LIMIT",
		"The code is nested %zu levels deep, and this session reads %.0f. Nothing was evaluated. configure-limits with "
		"max-nesting allows more.",
		depth, most);
	evaluation_free(evaluation);
	return true;
}

void session_advance(struct session *session)
{
	struct evaluation *evaluation;

	if (session->state == SESSION_EMPTY)
		cloning_refuse_all(session);
	if (session->is_undecided)
		return;
	if (session->state == SESSION_EMPTY && !session->server->is_leaving && !TAILQ_EMPTY(&session->evaluations))
		session_spawn(session);
	if (session->state == SESSION_READY)
		hibernation_attend(session);
	/* First come the results that the worker has brought along: one may be of what waits here. */
	while (session->state == SESSION_READY && !session->is_undecided && session->kept == 0 &&
		session->exposed_seq <= session->stored_seq && (evaluation = first_wanted(session)) &&
		!checkpoint_must_wait(session, evaluation)) {
		TAILQ_REMOVE(&session->evaluations, evaluation, next);
		if (evaluation->cloning) {
			cloning_begin(session, evaluation);
			continue;
		}
		if (refuse_deep(session, evaluation))
			continue;
		TAILQ_INSERT_HEAD(&session->evaluations, evaluation, next);
		send_first(session);
	}
}

void session_advance_all(struct server *server)
{
	struct session *session;

	LIST_FOREACH(session, &server->roster.sessions, next)
	session_advance(session);
}

bool session_has_process(const struct session *session)
{
	return session->state != SESSION_EMPTY;
}

static void enqueue(struct session *session, struct evaluation *evaluation)
{
	evaluation->request->session = session;
	evaluation->request->evaluation = evaluation;
	TAILQ_INSERT_TAIL(&session->evaluations, evaluation, next);
	hibernation_disturb(session);
	session_advance(session);
}

void session_evaluate(struct session *session, struct request *request, const struct work *work)
{
	enqueue(session, evaluation_new(request, work));
}

void session_clone(struct session *session, struct request *request, struct cloning *cloning)
{
	struct evaluation *evaluation = evaluation_new(request, &(struct work){0});

	evaluation->cloning = cloning;
	enqueue(session, evaluation);
}

void session_cancel(struct session *session, struct request *request)
{
	struct evaluation *evaluation;

	TAILQ_FOREACH(evaluation, &session->evaluations, next)
	if (evaluation->request == request)
		break;
	if (!evaluation)
		return;
	evaluation_withdraw(evaluation, session->server->store);
	if (session_reset_goes_on_alone(evaluation))
		return;
	if (evaluation->seq > 0) { /* it has been sent, to a process that may be dying */
		if (session->worker) {
			worker_cancel(session->worker, evaluation->seq);
			overdue_expect(session, 0);
		}
		event_del(session->tick);
		return;
	}
	TAILQ_REMOVE(&session->evaluations, evaluation, next);
	evaluation_free(evaluation);
}

/* It is in no queue. */
static void conclude(struct session *session, struct evaluation *evaluation, struct result *result)
{
	if (session_reset_goes_on(session, evaluation, result))
		return;
	checkpoint_word(session, evaluation, result);
	evaluation_finish(evaluation, session, result);
	hibernation_take_result(session, evaluation, result);
	evaluation_free(evaluation);
}

/* Results are stored in groups; the worker is told once for each group. */
static void on_forget(evutil_socket_t fd, short what, void *context)
{
	struct session *session = context;

	(void)fd;
	(void)what;
	bool is_told = session->telling_seq > 0 && session->telling_seq <= session->stored_seq;
	if (!session->worker)
		return;
	worker_forget(session->worker, session->stored_seq, is_told ? session->told_seq : 0);
	if (is_told && session->is_epitaph_noted)
		session_note_change(session);
}

void session_stored(struct session *session, uint64_t seq)
{
	if (seq > session->stored_seq)
		session->stored_seq = seq;
	event_active(session->forget, EV_TIMEOUT, 0);
	session_advance(session);
}

/* ---- what the worker says */

static void adopt_running(struct session *session, const struct worker_hello *hello)
{
	struct origin origin;

	session_enter(session, SESSION_RUNNING);
	session->stranger = 0;
	if (!origin_decode(hello->origin, hello->origin_length, &origin)) {
		log_warning("%s: an evaluation runs for nobody we know", session->id);
		session->stranger = hello->running_seq;
		return;
	}
	struct evaluation *evaluation = evaluation_adopt(session->server, session, &origin);
	evaluation->seq = hello->running_seq;
	TAILQ_INSERT_HEAD(&session->evaluations, evaluation, next);
	start_tick(session, evaluation);
	origin_free(&origin);
}

/* Its evaluation has a result, which a copy that took over brings along. */
static bool awaits_kept(const struct session *session)
{
	const struct evaluation *first = TAILQ_FIRST(&session->evaluations);

	return first && first->seq > 0;
}

static bool awaits(const struct session *session, uint64_t seq)
{
	const struct evaluation *first = TAILQ_FIRST(&session->evaluations);

	return first && first->seq == seq;
}

static void on_hello(void *context, const struct worker_hello *hello)
{
	struct session *session = context;

	if (session->adopting > 0 && hello->memo)
		memo_recall_epitaph(hello->memo, hello->memo_length, session);
	else if (session->adopting > 0)
		session->is_unmet = !hello->is_heir;
	session_look_whether_new(session);
	if (session->obituary || hello->is_heir)
		session_revived(session, hello);
	session->revivals = 0;
	session->pid = hello->pid;
	session->incarnation = hello->incarnation;
	session->last_seq = hello->last_seq;
	session->protected_seq = hello->protected_seq;
	if (hello->last_seq > session->changed_seq)
		session->changed_seq = hello->last_seq;
	session->idle_since_ms = clock_ms();
	session_enter(session, awaits_kept(session) ? SESSION_RUNNING : SESSION_READY);
	if (hello->running_seq && !awaits(session, hello->running_seq))
		adopt_running(session, hello);
	log_debug("%s: process %" PRIu64 " is ready", session->id, hello->pid);
	if (!session->is_stored && hello->memo)
		session->has_memo = memo_decode(hello->memo, hello->memo_length, session);
	if (session->is_lost)
		session_restore(session);
	else
		session_note_change(session);
	session->kept = hello->kept;
	if (session->kept == 0)
		session_settle_fallen(session);
	if (session->adopting > 0)
		session->adopting = 1 + hello->kept;
	session_note_adopted(session, 1);
	session_advance(session);
}

/* A result that a former daemon had not brought to safety; its shim may still ask for it. */
static void take_kept_result(struct session *session, struct result *result)
{
	struct origin origin;

	if (!origin_decode(result->origin, result->origin_length, &origin)) {
		log_warning("%s: the kept result %" PRIu64 " belongs to nobody we know", session->id, result->seq);
		evaluation_skip(session, result->seq);
		return;
	}
	struct evaluation *evaluation = evaluation_adopt(session->server, session, &origin);
	if (result->seq > session->epitaph_seq) /* else its client may have it already, as it was */
		session_add_notes(session, evaluation, result);
	conclude(session, evaluation, result);
	origin_free(&origin);
}

static void on_result(void *context, struct result *result)
{
	struct session *session = context;
	struct evaluation *first = TAILQ_FIRST(&session->evaluations);
	bool is_kept = session->kept > 0;

	session->kept -= is_kept;
	session->idle_since_ms = clock_ms();
	if (result->package.length > 0)
		replace_text(&session->package, result->package.data);
	if (session->state == SESSION_RUNNING && first && first->seq == result->seq) {
		session_add_notes(session, first, result);
		session_enter(session, SESSION_READY);
		overdue_forget(session);
		event_del(session->tick);
		TAILQ_REMOVE(&session->evaluations, first, next);
		conclude(session, first, result);
	} else if (session->state == SESSION_RUNNING && session->stranger == result->seq) {
		evaluation_skip(session, result->seq);
		session_enter(session, SESSION_READY);
	} else if (is_kept) {
		/* A copy that took over still has what its forerunner had delivered. */
		if (result->seq > session->received_seq)
			take_kept_result(session, result);
	} else {
		log_error("%s: its process reports an evaluation that nobody asked for", session->id);
		session_lose_worker(session);
		return;
	}
	if (result->seq > session->received_seq)
		session->received_seq = result->seq;
	if (is_kept && session->kept == 0)
		session_settle_fallen(session);
	if (is_kept)
		session_note_adopted(session, 1);
	session_advance(session);
}

static void on_progress(void *context, uint64_t seq, uint64_t elapsed_us, uint64_t lines, const char *last_line)
{
	struct session *session = context;
	struct evaluation *first = TAILQ_FIRST(&session->evaluations);

	if (session->state == SESSION_RUNNING && first && first->seq == seq)
		evaluation_progress(first, elapsed_us, lines, last_line);
}

static void on_copied(void *context, uint64_t protected_seq, const char *why_not)
{
	struct session *session = context;

	session->protected_seq = protected_seq;
	replace_text(&session->unprotected, why_not);
}

static void on_fatal(void *context, const char *text)
{
	struct session *session = context;

	replace_text(&session->obituary, text);
}

static void on_gone(void *context, const char *reason)
{
	struct session *session = context;

	log_debug("%s: the connection to its process is lost: %s", session->id, reason);
	if (session->state == SESSION_ENDING) {
		worker_close(session->worker);
		session->worker = NULL;
		session_await_end(session);
	} else {
		session_lose_worker(session);
	}
}

static void on_patience(evutil_socket_t fd, short what, void *context)
{
	(void)fd;
	(void)what;
	session_lose_patience(context);
}

static const struct worker_handler worker_handler = {
	.hello = on_hello,
	.result = on_result,
	.progress = on_progress,
	.copied = on_copied,
	.fatal = on_fatal,
	.gone = on_gone,
};

/* ---- the beginning of a worker */

/* False if nobody listens there. */
bool session_dial(struct session *session)
{
	char path[PATHS_SOCKET_SIZE];

	if (paths_beside(session->server->runtime_directory, session->id, path) < 0)
		return false;
	session->worker = worker_dial(session->server->base, path, session->id, &worker_handler, session);
	if (!session->worker)
		return false;
	event_del(session->patience);
	session_enter(session, SESSION_DIALING);
	return true;
}

void session_spawned(struct server *server, const char *id)
{
	struct session *session = session_find(server, id);

	if (!session || session->state != SESSION_WAITING || session_dial(session))
		return;
	session_miss_process(session);
}

void session_ask_again(struct server *server)
{
	struct session *session;

	/* A worker that was made but not announced any more is there all the same. */
	LIST_FOREACH(session, &server->roster.sessions, next)
	if (session->state == SESSION_WAITING && !session_dial(session))
		session_spawn(session);
}

void session_refused(struct server *server, const char *id, const char *why)
{
	struct session *session = session_find(server, id);
	char message[512];

	if (!session || session->state != SESSION_WAITING)
		return;
	session_enter(session, SESSION_EMPTY);
	snprintf(message, sizeof(message), "No process could be started for the session: %s.", why);
	session_refuse_all(session, "SESSION-UNAVAILABLE", message);
}

void session_set_limits(struct session *session, const struct limits *limits, store_status_callback done, void *context)
{
	struct text text = {0};

	session->limits = *limits;
	limit_encode(limits, &text);
	store_set_limits(session->server->store, session->id, text.data, done, context);
	session_note_change(session);
	text_free(&text);
}

bool session_postpone(struct session *session, struct request *request)
{
	if (session->state != SESSION_CREATING)
		return false;
	visit_add(&session->visits, request);
	return true;
}

void session_take_visits(struct session *session)
{
	struct request *request;

	while ((request = visit_next(&session->visits)))
		tools_call(session->server, request);
}

struct session *session_make(struct server *server, unsigned owner, const char *id)
{
	struct session *session = new_zeroed(sizeof(*session));

	session->server = server;
	session->owner = owner;
	TAILQ_INIT(&session->evaluations);
	STAILQ_INIT(&session->visits);
	session->forget = must(evtimer_new(server->base, on_forget, session));
	session->tick = must(event_new(server->base, -1, EV_PERSIST, on_tick, session));
	overdue_make(session);
	session->patience = must(evtimer_new(server->base, on_patience, session));
	roster_add(&server->roster, session, id);
	idling_watch(server->idling);
	return session;
}

void session_release(struct session *session)
{
	struct evaluation *evaluation;

	while ((evaluation = TAILQ_FIRST(&session->evaluations))) {
		TAILQ_REMOVE(&session->evaluations, evaluation, next);
		evaluation_free(evaluation);
	}
	session_drop_fallen(session);
	visit_drop_all(&session->visits);
	roster_remove(session);
	if (session->worker)
		worker_close(session->worker);
	event_free(session->forget);
	event_free(session->tick);
	overdue_free(session);
	event_free(session->patience);
	free(session->name);
	free(session->directory);
	free(session->package);
	free(session->obituary);
	free(session->epitaph);
	free(session->unprotected);
	free(session->awake);
	free(session->recollected);
	free(session->last_words);
	free(session);
}

void session_hand_over(struct session *from, struct session *to)
{
	struct evaluation *evaluation;

	while ((evaluation = TAILQ_FIRST(&from->evaluations))) {
		TAILQ_REMOVE(&from->evaluations, evaluation, next);
		if (evaluation->request)
			evaluation->request->session = to;
		TAILQ_INSERT_TAIL(&to->evaluations, evaluation, next);
	}
	STAILQ_CONCAT(&to->visits, &from->visits);
	session_release(from);
	session_advance(to);
	if (to->state != SESSION_CREATING)
		session_take_visits(to);
}

void session_note_adopted(struct session *session, uint64_t count)
{
	if (session->adopting == 0)
		return;
	session->adopting -= count;
	if (session->adopting == 0)
		adoption_done_one(session->server);
}

/* ---- as a whole */

static int count_waiting(const struct session *session)
{
	const struct evaluation *evaluation;
	int count = 0;

	TAILQ_FOREACH(evaluation, &session->evaluations, next)
	count += evaluation->seq == 0;
	return count;
}

struct json_object *session_status(const struct session *session)
{
	struct json_object *status = json_object_new_object();

	json_object_object_add(status, "id", json_object_new_string(session->id));
	if (session->name)
		json_object_object_add(status, "name", json_object_new_string(session->name));
	json_object_object_add(status, "state", json_object_new_string(state_names[session->state]));
	json_object_object_add(status, "pid", json_object_new_int64((int64_t)session->pid));
	json_object_object_add(status, "evaluations", json_object_new_int64((int64_t)session->last_seq));
	json_object_object_add(status, "waiting", json_object_new_int64(count_waiting(session)));
	json_object_object_add(status, "protected", json_object_new_int64((int64_t)session->protected_seq));
	if (session->unprotected)
		json_object_object_add(status, "unprotectedBecause", json_object_new_string(session->unprotected));
	if (session->awake)
		json_object_object_add(status, "awakeBecause", json_object_new_string(session->awake));
	json_object_object_add(status, "directory", json_object_new_string(session->directory));
	return status;
}

void session_end_all(struct server *server)
{
	struct session *session;

	LIST_FOREACH(session, &server->roster.sessions, next)
	if (session->worker)
		worker_quit(session->worker);
}

void session_free_all(struct server *server)
{
	struct session *session;

	while ((session = LIST_FIRST(&server->roster.sessions)))
		session_release(session);
}
