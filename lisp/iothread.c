/*
 * iothread.c - the poll loop beside Lisp, and how the two threads take turns at it.
 *
 * One of them serves the descriptors at a time (`is_main`). The I/O thread takes them over when a timer finds an
 * evaluation running, and gives them back when the main thread is idle and asks for them. What has arrived and is no
 * whole frame yet passes along with them.
 *
 * One lock guards everything that both threads touch. The main thread takes it only between evaluations, so that
 * nothing can tear it away while it holds it. A finished result is sent by the main thread itself if the connection
 * takes it; what is left, the I/O thread sends. Frames never mix, because the outbox knows what is half sent.
 */
#include "config.h"

#include "iothread.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "clock.h"
#include "descriptors.h"
#include "inbox.h"
#include "interrupt.h"
#include "listener.h"
#include "log.h"
#include "outbox.h"
#include "output.h"
#include "worklink.h"

#define QUEUE_MAX 64
#define STACK_SIZE (256 * 1024)
#define PUSH_INTERVAL_US 1000 /* how often a cancel is repeated until the evaluation is over */
#define FATAL_WAIT_MS 1000    /* how long a last report may take */
#define EXIT_FATAL 70
#define TIME_LIMIT_MAX_MS UINT64_C(1000000000000) /* beyond it there is no limit */
#define REPORTS_MAX 65536                         /* a daemon that asks but does not read gets no further progress */

/* An evaluation that takes longer is watched by the I/O thread; for a shorter one to wake it would cost too much. */
#define TAKE_OVER_US 1000

enum descriptor { WAKE, LISTENER, PIPE_STDOUT, PIPE_STDERR, CONNECTION, DESCRIPTORS };

static struct {
	pthread_mutex_t lock;
	pthread_cond_t work;
	pthread_cond_t rest;
	bool is_started;
	bool park;      /* the main thread wants it to hold still, */
	bool is_parked; /* and it does */
	int wake;
	bool is_main;      /* the main thread serves the descriptors, */
	bool wanted_back;  /* or waits for the I/O thread to let it */
	int takeover;      /* a timer: the I/O thread shall look whether the main thread is still free to serve */
	uint64_t armed_us; /* until when it is set */
	struct iothread_identity identity;
	struct outbox outbox;

	/* What has arrived and is no whole frame yet; of whoever serves. */
	struct inbox inbox;

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

	struct request *cloning; /* the main thread is making a clone: nothing runs meanwhile */
	struct request *running;
	bool taken; /* by the main thread */
	uint64_t started_us;
	uint64_t deadline_us; /* 0: none */
	enum iothread_stop stop;
	uint64_t kill_at_us;
} io;

static _Atomic(const char *) fatal_text;

static void wake_up(void)
{
	uint64_t one = 1;

	if (write(io.wake, &one, sizeof(one)) < 0)
		return; /* it is awake already: the counter is full */
}

static void stop_running(enum iothread_stop reason)
{
	if (!io.running || io.stop != IOTHREAD_STOP_NONE)
		return;
	io.stop = reason;
	io.kill_at_us = clock_microseconds() + IOTHREAD_GRACE_MS * 1000;
}

static void begin_clone(void)
{
	struct request *request = request_queue_take(&io.queue);

	if (request->cancelled)
		request_free(request);
	else
		io.cloning = request;
	pthread_cond_signal(&io.work);
}

/* Hands the next request to the main thread if that is idle and its result can be kept. */
static void begin_next(void)
{
	while (!io.running && !io.cloning && io.queue.first && io.queue.first->clone)
		begin_clone();

	struct request *request = io.queue.first;

	if (io.running || io.cloning || !request || outbox_is_full(&io.outbox))
		return;
	request_queue_take(&io.queue);
	io.running = request;
	io.taken = false;
	io.last_begun = request->seq;
	lineage_note_begun(io.identity.lineage, request);
	io.started_us = clock_microseconds();
	io.deadline_us = 0;
	if (request->time_limit_ms > 0 && request->time_limit_ms < TIME_LIMIT_MAX_MS)
		io.deadline_us = io.started_us + request->time_limit_ms * 1000;
	io.stop = IOTHREAD_STOP_NONE;
	if (request->cancelled)
		stop_running(IOTHREAD_STOP_CANCEL);
	pthread_cond_signal(&io.work);
}

