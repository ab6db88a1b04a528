/*
 * iothread.h - the one thread of a worker that never runs Lisp.
 *
 * It owns the sockets, the pipes behind descriptors 1 and 2, the deadline of the running evaluation and the results
 * that the daemon has not stored yet. So a worker in an endless loop still says hello, is still drained, and still
 * honours its time limit with no daemon alive. The collector does not know the thread, and all signals are blocked in
 * it.
 *
 * The other functions are for the main thread.
 */
#ifndef IOTHREAD_H
#define IOTHREAD_H

#include <stdint.h>

#include "frame.h"
#include "request.h"

/* After a cancel or a deadline an evaluation has this long to end before the process is killed. */
#define IOTHREAD_GRACE_MS 2000

enum iothread_stop {
	IOTHREAD_STOP_NONE,
	IOTHREAD_STOP_CANCEL,
	IOTHREAD_STOP_DEADLINE,
};

struct iothread_identity {
	const char *session;
	uint64_t incarnation;
	uint64_t last_seq; /* of another process that the session has lived in */
	int listener;      /* -1: none */
	int connection;    /* one that exists already, or -1 */
};

/* Makes the thread; can be called again in a forked child, which keeps the results. 0 or a negative errno. */
int iothread_start(const struct iothread_identity *identity) __attribute__((warn_unused_result));

/* Waits for the next evaluation. The request stays the thread's; it lives until iothread_finish. */
const struct request *iothread_next(void);

/* Why the running evaluation was asked to stop, if it was. */
enum iothread_stop iothread_stop_reason(void);

/* The running evaluation is over. Takes the result's bytes, keeps them, and sends them at once if it can. */
void iothread_finish(struct frame_builder *result);

/*
 * Reports that this process cannot go on, and ends it with everything in its process group. Any thread may call it,
 * also in a signal handler. The text must stay where it is.
 */
void iothread_fatal(const char *text) __attribute__((noreturn));

#endif
