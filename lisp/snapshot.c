/*
 * snapshot.c - when a copy is made, what it lets go of, and how it learns that it is needed.
 *
 * The copy waits for the worker's end by itself (vigil.h): nobody has to wake it, neither the zygote nor the daemon,
 * which may be dead themselves. It must not hold what tells others of the worker's end: the listening
 * socket, the connection, pipes and sockets of the user's. Regular files stay open, and because a file's position is
 * shared with the worker, it is put back where it was.
 */
#include "config.h"

#include "snapshot.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "clock.h"
#include "descriptors.h"
#include "iothread.h"
#include "limits.h"
#include "output.h"
#include "process.h"
#include "shelf.h"
#include "vigil.h"

/* Without a request for so long the worker is idle. */
#define IDLE_US 10000
/* So many answered evaluations, or the oldest for so long, may be unprotected when another one begins. */
#define UNPROTECTED_MAX 100
#define UNPROTECTED_US 50000
/* After a copy could not be made. */
#define RETRY_US 1000000
/* A copy that was told to go is gone by then. */
#define REAP_US 20000
#define LEAVING_MAX 16
/* As many as one copy may send away. */
#define LEAVING_ROOM (SHELF_EARLIER_MAX + 1)
/* How long threads may take to end that are about to. */
#define THREADS_US 20000
#define POSITIONS_MAX 256
#define OWN_THREADS 2 /* the main thread and the I/O thread */
#define EXIT_NO_COPY 73

static struct {
	unsigned unprotected; /* answered evaluations that no copy knows of */
	uint64_t oldest_us;   /* when the first of them was answered, */
	uint64_t newest_us;   /* and the last */
	uint64_t retry_us;    /* not before */
	uint64_t seq;         /* of the last one that was answered */
	uint64_t depth;       /* how many of them count */
	const struct shelf *shelf;
	int place; /* of a copy on it */
	pid_t leaving[LEAVING_MAX];
	int leaving_count;
} state = {.place = SHELF_NONE};

static struct {
	int fd;
	off_t at;
} positions[POSITIONS_MAX];
static int position_count;
static int closed_count;

/* ---- when */

void snapshot_note_answer(uint64_t seq, bool counts)
{
	state.seq = seq;
	state.depth += counts;
	state.newest_us = clock_microseconds();
	if (state.unprotected++ == 0)
		state.oldest_us = state.newest_us;
}

