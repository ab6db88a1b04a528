/*
 * clone.c - making the fork, what it leaves to its original, and who must agree before it lives.
 *
 * Between the two stands a process that exits at once, so that the clone is an orphan: the zygote is its parent, as it
 * is of all workers. Original and clone talk on a pair of sockets, whose end tells each of the other's death:
 *
 *   original: GO           the process between the two is gone
 *   clone:    NUL or text  it is known to the zygote and listens, or why not
 *   original: GO           somebody still waits for it
 *
 * Until the last word whatever happens ends the clone, and the zygote clears away what it leaves.
 *
 * Files that are read are opened anew where they are: the original's position would move along otherwise. What is
 * written stays with the original, and with it what it holds back in its buffers: two who write where the one had been
 * would destroy it. The same goes for pipes, sockets and subprocesses.
 */
#include "config.h"

#include "clone.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "clock.h"
#include "cradle.h"
#include "descriptors.h"
#include "iothread.h"
#include "output.h"
#include "process.h"
#include "sessionlock.h"
#include "snapshot.h"

/* It takes milliseconds, unless the machine is in trouble. */
#define PATIENCE_US 5000000
#define EXIT_NO_CLONE 74
#define WHY_MAX 256

#define GO "g"

static struct {
	const char *session;
	struct lineage *lineage;
	int lineage_fd;
	int original; /* the clone's end of the line */
	int clone;    /* the original's */
	int lock;     /* the original's */
	int zygote;
	int left; /* how many descriptors stay with the original */
} birth_of_clone;

/* ---- in the clone */

/* Who reads on from the same place must not move the other's. */
static bool open_anew(int fd)
{
	int flags = fcntl(fd, F_GETFL), on_exec = fcntl(fd, F_GETFD);
	char path[32];

	if (flags < 0 || (flags & O_ACCMODE) != O_RDONLY)
		return false;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	int anew = open(path, O_RDONLY | O_CLOEXEC | (flags & (O_NONBLOCK | O_DIRECTORY)));
	if (anew < 0)
		return false;
	lseek(anew, lseek(fd, 0, SEEK_CUR), SEEK_SET);
	dup3(anew, fd, (on_exec & FD_CLOEXEC) ? O_CLOEXEC : 0);
	close(anew);
	return true;
}

static bool is_ours(int fd)
{
	return fd == birth_of_clone.original || fd == birth_of_clone.lineage_fd || fd == birth_of_clone.lock ||
		fd == birth_of_clone.clone || iothread_owns(fd) || output_owns(fd);
}

static void let_go(int fd, int dead)
{
	struct stat status;

	if (is_ours(fd) || fstat(fd, &status) < 0 || S_ISCHR(status.st_mode))
		return;
	if ((S_ISREG(status.st_mode) || S_ISDIR(status.st_mode)) && open_anew(fd))
		return;
	birth_of_clone.left += fd > STDERR_FILENO;
	dup3(dead, fd, O_CLOEXEC);
}

static void tell_of_left(void)
{
	int left = birth_of_clone.left;
	char text[128];

	if (left == 0)
		return;
	int length = snprintf(text, sizeof(text),
		"; %d pipe%s, socket%s or file%s being written stayed with the session that was cloned.\n", left,
		left == 1 ? "" : "s", left == 1 ? "" : "s", left == 1 ? "" : "s");
	output_append(OUTPUT_STDERR, text, (size_t)length);
}

static void fail(const char *why)
{
	(void)!send(birth_of_clone.original, why, strlen(why), MSG_NOSIGNAL);
	_exit(EXIT_NO_CLONE);
}

/* Waits for the original; if that is gone or does not want us, this is the end. */
static void wait_for_go(void)
{
	ssize_t length;
	char word;

	do
		length = recv(birth_of_clone.original, &word, 1, 0);
	while (length < 0 && errno == EINTR);
	if (length != 1)
		_exit(EXIT_NO_CLONE);
}

static void become_worker(struct worker_birth *birth)
{
	struct lineage *former = birth->lineage;
	char why[WHY_MAX];

	setsid(); /* the original's group may be killed as a whole */
	birth->lineage = birth_of_clone.lineage;
	birth->incarnation = 1;
	birth->last_seq = 0;
	lineage_begin(birth->lineage, birth->incarnation, birth->last_seq);
	lineage_free(former);
	birth->session = strdup(birth_of_clone.session);
	if (!birth->session || !descriptors_let_go(let_go)) {
		wait_for_go(); /* what is not read would be an error for whoever said it */
		fail("there is no memory or no descriptor left");
	}
	close(birth_of_clone.clone);
	close(birth_of_clone.lock);
	iothread_abandon();
	iothread_forget();
	output_close_pipes();
	output_forget();
	snapshot_disown();
	tell_of_left();
	wait_for_go();
	birth_of_clone.zygote =
		cradle_announce(birth->runtime_directory, birth->session, birth_of_clone.lineage_fd, why, sizeof(why));
	close(birth_of_clone.lineage_fd);
	if (birth_of_clone.zygote < 0)
		fail(why);
	birth->ready = birth_of_clone.original;
}

