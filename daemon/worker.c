/*
 * worker.c - frames to and from one worker. What comes is checked here and nowhere else.
 */
#include "worker.h"

#include "alloc.h"
#include "peer.h"
#include "secrets.h"
#include "unixsocket.h"
#include "utf8.h"

#include <errno.h>
#include <sys/queue.h>

#define TEXT_MAX 4096
/* In bytes; more than anybody quotes. */
#define SHOWN_MAX 256
/* More results than any worker keeps. */
#define KEPT_MAX 65536

struct clone {
	STAILQ_ENTRY(clone) next;
	char *session_id;
	worker_clone_callback *done;
	void *context;
};

struct worker {
	struct peer *peer;
	char *session_id;
	const struct worker_handler *handler;
	void *context;
	bool greeted;
	STAILQ_HEAD(, clone) clones; /* that were asked for, in that order */
	struct frame_builder builder;
};

static bool add_undone(struct worker_undone *undone, const struct field *field)
{
	size_t length;

	if (field->tag == WORK_UNDONE_SEQ)
		return undone->count == WORKER_UNDONE_MAX || field_number(field, &undone->seq[undone->count]);
	if (undone->count == WORKER_UNDONE_MAX || field->length > TEXT_MAX)
		return false;
	undone->code[undone->count++] = utf8_repair(field->data, field->length, &length);
	return true;
}

static void free_undone(struct worker_undone *undone)
{
	for (size_t i = 0; i < undone->count; i++)
		free(undone->code[i]);
}

static bool take_hello_field(
	struct worker *worker, struct worker_hello *hello, uint64_t *version, const struct field *field)
{
	switch (field->tag) {
	case WORK_VERSION:
		return field_number(field, version);
	case WORK_SESSION: /* a worker speaks for its own session only */
		return field->length == strlen(worker->session_id) &&
			memcmp(field->data, worker->session_id, field->length) == 0;
	case WORK_PID:
		return field_number(field, &hello->pid);
	case WORK_INCARNATION:
		return field_number(field, &hello->incarnation);
	case WORK_SEQ:
		return field_number(field, &hello->last_seq);
	case WORK_RUNNING:
		return field_number(field, &hello->running_seq);
	case WORK_KEPT:
		return field_number(field, &hello->kept) && hello->kept <= KEPT_MAX;
	case WORK_ORIGIN:
		hello->origin = field->data;
		hello->origin_length = field->length;
		return true;
	case WORK_MEMO:
		hello->memo = field->data;
		hello->memo_length = field->length;
		return true;
	case WORK_RESTORED:
		hello->is_heir = true;
		return field_number(field, &hello->restored_seq);
	case WORK_INHERITED:
		return field_number(field, &hello->inherited_seq);
	case WORK_INTERRUPTED:
		return field_number(field, &hello->interrupted_seq);
	case WORK_INTERRUPTED_ORIGIN:
		hello->interrupted_origin = field->data;
		hello->interrupted_origin_length = field->length;
		return true;
	case WORK_PROTECTED:
		return field_number(field, &hello->protected_seq);
	case WORK_ROLLED_BACK:
		return field_number(field, &hello->rolled_back_seq);
	case WORK_UNDONE_FROM:
		return field_number(field, &hello->undone.first);
	case WORK_UNDONE_SEQ:
	case WORK_UNDONE:
		return add_undone(&hello->undone, field);
	default:
		return true;
	}
}

static bool take_hello(struct worker *worker, struct frame *frame)
{
	struct worker_hello hello = {0};
	enum frame_status status;
	struct field field;
	uint64_t version = 0;
	bool good = true;

	while (good && (status = frame_next(frame, &field)) == FRAME_READY)
		good = take_hello_field(worker, &hello, &version, &field);
	if (good && status == FRAME_INCOMPLETE && version == WORKLINK_VERSION && !worker->greeted) {
		worker->greeted = true;
		if (hello.inherited_seq ==
			0) /* of an older version, which says this only until it has finished another */
			hello.inherited_seq = hello.last_seq;
		worker->handler->hello(worker->context, &hello);
	} else {
		good = false;
	}
	free_undone(&hello.undone);
	return good;
}

static bool take_result(struct worker *worker, struct frame *frame)
{
	struct result result;

	if (!result_decode(frame, &result))
		return false;
	worker->handler->result(worker->context, &result);
	result_free(&result);
	return true;
}

