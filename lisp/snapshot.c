/*
 * snapshot.c - when a copy is made, what it lets go of, and how it learns that it is needed.
 *
 * The copy is a child of the worker and waits for its end, on a pidfd: nobody has to wake it, neither the zygote nor
 * the daemon, which may be dead themselves. It must not hold what tells others of the worker's end: the listening
 * socket, the connection, pipes and sockets of the user's. Regular files stay open, and because a file's position is
 * shared with the worker, it is put back where it was.
 */
#include "config.h"

#include "snapshot.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "clock.h"
#include "descriptors.h"
#include "iothread.h"
#include "limits.h"
#include "output.h"

/* Without a request for so long the worker is idle. */
#define IDLE_US 10000
/* So many answered evaluations, or the oldest for so long, may be unprotected when another one begins. */
#define UNPROTECTED_MAX 100
#define UNPROTECTED_US 50000
/* After a copy could not be made. */
#define RETRY_US 1000000
/* A copy that was told to go is gone by then. */
#define REAP_US 20000
#define LEAVING_MAX 8
#define POSITIONS_MAX 256
#define OWN_THREADS 2 /* the main thread and the I/O thread */
#define EXIT_NO_COPY 73

static struct {
	unsigned unprotected; /* answered evaluations that no copy knows of */
	uint64_t oldest_us;   /* when the first of them was answered, */
	uint64_t newest_us;   /* and the last */
	uint64_t retry_us;    /* not before */
	pid_t copy;           /* 0: none */
	pid_t leaving[LEAVING_MAX];
	int leaving_count;
} state;

static struct {
	int fd;
	off_t at;
} positions[POSITIONS_MAX];
static int position_count;
static int closed_count;

/* ---- when */

void snapshot_note_answer(void)
{
	state.newest_us = clock_microseconds();
	if (state.unprotected++ == 0)
		state.oldest_us = state.newest_us;
}

static uint64_t later(uint64_t one, uint64_t other)
{
	return one > other ? one : other;
}

uint64_t snapshot_due_us(void)
{
	uint64_t due = 0;

	if (state.unprotected > 0)
		due = later(state.newest_us + IDLE_US, state.retry_us);
	if (state.leaving_count > 0 && (!due || due > clock_microseconds() + REAP_US))
		due = clock_microseconds() + REAP_US;
	return due;
}

bool snapshot_is_overdue(void)
{
	uint64_t now = clock_microseconds();

	return state.unprotected > 0 && now >= state.retry_us &&
		(state.unprotected >= UNPROTECTED_MAX || now - state.oldest_us >= UNPROTECTED_US);
}

/* ---- copies that are not needed any more */

bool snapshot_is_copy(pid_t pid)
{
	for (int i = 0; i < state.leaving_count; i++)
		if (state.leaving[i] == pid)
			return true;
	return pid == state.copy;
}

static void reap_leaving(void)
{
	for (int i = 0; i < state.leaving_count;)
		if (waitpid(state.leaving[i], NULL, WNOHANG) != 0)
			state.leaving[i] = state.leaving[--state.leaving_count];
		else
			i++;
}

/* Back-to-back evaluations in the strict form make copies faster than the kernel clears them away. */
static bool wait_for_leaving(void)
{
	static const struct timespec moment = {.tv_nsec = 100000};
	uint64_t give_up_us = clock_microseconds() + REAP_US;

	reap_leaving();
	while (state.leaving_count == LEAVING_MAX && clock_microseconds() < give_up_us) {
		nanosleep(&moment, NULL);
		reap_leaving();
	}
	return state.leaving_count < LEAVING_MAX;
}

/* Its memory takes a moment to be given back: nobody waits for that. */
static void dismiss(pid_t copy)
{
	kill(copy, SIGKILL);
	state.leaving[state.leaving_count++] = copy;
}

/* ---- in the copy */

void snapshot_disown(void)
{
	state.copy = 0;
	state.leaving_count = 0;
	state.unprotected = 0;
}

static void remember_position(int fd)
{
	off_t at = lseek(fd, 0, SEEK_CUR);

	if (at < 0 || position_count == POSITIONS_MAX)
		return;
	positions[position_count].fd = fd;
	positions[position_count++].at = at;
}

