/*
 * agenda.c - requests from their arrival to their end.
 */
#include "config.h"

#include "agenda.h"

#include <unistd.h>

#include "clock.h"
#include "worklink.h"

#define QUEUE_MAX 64
#define TIME_LIMIT_MAX_MS UINT64_C(1000000000000) /* beyond it there is no limit */
#define REPORTS_MAX 65536                         /* a daemon that asks but does not read gets no further progress */

static void stop_running(struct agenda *agenda, enum agenda_stop reason)
{
	if (!agenda->running || agenda->stop != AGENDA_STOP_NONE)
		return;
	agenda->stop = reason;
	agenda->kill_at_us = clock_microseconds() + AGENDA_GRACE_MS * 1000;
}

static void begin_clone(struct agenda *agenda)
{
	struct request *request = request_queue_take(&agenda->queue);

	if (request->cancelled)
		request_free(request);
	else
		agenda->cloning = request;
}

/* Hands the next request to the main thread if that is idle and its result can be kept. */
static void begin_next(struct agenda *agenda)
{
	while (!agenda->running && !agenda->cloning && agenda->queue.first && agenda->queue.first->clone)
		begin_clone(agenda);

	struct request *request = agenda->queue.first;

	if (agenda->running || agenda->cloning || !request || outbox_is_full(&agenda->outbox))
		return;
	request_queue_take(&agenda->queue);
	agenda->running = request;
	agenda->taken = false;
	agenda->last_begun = request->seq;
	agenda->interrupted = 0; /* a daemon that asks for more has stored what came of it */
	lineage_note_begun(agenda->lineage, request);
	agenda->started_us = clock_microseconds();
	agenda->deadline_us = 0;
	if (request->time_limit_ms > 0 && request->time_limit_ms < TIME_LIMIT_MAX_MS)
		agenda->deadline_us = agenda->started_us + request->time_limit_ms * 1000;
	agenda->stop = AGENDA_STOP_NONE;
	if (request->cancelled)
		stop_running(agenda, AGENDA_STOP_CANCEL);
}

void agenda_begin(struct agenda *agenda, uint64_t last_seq)
{
	if (agenda->last_accepted < last_seq)
		agenda->last_accepted = agenda->last_begun = agenda->last_finished = last_seq;
	agenda->outbox.connection = -1;
	outbox_connect(&agenda->outbox, -1);
}

/* ---- what the daemon is told */

static void put_protection(const struct agenda *agenda, struct frame_builder *frame)
{
	frame_put_number(frame, WORK_PROTECTED, agenda->protected);
	if (agenda->no_copy)
		frame_put_text(frame, WORK_TEXT, agenda->no_copy);
}

static void put_inheritance(const struct agenda *agenda, struct frame_builder *hello)
{
	if (!agenda->is_heir)
		return;
	frame_put_number(hello, WORK_RESTORED, agenda->restored);
	frame_put_number(hello, WORK_INHERITED, agenda->inherited);
	if (agenda->interrupted) {
		frame_put_number(hello, WORK_INTERRUPTED, agenda->interrupted);
		lineage_put_origin(agenda->lineage, WORK_INTERRUPTED_ORIGIN, hello);
		if (agenda->rolled_back == agenda->interrupted)
			frame_put_number(hello, WORK_ROLLED_BACK, agenda->rolled_back);
	}
	lineage_put_undone(agenda->lineage, agenda->restored, hello);
}

static void report(struct agenda *agenda, struct frame_builder *frame)
{
	frame_end(frame);
	outbox_report(&agenda->outbox, frame);
	frame_builder_free(frame);
}

static void say_hello(struct agenda *agenda)
{
	struct frame_builder frame = {0};

	frame_begin(&frame, WORKER_HELLO);
	frame_put_number(&frame, WORK_VERSION, WORKLINK_VERSION);
	frame_put_text(&frame, WORK_SESSION, agenda->session);
	frame_put_number(&frame, WORK_PID, (uint64_t)getpid());
	frame_put_number(&frame, WORK_INCARNATION, agenda->incarnation);
	frame_put_number(&frame, WORK_SEQ, agenda->last_begun);
	frame_put_number(&frame, WORK_KEPT, agenda->outbox.count);
	if (agenda->running) {
		frame_put_number(&frame, WORK_RUNNING, agenda->running->seq);
		frame_put(&frame, WORK_ORIGIN, agenda->running->origin, agenda->running->origin_length);
	}
	put_protection(agenda, &frame);
	lineage_put_memo(agenda->lineage, &frame);
	put_inheritance(agenda, &frame);
	report(agenda, &frame);
}

