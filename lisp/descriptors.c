/*
 * descriptors.c - moving and closing file descriptors.
 */
#include "config.h"

#include "descriptors.h"

#include <fcntl.h>
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
