/*
 * spawn.c - the fork, and what the child lets go of.
 *
 * This is the one place where a process changes from the zygote, which may do more than user code, to a worker, which
 * runs user code. Keep it small.
 */
#include "config.h"

#include "spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "descriptors.h"
#include "worker.h"

#define UNNAMED_SESSION "session-00000000-000000-0000"

/* Nothing of the zygote's stays open but the one descriptor that the child needs. */
static void let_go(int keep)
{
	sigset_t none;

	setsid();
	descriptors_close_all_but(keep);
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	if (null >= 0) {
		dup2(null, STDIN_FILENO);
		close(null);
	}
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
}

/* A worker outlives whoever speaks to it; but one that nobody else can reach would do so for ever. */
static void live_no_longer_than(pid_t zygote)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != zygote)
		_exit(0);
}

/* Forks a worker that keeps theirs; ours is handed out, or closed if the fork fails. */
static pid_t fork_worker(struct worker_birth *birth, int theirs, int ours, int *handed_out)
{
	pid_t zygote = getpid(), pid = fork();

	if (pid == 0) {
		if (!birth->runtime_directory)
			live_no_longer_than(zygote);
		let_go(theirs);
		worker_main(birth);
	}
	int error = errno;
	close(theirs);
	if (pid < 0) {
		close(ours);
		return -error;
	}
	*handed_out = ours;
	return pid;
}

pid_t spawn_worker(const struct spawn_order *order, int *ready)
{
	int ends[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
		return -errno;
	struct worker_birth birth = {
		.session = order->session,
		.lineage = order->lineage,
		.runtime_directory = order->runtime_directory,
		.directory = order->directory,
		.incarnation = order->incarnation,
		.last_seq = order->last_seq,
		.connection = -1,
		.ready = ends[1],
	};
	return fork_worker(&birth, ends[1], ends[0], ready);
}

pid_t spawn_connected(int *connection)
{
	struct lineage *lineage = lineage_new();
	int ends[2];

	if (!lineage)
		return -ENOMEM;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0) {
		lineage_free(lineage);
		return -errno;
	}
	struct worker_birth birth = {
		.session = UNNAMED_SESSION,
		.lineage = lineage,
		.directory = "/",
		.incarnation = 1,
		.connection = ends[1],
		.ready = -1,
	};
	pid_t pid = fork_worker(&birth, ends[1], ends[0], connection);
	lineage_free(lineage); /* the worker has its own view of it, and nobody follows it */
	return pid;
}
