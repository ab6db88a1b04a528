/*
 * zygote.c - serving the daemon: spawn, kill, and tell who died.
 *
 * One thread and one poll loop. The socket is there before Lisp boots, so that a daemon can connect at once and wait.
 * The zygote outlives daemons: each new one is told what is ready and which workers live. It leaves when it has had
 * neither a daemon nor a worker for a while.
 */
#include "config.h"

#include "zygote.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "boot.h"
#include "clock.h"
#include "cradle.h"
#include "frame.h"
#include "listener.h"
#include "log.h"
#include "paths.h"
#include "process.h"
#include "recipes.h"
#include "request.h"
#include "sessionlock.h"
#include "spawn.h"
#include "worklink.h"

#define INPUT_SIZE 65536 /* far more than any request to a zygote takes */
#define DIRECTORY_MAX 4096

struct zygote_worker {
	char session[WORKLINK_SESSION_ID_LENGTH + 1];
	struct lineage *lineage;
	pid_t pid;
	int ready; /* a socket; -1 once it listens */
};

enum descriptor { SIGNALS, LISTENER, CRADLE, CONNECTION, FIRST_WORKER };

static struct {
	const struct zygote_options *options;
	int listener;
	int cradle;
	int signals;
	int connection; /* -1: none */
	uint64_t boot_ms;
	uint64_t lonely_since_us;
	bool quitting; /* the daemon has asked for the end of everything */

	uint8_t input[INPUT_SIZE];
	size_t input_length;

	struct zygote_worker *workers;
	size_t worker_count;
	size_t worker_capacity;
} zygote;

/* ---- what the daemon is told */

static void disconnect(void)
{
	if (zygote.connection >= 0)
		close(zygote.connection);
	zygote.connection = -1;
	zygote.input_length = 0;
}

/*
 * Reports are short and few: a daemon that lets them pile up is told no more, and finds all out when it comes back.
 * What it says is still heard: it may be about to leave, and the last thing it said is that we are to leave too.
 */
static void say(struct frame_builder *frame)
{
	frame_end(frame);
	ssize_t sent = zygote.connection < 0
		? (ssize_t)frame->length
		: send(zygote.connection, frame->data, frame->length, MSG_DONTWAIT | MSG_NOSIGNAL);
	if (sent != (ssize_t)frame->length)
		shutdown(zygote.connection, SHUT_WR);
	frame_builder_free(frame);
}

static void say_ready(void)
{
	struct frame_builder frame = {0};

	frame_begin(&frame, ZYGOTE_READY);
	frame_put_number(&frame, WORK_VERSION, WORKLINK_VERSION);
	frame_put_number(&frame, WORK_PID, (uint64_t)getpid());
	frame_put_number(&frame, WORK_BOOT_MS, zygote.boot_ms);
	frame_put_text(&frame, WORK_LISP, boot_lisp_version());
	recipes_put_fallbacks(&frame);
	say(&frame);
}

static void say_spawned(const struct zygote_worker *worker)
{
	struct frame_builder frame = {0};

	frame_begin(&frame, ZYGOTE_SPAWNED);
	frame_put_text(&frame, WORK_SESSION, worker->session);
	frame_put_number(&frame, WORK_PID, (uint64_t)worker->pid);
	say(&frame);
}

static void say_refused(const char *session, const char *reason)
{
	struct frame_builder frame = {0};

	frame_begin(&frame, ZYGOTE_REFUSED);
	frame_put_text(&frame, WORK_SESSION, session);
	frame_put_text(&frame, WORK_TEXT, reason);
	say(&frame);
}

static void say_died(const struct zygote_worker *worker, int status, pid_t heir)
{
	struct frame_builder frame = {0};

	frame_begin(&frame, ZYGOTE_DIED);
	frame_put_text(&frame, WORK_SESSION, worker->session);
	frame_put_number(&frame, WORK_PID, (uint64_t)worker->pid);
	frame_put_number(&frame, WORK_STATUS, (uint64_t)status);
	if (heir)
		frame_put_number(&frame, WORK_HEIR, (uint64_t)heir);
	say(&frame);
}

/* ---- workers */

static struct zygote_worker *find_worker(const char *session)
{
	for (size_t i = 0; i < zygote.worker_count; i++)
		if (strcmp(zygote.workers[i].session, session) == 0)
			return &zygote.workers[i];
	return NULL;
}

