/*
 * listener.c - lock, socket, accepting.
 */
#include "listener.h"

#include "alloc.h"
#include "client.h"
#include "log.h"
#include "paths.h"
#include "unixsocket.h"
#include "watch.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <unistd.h>

/* When descriptors run out accepting rests this long; those who are connected are served on. */
static const struct timeval rest_time = {0, 100000};

struct listener {
	struct server *server;
	char socket_path[PATHS_SOCKET_SIZE];
	int lock_fd;
	int fd;
	struct event *acceptable;
	struct event *rest;
};

/* flock, not a POSIX lock, which any close of the file would drop. */
static int take_lock(const char *directory)
{
	char path[PATHS_SOCKET_SIZE], pid[24];
	int status = paths_beside(directory, "lock", path);

	if (status < 0)
		return status;
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return -errno;
	if (flock(fd, LOCK_EX | LOCK_NB) < 0) {
		status = -errno;
		close(fd);
		return status;
	}
	int length = snprintf(pid, sizeof(pid), "%d\n", getpid());
	/* In this order nobody ever reads it empty. */
	if (write(fd, pid, (size_t)length) != length || ftruncate(fd, length) < 0)
		log_warning("the lock could not be labelled: %s", strerror(errno));
	return fd;
}

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
			log_error("no more clients can be taken: %s", strerror(errno));
			event_del(listener->acceptable);
			event_add(listener->rest, &rest_time);
		}
		return;
	}
	int pid = unixsocket_check_peer(client);
	if (pid < 0) {
		log_warning("a client of another user was turned away");
		close(client);
		return;
	}
	client_new(listener->server, client, geteuid(), (unsigned)pid);
}

enum listener_status listener_open(struct server *server, const char *socket_path, char *problem, size_t size)
{
	int status = paths_make_private(server->runtime_directory);

	if (status < 0) {
		snprintf(problem, size, "cannot use the directory %s: %s", server->runtime_directory,
			status == -EPERM ? "it must be a directory of yours that nobody else can enter (mode 0700)"
					 : strerror(-status));
		return LISTENER_FAILED;
	}
	int lock_fd = take_lock(server->runtime_directory);
	if (lock_fd == -EWOULDBLOCK)
		return LISTENER_TAKEN;
	int fd = lock_fd < 0 ? lock_fd : unixsocket_listen(socket_path);
	if (fd < 0) {
		snprintf(problem, size, "cannot listen on %s: %s", socket_path, strerror(-fd));
		if (lock_fd >= 0)
			close(lock_fd);
		return LISTENER_FAILED;
	}
	struct listener *listener = new_zeroed(sizeof(*listener));
	listener->server = server;
	snprintf(listener->socket_path, sizeof(listener->socket_path), "%s", socket_path);
	listener->lock_fd = lock_fd;
	listener->fd = fd;
	listener->acceptable = must(event_new(server->base, fd, EV_READ | EV_PERSIST, on_acceptable, listener));
	listener->rest = must(evtimer_new(server->base, on_rested, listener));
	server->listener = listener;
	return LISTENER_READY;
}

void listener_serve(struct listener *listener)
{
	watch(listener->acceptable);
}

void listener_close(struct listener *listener)
{
	event_free(listener->acceptable);
	event_free(listener->rest);
	unlink(listener->socket_path); /* while the lock is held, it can only be ours */
	close(listener->fd);
	close(listener->lock_fd);
	free(listener);
}
