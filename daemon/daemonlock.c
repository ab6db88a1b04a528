/*
 * daemonlock.c - a locked file that holds a pid for people.
 */
#include "daemonlock.h"

#include "log.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

static bool path_of(const char *directory, char path[static PATH_MAX])
{
	return snprintf(path, PATH_MAX, "%s/lock", directory) < PATH_MAX;
}

/* flock, not a POSIX lock, which any close of the file would drop. */
int daemonlock_take(const char *directory)
{
	char path[PATH_MAX], pid[24];

	if (!path_of(directory, path))
		return -ENAMETOOLONG;
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return -errno;
	if (flock(fd, LOCK_EX | LOCK_NB) < 0) {
		int error = errno;
		close(fd);
		return -error;
	}
	int length = snprintf(pid, sizeof(pid), "%d\n", getpid());
	/* In this order nobody ever reads it empty. */
	if (write(fd, pid, (size_t)length) != length || ftruncate(fd, length) < 0)
		log_warning("the lock could not be labelled: %s", strerror(errno));
	return fd;
}

bool daemonlock_is_in_place(const char *directory, int lock)
{
	struct stat ours, theirs;
	char path[PATH_MAX];

	return path_of(directory, path) && fstat(lock, &ours) == 0 && lstat(path, &theirs) == 0 &&
		ours.st_dev == theirs.st_dev && ours.st_ino == theirs.st_ino;
}

int daemonlock_holder(const char *directory)
{
	char path[PATH_MAX], text[24];

	if (!path_of(directory, path))
		return 0;
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0)
		return 0;
	ssize_t length = read(fd, text, sizeof(text) - 1);
	close(fd);
	text[length > 0 ? length : 0] = '\0';
	return (int)strtol(text, NULL, 10);
}
