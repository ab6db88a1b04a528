/*
 * agenda.h - what the daemon has asked a worker for, how far that is, and what is known of the worker's forerunner.
 *
 * Requests come in order; one evaluation runs at a time, and its result is kept in the outbox until the daemon has
 * stored it. Nothing here blocks or locks; the owner (iothread.c) holds its lock.
 */
#ifndef AGENDA_H
#define AGENDA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "frame.h"
#include "lineage.h"
#include "outbox.h"
#include "output.h"
#include "request.h"

/* After a cancel or a deadline an evaluation has this long to end before the process is killed. */
#define AGENDA_GRACE_MS 2000

enum agenda_stop {
	AGENDA_STOP_NONE,
	AGENDA_STOP_CANCEL,
	AGENDA_STOP_DEADLINE,
};

struct agenda {
	/* Whose it is. */
	const char *session;
	struct lineage *lineage;
	uint64_t incarnation;

	struct outbox outbox;
	struct request_queue queue;
	uint64_t last_accepted;
	uint64_t last_begun;
	uint64_t last_finished;
	uint64_t protected;  /* the last one that a copy knows of; 0: none */
	const char *no_copy; /* why none could be made since, or NULL */

	/* Of a copy that took over. */
	bool is_heir;
	uint64_t restored;    /* the last evaluation that it knows of */
	uint64_t inherited;   /* the last one that was begun before */
	uint64_t interrupted; /* it, if there is no result of it; 0 once the daemon has noted that */
	uint64_t rolled_back; /* the last one by which the session was rolled back to this state; 0: none */

	struct request *cloning; /* the main thread is making a clone: nothing runs meanwhile */
	struct request *running;
	bool taken; /* by the main thread */
	uint64_t started_us;
	uint64_t deadline_us; /* 0: none */
	enum agenda_stop stop;
	uint64_t kill_at_us;
};

/* Numbers go on after last_seq, unless they are higher already. */
void agenda_begin(struct agenda *agenda, uint64_t last_seq);

/* Does what a frame of the daemon's wants; progress is what a WORKER_PEEK is told. False if it is not to be trusted. */
bool agenda_handle(struct agenda *agenda, const struct frame *frame, const struct output_progress *progress)
	__attribute__((warn_unused_result));

/* A daemon has connected; it gets to know how things are, and all results again. -1: it is gone. */
void agenda_connect(struct agenda *agenda, int connection);

/* Something waits for the main thread to take it, */
bool agenda_has_work(const struct agenda *agenda);
/* which it does, NULL if there is nothing; */
const struct request *agenda_take(struct agenda *agenda);
/* and then is busy with it. */
bool agenda_is_busy(const struct agenda *agenda);

/*
 * Stops the running evaluation if its time is over. Returns when that is to be looked at again, 0 for never, and sets
 * is_overdue if it has not ended although its grace is over.
 */
uint64_t agenda_watch(struct agenda *agenda, uint64_t now, bool *is_overdue);
/* It was told to stop and has not ended yet. */
bool agenda_is_stopping(const struct agenda *agenda);

/* The running evaluation is over: its result is kept, and the request is the caller's to free. */
struct request *agenda_keep(struct agenda *agenda, struct frame_builder *result);
/* The result may be sent, and the next request begin. */
void agenda_release(struct agenda *agenda);
/* The clone is there, or is not for the reason given; the request is the caller's to free. */
struct request *agenda_end_clone(struct agenda *agenda, pid_t clone, const char *why_not);
/* A copy knows of all that is finished; or none could be made, for the reason given. */
void agenda_note_copy(struct agenda *agenda, const char *why_not);
/* Says why the process ends. */
void agenda_report_fatal(struct agenda *agenda, const char *text);

/* In a copy that takes over: what its forerunner had accepted is settled, and numbers go on after it. If it was chosen
 * for that, the last thing that was begun has rolled the session back. */
void agenda_inherit(struct agenda *agenda, bool was_chosen);
/* In a clone, which has none of what its original was asked for or has answered. */
void agenda_forget(struct agenda *agenda);

#endif
