/*
 * sessionlock.c - a lock file for each session.
 */
#include "config.h"

#include "sessionlock.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/file.h>
#include <unistd.h>

static bool path_of(const char *runtime_directory, const char *session, char path[static PATH_MAX])
{
	int length = snprintf(path, PATH_MAX, "%s/%s.lock", runtime_directory, session);

	return length > 0 && length < PATH_MAX;
}

int sessionlock_take(const char *runtime_directory, const char *session)
{
	char path[PATH_MAX];

	if (!path_of(runtime_directory, session, path))
		return -ENAMETOOLONG;
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return -errno;
	if (flock(fd, LOCK_EX | LOCK_NB) == 0)
		return fd;
	int error = errno;
	close(fd);
	return -error;
}

bool sessionlock_is_held(const char *runtime_directory, const char *session)
{
	char path[PATH_MAX];

	if (!path_of(runtime_directory, session, path))
		return false;
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0)
		return errno != ENOENT;
	bool held = flock(fd, LOCK_SH | LOCK_NB) < 0;
	close(fd);
	return held;
}

void sessionlock_remove(const char *runtime_directory, const char *session)
{
	char path[PATH_MAX];

	if (path_of(runtime_directory, session, path))
		unlink(path);
}