/* ---- what the daemon says */

static void put_protection(struct frame_builder *frame)
{
	frame_put_number(frame, WORK_PROTECTED, io.protected);
	if (io.no_copy)
		frame_put_text(frame, WORK_TEXT, io.no_copy);
}

static void put_inheritance(struct frame_builder *hello)
{
	const struct lineage *lineage = io.identity.lineage;

	if (!io.is_heir)
		return;
	frame_put_number(hello, WORK_RESTORED, io.restored);
	if (io.interrupted) {
		frame_put_number(hello, WORK_INTERRUPTED, io.interrupted);
		lineage_put_origin(lineage, WORK_INTERRUPTED_ORIGIN, hello);
	}
	lineage_put_undone(lineage, io.restored, io.inherited, hello);
}

static void say_hello(void)
{
	struct frame_builder frame = {0};

	frame_begin(&frame, WORKER_HELLO);
	frame_put_number(&frame, WORK_VERSION, WORKLINK_VERSION);
	frame_put_text(&frame, WORK_SESSION, io.identity.session);
	frame_put_number(&frame, WORK_PID, (uint64_t)getpid());
	frame_put_number(&frame, WORK_INCARNATION, io.identity.incarnation);
	frame_put_number(&frame, WORK_SEQ, io.last_begun);
	frame_put_number(&frame, WORK_KEPT, io.outbox.count);
	if (io.running) {
		frame_put_number(&frame, WORK_RUNNING, io.running->seq);
		frame_put(&frame, WORK_ORIGIN, io.running->origin, io.running->origin_length);
	}
	put_protection(&frame);
	put_inheritance(&frame);
	frame_end(&frame);
	outbox_report(&io.outbox, &frame);
	frame_builder_free(&frame);
}

static void say_progress(const struct output_progress *progress)
{
	struct frame_builder frame = {0};

	if (!io.running || io.outbox.reports.length > REPORTS_MAX)
		return;
	frame_begin(&frame, WORKER_PROGRESS);
	frame_put_number(&frame, WORK_SEQ, io.running->seq);
	frame_put_number(&frame, WORK_ELAPSED, clock_microseconds() - io.started_us);
	frame_put_number(&frame, WORK_LINES, progress->lines);
	if (progress->last_length > 0)
		frame_put(&frame, WORK_LAST_LINE, progress->last_line, progress->last_length);
	frame_end(&frame);
	outbox_report(&io.outbox, &frame);
	frame_builder_free(&frame);
}

/* False if the daemon asks for more than any sane one would. */
static bool enqueue(struct request *request)
{
	if (io.queue.length >= QUEUE_MAX) {
		request_free(request);
		return false;
	}
	request_queue_add(&io.queue, request);
	begin_next();
	return true;
}

static bool handle_evaluate(const struct frame *frame)
{
	struct request *request = request_read(frame);

	if (!request)
		return false;
	if (request->incarnation != io.identity.incarnation || request->seq != io.last_accepted + 1) {
		request_free(request);
		return true;
	}
	io.last_accepted = request->seq;
	return enqueue(request);
}

static bool handle_clone(const struct frame *frame)
{
	struct request *request = request_read_clone(frame);

	return request && enqueue(request);
}

/* Who asked for them is gone. */
static void cancel_clones(void)
{
	if (io.cloning)
		io.cloning->cancelled = true;
	for (struct request *waiting = io.queue.first; waiting; waiting = waiting->next)
		if (waiting->clone)
			waiting->cancelled = true;
}

static void handle_cancel(uint64_t seq)
{
	if (io.running && io.running->seq == seq)
		stop_running(IOTHREAD_STOP_CANCEL);
	for (struct request *waiting = io.queue.first; waiting; waiting = waiting->next)
		if (waiting->seq == seq && !waiting->clone)
			waiting->cancelled = true;
}

/* Clients know of the death, by the error of the evaluation that it interrupted or with the next one's result. */
static void note_told(void)
{
	if (!io.is_heir)
		return;
	io.is_heir = false;
	io.interrupted = 0;
	lineage_note_told(io.identity.lineage, io.inherited);
}

