/*
 * zygote.c - the connection to the zygote.
 */
#include "zygote.h"

#include "alloc.h"
#include "log.h"
#include "paths.h"
#include "peer.h"
#include "session.h"
#include "unixsocket.h"
#include "worklink.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/queue.h>
#include <sys/wait.h>
#include <unistd.h>

/* While a zygote starts its socket is looked for this often, and given up on after so many times. */
static const struct timeval connect_interval = {0, 5000};
#define CONNECT_TRIES 600
/* The same when the daemon ends, and waits for nothing else. */
#define UNMET_TRIES 2000
#define UNMET_INTERVAL_US 1000
/* Between two tries to start one that fails. */
static const struct timeval restart_interval = {1, 0};
/* The descriptor of the lock in a zygote that we start. */
#define LOCK_FD 3
#define LOCK_FD_TEXT "3"

enum zygote_state { ZYGOTE_DOWN, ZYGOTE_BOOTING, ZYGOTE_UP };

struct spawn_request {
	STAILQ_ENTRY(spawn_request) next;
	char *session_id;
	char *directory;
	uint64_t seq, incarnation;
};

struct zygote {
	struct server *server;
	enum zygote_state state;
	struct peer *peer;
	struct event *timer; /* to connect, or to start it again */
	int tries;
	pid_t launched; /* the one that we have started, until it speaks for itself; else 0 */
	uint64_t pid;
	uint64_t boot_ms;
	char *lisp;
	struct json_object *fallbacks;
	STAILQ_HEAD(, spawn_request) waiting;
	struct frame_builder builder;
};

static void start(struct zygote *zygote);
static void try_connect(struct zygote *zygote);

/* ---- requests */

static void send_spawn(struct zygote *zygote, const struct spawn_request *request)
{
	struct frame_builder *builder = &zygote->builder;

	frame_begin(builder, ZYGOTE_SPAWN);
	frame_put_text(builder, WORK_SESSION, request->session_id);
	frame_put_text(builder, WORK_DIRECTORY, request->directory);
	frame_put_number(builder, WORK_SEQ, request->seq);
	frame_put_number(builder, WORK_INCARNATION, request->incarnation);
	frame_end(builder);
	peer_send(zygote->peer, builder);
}

static void drop_first(struct zygote *zygote)
{
	struct spawn_request *request = STAILQ_FIRST(&zygote->waiting);

	STAILQ_REMOVE_HEAD(&zygote->waiting, next);
	free(request->session_id);
	free(request->directory);
	free(request);
}

static void send_waiting(struct zygote *zygote)
{
	while (!STAILQ_EMPTY(&zygote->waiting)) {
		send_spawn(zygote, STAILQ_FIRST(&zygote->waiting));
		drop_first(zygote);
	}
}

static void refuse_waiting(struct zygote *zygote, const char *why)
{
	while (!STAILQ_EMPTY(&zygote->waiting)) {
		char *id = new_text(STAILQ_FIRST(&zygote->waiting)->session_id);
		drop_first(zygote);
		session_refused(zygote->server, id, why);
		free(id);
	}
}

void zygote_spawn(
	struct zygote *zygote, const char *session_id, const char *directory, uint64_t seq, uint64_t incarnation)
{
	struct spawn_request *request = new_zeroed(sizeof(*request));

	request->session_id = new_text(session_id);
	request->directory = new_text(directory);
	request->seq = seq;
	request->incarnation = incarnation;
	STAILQ_INSERT_TAIL(&zygote->waiting, request, next);
	if (zygote->state == ZYGOTE_UP)
		send_waiting(zygote);
	else if (zygote->state == ZYGOTE_DOWN && !event_pending(zygote->timer, EV_TIMEOUT, NULL))
		start(zygote);
}

void zygote_kill(struct zygote *zygote, const char *session_id, uint64_t pid)
{
	if (zygote->state != ZYGOTE_UP)
		return;
	frame_begin(&zygote->builder, ZYGOTE_KILL);
	frame_put_text(&zygote->builder, WORK_SESSION, session_id);
	frame_put_number(&zygote->builder, WORK_PID, pid);
	frame_end(&zygote->builder);
	peer_send(zygote->peer, &zygote->builder);
}