static void say_progress(struct agenda *agenda, const struct output_progress *progress)
{
	struct frame_builder frame = {0};

	if (!agenda->running || agenda->outbox.reports.length > REPORTS_MAX)
		return;
	frame_begin(&frame, WORKER_PROGRESS);
	frame_put_number(&frame, WORK_SEQ, agenda->running->seq);
	frame_put_number(&frame, WORK_ELAPSED, clock_microseconds() - agenda->started_us);
	frame_put_number(&frame, WORK_LINES, progress->lines);
	if (progress->last_length > 0)
		frame_put(&frame, WORK_LAST_LINE, progress->last_line, progress->last_length);
	report(agenda, &frame);
}

void agenda_note_copy(struct agenda *agenda, const char *why_not)
{
	struct frame_builder frame = {0};

	agenda->no_copy = why_not;
	if (!why_not)
		agenda->protected = agenda->last_finished;
	frame_begin(&frame, WORKER_COPIED);
	put_protection(agenda, &frame);
	report(agenda, &frame);
}

void agenda_report_fatal(struct agenda *agenda, const char *text)
{
	struct frame_builder frame = {0};

	frame_begin(&frame, WORKER_FATAL);
	frame_put_number(&frame, WORK_SEQ, agenda->running ? agenda->running->seq : agenda->last_begun);
	frame_put_text(&frame, WORK_TEXT, text);
	report(agenda, &frame);
}

/* ---- what the daemon says */

/* False if the daemon asks for more than any sane one would. */
static bool enqueue(struct agenda *agenda, struct request *request)
{
	if (agenda->queue.length >= QUEUE_MAX) {
		request_free(request);
		return false;
	}
	request_queue_add(&agenda->queue, request);
	begin_next(agenda);
	return true;
}

static bool handle_evaluate(struct agenda *agenda, const struct frame *frame)
{
	struct request *request = request_read(frame);

	if (!request)
		return false;
	if (request->incarnation != agenda->incarnation || request->seq != agenda->last_accepted + 1) {
		request_free(request);
		return true;
	}
	agenda->last_accepted = request->seq;
	return enqueue(agenda, request);
}

static bool handle_clone(struct agenda *agenda, const struct frame *frame)
{
	struct request *request = request_read_clone(frame);

	return request && enqueue(agenda, request);
}

/* Who asked for them is gone. */
static void cancel_clones(struct agenda *agenda)
{
	if (agenda->cloning)
		agenda->cloning->cancelled = true;
	for (struct request *waiting = agenda->queue.first; waiting; waiting = waiting->next)
		if (waiting->clone)
			waiting->cancelled = true;
}

static void handle_cancel(struct agenda *agenda, uint64_t seq)
{
	if (agenda->running && agenda->running->seq == seq)
		stop_running(agenda, AGENDA_STOP_CANCEL);
	for (struct request *waiting = agenda->queue.first; waiting; waiting = waiting->next)
		if (waiting->seq == seq && !waiting->clone)
			waiting->cancelled = true;
}

static uint64_t number_of(struct frame frame, uint8_t tag)
{
	struct field field;
	uint64_t number = 0;

	while (frame_next(&frame, &field) == FRAME_READY)
		if (field.tag == tag && !field_number(&field, &number))
			return 0;
	return number;
}

/*
 * What the death has undone is said with each hello until a client has heard of it and that is stored: a daemon that
 * dies in between is followed by one that says it in the same place.
 */
static void note_told(struct agenda *agenda, uint64_t seq)
{
	if (!agenda->is_heir || seq < agenda->inherited)
		return;
	agenda->is_heir = false;
	agenda->interrupted = 0;
	lineage_note_told(agenda->lineage, agenda->inherited);
}

static void handle_forget(struct agenda *agenda, struct frame frame)
{
	uint64_t seq = number_of(frame, WORK_SEQ);

	outbox_forget(&agenda->outbox, seq);
	lineage_note_forgotten(agenda->lineage, seq);
	if (agenda->interrupted && seq >= agenda->interrupted)
		agenda->interrupted = 0;
	note_told(agenda, number_of(frame, WORK_TOLD));
	begin_next(agenda);
}

static void handle_memo(struct agenda *agenda, struct frame frame)
{
	struct field field;

	while (frame_next(&frame, &field) == FRAME_READY)
		if (field.tag == WORK_MEMO)
			lineage_set_memo(agenda->lineage, field.data, field.length);
}