void clone_settle(struct worker_birth *birth)
{
	if (send(birth->ready, "", 1, MSG_NOSIGNAL) < 0)
		_exit(EXIT_NO_CLONE);
	wait_for_go();
	close(birth->ready);
	birth->ready = -1;
	(void)!send(birth_of_clone.zygote, "", 1, MSG_NOSIGNAL); /* it may be gone by now: workers outlive it */
	close(birth_of_clone.zygote);
}

/* ---- in the original */

/* Why it cannot be done, or NULL. */
static const char *prepare(const char *session, const struct worker_birth *birth)
{
	int ends[2];

	if (snapshot_threads_remain())
		return "threads are running in it, which a clone would not have";
	if (!birth->runtime_directory || sessionlock_is_held(birth->runtime_directory, session))
		return "the session has a process";
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
		return "no further descriptors are allowed";
	birth_of_clone.lineage_fd = lineage_create(&birth_of_clone.lineage);
	if (birth_of_clone.lineage_fd < 0) {
		close(ends[0]);
		close(ends[1]);
		return "there is no memory or no descriptor left";
	}
	birth_of_clone.session = session;
	birth_of_clone.clone = ends[0];
	birth_of_clone.original = ends[1];
	birth_of_clone.lock = birth->lock;
	birth_of_clone.left = 0;
	return NULL;
}

/* 0 in the clone; in the original anything else, negative if there is no clone. */
static pid_t divide(void)
{
	int status = 0;
	pid_t between = fork();

	if (between == 0) {
		pid_t clone = fork();
		if (clone == 0)
			return 0;
		if (clone > 0)
			lineage_expect(birth_of_clone.lineage, clone);
		_exit(clone < 0 ? EXIT_NO_CLONE : 0);
	}
	while (between > 0 && waitpid(between, &status, 0) < 0 && errno == EINTR)
		;
	return status == 0 ? between : -1;
}

/* Says it by itself; a clone that says nothing in time is ended. Why there is none, or NULL. */
static const char *hear_clone(char why[static WHY_MAX])
{
	uint64_t until_us = clock_microseconds() + PATIENCE_US;
	struct pollfd line = {.fd = birth_of_clone.clone, .events = POLLIN};
	int heard;

	do {
		uint64_t now = clock_microseconds();
		heard = poll(&line, 1, now < until_us ? (int)((until_us - now) / 1000) : 0);
	} while (heard < 0 && errno == EINTR);
	if (heard == 0) {
		process_kill(lineage_worker(birth_of_clone.lineage));
		return "it did not start in time";
	}
	ssize_t length = recv(birth_of_clone.clone, why, WHY_MAX - 1, 0);
	if (length == 1 && why[0] == '\0')
		return NULL;
	if (length <= 0)
		return "its process died while it started";
	why[length] = '\0';
	return why;
}

static bool say_go(void)
{
	return send(birth_of_clone.clone, GO, 1, MSG_NOSIGNAL) == 1;
}

/* From the fork to the clone's last word. Why there is none, or NULL. */
static const char *bring_up(char why[static WHY_MAX])
{
	const char *why_not = say_go() ? hear_clone(why) : "its process died while it started";

	if (!why_not && iothread_clone_is_wanted() && !say_go())
		why_not = "its process died while it started";
	return why_not;
}

bool clone_make(const char *session, struct worker_birth *birth)
{
	const char *why_not = prepare(session, birth);
	char why[WHY_MAX];
	sigset_t all, before;

	if (why_not) {
		iothread_end_clone(0, why_not);
		return false;
	}
	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, &before);
	iothread_park();
	pid_t divided = divide();
	if (divided == 0)
		become_worker(birth);
	else
		iothread_unpark();
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (divided == 0)
		return true;
	close(birth_of_clone.original);
	why_not = divided < 0 ? "the system allows no further process" : bring_up(why);
	close(birth_of_clone.clone);
	close(birth_of_clone.lineage_fd);
	iothread_end_clone(process_pid(lineage_worker(birth_of_clone.lineage)), why_not);
	lineage_free(birth_of_clone.lineage);
	return false;
}