/*
 * A zygote is born with the lock of the directory and holds it until its end, so that there is never a second one, nor
 * one that nobody knows of. Returns the lock, or a negative errno: -EWOULDBLOCK if there is one.
 */
static int take_lock(const char *directory)
{
	int lock = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (lock < 0)
		return -errno;
	if (flock(lock, LOCK_EX | LOCK_NB) == 0)
		return lock;
	int error = errno;
	close(lock);
	return -error;
}

static bool is_there_any(const char *directory)
{
	int lock = take_lock(directory);

	if (lock >= 0)
		close(lock);
	return lock == -EWOULDBLOCK;
}

/* One that boots and that we do not speak to yet: it is ours, or was started by a daemon that died. */
static void end_unmet(const struct zygote *zygote)
{
	const char *directory = zygote->server->runtime_directory;
	const struct frame_builder *quit = &zygote->builder;
	char path[PATHS_SOCKET_SIZE];
	int fd = -1;

	if (zygote->launched)
		kill(zygote->launched, SIGTERM);
	if (paths_beside(directory, WORKLINK_ZYGOTE_SOCKET, path) < 0)
		return;
	for (int i = 0; i < UNMET_TRIES && fd < 0 && is_there_any(directory); i++) {
		fd = unixsocket_connect(path);
		if (fd < 0)
			usleep(UNMET_INTERVAL_US);
	}
	if (fd < 0)
		return;
	if (write(fd, quit->data, quit->length) != (ssize_t)quit->length)
		log_warning("a zygote that boots could not be told to leave");
	close(fd);
}

void zygote_end(struct zygote *zygote)
{
	event_del(zygote->timer);
	frame_begin(&zygote->builder, ZYGOTE_QUIT);
	frame_end(&zygote->builder);
	if (zygote->peer)
		peer_send(zygote->peer, &zygote->builder);
	else
		end_unmet(zygote);
}

/* ---- reports */

/* What a report may hold, whatever its type. */
struct report_fields {
	uint64_t version, pid, boot_ms, status, heir;
	char *session_id, *text, *lisp;
	struct json_object *fallbacks;
};

static void add_fallback(struct json_object *list, const struct field *field)
{
	char *name = field_text(field, 64);

	if (name)
		json_object_array_add(list, json_object_new_string(name));
	free(name);
}

static bool read_report(struct frame *frame, struct report_fields *report)
{
	enum frame_status status;
	struct field field;
	bool good = true;

	*report = (struct report_fields){.fallbacks = json_object_new_array()};
	while (good && (status = frame_next(frame, &field)) == FRAME_READY) {
		if (field.tag == WORK_VERSION)
			good = field_number(&field, &report->version);
		else if (field.tag == WORK_PID)
			good = field_number(&field, &report->pid);
		else if (field.tag == WORK_BOOT_MS)
			good = field_number(&field, &report->boot_ms);
		else if (field.tag == WORK_STATUS)
			good = field_number(&field, &report->status);
		else if (field.tag == WORK_HEIR)
			good = field_number(&field, &report->heir);
		else if (field.tag == WORK_SESSION && !report->session_id)
			report->session_id = field_text(&field, WORKLINK_SESSION_ID_LENGTH);
		else if (field.tag == WORK_TEXT && !report->text)
			report->text = field_text(&field, 512);
		else if (field.tag == WORK_LISP && !report->lisp)
			report->lisp = field_text(&field, 64);
		else if (field.tag == WORK_FALLBACK)
			add_fallback(report->fallbacks, &field);
	}
	return good && status == FRAME_INCOMPLETE;
}

static void free_report(struct report_fields *report)
{
	free(report->session_id);
	free(report->text);
	free(report->lisp);
	json_object_put(report->fallbacks);
}