bool agenda_handle(struct agenda *agenda, const struct frame *frame, const struct output_progress *progress)
{
	switch (frame->type) {
	case WORKER_EVALUATE:
		return handle_evaluate(agenda, frame);
	case WORKER_CLONE:
		return handle_clone(agenda, frame);
	case WORKER_CANCEL:
		handle_cancel(agenda, number_of(*frame, WORK_SEQ));
		break;
	case WORKER_FORGET:
		handle_forget(agenda, *frame);
		break;
	case WORKER_PEEK:
		say_progress(agenda, progress);
		break;
	case WORKER_MEMO:
		handle_memo(agenda, *frame);
		break;
	}
	return true;
}

void agenda_connect(struct agenda *agenda, int connection)
{
	cancel_clones(agenda);
	outbox_connect(&agenda->outbox, connection);
	if (connection >= 0)
		say_hello(agenda);
}

/* ---- what the main thread does */

bool agenda_has_work(const struct agenda *agenda)
{
	return (agenda->running && !agenda->taken) || agenda->cloning;
}

const struct request *agenda_take(struct agenda *agenda)
{
	if (agenda->cloning)
		return agenda->cloning;
	if (!agenda->running || agenda->taken)
		return NULL;
	agenda->taken = true;
	return agenda->running;
}

bool agenda_is_busy(const struct agenda *agenda)
{
	return (agenda->running && agenda->taken) || agenda->cloning;
}

bool agenda_is_stopping(const struct agenda *agenda)
{
	return agenda->running && agenda->stop != AGENDA_STOP_NONE;
}

uint64_t agenda_watch(struct agenda *agenda, uint64_t now, bool *is_overdue)
{
	*is_overdue = false;
	if (!agenda->running)
		return 0;
	if (agenda->deadline_us && now >= agenda->deadline_us)
		stop_running(agenda, AGENDA_STOP_DEADLINE);
	if (agenda->stop == AGENDA_STOP_NONE)
		return agenda->deadline_us;
	*is_overdue = now >= agenda->kill_at_us;
	return agenda->kill_at_us;
}

struct request *agenda_keep(struct agenda *agenda, struct frame_builder *result)
{
	struct request *request = agenda->running;

	agenda->running = NULL;
	outbox_keep(&agenda->outbox, request->seq, result);
	agenda->last_finished = request->seq;
	return request;
}

void agenda_release(struct agenda *agenda)
{
	lineage_note_answered(agenda->lineage, agenda->last_finished);
	outbox_release(&agenda->outbox);
	begin_next(agenda);
}

struct request *agenda_end_clone(struct agenda *agenda, pid_t clone, const char *why_not)
{
	struct request *request = agenda->cloning;
	struct frame_builder frame = {0};

	agenda->cloning = NULL;
	if (!request->cancelled) {
		frame_begin(&frame, WORKER_CLONED);
		frame_put_text(&frame, WORK_SESSION, request->clone);
		if (why_not)
			frame_put_text(&frame, WORK_TEXT, why_not);
		else
			frame_put_number(&frame, WORK_PID, (uint64_t)clone);
		report(agenda, &frame);
	}
	begin_next(agenda);
	return request;
}

/* ---- another process goes on */

static void drop_requests(struct agenda *agenda)
{
	if (agenda->running)
		request_free(agenda->running);
	if (agenda->cloning)
		request_free(agenda->cloning);
	agenda->running = agenda->cloning = NULL;
	while (agenda->queue.first)
		request_free(request_queue_take(&agenda->queue));
}

void agenda_inherit(struct agenda *agenda, bool was_chosen)
{
	struct lineage *lineage = agenda->lineage;

	drop_requests(agenda);
	agenda->is_heir = true;
	agenda->restored = agenda->last_finished;
	lineage_note_undone(lineage, agenda->restored);
	agenda->protected = agenda->inherited = agenda->last_accepted = agenda->last_begun = lineage_begun(lineage);
	outbox_release(&agenda->outbox);
	outbox_forget(&agenda->outbox, lineage_forgotten(lineage));
	agenda->interrupted = 0;
	if (agenda->inherited > agenda->restored && agenda->inherited > lineage_forgotten(lineage))
		agenda->interrupted = agenda->inherited;
	if (was_chosen)
		agenda->rolled_back = agenda->inherited;
}

void agenda_forget(struct agenda *agenda)
{
	drop_requests(agenda);
	outbox_release(&agenda->outbox);
	outbox_forget(&agenda->outbox, UINT64_MAX);
	agenda->last_accepted = agenda->last_begun = agenda->last_finished = agenda->protected = 0;
	agenda->no_copy = NULL;
	agenda->is_heir = false;
	agenda->restored = agenda->inherited = agenda->interrupted = agenda->rolled_back = 0;
}
