/*
 * process.c - identities of processes, by /proc and pidfds.
 *
 * Between reading a pid somewhere and opening it the process may have ended and the pid be another's. So it is opened
 * first, and then its beginning is compared: what is open cannot change any more. No stdio: its locks may be held by
 * code that a cancel has just left.
 */
#include "config.h"

#include "process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define PID_BITS 24 /* the kernel gives 22 at most */
#define PID_MASK ((UINT64_C(1) << PID_BITS) - 1)
#define START_TIME_FIELD 22
/* Where no descriptor is left to watch it. */
#define LOOK_MS 50

uint64_t process_start(pid_t pid)
{
	char path[64], text[1024];

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	ssize_t length = read(fd, text, sizeof(text) - 1);
	close(fd);
	text[length < 0 ? 0 : length] = '\0';
	/* The second field is the name in parentheses, which may hold anything. */
	char *at = strrchr(text, ')');
	for (int field = 2; at && field < START_TIME_FIELD; field++)
		at = strchr(at + 1, ' ');
	return at ? strtoull(at, NULL, 10) : 0;
}

uint64_t process_identify(pid_t pid)
{
	return pid > 0 ? process_start(pid) << PID_BITS | (uint64_t)pid : 0;
}

pid_t process_pid(uint64_t process)
{
	return (pid_t)(process & PID_MASK);
}

/* A pidfd; or -ESRCH if it is gone, or another negative errno if nobody can know. */
static int open_process(uint64_t process)
{
	pid_t pid = process_pid(process);
	uint64_t start = process >> PID_BITS;

	if (pid <= 0)
		return -ESRCH;
	int fd = (int)syscall(SYS_pidfd_open, pid, 0);
	if (fd < 0)
		return -errno;
	uint64_t found = process_start(pid);
	if (start == 0 || found == 0 || found == start)
		return fd;
	close(fd);
	return -ESRCH;
}

bool process_is_alive(uint64_t process)
{
	struct pollfd ended = {.fd = open_process(process), .events = POLLIN};

	if (ended.fd == -ESRCH)
		return false;
	if (ended.fd < 0)
		return kill(process_pid(process), 0) == 0;
	bool is_alive = poll(&ended, 1, 0) == 0;
	close(ended.fd);
	return is_alive;
}

void process_await_end(uint64_t process, int timeout_ms)
{
	static const struct timespec look = {.tv_nsec = LOOK_MS * 1000000};
	struct pollfd ended = {.fd = open_process(process), .events = POLLIN};

	if (ended.fd == -ESRCH)
		return;
	while (ended.fd < 0 && timeout_ms < 0 && kill(process_pid(process), 0) == 0)
		nanosleep(&look, NULL);
	if (ended.fd < 0)
		return;
	while (poll(&ended, 1, timeout_ms) < 0 && errno == EINTR)
		;
	close(ended.fd);
}

void process_kill(uint64_t process)
{
	int fd = open_process(process);

	if (fd >= 0)
		syscall(SYS_pidfd_send_signal, fd, SIGKILL, NULL, 0);
	else if (fd != -ESRCH)
		kill(process_pid(process), SIGKILL);
	if (fd >= 0)
		close(fd);
}
