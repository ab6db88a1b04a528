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

#include "agenda.h"
#include "clock.h"
#include "descriptors.h"
#include "inbox.h"
#include "interrupt.h"
#include "listener.h"
#include "log.h"
#include "output.h"
#include "worklink.h"

#define STACK_SIZE (256 * 1024)
#define PUSH_INTERVAL_US 1000 /* how often a cancel is repeated until the evaluation is over */
#define FATAL_WAIT_MS 1000    /* how long a last report may take */
#define EXIT_FATAL 70

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
	int listener;
	struct agenda agenda;
	struct inbox inbox; /* of whoever serves */
} io;

static _Atomic(const char *) fatal_text;

static void wake_up(void)
{
	uint64_t one = 1;

	if (write(io.wake, &one, sizeof(one)) < 0)
		return; /* it is awake already: the counter is full */
}

/* False if the peer is not to be trusted. */
static bool handle_frame(const struct frame *frame)
{
	struct output_progress progress = {0};

	if (frame->type == WORKER_QUIT) {
		lineage_end(io.agenda.lineage);
		_exit(0); /* the zygote ends what is left of the process group */
	}
	if (frame->type == WORKER_PEEK) {
		output_lock();
		output_progress(&progress);
		output_unlock();
	}
	pthread_mutex_lock(&io.lock);
	bool trusted = agenda_handle(&io.agenda, frame, &progress);
	if (agenda_has_work(&io.agenda))
		pthread_cond_signal(&io.work);
	pthread_mutex_unlock(&io.lock);
	return trusted;
}

/* ---- the connection */

/* -1: it is gone */
static void use_connection(int connection)
{
	pthread_mutex_lock(&io.lock);
	agenda_connect(&io.agenda, connection);
	pthread_mutex_unlock(&io.lock);
	inbox_clear(&io.inbox);
}

static void send_pending(void)
{
	pthread_mutex_lock(&io.lock);
	int result = outbox_send(&io.agenda.outbox);
	pthread_mutex_unlock(&io.lock);
	if (result < 0)
		use_connection(-1);
}

/* ---- the end */