static void let_go(int fd, int dead)
{
	struct stat status;

	if (fstat(fd, &status) < 0)
		return;
	if (S_ISREG(status.st_mode))
		remember_position(fd);
	else if (!S_ISDIR(status.st_mode) && !S_ISCHR(status.st_mode)) {
		closed_count += !iothread_owns(fd) && !output_owns(fd) && fd > STDERR_FILENO;
		dup3(dead, fd, O_CLOEXEC);
	}
}

static void let_go_of_descriptors(void)
{
	position_count = closed_count = 0;
	if (!descriptors_let_go(let_go))
		_exit(EXIT_NO_COPY);
	iothread_abandon();
	output_close_pipes();
}

static void wait_for_death_of(pid_t worker)
{
	struct pollfd ended = {.fd = (int)syscall(SYS_pidfd_open, worker, 0), .events = POLLIN};

	/* If it had died before, the pid could be another's; but then we are no child of it any more. */
	while (getppid() == worker && poll(&ended, 1, ended.fd < 0 ? 100 : -1) <= 0)
		;
	if (ended.fd >= 0)
		close(ended.fd);
}

/* The kernel sends SIGHUP to a copy that was stopped while its worker died. */
static void drop_pending_signals(void)
{
	static const struct timespec at_once;
	sigset_t all;

	sigfillset(&all);
	while (sigtimedwait(&all, NULL, &at_once) > 0)
		;
}

static void tell_of_closed(void)
{
	char text[128];

	if (closed_count == 0)
		return;
	int length = snprintf(text, sizeof(text), "; %d pipe%s or socket%s of the session could not be kept open.\n",
		closed_count, closed_count == 1 ? "" : "s", closed_count == 1 ? "" : "s");
	output_append(OUTPUT_STDERR, text, (size_t)length);
}

/* Sleeps until it is needed, or leaves. */
static void sleep_as_copy(const struct lineage *lineage, pid_t worker)
{
	setpgid(0, 0); /* the worker's group may be killed as a whole */
	prctl(PR_SET_NAME, "cl-mcp-snapshot");
	snapshot_disown();
	let_go_of_descriptors();
	wait_for_death_of(worker);
	if (!lineage_may_inherit(lineage))
		_exit(0);
	kill(-worker, SIGKILL); /* what it had started */
	prctl(PR_SET_NAME, "cl-mcp-worker");
	for (int i = 0; i < position_count; i++)
		lseek(positions[i].fd, positions[i].at, SEEK_SET);
	tell_of_closed();
	drop_pending_signals();
}

/* ---- in the worker */

/* Also those that are none of Lisp's. */
static int count_threads(void)
{
	DIR *directory = opendir("/proc/self/task");
	const struct dirent *entry;
	int count = 0;

	if (!directory)
		return OWN_THREADS;
	while ((entry = readdir(directory)))
		count += *entry->d_name != '.';
	closedir(directory);
	return count;
}

bool snapshot_finds_threads(void)
{
	return count_threads() > OWN_THREADS;
}

static void note_copy(struct lineage *lineage, pid_t copy)
{
	setpgid(copy, copy); /* here too: our group may be killed before the copy first runs */
	lineage_set_copy(lineage, copy);
	if (state.copy)
		dismiss(state.copy);
	state.copy = copy;
	state.unprotected = 0;
}

/* For now; the daemon is told. */
static bool refuse(const char *why)
{
	state.retry_us = clock_microseconds() + RETRY_US;
	iothread_note_copy(why);
	return false;
}

bool snapshot_take(struct lineage *lineage)
{
	pid_t worker = getpid();
	sigset_t all, before;

	if (!wait_for_leaving())
		return refuse("earlier copies do not go away");
	if (snapshot_finds_threads())
		return refuse("threads are running");
	limits_give_back();
	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, &before);
	iothread_park();
	pid_t copy = fork();
	if (copy == 0)
		sleep_as_copy(lineage, worker);
	else if (copy > 0)
		note_copy(lineage, copy);
	iothread_unpark();
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (copy < 0)
		return refuse("the system allows no further process");
	if (copy > 0)
		iothread_note_copy(NULL);
	return copy == 0;
}

bool snapshot_attend(struct lineage *lineage)
{
	uint64_t now = clock_microseconds();

	reap_leaving();
	if (state.unprotected == 0 || now < state.retry_us)
		return false;
	return (now >= state.newest_us + IDLE_US || snapshot_is_overdue()) && snapshot_take(lineage);
}