static void take_ready(struct zygote *zygote, struct report_fields *report)
{
	zygote->state = ZYGOTE_UP;
	zygote->launched = 0;
	zygote->pid = report->pid;
	zygote->boot_ms = report->boot_ms;
	free(zygote->lisp);
	zygote->lisp = report->lisp;
	report->lisp = NULL;
	json_object_put(zygote->fallbacks);
	zygote->fallbacks = json_object_get(report->fallbacks);
	log_info("the zygote is ready: process %d, %s, booted in %d ms", (int)zygote->pid,
		zygote->lisp ? zygote->lisp : "unknown Lisp", (int)zygote->boot_ms);
	for (size_t i = 0; i < json_object_array_length(zygote->fallbacks); i++)
		log_warning("%s does not work with this Lisp; a fallback is used",
			json_object_get_string(json_object_array_get_idx(zygote->fallbacks, i)));
	send_waiting(zygote);
}

static void on_gone(void *context, const char *reason);

static void on_frame(void *context, struct frame *frame)
{
	struct zygote *zygote = context;
	struct server *server = zygote->server;
	struct report_fields report;
	bool good = read_report(frame, &report);

	if (good && frame->type == ZYGOTE_READY && report.version == WORKLINK_VERSION)
		take_ready(zygote, &report);
	else if (good && frame->type == ZYGOTE_SPAWNED && report.session_id)
		session_spawned(server, report.session_id);
	else if (good && frame->type == ZYGOTE_REFUSED && report.session_id)
		session_refused(server, report.session_id, report.text ? report.text : "no reason given");
	else if (good && frame->type == ZYGOTE_DIED && report.session_id)
		session_died(server, report.session_id, report.pid, (int)report.status, report.heir != 0);
	else
		on_gone(zygote, "it sent a frame that makes no sense");
	free_report(&report);
}

static void on_gone(void *context, const char *reason)
{
	struct zygote *zygote = context;

	log_warning("the connection to the zygote is lost: %s", reason);
	peer_close(zygote->peer);
	zygote->peer = NULL;
	zygote->launched = 0;
	zygote->state = ZYGOTE_DOWN;
	event_add(zygote->timer, &restart_interval);
	/* What was asked of it may have been done or not: all who wait ask again. */
	while (!STAILQ_EMPTY(&zygote->waiting))
		drop_first(zygote);
	session_ask_again(zygote->server);
}

static const struct peer_handler peer_handler = {.frame = on_frame, .gone = on_gone};

void zygote_replace(struct zygote *zygote)
{
	if (zygote->state != ZYGOTE_UP)
		return;
	/* While the connection stands, the pid is nobody else's. */
	kill((pid_t)zygote->pid, SIGKILL);
	on_gone(zygote, "nobody else could find it; it is replaced");
}

/* ---- starting */

static void become_zygote(const char *program, const char *directory, int lock)
{
	char log_path[PATH_MAX];
	sigset_t none;

	snprintf(log_path, sizeof(log_path), "%s/log", directory);
	int null = open("/dev/null", O_RDWR), log = open(log_path, O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW, 0600);
	dup2(null, STDIN_FILENO);
	dup2(log >= 0 ? log : null, STDOUT_FILENO);
	dup2(log >= 0 ? log : null, STDERR_FILENO);
	if (lock == LOCK_FD)
		fcntl(lock, F_SETFD, 0); /* it is to stay */
	else
		dup2(lock, LOCK_FD);
	close_range(LOCK_FD + 1, ~0u, 0);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	signal(SIGPIPE, SIG_DFL);
	execl(program, program, "--lock", LOCK_FD_TEXT, directory, (char *)NULL);
	_exit(127);
}

/*
 * The zygote must not be our child: it outlives us, and its signals and descriptors are not ours. So a child of ours
 * forks again, tells the pid and leaves. 0 if it could not be started.
 */
static pid_t launch(const char *program, const char *directory, int lock)
{
	pid_t pid = 0;
	int ends[2], status;

	if (pipe2(ends, O_CLOEXEC) < 0)
		return 0;
	pid_t child = fork();
	if (child == 0) {
		setsid();
		pid = fork();
		if (pid == 0)
			become_zygote(program, directory, lock);
		_exit(pid < 0 || write(ends[1], &pid, sizeof(pid)) != sizeof(pid));
	}
	close(ends[1]);
	if (child < 0 || read(ends[0], &pid, sizeof(pid)) != sizeof(pid))
		pid = 0;
	close(ends[0]);
	if (child > 0)
		waitpid(child, &status, 0);
	return pid;
}

