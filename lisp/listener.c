/*
 * listener.c - making, replacing and accepting on Unix sockets.
 */
#include "config.h"

#include "listener.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "paths.h"

static int address_of(const char *directory, const char *name, struct sockaddr_un *address)
{
	*address = (struct sockaddr_un){.sun_family = AF_UNIX};
	return paths_beside(directory, name, address->sun_path);
}

int listener_open(const char *directory, const char *name)
{
	struct sockaddr_un final, temporary;
	char temporary_name[64];
	int result;

	snprintf(temporary_name, sizeof(temporary_name), ".new-%d", (int)getpid());
	result = address_of(directory, name, &final);
	if (result == 0)
		result = address_of(directory, temporary_name, &temporary);
	if (result < 0)
		return result;
	int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (listener < 0)
		return -errno;
	unlink(temporary.sun_path);
	if (bind(listener, (struct sockaddr *)&temporary, sizeof(temporary)) < 0 || listen(listener, 16) < 0 ||
		rename(temporary.sun_path, final.sun_path) < 0) {
		result = -errno;
		unlink(temporary.sun_path);
		close(listener);
		return result;
	}
	return listener;
}

int listener_accept(int listener)
{
	for (;;) {
		int connection = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
		struct ucred peer;
		socklen_t size = sizeof(peer);

		if (connection < 0) {
			if (errno == EINTR || errno == ECONNABORTED)
				continue;
			return errno == EWOULDBLOCK ? -EAGAIN : -errno;
		}
		if (getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.uid == geteuid())
			return connection;
		close(connection);
	}
}