static void add_worker(const struct spawn_order *order, pid_t pid, int ready)
{
	if (zygote.worker_count == zygote.worker_capacity) {
		zygote.worker_capacity = zygote.worker_capacity ? 2 * zygote.worker_capacity : 16;
		zygote.workers = realloc(zygote.workers, zygote.worker_capacity * sizeof(*zygote.workers));
		if (!zygote.workers)
			abort();
	}
	struct zygote_worker *worker = &zygote.workers[zygote.worker_count++];
	*worker = (struct zygote_worker){.lineage = order->lineage, .pid = pid, .ready = ready};
	memcpy(worker->session, order->session, sizeof(worker->session));
}

static void kill_worker(const struct zygote_worker *worker)
{
	kill(worker->pid, SIGKILL);
	kill(-worker->pid, SIGKILL);
}

/* A worker's orphans are ours. What its memory says is not to be trusted. */
static bool is_orphan(pid_t pid)
{
	siginfo_t unused;

	for (size_t i = 0; i < zygote.worker_count; i++)
		if (zygote.workers[i].pid == pid)
			return false;
	return pid > 1 && waitid(P_PID, (id_t)pid, &unused, WEXITED | WNOHANG | WNOWAIT) == 0;
}

static void bury_orphan(pid_t pid)
{
	if (!is_orphan(pid))
		return;
	kill(pid, SIGKILL);
	kill(-pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

/*
 * Nobody is to take over. The copies would see that by themselves, but we may not be there to reap them then; and one
 * that was just waking when it was decided has become the worker.
 */
static void bury_heirs(const struct zygote_worker *worker)
{
	const struct shelf *shelf = lineage_shelf(worker->lineage);

	for (int i = 0; i < SHELF_PLACES; i++)
		if (shelf_is_there(&shelf->copies[i]))
			bury_orphan(shelf_pid(shelf, i));
	uint64_t last = lineage_worker(worker->lineage);
	if (process_is_alive(last))
		bury_orphan(process_pid(last));
}

static void bury_worker(struct zygote_worker *worker, int status)
{
	pid_t heir = lineage_heir(worker->lineage);
	char path[PATHS_SOCKET_SIZE];

	kill(-worker->pid, SIGKILL); /* what it had started */
	if (is_orphan(heir)) {
		say_died(worker, status, heir);
		worker->pid = heir;
		return;
	}
	bury_heirs(worker);
	sessionlock_remove(zygote.options->runtime_directory, worker->session);
	if (paths_beside(zygote.options->runtime_directory, worker->session, path) == 0)
		unlink(path);
	if (worker->ready >= 0) {
		close(worker->ready);
		say_refused(worker->session, "its process died while it started");
	} else {
		say_died(worker, status, 0);
	}
	lineage_free(worker->lineage);
	*worker = zygote.workers[--zygote.worker_count];
	if (zygote.worker_count == 0)
		zygote.lonely_since_us = clock_microseconds();
}

static void reap(void)
{
	int status;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
		for (size_t i = 0; i < zygote.worker_count; i++)
			if (zygote.workers[i].pid == pid) {
				bury_worker(&zygote.workers[i], status);
				break;
			}
}

/* The worker says by itself whether it listens. */
static void hear_worker(struct zygote_worker *worker)
{
	char text[256];
	ssize_t length = recv(worker->ready, text, sizeof(text) - 1, MSG_DONTWAIT);

	if (length < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (length == 1 && text[0] == '\0') {
		close(worker->ready);
		worker->ready = -1;
		say_spawned(worker);
	} else if (length > 0) {
		text[length] = '\0';
		log_line("%s: %s", worker->session, text);
	} else {
		kill_worker(worker); /* it died, or is about to */
	}
}

/* pid 0: whichever it is, and nobody follows it. */
static void end_process(const char *session, uint64_t pid)
{
	const struct zygote_worker *worker = find_worker(session);

	if (!worker || (pid != 0 && (uint64_t)worker->pid != pid))
		return;
	if (pid == 0)
		lineage_end(worker->lineage);
	kill_worker(worker);
}

static void spawn(struct spawn_order *order)
{
	const struct zygote_worker *existing = find_worker(order->session);
	char reason[256];
	int ready;

	if (existing) {
		/* One that still starts will be announced. */
		if (existing->ready < 0)
			say_spawned(existing);
		return;
	}
	order->lineage = lineage_new();
	pid_t pid = order->lineage ? spawn_worker(order, &ready) : -ENOMEM;
	if (pid < 0) {
		if (order->lineage)
			lineage_free(order->lineage);
		snprintf(reason, sizeof(reason), "no process for it: %s", strerror(-(int)pid));
		say_refused(order->session, reason);
		return;
	}
	add_worker(order, pid, ready);
}

/* A clone must be our child by now, or we should not hear of its end. */
static void take_in(const struct newborn *newborn)
{
	const struct spawn_order order = {.session = newborn->session, .lineage = newborn->lineage};

	if (find_worker(newborn->session)) {
		cradle_refuse(newborn, "the session has a process");
	} else if (!is_orphan(newborn->pid)) {
		cradle_refuse(newborn, "the zygote that its original comes from is gone");
	} else {
		add_worker(&order, newborn->pid, newborn->line);
		cradle_agree(newborn);
	}
}

static void receive_newborns(void)
{
	struct newborn newborn;

	while (cradle_receive(zygote.cradle, &newborn))
		take_in(&newborn);
}

/* ---- what the daemon says */

static bool read_order(struct frame *frame, char **session, char **directory, uint64_t *pid, struct spawn_order *order)
{
	enum frame_status status;
	struct field field;
	bool good = true;

	while (good && (status = frame_next(frame, &field)) == FRAME_READY) {
		if (field.tag == WORK_SESSION && !*session)
			*session = field_text(&field, WORKLINK_SESSION_ID_LENGTH);
		else if (field.tag == WORK_DIRECTORY && !*directory)
			*directory = field_text(&field, DIRECTORY_MAX);
		else if (field.tag == WORK_SEQ)
			good = field_number(&field, &order->last_seq);
		else if (field.tag == WORK_INCARNATION)
			good = field_number(&field, &order->incarnation);
		else if (field.tag == WORK_PID)
			good = field_number(&field, pid);
	}
	order->session = *session;
	order->directory = *directory;
	return good && status == FRAME_INCOMPLETE;
}

/* False if the peer is not to be trusted. */
static bool handle_frame(struct frame *frame)
{
	struct spawn_order order = {.runtime_directory = zygote.options->runtime_directory, .incarnation = 1};
	char *session = NULL, *directory = NULL;
	uint64_t pid = 0;
	bool trusted = read_order(frame, &session, &directory, &pid, &order);

	if (trusted && frame->type == ZYGOTE_QUIT) {
		zygote.quitting = true;
	} else if (!session || !request_is_session_id(session)) {
		trusted = false;
	} else if (trusted && frame->type == ZYGOTE_SPAWN) {
		spawn(&order);
	} else if (trusted && frame->type == ZYGOTE_KILL) {
		end_process(session, pid);
	}
	free(session);
	free(directory);
	return trusted;
}

static void read_connection(void)
{
	ssize_t length = recv(zygote.connection, zygote.input + zygote.input_length,
		sizeof(zygote.input) - zygote.input_length, MSG_DONTWAIT);
	size_t done = 0, size;
	enum frame_status status;
	struct frame frame;

	if (length < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (length <= 0) {
		disconnect();
		return;
	}
	zygote.input_length += (size_t)length;
	while ((status = frame_open(zygote.input + done, zygote.input_length - done, &frame, &size)) == FRAME_READY) {
		int before = zygote.connection;

		if (!handle_frame(&frame)) {
			status = FRAME_BROKEN;
			break;
		}
		if (zygote.connection != before)
			return;
		done += size;
	}
	if (status == FRAME_BROKEN || size > sizeof(zygote.input)) {
		log_line("the daemon sent a frame that is none; closing the connection");
		disconnect();
		return;
	}
	zygote.input_length -= done;
	memmove(zygote.input, zygote.input + done, zygote.input_length);
}

static void welcome(void)
{
	int connection = listener_accept(zygote.listener);

	if (connection < 0)
		return;
	disconnect();
	zygote.connection = connection;
	say_ready();
	for (size_t i = 0; i < zygote.worker_count; i++)
		if (zygote.workers[i].ready < 0)
			say_spawned(&zygote.workers[i]);
}

/* ---- the loop */

/* False if we were told to leave. */
static bool handle_signals(void)
{
	struct signalfd_siginfo signal;
	bool stay = true;

	while (read(zygote.signals, &signal, sizeof(signal)) == sizeof(signal))
		if (signal.ssi_signo != SIGCHLD)
			stay = false;
	reap();
	return stay;
}

/* Sessions end with the zygote only when it is told to end, not when it crashes. */
static void end_workers(void)
{
	for (size_t i = 0; i < zygote.worker_count; i++) {
		lineage_end(zygote.workers[i].lineage);
		kill_worker(&zygote.workers[i]);
	}
	while (zygote.worker_count > 0) {
		struct pollfd signals = {.fd = zygote.signals, .events = POLLIN};

		poll(&signals, 1, 100);
		handle_signals();
	}
}

/* Milliseconds until the zygote may leave, -1 while it is needed. */
static int time_to_linger(void)
{
	uint64_t linger_us = (uint64_t)zygote.options->linger_seconds * 1000000;
	uint64_t lonely_us = clock_microseconds() - zygote.lonely_since_us;

	if (zygote.connection >= 0 || zygote.worker_count > 0)
		return -1;
	return lonely_us >= linger_us ? 0 : (int)((linger_us - lonely_us + 999) / 1000);
}

static struct pollfd *poll_set(void)
{
	static struct pollfd *set;
	static size_t capacity;

	if (!set || capacity < FIRST_WORKER + zygote.worker_count) {
		capacity = FIRST_WORKER + zygote.worker_count + 16;
		set = realloc(set, capacity * sizeof(*set));
		if (!set)
			abort();
	}
	set[SIGNALS] = (struct pollfd){.fd = zygote.signals, .events = POLLIN};
	set[LISTENER] = (struct pollfd){.fd = zygote.listener, .events = POLLIN};
	set[CRADLE] = (struct pollfd){.fd = zygote.cradle, .events = POLLIN};
	set[CONNECTION] = (struct pollfd){.fd = zygote.connection, .events = POLLIN};
	for (size_t i = 0; i < zygote.worker_count; i++)
		set[FIRST_WORKER + i] = (struct pollfd){.fd = zygote.workers[i].ready, .events = POLLIN};
	return set;
}

static bool serve_once(void)
{
	size_t polled = zygote.worker_count;
	struct pollfd *set = poll_set();
	bool was_connected = zygote.connection >= 0;
	int timeout = time_to_linger();

	if (timeout == 0)
		return false;
	if (poll(set, FIRST_WORKER + polled, timeout) < 0)
		return true;
	for (size_t i = 0; i < polled; i++)
		if (set[FIRST_WORKER + i].revents)
			hear_worker(&zygote.workers[i]);
	if (set[CRADLE].revents)
		receive_newborns();
	if (set[CONNECTION].revents && zygote.connection >= 0)
		read_connection();
	if (set[LISTENER].revents)
		welcome();
	if (was_connected && zygote.connection < 0)
		zygote.lonely_since_us = clock_microseconds();
	return (!set[SIGNALS].revents || handle_signals()) && !zygote.quitting;
}

/* The lock on the directory is held as long as we live: it tells a living zygote's socket from a dead one's. */
static int take_lock(const struct zygote_options *options)
{
	int lock = options->lock < 0 ? open(options->runtime_directory, O_RDONLY | O_DIRECTORY) : options->lock;

	if (lock < 0 || fcntl(lock, F_SETFD, FD_CLOEXEC) < 0)
		return -errno;
	if (flock(lock, LOCK_EX | LOCK_NB) < 0)
		return errno == EWOULDBLOCK ? -EADDRINUSE : -errno;
	return 0;
}

static int make_listeners(const struct zygote_options *options)
{
	int status = take_lock(options);

	if (status < 0)
		return status;
	zygote.cradle = cradle_open(options->runtime_directory);
	return zygote.cradle < 0 ? zygote.cradle : listener_open(options->runtime_directory, WORKLINK_ZYGOTE_SOCKET);
}

static void watch_signals(void)
{
	sigset_t watched;

	sigemptyset(&watched);
	sigaddset(&watched, SIGCHLD);
	sigaddset(&watched, SIGTERM);
	sigaddset(&watched, SIGINT);
	sigprocmask(SIG_BLOCK, &watched, NULL);
	zygote.signals = signalfd(-1, &watched, SFD_CLOEXEC | SFD_NONBLOCK);
	if (zygote.signals < 0)
		abort();
}

int zygote_run(const struct zygote_options *options)
{
	uint64_t started_us = clock_microseconds();
	char path[PATHS_SOCKET_SIZE];

	zygote.options = options;
	zygote.connection = -1;
	zygote.listener = make_listeners(options);
	if (zygote.listener == -EADDRINUSE) {
		log_line("another zygote serves %s", options->runtime_directory);
		return 0;
	}
	if (zygote.listener < 0) {
		log_line("cannot listen in %s: %s", options->runtime_directory, strerror(-zygote.listener));
		return 1;
	}
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	boot_lisp(options->program);
	recipes_test(false);
	watch_signals();
	zygote.boot_ms = (clock_microseconds() - started_us) / 1000;
	zygote.lonely_since_us = clock_microseconds();
	while (serve_once())
		;
	end_workers();
	if (paths_beside(options->runtime_directory, WORKLINK_CRADLE_SOCKET, path) == 0)
		unlink(path);
	if (paths_beside(options->runtime_directory, WORKLINK_ZYGOTE_SOCKET, path) == 0)
		unlink(path);
	_exit(0); /* not by way of ECL's and the collector's handlers: nobody waits for what they would do */
}