static void handle_forget(uint64_t seq)
{
	outbox_forget(&io.outbox, seq);
	lineage_note_forgotten(io.identity.lineage, seq);
	if (io.interrupted && seq >= io.interrupted)
		note_told();
	begin_next();
}

static uint64_t seq_of(struct frame frame)
{
	struct field field;
	uint64_t seq = 0;

	while (frame_next(&frame, &field) == FRAME_READY)
		if (field.tag == WORK_SEQ && !field_number(&field, &seq))
			return 0;
	return seq;
}

/* False if the peer is not to be trusted. */
static bool handle_frame(const struct frame *frame)
{
	struct output_progress progress;
	bool trusted = true;

	if (frame->type == WORKER_QUIT) {
		lineage_end(io.identity.lineage);
		_exit(0); /* the zygote ends what is left of the process group */
	}
	if (frame->type == WORKER_PEEK) {
		output_lock();
		output_progress(&progress);
		output_unlock();
	}
	pthread_mutex_lock(&io.lock);
	switch (frame->type) {
	case WORKER_EVALUATE:
		trusted = handle_evaluate(frame);
		break;
	case WORKER_CLONE:
		trusted = handle_clone(frame);
		break;
	case WORKER_CANCEL:
		handle_cancel(seq_of(*frame));
		break;
	case WORKER_FORGET:
		handle_forget(seq_of(*frame));
		break;
	case WORKER_PEEK:
		say_progress(&progress);
		break;
	}
	pthread_mutex_unlock(&io.lock);
	return trusted;
}

/* ---- the connection */

static void drop_connection(void)
{
	pthread_mutex_lock(&io.lock);
	cancel_clones();
	outbox_connect(&io.outbox, -1);
	pthread_mutex_unlock(&io.lock);
	inbox_clear(&io.inbox);
}

static void welcome(int connection)
{
	pthread_mutex_lock(&io.lock);
	cancel_clones();
	outbox_connect(&io.outbox, descriptors_raise(connection));
	say_hello();
	pthread_mutex_unlock(&io.lock);
	inbox_clear(&io.inbox);
}

static void send_pending(void)
{
	pthread_mutex_lock(&io.lock);
	int result = outbox_send(&io.outbox);
	pthread_mutex_unlock(&io.lock);
	if (result < 0)
		drop_connection();
}

/* ---- the end */

/* The main thread may be stuck anywhere, even with the lock: nothing here waits for ever. */
static void report_and_die(const char *text)
{
	struct frame_builder frame = {0};
	struct timespec until;
	uint64_t give_up_us = clock_microseconds() + FATAL_WAIT_MS * 1000;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec++;
	if (pthread_mutex_timedlock(&io.lock, &until) == 0) {
		frame_begin(&frame, WORKER_FATAL);
		frame_put_number(&frame, WORK_SEQ, io.running ? io.running->seq : io.last_begun);
		frame_put_text(&frame, WORK_TEXT, text);
		frame_end(&frame);
		outbox_report(&io.outbox, &frame);
		while (outbox_send(&io.outbox) == 0 && outbox_is_pending(&io.outbox) &&
			clock_microseconds() < give_up_us) {
			struct pollfd writable = {.fd = io.outbox.connection, .events = POLLOUT};
			poll(&writable, 1, 100);
		}
	}
	kill(0, SIGKILL); /* a worker leads a process group of its own: subprocesses end with it */
	_exit(EXIT_FATAL);
}

void iothread_fatal(const char *text)
{
	const char *none = NULL;
	struct timespec patience = {.tv_sec = 3};

	if (!io.wake) { /* this is the zygote */
		log_line("%s", text);
		_exit(EXIT_FATAL);
	}

	atomic_compare_exchange_strong(&fatal_text, &none, text);
	wake_up();
	nanosleep(&patience, NULL);
	_exit(EXIT_FATAL);
}

/* ---- deadlines */