static void give_up(struct zygote *zygote, const char *why)
{
	zygote->state = ZYGOTE_DOWN;
	zygote->launched = 0;
	refuse_waiting(zygote, why);
	event_add(zygote->timer, &restart_interval);
}

static void wait_for_socket(struct zygote *zygote, int error)
{
	zygote->state = ZYGOTE_BOOTING;
	if (++zygote->tries < CONNECT_TRIES) {
		event_add(zygote->timer, &connect_interval);
		return;
	}
	log_error("the zygote does not answer: %s", strerror(error));
	give_up(zygote, "the Lisp process does not start; see the log beside the socket");
}

/* Does nothing but wait if there is one that another daemon has started, until it listens or has ended. */
static void start(struct zygote *zygote)
{
	const char *directory = zygote->server->runtime_directory;
	char program[PATH_MAX];

	if (paths_sibling("cl-mcp-worker", program, sizeof(program)) < 0) {
		log_error("cl-mcp-worker was not found, neither beside cl-mcpd nor in %s", CL_MCP_LIBEXECDIR);
		refuse_waiting(zygote, "the program cl-mcp-worker was not found; install cl-mcp-server again");
		return;
	}
	if (zygote->state == ZYGOTE_DOWN)
		zygote->tries = 0;
	int lock = take_lock(directory), error = -lock;
	if (lock >= 0) {
		zygote->launched = launch(program, directory, lock);
		error = zygote->launched ? 0 : errno;
		close(lock);
	}
	if (error == 0 || error == EWOULDBLOCK) {
		wait_for_socket(zygote, error);
	} else {
		log_error("the zygote could not be started: %s", strerror(error));
		give_up(zygote, "the Lisp process could not be started");
	}
}

static void try_connect(struct zygote *zygote)
{
	char path[PATHS_SOCKET_SIZE];
	int fd = paths_beside(zygote->server->runtime_directory, WORKLINK_ZYGOTE_SOCKET, path);

	if (fd == 0)
		fd = unixsocket_connect(path);
	if (fd >= 0) {
		zygote->state = ZYGOTE_BOOTING; /* until it says that it is ready */
		zygote->peer = peer_new(zygote->server->base, fd, &peer_handler, zygote);
	} else if (!zygote->launched) {
		start(zygote);
	} else {
		wait_for_socket(zygote, -fd);
	}
}

static void on_timer(evutil_socket_t fd, short what, void *context)
{
	(void)fd;
	(void)what;
	try_connect(context);
}

struct zygote *zygote_new(struct server *server)
{
	struct zygote *zygote = new_zeroed(sizeof(*zygote));

	zygote->server = server;
	zygote->fallbacks = json_object_new_array();
	STAILQ_INIT(&zygote->waiting);
	zygote->timer = must(evtimer_new(server->base, on_timer, zygote));
	try_connect(zygote);
	return zygote;
}

void zygote_free(struct zygote *zygote)
{
	while (!STAILQ_EMPTY(&zygote->waiting))
		drop_first(zygote);
	if (zygote->peer)
		peer_close(zygote->peer);
	event_free(zygote->timer);
	json_object_put(zygote->fallbacks);
	free(zygote->lisp);
	frame_builder_free(&zygote->builder);
	free(zygote);
}

struct json_object *zygote_status(const struct zygote *zygote)
{
	static const char *const names[] = {
		[ZYGOTE_DOWN] = "down", [ZYGOTE_BOOTING] = "booting", [ZYGOTE_UP] = "ready"};
	struct json_object *status = json_object_new_object();

	json_object_object_add(status, "state", json_object_new_string(names[zygote->state]));
	json_object_object_add(status, "pid", json_object_new_int64((int64_t)zygote->pid));
	json_object_object_add(status, "bootMs", json_object_new_int64((int64_t)zygote->boot_ms));
	json_object_object_add(status, "lisp", json_object_new_string(zygote->lisp ? zygote->lisp : ""));
	json_object_object_add(status, "fallbacks", json_object_get(zygote->fallbacks));
	return status;
}
