/*
 * listener.c - lock, socket, accepting.
 */
#include "listener.h"

#include "alloc.h"
#include "client.h"
#include "daemonlock.h"
#include "log.h"
#include "paths.h"
#include "unixsocket.h"
#include "watch.h"

#include <errno.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

/* When descriptors run out accepting rests this long; those who are connected are served on. */
static const struct timeval rest_time = {0, 100000};

/* How long another daemon may still hold the database that no longer holds the socket. */
#define DATABASE_TRIES 300
#define DATABASE_INTERVAL_US 5000

struct listener {
	struct server *server;
	char socket_path[PATHS_SOCKET_SIZE];
	int lock_fd;
	int database_lock_fd; /* -1: there is none */
	int fd;
	ino_t socket_inode;
	struct event *acceptable;
	struct event *rest;
	bool is_starved; /* that has been told */
};

static void on_rested(evutil_socket_t fd, short what, void *context)
{
	struct listener *listener = context;

	(void)fd;
	(void)what;
	watch(listener->acceptable);
}

static void on_acceptable(evutil_socket_t fd, short what, void *context)
{
	struct listener *listener = context;

	(void)what;
	int client = accept4(fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (client < 0) {
		if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS) {
			if (!listener->is_starved)
				log_error("no more clients can be taken: %s", strerror(errno));
			listener->is_starved = true;
			event_del(listener->acceptable);
			event_add(listener->rest, &rest_time);
		}
		return;
	}
	listener->is_starved = false;
	int pid = unixsocket_check_peer(client);
	if (pid < 0) {
		log_warning("a client of another user was turned away");
		close(client);
		return;
	}
	client_new(listener->server, client, geteuid(), (unsigned)pid);
}

/* Returns the socket, or a negative errno. */
static int open_socket(struct listener *listener)
{
	struct stat status;
	int fd = unixsocket_listen(listener->socket_path);

	if (fd >= 0 && lstat(listener->socket_path, &status) == 0)
		listener->socket_inode = status.st_ino;
	return fd;
}

static void use_socket(struct listener *listener, int fd)
{
	listener->fd = fd;
	listener->acceptable =
		must(event_new(listener->server->base, fd, EV_READ | EV_PERSIST, on_acceptable, listener));
}

static enum listener_status fail(char *problem, size_t size, const char *path, int error)
{
	snprintf(problem, size, "cannot use %s: %s", path,
		error == EPERM ? "it must be a directory of yours that nobody else can enter (mode 0700)"
			       : strerror(error));
	return LISTENER_FAILED;
}

/* False if another daemon has it. A directory that cannot be used has no lock: the store will say so. */
static bool take_database_lock(struct listener *listener)
{
	const char *directory = listener->server->state_directory;

	listener->database_lock_fd = paths_make_private(directory) < 0 ? -1 : daemonlock_take(directory);
	return listener->database_lock_fd != -EWOULDBLOCK;
}

static enum listener_status take_place_lock(struct listener *listener, char *problem, size_t size)
{
	const char *directory = listener->server->runtime_directory;

	listener->lock_fd = daemonlock_take(directory);
	if (listener->lock_fd >= 0)
		return LISTENER_READY;
	if (listener->lock_fd != -EWOULDBLOCK)
		return fail(problem, size, directory, -listener->lock_fd);
	snprintf(problem, size, "another daemon serves %s", listener->socket_path);
	return LISTENER_TAKEN;
}

/*
 * A daemon that is just ending lets go of one lock after the other; and one whose directory was removed has still that
 * of the database, and is about to take the new one of the place, which must not be held then.
 */
static enum listener_status take_locks(struct listener *listener, char *problem, size_t size)
{
	const struct server *server = listener->server;
	int status = paths_make_private(server->runtime_directory);

	if (status < 0)
		return fail(problem, size, server->runtime_directory, -status);
	for (int i = 0; i < DATABASE_TRIES; i++) {
		enum listener_status taken = take_place_lock(listener, problem, size);
		if (taken != LISTENER_READY || take_database_lock(listener))
			return taken;
		close(listener->lock_fd);
		listener->lock_fd = -1;
		usleep(DATABASE_INTERVAL_US);
	}
	snprintf(problem, size, "another daemon, process %d, which does not serve %s, has the sessions in %s",
		daemonlock_holder(server->state_directory), listener->socket_path, server->state_directory);
	return LISTENER_TAKEN;
}

static void let_go(struct listener *listener)
{
	if (listener->lock_fd >= 0)
		close(listener->lock_fd);
	if (listener->database_lock_fd >= 0)
		close(listener->database_lock_fd);
	free(listener);
}

enum listener_status listener_open(struct server *server, const char *socket_path, char *problem, size_t size)
{
	struct listener *listener = new_zeroed(sizeof(*listener));

	listener->server = server;
	listener->lock_fd = listener->database_lock_fd = -1;
	snprintf(listener->socket_path, sizeof(listener->socket_path), "%s", socket_path);
	enum listener_status status = take_locks(listener, problem, size);
	int fd = status == LISTENER_READY ? open_socket(listener) : -1;
	if (status == LISTENER_READY && fd < 0)
		status = fail(problem, size, socket_path, -fd);
	if (status != LISTENER_READY) {
		let_go(listener);
		return status;
	}
	use_socket(listener, fd);
	listener->rest = must(evtimer_new(server->base, on_rested, listener));
	server->listener = listener;
	return LISTENER_READY;
}

void listener_serve(struct listener *listener)
{
	watch(listener->acceptable);
}

static bool is_socket_in_place(const struct listener *listener)
{
	struct stat status;

	return lstat(listener->socket_path, &status) == 0 && status.st_ino == listener->socket_inode;
}

/* Whoever has connected stays so. */
static enum listener_status renew_socket(struct listener *listener, char *problem, size_t size)
{
	int fd = open_socket(listener);

	if (fd < 0)
		return fail(problem, size, listener->socket_path, -fd);
	event_free(listener->acceptable);
	close(listener->fd);
	use_socket(listener, fd);
	watch(listener->acceptable);
	event_del(listener->rest);
	log_warning("somebody has removed %s; it is made anew", listener->socket_path);
	return LISTENER_READY;
}

enum listener_status listener_renew(struct listener *listener, char *problem, size_t size)
{
	const char *directory = listener->server->runtime_directory;

	if (!daemonlock_is_in_place(directory, listener->lock_fd)) {
		int status = paths_make_private(directory);
		if (status < 0)
			return fail(problem, size, directory, -status);
		int lock = daemonlock_take(directory);
		if (lock == -EWOULDBLOCK) {
			snprintf(problem, size, "another daemon has come to serve %s", listener->socket_path);
			return LISTENER_TAKEN;
		}
		if (lock < 0)
			return fail(problem, size, directory, -lock);
		close(listener->lock_fd);
		listener->lock_fd = lock;
		log_warning("somebody has removed the lock in %s; it is made anew", directory);
	}
	return is_socket_in_place(listener) ? LISTENER_READY : renew_socket(listener, problem, size);
}

void listener_close(struct listener *listener)
{
	event_free(listener->acceptable);
	event_free(listener->rest);
	/* While the lock is held it can only be ours; where somebody has removed the lock it may be another's. */
	if (daemonlock_is_in_place(listener->server->runtime_directory, listener->lock_fd))
		unlink(listener->socket_path);
	close(listener->fd);
	let_go(listener);
}