/* Acts on what is due and returns for how many milliseconds nothing will be, -1 for ever. */
static int watch_evaluation(void)
{
	uint64_t now, next_us = 0;
	bool overdue = false;

	pthread_mutex_lock(&io.lock);
	now = clock_microseconds();
	if (io.running) {
		if (io.deadline_us && now >= io.deadline_us)
			stop_running(IOTHREAD_STOP_DEADLINE);
		if (io.stop == IOTHREAD_STOP_NONE) {
			next_us = io.deadline_us;
		} else if (now >= io.kill_at_us) {
			overdue = true;
		} else {
			interrupt_send(io.running->seq);
			next_us = now + PUSH_INTERVAL_US;
		}
	}
	pthread_mutex_unlock(&io.lock);
	if (overdue)
		report_and_die(
			"The evaluation did not end within 2 seconds after it was told to stop; its process was killed.");
	if (!next_us)
		return -1;
	if (next_us <= now)
		return 0;
	uint64_t milliseconds = (next_us - now + 999) / 1000;
	return milliseconds > 60000 ? 60000 : (int)milliseconds;
}

/* Where the thread holds no lock and has nothing half done. */
static void rest_while_parked(void)
{
	pthread_mutex_lock(&io.lock);
	io.is_parked = io.park;
	if (io.park)
		pthread_cond_broadcast(&io.rest);
	while (io.park)
		pthread_cond_wait(&io.rest, &io.lock);
	io.is_parked = false;
	pthread_mutex_unlock(&io.lock);
}

/* Waits for whatever comes, and handles it. Both threads do that, but only one at a time, see `is_main`. */
static void serve_once(int wake, int timeout_ms)
{
	struct pollfd polled[DESCRIPTORS] = {
		[WAKE] = {.fd = wake, .events = POLLIN},
		[LISTENER] = {.fd = io.identity.listener, .events = POLLIN},
		[PIPE_STDOUT] = {.fd = output_pipe(OUTPUT_STDOUT), .events = POLLIN},
		[PIPE_STDERR] = {.fd = output_pipe(OUTPUT_STDERR), .events = POLLIN},
		[CONNECTION] = {.fd = io.outbox.connection, .events = POLLIN},
	};
	uint64_t count;

	pthread_mutex_lock(&io.lock);
	if (outbox_is_pending(&io.outbox))
		polled[CONNECTION].events |= POLLOUT;
	pthread_mutex_unlock(&io.lock);
	if (poll(polled, DESCRIPTORS, timeout_ms) < 0)
		return;
	if (polled[WAKE].revents && read(wake, &count, sizeof(count)) < 0)
		return;
	if (polled[PIPE_STDOUT].revents || polled[PIPE_STDERR].revents) {
		output_lock();
		output_drain();
		output_unlock();
	}
	if (polled[CONNECTION].revents & (POLLIN | POLLHUP | POLLERR))
		if (!inbox_read(&io.inbox, io.outbox.connection, handle_frame))
			drop_connection();
	if (polled[LISTENER].revents) {
		int connection = listener_accept(io.identity.listener);
		if (connection >= 0)
			welcome(connection);
	}
	send_pending();
}

/* Does the main thread do anything but serve? */
static bool is_main_busy(void)
{
	return (io.running && io.taken) || io.cloning;
}

/* Sleeps while the main thread serves. */
static void stand_by(void)
{
	struct pollfd polled[2] = {{.fd = io.wake, .events = POLLIN}, {.fd = io.takeover, .events = POLLIN}};
	uint64_t count;

	if (poll(polled, 2, -1) < 0)
		return;
	for (int i = 0; i < 2; i++)
		if (polled[i].revents && read(polled[i].fd, &count, sizeof(count)) < 0)
			return;
	pthread_mutex_lock(&io.lock);
	if (io.is_main && is_main_busy() && clock_microseconds() >= io.armed_us)
		io.is_main = false;
	pthread_mutex_unlock(&io.lock);
}

/* Gives the descriptors back to a main thread that is idle again. */
static bool is_main_serving(void)
{
	pthread_mutex_lock(&io.lock);
	if (io.wanted_back) {
		io.is_main = true;
		io.wanted_back = false;
		pthread_cond_signal(&io.work);
	}
	bool is_main = io.is_main;
	pthread_mutex_unlock(&io.lock);
	return is_main;
}

static void *serve(void *unused)
{
	const char *text;

	(void)unused;
	for (;;) {
		rest_while_parked();
		if (is_main_serving())
			stand_by();
		else
			serve_once(io.wake, watch_evaluation());
		if ((text = atomic_load(&fatal_text)))
			report_and_die(text);
	}
	return NULL;
}

/* ---- for the main thread */

