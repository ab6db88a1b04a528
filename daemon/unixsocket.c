/*
 * unixsocket.c - connecting, listening, and asking the kernel who is there.
 */
#include "unixsocket.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static int make_address(const char *path, struct sockaddr_un *address)
{
	*address = (struct sockaddr_un){.sun_family = AF_UNIX};
	if (strlen(path) >= sizeof(address->sun_path))
		return -ENAMETOOLONG;
	strcpy(address->sun_path, path);
	return 0;
}

int unixsocket_check_peer(int fd)
{
	struct ucred peer;
	socklen_t size = sizeof(peer);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0)
		return -errno;
	return peer.uid == geteuid() ? peer.pid : -EPERM;
}

int unixsocket_connect(const char *path)
{
	struct sockaddr_un address;
	int status = make_address(path, &address);

	if (status < 0)
		return status;
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -errno;
	if (connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0)
		status = -errno;
	else
		status = unixsocket_check_peer(fd);
	if (status < 0) {
		close(fd);
		return status;
	}
	return fd;
}

int unixsocket_listen(const char *path)
{
	struct sockaddr_un address;
	char temporary[sizeof(address.sun_path) + 8];
	int status;

	if (snprintf(temporary, sizeof(temporary), "%s.new", path) >= (int)sizeof(address.sun_path))
		return -ENAMETOOLONG;
	status = make_address(temporary, &address);
	if (status < 0)
		return status;
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -errno;
	unlink(temporary);
	if (bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0 || listen(fd, SOMAXCONN) < 0 ||
		rename(temporary, path) < 0) {
		status = -errno;
		unlink(temporary);
		close(fd);
		return status;
	}
	return fd;
}
