/*
 * iothread.h - the one thread of a worker that never runs Lisp.
 *
 * While an evaluation runs it serves the sockets, the pipes behind descriptors 1 and 2, and the deadline. So a worker
 * in an endless loop still says hello, is still drained, and still honours its time limit with no daemon alive. The
 * collector does not know the thread, and all signals are blocked in it. Between evaluations the main thread serves the
 * descriptors itself, and the I/O thread sleeps, also through evaluations of less than a millisecond: to hand each from
 * one thread to the other would be felt.
 *
 * The other functions are for the main thread.
 */
#ifndef IOTHREAD_H
#define IOTHREAD_H

#include <stdbool.h>
#include <stdint.h>

#include "agenda.h"
#include "frame.h"
#include "lineage.h"
#include "request.h"

struct iothread_identity {
	const char *session;
	struct lineage *lineage;
	uint64_t incarnation;
	uint64_t last_seq; /* of another process that the session has lived in */
	int listener;      /* -1: none */
	int connection;    /* one that exists already, or -1 */
};

/* Makes the thread; can be called again in a forked child, which keeps the results. 0 or a negative errno. */
int iothread_start(const struct iothread_identity *identity) __attribute__((warn_unused_result));

/*
 * Waits for the next evaluation or clone to make, until that time of clock_microseconds if it is not 0; NULL if none
 * came. The request stays the thread's; it lives until iothread_keep or iothread_end_clone.
 */
const struct request *iothread_next(uint64_t until_us);

/* Does anybody still wait for the clone that iothread_next has asked for? */
bool iothread_clone_is_wanted(void);
/* It is there; or it is not, for the reason given. The request is gone, and its answer sent. */
void iothread_end_clone(pid_t clone, const char *why_not);

/* Why the running evaluation was asked to stop, if it was. */
enum agenda_stop iothread_stop_reason(void);

/* The running evaluation is over, and the request gone. Takes the result's bytes and keeps them, */
void iothread_keep(struct frame_builder *result);
/* or other ones in their place, */
void iothread_amend(struct frame_builder *result);
/* and sends them, at once if it can. */
void iothread_release(void);

/* Around a fork: in between the thread holds no lock and has nothing half done. */
void iothread_park(void);
void iothread_unpark(void);

/* Afterwards: a copy knows of all that is finished; or none could be made, for the reason given. */
void iothread_note_copy(const char *why_not);

/* In a forked copy, where the thread is not: closes what was the thread's. */
void iothread_abandon(void);
/* In a clone, which has none of what its original was asked for or has answered. */
void iothread_forget(void);
/* In a copy that takes over: what the worker had accepted meanwhile is settled, and numbers go on after it. */
void iothread_inherit(bool was_chosen);
/* Is it a descriptor of the thread's? */
bool iothread_owns(int fd);

/*
 * Reports that this process cannot go on, and ends it with everything in its process group. Any thread may call it,
 * also in a signal handler. The text must stay where it is.
 */
void iothread_fatal(const char *text) __attribute__((noreturn));

#endif
