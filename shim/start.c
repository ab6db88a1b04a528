/*
 * start.c - starting the daemon.
 */
#include "config.h"

#include "start.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "paths.h"

/* In the daemon: 0 to 2 as everywhere, then the ready pipe, then nothing. */
#define READY_FD 3

struct launch {
	char program[PATH_MAX];
	const char *socket;
	int log;
	int ready;
};

static void reset_signals(void)
{
	sigset_t none;

	for (int number = 1; number < NSIG; number++)
		signal(number, SIG_DFL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
}

/* Puts a descriptor where it belongs; it may be there already, and then it must lose its close-on-exec flag. */
static bool place(int descriptor, int where)
{
	if (descriptor == where)
		return fcntl(descriptor, F_SETFD, 0) == 0;
	return dup2(descriptor, where) == where;
}

/* The grandchild. Whatever goes wrong is said on the ready pipe, as the daemon itself would. */
static void become_daemon(const struct launch *launch) __attribute__((noreturn));

static void become_daemon(const struct launch *launch)
{
	char ready[16];
	int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
	int log = fcntl(launch->log, F_DUPFD_CLOEXEC, READY_FD + 1); /* out of the way of the ready pipe */
	int say = launch->ready;

	snprintf(ready, sizeof(ready), "%d", READY_FD);
	if (nothing >= 0 && log >= 0 && chdir("/") == 0 && place(launch->ready, READY_FD) && place(nothing, 0) &&
		place(log, 1) && place(log, 2)) {
		say = READY_FD;
		closefrom(READY_FD + 1);
		reset_signals();
		unsetenv("CL_MCP_SESSION"); /* these are this client's wishes, not every client's */
		unsetenv("CL_MCP_RESUME");
		execl(launch->program, launch->program, "--socket", launch->socket, "--ready-fd", ready, (char *)NULL);
	}
	dprintf(say, "cannot run %s: %s\n", launch->program, strerror(errno));
	_exit(127);
}

/* Twice forked: the daemon is init's child, so nobody here has to reap it, and it has no terminal. */
static int launch_detached(const struct launch *launch)
{
	pid_t child = fork();

	if (child < 0)
		return -errno;
	if (child == 0) {
		setsid();
		pid_t grandchild = fork();
		if (grandchild == 0)
			become_daemon(launch);
		_exit(grandchild < 0 ? 1 : 0);
	}
	int status = 0;
	while (waitpid(child, &status, 0) < 0 && errno == EINTR)
		;
	return status == 0 ? 0 : -EAGAIN;
}

/* The log belongs to us alone and is never followed through a link. */
static int open_log(const char *directory, char *path)
{
	if (paths_beside(directory, START_LOG, path) < 0)
		return -ENAMETOOLONG;
	int log = open(path, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY, 0600);
	return log < 0 ? -errno : log;
}

int start_daemon(const char *directory, const char *socket, char *reason, size_t reason_size, int *hopeless)
{
	struct launch launch = {.socket = socket};
	char log_path[PATHS_SOCKET_SIZE];
	int ready[2];

	*hopeless = true;
	int result = paths_make_private(directory);
	if (result < 0) {
		snprintf(reason, reason_size, "the directory %s must be yours and closed to others (mode 0700): %s",
			directory, strerror(-result));
		return result;
	}
	result = paths_sibling("cl-mcpd", launch.program, sizeof(launch.program));
	if (result < 0) {
		snprintf(reason, reason_size,
			"the program cl-mcpd was found neither beside this one nor in %s: is the installation complete?",
			CL_MCP_BINDIR);
		return result;
	}
	launch.log = open_log(directory, log_path);
	if (launch.log < 0) {
		snprintf(reason, reason_size, "its log %s cannot be opened: %s", log_path, strerror(-launch.log));
		return launch.log;
	}
	*hopeless = false;
	result = pipe2(ready, O_CLOEXEC) < 0 ? -errno : 0;
	if (result == 0) {
		/* Only our end does not block: it has a file description of its own. */
		fcntl(ready[0], F_SETFL, O_NONBLOCK);
		launch.ready = ready[1];
		result = launch_detached(&launch);
		close(ready[1]);
		if (result < 0)
			close(ready[0]);
	}
	close(launch.log);
	if (result < 0) {
		snprintf(reason, reason_size, "no process for it could be made: %s", strerror(-result));
		return result;
	}
	return ready[0];
}
