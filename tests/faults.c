/*
 * faults.c - a library for LD_PRELOAD that lets one call to the disk fail: the tests' stand-in for a bad disk.
 *
 * Locks are left alone: they are the kernel's, and one that fails costs ten seconds, as SQLite believes in a
 * competitor.
 *
 * It watches what cl-mcpd does with the files of its database and with their directory, counts these calls in the file
 * that $FAULTS names, and lets the one fail whose number stands there. Everybody else, and everything that cl-mcpd
 * starts, runs without it. It can also have the wrong time, and
 * be told of a want of memory.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define FILES_MAX 4096
/* How a path looks that is watched: "DIRECTORY/sessions.db", and what stands behind it; or the directory itself. */
#define DATABASE_NAME "/cl-mcpd/sessions.db"
#define DIRECTORY_NAME "/cl-mcpd"

/* Shared with the test: see Disk in tests/harness.py. */
struct plan {
	uint64_t count;    /* calls so far */
	uint64_t from, to; /* those of these numbers fail; 0: none does */
	uint64_t mercy;    /* 1: unless they only read */
	int64_t error;     /* their errno */
	char failed[64];   /* what the last one was */
	uint64_t by_main;  /* calls of the main thread, */
	uint64_t syncs;    /* and those that wait for the disk */
};

static struct plan *plan;
/* How wrong its clock is, in seconds: $CLOCK_OFFSET, or what the file of that name holds just then. */
static int64_t fixed_offset;
static volatile const int64_t *clock_offset = &fixed_offset;
static bool watched[FILES_MAX];

/* A file that the test has made. */
static void *share(const char *path, size_t size)
{
	int fd = open(path, O_RDWR | O_CLOEXEC);
	void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	close(fd);
	if (memory == MAP_FAILED)
		abort();
	return memory;
}

__attribute__((constructor)) static void begin(void)
{
	const char *path = getenv("FAULTS"), *offset = getenv("CLOCK_OFFSET");

	if (strcmp(program_invocation_short_name, "cl-mcpd") != 0)
		return;
	unsetenv("LD_PRELOAD");
	fixed_offset = offset ? strtol(offset, NULL, 10) : 0;
	if (offset && *offset == '/')
		clock_offset = share(offset, sizeof(*clock_offset));
	if (path)
		plan = share(path, sizeof(*plan));
}

static bool only_reads(const char *what)
{
	return strncmp(what, "pread", 5) == 0 || strncmp(what, "fstat", 5) == 0 || strncmp(what, "mmap", 4) == 0;
}

/* True if this call is to fail; errno is set then. */
static bool fails(const char *what)
{
	uint64_t number = __atomic_add_fetch(&plan->count, 1, __ATOMIC_SEQ_CST);

	plan->by_main += gettid() == getpid();
	plan->syncs += strstr(what, "sync") != NULL;
	if (number < plan->from || number > plan->to || (plan->mercy && only_reads(what)))
		return false;
	strncpy(plan->failed, what, sizeof(plan->failed) - 1);
	errno = (int)plan->error;
	return true;
}

static bool is_watched(int fd)
{
	return plan && fd >= 0 && fd < FILES_MAX && watched[fd];
}

static bool is_watched_path(const char *path)
{
	size_t length = strlen(path), end = strlen(DIRECTORY_NAME);

	return plan &&
		(strstr(path, DATABASE_NAME) || (length > end && strcmp(path + length - end, DIRECTORY_NAME) == 0));
}

/* The function that this one stands in front of. */
#define REAL(name) ((__typeof__(&(name)))dlsym(RTLD_NEXT, #name))

static int note(int fd, bool is_one)
{
	if (fd >= 0 && fd < FILES_MAX)
		watched[fd] = is_one;
	return fd;
}

#define WRAP_OPEN(name)                                                                        \
	int name(const char *path, int flags, ...)                                             \
	{                                                                                      \
		bool is_one = is_watched_path(path);                                           \
		va_list arguments;                                                             \
		va_start(arguments, flags);                                                    \
		mode_t mode = flags & (O_CREAT | __O_TMPFILE) ? va_arg(arguments, mode_t) : 0; \
		va_end(arguments);                                                             \
		if (is_one && fails(#name))                                                    \
			return -1;                                                             \
		return note(REAL(name)(path, flags, mode), is_one);                            \
	}
WRAP_OPEN(open)
WRAP_OPEN(open64)

int close(int fd)
{
	if (fd >= 0 && fd < FILES_MAX)
		watched[fd] = false;
	return REAL(close)(fd);
}

#define WRAP(type, name, parameters, ...)           \
	type name parameters                        \
	{                                           \
		if (is_watched(fd) && fails(#name)) \
			return (type)-1;            \
		return REAL(name)(__VA_ARGS__);     \
	}
WRAP(ssize_t, pread, (int fd, void *data, size_t size, off_t offset), fd, data, size, offset)
WRAP(ssize_t, pread64, (int fd, void *data, size_t size, off64_t offset), fd, data, size, offset)
WRAP(ssize_t, pwrite, (int fd, const void *data, size_t size, off_t offset), fd, data, size, offset)
WRAP(ssize_t, pwrite64, (int fd, const void *data, size_t size, off64_t offset), fd, data, size, offset)
WRAP(int, fsync, (int fd), fd)
WRAP(int, fdatasync, (int fd), fd)
WRAP(int, ftruncate, (int fd, off_t length), fd, length)
WRAP(int, ftruncate64, (int fd, off64_t length), fd, length)
WRAP(int, fstat, (int fd, struct stat *status), fd, status)
WRAP(int, fstat64, (int fd, struct stat64 *status), fd, status)

void *mmap(void *address, size_t length, int protection, int flags, int fd, off_t offset)
{
	return is_watched(fd) && fails("mmap") ? MAP_FAILED
					       : REAL(mmap)(address, length, protection, flags, fd, offset);
}

void *mmap64(void *address, size_t length, int protection, int flags, int fd, off64_t offset)
{
	return is_watched(fd) && fails("mmap64") ? MAP_FAILED
						 : REAL(mmap64)(address, length, protection, flags, fd, offset);
}

int unlink(const char *path)
{
	return is_watched_path(path) && fails("unlink") ? -1 : REAL(unlink)(path);
}

/* ---- the memory */

/* $PRESSURE is a file that stands for the kernel's. */
FILE *fopen(const char *path, const char *mode)
{
	const char *instead = strcmp(path, "/proc/pressure/memory") == 0 ? getenv("PRESSURE") : NULL;

	return REAL(fopen)(instead ? instead : path, mode);
}

/* ---- the clock */

time_t time(time_t *now)
{
	time_t result = REAL(time)(NULL) + *clock_offset;

	if (now)
		*now = result;
	return result;
}

int gettimeofday(struct timeval *now, void *zone)
{
	int result = REAL(gettimeofday)(now, zone);

	now->tv_sec += *clock_offset;
	return result;
}
