/*
 * children.c - finding and killing young subprocesses in /proc.
 *
 * Only children as young as the evaluation (to a clock tick of 10 ms) die. No stdio: its locks may be held by code that
 * a cancel has just left.
 */
#include "config.h"

#include "children.h"

#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "process.h"
#include "snapshot.h"

#define TICKS_PER_SECOND 100 /* what the kernel shows to user space, always */
#define CHILDREN_MAX 1024
#define DEPTH_MAX 32

static uint64_t marked_at;

void children_mark(void)
{
	struct timespec now;

	clock_gettime(CLOCK_BOOTTIME, &now);
	marked_at = (uint64_t)now.tv_sec * TICKS_PER_SECOND + (uint64_t)now.tv_nsec / (1000000000 / TICKS_PER_SECOND);
}

static size_t read_file(const char *path, char *text, size_t size)
{
	size_t length = 0;
	ssize_t got;
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return 0;
	while (length < size - 1 && (got = read(fd, text + length, size - 1 - length)) > 0)
		length += (size_t)got;
	close(fd);
	text[length] = '\0';
	return length;
}

static int children_of(pid_t pid, pid_t *children)
{
	char path[64], text[CHILDREN_MAX * 8];
	int count = 0;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)pid, (int)pid);
	text[0] = '\0';
	read_file(path, text, sizeof(text));
	for (char *at = text, *end; count < CHILDREN_MAX; at = end) {
		long child = strtol(at, &end, 10);
		if (end == at)
			break;
		children[count++] = (pid_t)child;
	}
	return count;
}

static void kill_tree(pid_t pid, int depth)
{
	pid_t children[CHILDREN_MAX];

	kill(pid, SIGSTOP); /* no new children meanwhile */
	if (depth < DEPTH_MAX)
		for (int i = children_of(pid, children); i > 0; i--)
			kill_tree(children[i - 1], depth + 1);
	kill(pid, SIGKILL);
}

void children_kill_marked(void)
{
	pid_t children[CHILDREN_MAX];

	for (int i = children_of(getpid(), children); i > 0; i--)
		if (!snapshot_is_copy(children[i - 1]) && process_start(children[i - 1]) >= marked_at) {
			kill_tree(children[i - 1], 0);
			waitpid(children[i - 1], NULL, 0);
		}
}