static bool take_progress(struct worker *worker, struct frame *frame)
{
	uint64_t seq = 0, elapsed = 0, lines = 0;
	enum frame_status status;
	struct field field;
	char *last_line = NULL;
	size_t length;
	bool good = true;

	while (good && (status = frame_next(frame, &field)) == FRAME_READY) {
		if (field.tag == WORK_SEQ)
			good = field_number(&field, &seq);
		else if (field.tag == WORK_ELAPSED)
			good = field_number(&field, &elapsed);
		else if (field.tag == WORK_LINES)
			good = field_number(&field, &lines);
		else if (field.tag == WORK_LAST_LINE && field.length <= TEXT_MAX && !last_line)
			last_line = utf8_repair(field.data, field.length, &length);
	}
	if (good && status == FRAME_INCOMPLETE)
		worker->handler->progress(worker->context, seq, elapsed, lines, last_line);
	else
		good = false;
	free(last_line);
	return good;
}

/* The text of a report, repaired; NULL if it has none. */
static char *take_text(struct frame frame)
{
	struct field field;
	size_t length;

	while (frame_next(&frame, &field) == FRAME_READY)
		if (field.tag == WORK_TEXT && field.length <= TEXT_MAX)
			return utf8_repair(field.data, field.length, &length);
	return NULL;
}

static bool take_copied(struct worker *worker, struct frame *frame)
{
	char *why_not = take_text(*frame);
	uint64_t protected_seq = 0;
	struct field field;
	bool good = true;

	while (good && frame_next(frame, &field) == FRAME_READY)
		if (field.tag == WORK_PROTECTED)
			good = field_number(&field, &protected_seq);
	if (good)
		worker->handler->copied(worker->context, protected_seq, why_not);
	free(why_not);
	return good;
}

static bool take_fatal(struct worker *worker, struct frame *frame)
{
	char *text = take_text(*frame);

	if (text)
		worker->handler->fatal(worker->context, text);
	free(text);
	return true;
}

static void end_clone(struct worker *worker, uint64_t pid, const char *why_not)
{
	struct clone *clone = STAILQ_FIRST(&worker->clones);

	STAILQ_REMOVE_HEAD(&worker->clones, next);
	clone->done(clone->context, pid, why_not);
	free(clone->session_id);
	free(clone);
}

/* They are answered in order. The last connection's are not answered on this one. */
static bool take_cloned(struct worker *worker, struct frame *frame)
{
	const struct clone *clone = STAILQ_FIRST(&worker->clones);
	char *why_not = take_text(*frame);
	bool good = true, is_named = false;
	struct field field;
	uint64_t pid = 0;

	while (good && frame_next(frame, &field) == FRAME_READY) {
		if (field.tag == WORK_PID)
			good = field_number(&field, &pid);
		else if (field.tag == WORK_SESSION && clone)
			is_named = field.length == strlen(clone->session_id) &&
				memcmp(field.data, clone->session_id, field.length) == 0;
	}
	good = good && is_named && (pid != 0) != (why_not != NULL);
	if (good)
		end_clone(worker, pid, why_not);
	free(why_not);
	return good;
}

static void on_frame(void *context, struct frame *frame)
{
	struct worker *worker = context;
	bool good = false;

	if (frame->type == WORKER_HELLO)
		good = take_hello(worker, frame);
	else if (!worker->greeted)
		good = false;
	else if (frame->type == WORKER_RESULT)
		good = take_result(worker, frame);
	else if (frame->type == WORKER_PROGRESS)
		good = take_progress(worker, frame);
	else if (frame->type == WORKER_COPIED)
		good = take_copied(worker, frame);
	else if (frame->type == WORKER_CLONED)
		good = take_cloned(worker, frame);
	else if (frame->type == WORKER_FATAL)
		good = take_fatal(worker, frame);
	if (!good)
		worker->handler->gone(worker->context, "it sent a frame that makes no sense");
}

static void on_gone(void *context, const char *reason)
{
	struct worker *worker = context;

	worker->handler->gone(worker->context, reason);
}

static const struct peer_handler peer_handler = {.frame = on_frame, .gone = on_gone};

