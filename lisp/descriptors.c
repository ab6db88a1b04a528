/*
 * descriptors.c - moving and closing file descriptors.
 */
#include "config.h"

#include "descriptors.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#define HIGH 200

int descriptors_raise(int fd)
{
	int high = fcntl(fd, F_DUPFD_CLOEXEC, HIGH);

	if (high < 0)
		return fd;
	close(fd);
	return high;
}

void descriptors_close_all_but(int keep)
{
	if (keep < 3) {
		close_range(3, ~0U, 0);
		return;
	}
	if (keep > 3)
		close_range(3, (unsigned)keep - 1, 0);
	close_range((unsigned)keep + 1, ~0U, 0);
}

bool descriptors_let_go(void (*let_go)(int fd, int dead))
{
	DIR *directory = opendir("/proc/self/fd");
	const struct dirent *entry;
	int pair[2];

	if (!directory)
		return false;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0) {
		closedir(directory);
		return false;
	}
	close(pair[1]);
	while ((entry = readdir(directory))) {
		int fd = (int)strtol(entry->d_name, NULL, 10);

		if (*entry->d_name != '.' && fd != dirfd(directory) && fd != pair[0])
			let_go(fd, pair[0]);
	}
	closedir(directory);
	close(pair[0]);
	return true;
}
