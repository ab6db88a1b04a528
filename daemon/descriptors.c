/*
 * descriptors.c - the limit, as it is now: an administrator may change it meanwhile.
 *
 * The kernel always gives the lowest number that is free, so that a number says how many are open at least.
 */
#include "descriptors.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

/* So many of the last are not for new clients, and so many not for new sessions; fewer where there are few. */
#define CLIENTS_RESERVE 64
#define SESSIONS_RESERVE 32
#define CLIENTS_SHARE 4
#define SESSIONS_SHARE 8

void descriptors_claim(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
		limit.rlim_cur = limit.rlim_max;
		setrlimit(RLIMIT_NOFILE, &limit);
	}
}

unsigned long descriptors_limit(void)
{
	struct rlimit limit;

	return getrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_cur : RLIM_INFINITY;
}

static bool is_among_the_last(int fd, unsigned long reserve, unsigned long share)
{
	unsigned long limit = descriptors_limit();

	return (unsigned long)fd >= limit - (reserve < limit / share ? reserve : limit / share);
}

bool descriptors_is_late(int fd)
{
	return is_among_the_last(fd, CLIENTS_RESERVE, CLIENTS_SHARE);
}

bool descriptors_allow_session(void)
{
	int next = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 0);

	if (next < 0)
		return false;
	close(next);
	return !is_among_the_last(next, SESSIONS_RESERVE, SESSIONS_SHARE);
}