struct worker *worker_dial(struct event_base *base, const char *path, const char *session_id,
	const struct worker_handler *handler, void *context)
{
	struct worker *worker;
	int fd = unixsocket_connect(path);

	if (fd < 0) {
		errno = -fd;
		return NULL;
	}
	worker = new_zeroed(sizeof(*worker));
	worker->session_id = new_text(session_id);
	worker->handler = handler;
	worker->context = context;
	STAILQ_INIT(&worker->clones);
	worker->peer = peer_new(base, fd, &peer_handler, worker);
	return worker;
}

void worker_close(struct worker *worker)
{
	peer_close(worker->peer);
	while (!STAILQ_EMPTY(&worker->clones))
		end_clone(worker, 0, "the connection to the session's process was lost");
	frame_builder_free(&worker->builder);
	free(worker->session_id);
	free(worker);
}

/* The beginning of the code, without what must not be told. */
static void put_shown(struct frame_builder *builder, const struct work *work)
{
	char *shown = new_copy(work->code, work->code_length);
	size_t length = work->code_length;

	secrets_hide(work->secrets, &shown, &length);
	if (length > SHOWN_MAX)
		length = utf8_whole_characters((const uint8_t *)shown, SHOWN_MAX);
	frame_put(builder, WORK_SHOWN, shown, length);
	free(shown);
}

void worker_evaluate(struct worker *worker, uint64_t incarnation, uint64_t seq, const struct frame_builder *origin,
	const struct work *work)
{
	struct frame_builder *builder = &worker->builder;

	frame_begin(builder, WORKER_EVALUATE);
	frame_put_number(builder, WORK_INCARNATION, incarnation);
	frame_put_number(builder, WORK_SEQ, seq);
	frame_put(builder, WORK_ORIGIN, origin->data, origin->length);
	frame_put_number(builder, WORK_TIME_LIMIT, work->time_limit_ms);
	frame_put_number(builder, WORK_HEAP_LIMIT, work->heap_limit);
	if (work->protect)
		frame_put_number(builder, WORK_PROTECT, 1);
	if (work->operation)
		frame_put_text(builder, WORK_OPERATION, work->operation);
	if (work->package)
		frame_put_text(builder, WORK_PACKAGE, work->package);
	frame_put(builder, WORK_CODE, work->code, work->code_length);
	if (work->secrets)
		put_shown(builder, work);
	frame_end(builder);
	peer_send(worker->peer, builder);
	if (builder->capacity > 64u << 10)
		frame_builder_free(builder);
}

static void send_seq(struct worker *worker, uint8_t type, uint64_t seq)
{
	frame_begin(&worker->builder, type);
	if (seq)
		frame_put_number(&worker->builder, WORK_SEQ, seq);
	frame_end(&worker->builder);
	peer_send(worker->peer, &worker->builder);
}

void worker_cancel(struct worker *worker, uint64_t seq)
{
	send_seq(worker, WORKER_CANCEL, seq);
}

void worker_forget(struct worker *worker, uint64_t seq, uint64_t told_seq)
{
	frame_begin(&worker->builder, WORKER_FORGET);
	frame_put_number(&worker->builder, WORK_SEQ, seq);
	if (told_seq)
		frame_put_number(&worker->builder, WORK_TOLD, told_seq);
	frame_end(&worker->builder);
	peer_send(worker->peer, &worker->builder);
}

void worker_peek(struct worker *worker)
{
	send_seq(worker, WORKER_PEEK, 0);
}

void worker_remember(struct worker *worker, const struct frame_builder *memo)
{
	if (memo->length > WORKLINK_MEMO_MAX)
		return;
	frame_begin(&worker->builder, WORKER_MEMO);
	frame_put(&worker->builder, WORK_MEMO, memo->data, memo->length);
	frame_end(&worker->builder);
	peer_send(worker->peer, &worker->builder);
}

void worker_quit(struct worker *worker)
{
	send_seq(worker, WORKER_QUIT, 0);
}

void worker_clone(struct worker *worker, const char *session_id, worker_clone_callback *done, void *context)
{
	struct clone *clone = new_zeroed(sizeof(*clone));

	clone->session_id = new_text(session_id);
	clone->done = done;
	clone->context = context;
	STAILQ_INSERT_TAIL(&worker->clones, clone, next);
	frame_begin(&worker->builder, WORKER_CLONE);
	frame_put_text(&worker->builder, WORK_SESSION, session_id);
	frame_end(&worker->builder);
	peer_send(worker->peer, &worker->builder);
}