static void drop_requests(void)
{
	if (io.running)
		request_free(io.running);
	if (io.cloning)
		request_free(io.cloning);
	io.running = io.cloning = NULL;
	while (io.queue.first)
		request_free(request_queue_take(&io.queue));
}

void iothread_inherit(void)
{
	const struct lineage *lineage = io.identity.lineage;

	drop_requests();
	inbox_clear(&io.inbox);
	io.is_heir = true;
	io.restored = io.last_finished;
	io.protected = io.inherited = io.last_accepted = io.last_begun = lineage_begun(lineage);
	outbox_release(&io.outbox);
	outbox_forget(&io.outbox, lineage_forgotten(lineage));
	io.interrupted = 0;
	if (io.inherited > io.restored && io.inherited > lineage_forgotten(lineage))
		io.interrupted = io.inherited;
}

void iothread_forget(void)
{
	drop_requests();
	inbox_clear(&io.inbox);
	outbox_release(&io.outbox);
	outbox_forget(&io.outbox, UINT64_MAX);
	io.last_accepted = io.last_begun = io.last_finished = io.protected = 0;
	io.no_copy = NULL;
	io.is_heir = false;
	io.restored = io.inherited = io.interrupted = 0;
}

static int start_thread(void)
{
	pthread_attr_t attributes;
	sigset_t all, before;
	pthread_t thread;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	pthread_attr_init(&attributes);
	pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&attributes, STACK_SIZE);
	int error = pthread_create(&thread, &attributes, serve, NULL);
	pthread_attr_destroy(&attributes);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	io.is_started = error == 0;
	return -error;
}

static void make_locks(void)
{
	pthread_condattr_t attributes;

	pthread_mutex_init(&io.lock, NULL);
	pthread_condattr_init(&attributes);
	pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	pthread_cond_init(&io.work, &attributes);
	pthread_condattr_destroy(&attributes);
	pthread_cond_init(&io.rest, NULL);
}

int iothread_start(const struct iothread_identity *identity)
{
	io.identity = *identity;
	if (io.last_accepted < identity->last_seq)
		io.last_accepted = io.last_begun = io.last_finished = identity->last_seq;
	make_locks();
	io.wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	io.takeover = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	if (io.wake < 0 || io.takeover < 0)
		return -errno;
	io.wake = descriptors_raise(io.wake);
	io.takeover = descriptors_raise(io.takeover);
	io.is_main = io.wanted_back = false;
	io.armed_us = 0;
	io.outbox.connection = -1;
	outbox_connect(&io.outbox, -1);
	if (identity->connection >= 0)
		welcome(identity->connection);
	return start_thread();
}

void iothread_park(void)
{
	if (!io.is_started)
		return;
	pthread_mutex_lock(&io.lock);
	io.park = true;
	wake_up();
	while (!io.is_parked)
		pthread_cond_wait(&io.rest, &io.lock);
	pthread_mutex_unlock(&io.lock);
}

void iothread_unpark(void)
{
	if (!io.is_started)
		return;
	pthread_mutex_lock(&io.lock);
	io.park = false;
	pthread_cond_broadcast(&io.rest);
	pthread_mutex_unlock(&io.lock);
}

void iothread_note_copy(const char *why_not)
{
	struct frame_builder frame = {0};

	if (!io.is_started)
		return;
	pthread_mutex_lock(&io.lock);
	io.no_copy = why_not;
	if (!why_not)
		io.protected = io.last_finished;
	frame_begin(&frame, WORKER_COPIED);
	put_protection(&frame);
	frame_end(&frame);
	outbox_report(&io.outbox, &frame);
	pthread_mutex_unlock(&io.lock);
	frame_builder_free(&frame);
	wake_up();
}

bool iothread_owns(int fd)
{
	return io.is_started &&
		(fd == io.wake || fd == io.takeover || fd == io.identity.listener || fd == io.outbox.connection);
}

void iothread_abandon(void)
{
	if (!io.is_started)
		return;
	io.is_started = io.park = io.is_parked = false;
	close(io.wake);
	close(io.takeover);
	if (io.identity.listener >= 0)
		close(io.identity.listener);
	outbox_connect(&io.outbox, -1);
}