/* The main thread may be stuck anywhere, even with the lock: nothing here waits for ever. */
static void report_and_die(const char *text)
{
	struct outbox *outbox = &io.agenda.outbox;
	struct timespec until;
	uint64_t give_up_us = clock_microseconds() + FATAL_WAIT_MS * 1000;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec++;
	if (pthread_mutex_timedlock(&io.lock, &until) == 0) {
		agenda_report_fatal(&io.agenda, text);
		while (outbox_send(outbox) == 0 && outbox_is_pending(outbox) && clock_microseconds() < give_up_us) {
			struct pollfd writable = {.fd = outbox->connection, .events = POLLOUT};
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
	bool overdue;

	pthread_mutex_lock(&io.lock);
	uint64_t now = clock_microseconds();
	uint64_t next_us = agenda_watch(&io.agenda, now, &overdue);
	if (!overdue && agenda_is_stopping(&io.agenda)) {
		interrupt_send(io.agenda.running->seq);
		next_us = now + PUSH_INTERVAL_US;
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
		[LISTENER] = {.fd = io.listener, .events = POLLIN},
		[PIPE_STDOUT] = {.fd = output_pipe(OUTPUT_STDOUT), .events = POLLIN},
		[PIPE_STDERR] = {.fd = output_pipe(OUTPUT_STDERR), .events = POLLIN},
		[CONNECTION] = {.fd = io.agenda.outbox.connection, .events = POLLIN},
	};
	uint64_t count;

	pthread_mutex_lock(&io.lock);
	if (outbox_is_pending(&io.agenda.outbox))
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
		if (!inbox_read(&io.inbox, io.agenda.outbox.connection, handle_frame))
			use_connection(-1);
	if (polled[LISTENER].revents) {
		int connection = listener_accept(io.listener);
		if (connection >= 0)
			use_connection(descriptors_raise(connection));
	}
	send_pending();
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
	if (io.is_main && agenda_is_busy(&io.agenda) && clock_microseconds() >= io.armed_us)
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

void iothread_inherit(bool was_chosen)
{
	inbox_clear(&io.inbox);
	agenda_inherit(&io.agenda, was_chosen);
}

void iothread_forget(void)
{
	inbox_clear(&io.inbox);
	agenda_forget(&io.agenda);
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
	io.listener = identity->listener;
	io.agenda.session = identity->session;
	io.agenda.lineage = identity->lineage;
	io.agenda.incarnation = identity->incarnation;
	agenda_begin(&io.agenda, identity->last_seq);
	make_locks();
	io.wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	io.takeover = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	if (io.wake < 0 || io.takeover < 0)
		return -errno;
	io.wake = descriptors_raise(io.wake);
	io.takeover = descriptors_raise(io.takeover);
	io.is_main = io.wanted_back = false;
	io.armed_us = 0;
	if (identity->connection >= 0)
		use_connection(descriptors_raise(identity->connection));
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
	if (!io.is_started)
		return;
	pthread_mutex_lock(&io.lock);
	agenda_note_copy(&io.agenda, why_not);
	pthread_mutex_unlock(&io.lock);
	wake_up();
}

bool iothread_owns(int fd)
{
	return io.is_started &&
		(fd == io.wake || fd == io.takeover || fd == io.listener || fd == io.agenda.outbox.connection);
}

void iothread_abandon(void)
{
	if (!io.is_started)
		return;
	io.is_started = io.park = io.is_parked = false;
	close(io.wake);
	close(io.takeover);
	if (io.listener >= 0)
		close(io.listener);
	outbox_connect(&io.agenda.outbox, -1);
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

/* With the lock held. False if it is too late. */
static bool take_back_descriptors(uint64_t until_us)
{
	struct timespec until = {.tv_sec = (time_t)(until_us / 1000000), .tv_nsec = (long)(until_us % 1000000) * 1000};
	int status = 0;

	io.wanted_back = true;
	wake_up();
	while (!io.is_main && !agenda_has_work(&io.agenda) && status == 0)
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
	bool in_time = true;

	pthread_mutex_lock(&io.lock);
	while (!agenda_has_work(&io.agenda) && in_time) {
		if (io.is_main) {
			pthread_mutex_unlock(&io.lock);
			serve_once(-1, milliseconds_until(until_us));
			pthread_mutex_lock(&io.lock);
			in_time = !until_us || clock_microseconds() < until_us;
		} else {
			in_time = take_back_descriptors(until_us);
		}
	}
	const struct request *request = agenda_take(&io.agenda);
	if (request && io.is_main)
		arm_takeover();
	pthread_mutex_unlock(&io.lock);
	return request;
}

bool iothread_clone_is_wanted(void)
{
	pthread_mutex_lock(&io.lock);
	bool is_wanted = !io.agenda.cloning->cancelled;
	pthread_mutex_unlock(&io.lock);
	return is_wanted;
}

void iothread_end_clone(pid_t clone, const char *why_not)
{
	pthread_mutex_lock(&io.lock);
	struct request *request = agenda_end_clone(&io.agenda, clone, why_not);
	pthread_mutex_unlock(&io.lock);
	request_free(request);
	wake_up();
}

enum agenda_stop iothread_stop_reason(void)
{
	pthread_mutex_lock(&io.lock);
	enum agenda_stop reason = io.agenda.stop;
	pthread_mutex_unlock(&io.lock);
	return reason;
}

void iothread_keep(struct frame_builder *result)
{
	pthread_mutex_lock(&io.lock);
	struct request *request = agenda_keep(&io.agenda, result);
	pthread_mutex_unlock(&io.lock);
	request_free(request);
}

void iothread_amend(struct frame_builder *result)
{
	pthread_mutex_lock(&io.lock);
	outbox_amend(&io.agenda.outbox, result);
	pthread_mutex_unlock(&io.lock);
}

void iothread_release(void)
{
	pthread_mutex_lock(&io.lock);
	agenda_release(&io.agenda);
	/* A broken connection is the business of whoever serves: it will be seen. */
	bool watched = outbox_send(&io.agenda.outbox) < 0 || outbox_is_pending(&io.agenda.outbox) || io.agenda.running;

	watched = watched && !io.is_main;
	pthread_mutex_unlock(&io.lock);
	if (watched)
		wake_up();
}