uint64_t snapshot_depth(void)
{
	return state.depth;
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

const struct shelf *snapshot_shelf(void)
{
	return state.shelf;
}

bool snapshot_is_copy(pid_t pid)
{
	for (int i = 0; i < state.leaving_count; i++)
		if (state.leaving[i] == pid)
			return true;
	return state.shelf && shelf_place_of(state.shelf, pid) != SHELF_NONE;
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
	while (state.leaving_count > LEAVING_MAX - LEAVING_ROOM && clock_microseconds() < give_up_us) {
		nanosleep(&moment, NULL);
		reap_leaving();
	}
	return state.leaving_count <= LEAVING_MAX - LEAVING_ROOM;
}

/* Its memory takes a moment to be given back: nobody waits for that. Of another's children somebody else is told. */
static void dismiss(struct shelf *shelf, int place)
{
	uint64_t copy = shelf_remove(shelf, place);

	process_kill(copy);
	if (state.leaving_count < LEAVING_MAX)
		state.leaving[state.leaving_count++] = process_pid(copy);
}

void snapshot_dismiss(struct lineage *lineage, int place)
{
	dismiss(lineage_shelf(lineage), place);
}

/* ---- in the copy */

void snapshot_disown(void)
{
	state.shelf = NULL;
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

/* Sleeps until it is needed and is the worker, or leaves. */
static void sleep_as_copy(struct lineage *lineage, uint64_t maker)
{
	setpgid(0, 0); /* the worker's group may be killed as a whole */
	prctl(PR_SET_NAME, "cl-mcp-snapshot");
	snapshot_disown();
	let_go_of_descriptors();
	pid_t dead = process_pid(vigil_keep(lineage, maker));
	if (dead > 1)
		kill(-dead, SIGKILL); /* what it had started */
	prctl(PR_SET_NAME, "cl-mcp-worker");
	for (int i = 0; i < position_count; i++)
		lseek(positions[i].fd, positions[i].at, SEEK_SET);
	tell_of_closed();
	drop_pending_signals();
	state.shelf = lineage_shelf(lineage);
	state.place = shelf_place_of(state.shelf, getpid());
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

bool snapshot_threads_remain(void)
{
	static const struct timespec moment = {.tv_nsec = 1000000};
	uint64_t give_up_us = clock_microseconds() + THREADS_US;

	while (snapshot_finds_threads()) {
		if (clock_microseconds() >= give_up_us)
			return true;
		nanosleep(&moment, NULL);
	}
	return false;
}

uint64_t snapshot_resident_bytes(void)
{
	int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
	char text[128], *resident;

	if (fd < 0)
		return 0;
	ssize_t length = read(fd, text, sizeof(text) - 1);
	close(fd);
	text[length < 0 ? 0 : length] = '\0';
	strtoull(text, &resident, 10); /* pages of address space, then the resident ones */
	return strtoull(resident, NULL, 10) * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* ---- what stays beside a new copy */

/* One that knows the same is of no use beside the new one, and of the others only a few stay. */
static void tidy(struct shelf *shelf, int newest)
{
	unsigned most = SHELF_EARLIER_MAX;
	int place;

	while ((place = shelf_oldest_nameless(shelf, newest)) != SHELF_NONE && !shelf_is_chosen(shelf, place)) {
		int last = shelf_newest_nameless(shelf, newest);
		if (most > 0 && snapshot_resident_bytes() > SNAPSHOT_SMALL_BYTES)
			most = 0;
		if (shelf->copies[last].state.depth == state.depth && !shelf_is_chosen(shelf, last))
			dismiss(shelf, last);
		else if (shelf_count_nameless(shelf, newest) > most)
			dismiss(shelf, place);
		else
			break;
	}
}

/* The new one is there before an older one goes. */
static bool note_copy(struct lineage *lineage, pid_t pid, const char *name)
{
	struct shelf *shelf = lineage_shelf(lineage);
	struct shelf_state known = {.seq = state.seq, .depth = state.depth, .at = (uint64_t)time(NULL)};
	uint64_t copy = process_identify(pid);
	int place = state.place; /* if it has our state, our place too */
	bool is_renewed = place != SHELF_NONE;

	setpgid(pid, pid); /* here too: our group may be killed before the copy first runs */
	snprintf(known.name, sizeof(known.name), "%s", name);
	if (is_renewed)
		shelf_renew(shelf, place, copy);
	else
		place = shelf_add(shelf, copy, &known);
	state.shelf = shelf;
	if (place == SHELF_NONE) {
		process_kill(copy);
		waitpid(pid, NULL, 0);
		return false;
	}
	state.unprotected = 0;
	if (!is_renewed && !*name)
		tidy(shelf, place);
	return true;
}

/* ---- making one */

enum fate { WOKEN, MADE, NOT_MADE };

/* For now; the daemon is told. */
static enum fate refuse(const char *why)
{
	state.retry_us = clock_microseconds() + RETRY_US;
	iothread_note_copy(why);
	return NOT_MADE;
}

static enum fate make(struct lineage *lineage, const char *name)
{
	uint64_t worker = process_identify(getpid());
	sigset_t all, before;
	bool is_noted = false;

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
		is_noted = note_copy(lineage, copy, name);
	iothread_unpark();
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (copy == 0)
		return WOKEN;
	if (!is_noted)
		return refuse(copy < 0 ? "the system allows no further process" : "there are too many");
	iothread_note_copy(NULL);
	return MADE;
}

bool snapshot_take(struct lineage *lineage)
{
	return make(lineage, "") == WOKEN;
}

bool snapshot_take_if_needed(struct lineage *lineage)
{
	return state.unprotected > 0 && snapshot_take(lineage);
}

bool snapshot_keep(struct lineage *lineage, const char *name, bool *is_kept)
{
	enum fate fate = make(lineage, name);

	*is_kept = fate == MADE;
	return fate == WOKEN;
}

bool snapshot_attend(struct lineage *lineage)
{
	uint64_t now = clock_microseconds();

	reap_leaving();
	if (state.unprotected == 0 || now < state.retry_us)
		return false;
	return (now >= state.newest_us + IDLE_US || snapshot_is_overdue()) && snapshot_take(lineage);
}

/* ---- a copy that takes over */

bool snapshot_was_chosen(struct lineage *lineage)
{
	return shelf_is_chosen(lineage_shelf(lineage), state.place);
}

bool snapshot_renew(struct lineage *lineage)
{
	struct shelf *shelf = lineage_shelf(lineage);
	enum fate fate = make(lineage, "");

	if (fate == NOT_MADE && state.place != SHELF_NONE) {
		shelf_remove(shelf, state.place); /* it is we */
		state.place = SHELF_NONE;
	}
	return fate == WOKEN;
}

void snapshot_settle(struct lineage *lineage, bool was_chosen)
{
	struct shelf *shelf = lineage_shelf(lineage);

	if (was_chosen)
		shelf_leave_branch(shelf, state.place);
	shelf_forget_choice(shelf);
	state.place = SHELF_NONE;
}