/* The I/O thread looks after the evaluation in half this time at the earliest: the timer is set once for many. */
static void arm_takeover(void)
{
	struct itimerspec after = {.it_value = {.tv_nsec = TAKE_OVER_US * 1000}};
	uint64_t now = clock_microseconds();

	if (now + TAKE_OVER_US / 2 < io.armed_us)
		return;
	io.armed_us = now + TAKE_OVER_US;
	timerfd_settime(io.takeover, 0, &after, NULL);
}

static bool has_work(void)
{
	return (io.running && !io.taken) || io.cloning;
}

/* With the lock held. False if it is too late. */
static bool take_back_descriptors(uint64_t until_us)
{
	struct timespec until = {.tv_sec = (time_t)(until_us / 1000000), .tv_nsec = (long)(until_us % 1000000) * 1000};
	int status = 0;

	io.wanted_back = true;
	wake_up();
	while (!io.is_main && !has_work() && status == 0)
		status = until_us ? pthread_cond_timedwait(&io.work, &io.lock, &until)
				  : pthread_cond_wait(&io.work, &io.lock);
	io.wanted_back = false; /* there may be something to evaluate first */
	return status == 0;
}

/* -1: for ever */
static int milliseconds_until(uint64_t until_us)
{
	uint64_t now = clock_microseconds();

	if (!until_us)
		return -1;
	return until_us <= now ? 0 : (int)((until_us - now + 999) / 1000);
}

const struct request *iothread_next(uint64_t until_us)
{
	const struct request *request = NULL;
	bool in_time = true;

	pthread_mutex_lock(&io.lock);
	while (!has_work() && in_time) {
		if (io.is_main) {
			pthread_mutex_unlock(&io.lock);
			serve_once(-1, milliseconds_until(until_us));
			pthread_mutex_lock(&io.lock);
			in_time = !until_us || clock_microseconds() < until_us;
		} else {
			in_time = take_back_descriptors(until_us);
		}
	}
	if (io.cloning) {
		request = io.cloning;
	} else if (io.running && !io.taken) {
		io.taken = true;
		request = io.running;
	}
	if (request && io.is_main)
		arm_takeover();
	pthread_mutex_unlock(&io.lock);
	return request;
}

bool iothread_clone_is_wanted(void)
{
	pthread_mutex_lock(&io.lock);
	bool is_wanted = !io.cloning->cancelled;
	pthread_mutex_unlock(&io.lock);
	return is_wanted;
}

void iothread_end_clone(pid_t clone, const char *why_not)
{
	struct frame_builder frame = {0};

	pthread_mutex_lock(&io.lock);
	struct request *request = io.cloning;
	io.cloning = NULL;
	frame_begin(&frame, WORKER_CLONED);
	frame_put_text(&frame, WORK_SESSION, request->clone);
	if (why_not)
		frame_put_text(&frame, WORK_TEXT, why_not);
	else
		frame_put_number(&frame, WORK_PID, (uint64_t)clone);
	frame_end(&frame);
	if (!request->cancelled)
		outbox_report(&io.outbox, &frame);
	begin_next();
	pthread_mutex_unlock(&io.lock);
	request_free(request);
	frame_builder_free(&frame);
	wake_up();
}

enum iothread_stop iothread_stop_reason(void)
{
	pthread_mutex_lock(&io.lock);
	enum iothread_stop reason = io.stop;
	pthread_mutex_unlock(&io.lock);
	return reason;
}

void iothread_keep(struct frame_builder *result)
{
	pthread_mutex_lock(&io.lock);
	struct request *request = io.running;
	io.running = NULL;
	outbox_keep(&io.outbox, request->seq, result);
	io.last_finished = request->seq;
	if (!io.interrupted)
		note_told();
	pthread_mutex_unlock(&io.lock);
	request_free(request);
}

void iothread_release(void)
{
	pthread_mutex_lock(&io.lock);
	lineage_note_answered(io.identity.lineage, io.last_finished);
	outbox_release(&io.outbox);
	begin_next();
	/* A broken connection is the business of whoever serves: it will be seen. */
	bool watched = outbox_send(&io.outbox) < 0 || outbox_is_pending(&io.outbox) || io.running;

	watched = watched && !io.is_main;
	pthread_mutex_unlock(&io.lock);
	if (watched)
		wake_up();
}
