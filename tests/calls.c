/*
 * calls.c - a library for LD_PRELOAD that lets one call of cl-mcpd fail: to the kernel, or for memory.
 *
 * A call is told from others by its place: its name and the return addresses above it. Places are the same from run to
 * run, where numbers are not: threads and clients make no promise of their order. The file that $FAULTS names is shared
 * with the test and with every daemon that follows: all places that were passed, how often, and the one that is to fail
 * once. What SQLite does with its files is left to faults.c.
 */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <link.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#define PLACES_MAX 16384
#define MODULES_MAX 32
/* So many return addresses make a place; the first two are our own. */
#define DEPTH 10
#define OWN_DEPTH 2

struct place {
	uint64_t hash; /* 0: none */
	uint64_t count;
	char name[16];
};

/* Shared with the test: see Calls in tests/test_starvation.py. */
struct plan {
	uint64_t hash;  /* the call that fails, 0 if none; */
	uint64_t turn;  /* the how manieth that is; */
	int64_t error;  /* its errno */
	uint64_t fired; /* it has failed */
	struct place places[PLACES_MAX];
};

static struct plan *plan;
static __thread bool is_inside; /* what the bookkeeping itself calls is no business of ours */

/* ---- places */

static struct module {
	uintptr_t start, end;
} modules[MODULES_MAX];
static int module_count;

static int note_module(struct dl_phdr_info *info, size_t size, void *context)
{
	struct module module = {.start = info->dlpi_addr, .end = info->dlpi_addr};

	(void)size;
	(void)context;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		uintptr_t end = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr + info->dlpi_phdr[i].p_memsz;
		if (info->dlpi_phdr[i].p_type == PT_LOAD && end > module.end)
			module.end = end;
	}
	if (module_count < MODULES_MAX)
		modules[module_count++] = module;
	return 0;
}

/* Wherever the system has put the programs and libraries this time. */
static uint64_t without_base(uintptr_t address)
{
	for (int i = 0; i < module_count; i++)
		if (address >= modules[i].start && address < modules[i].end)
			return (uint64_t)(i + 1) << 48 | (address - modules[i].start);
	return 0;
}

static uint64_t mix(uint64_t hash, uint64_t value)
{
	hash = (hash ^ value) * UINT64_C(0x9E3779B97F4A7C15);
	return hash ^ hash >> 29;
}

static uint64_t hash_of(const char *name, void *const *addresses, int count)
{
	uint64_t hash = 1;

	for (; *name; name++)
		hash = mix(hash, (uint8_t)*name);
	for (int i = OWN_DEPTH; i < count; i++)
		hash = mix(hash, without_base((uintptr_t)addresses[i]));
	return hash ? hash : 1;
}

/* How often it was passed by now; a table that is full knows no more of them. */
static uint64_t pass(uint64_t hash, const char *name)
{
	for (uint64_t i = 0; i < PLACES_MAX; i++) {
		struct place *place = &plan->places[(hash + i) % PLACES_MAX];
		uint64_t found = 0;
		if (__atomic_compare_exchange_n(&place->hash, &found, hash, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
			strncpy(place->name, name, sizeof(place->name) - 1);
		else if (found != hash)
			continue;
		return __atomic_add_fetch(&place->count, 1, __ATOMIC_SEQ_CST);
	}
	return 0;
}

static bool fires(const char *name)
{
	void *addresses[DEPTH];
	uint64_t none = 0;
	int count = backtrace(addresses, DEPTH);
	uint64_t hash = hash_of(name, addresses, count), turn = pass(hash, name);

	if (hash != plan->hash || turn < plan->turn ||
		!__atomic_compare_exchange_n(&plan->fired, &none, 1, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
		return false;
	dprintf(STDERR_FILENO, "%s fails with errno %d:\n", name, (int)plan->error);
	backtrace_symbols_fd(addresses, count, STDERR_FILENO);
	return true;
}

/* True if this call is to fail; errno is set then. */
static bool fails(const char *name)
{
	int error = errno;

	if (!plan || is_inside)
		return false;
	is_inside = true;
	bool is_hit = fires(name);
	is_inside = false;
	errno = is_hit ? (int)plan->error : error;
	return is_hit;
}

__attribute__((constructor)) static void begin(void)
{
	const char *path = getenv("FAULTS");
	void *address;

	if (!path || strcmp(program_invocation_short_name, "cl-mcpd") != 0)
		return;
	unsetenv("LD_PRELOAD");
	backtrace(&address, 1); /* it loads a library the first time */
	dl_iterate_phdr(note_module, NULL);
	int fd = open(path, O_RDWR | O_CLOEXEC);
	void *memory = mmap(NULL, sizeof(struct plan), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (memory != MAP_FAILED)
		plan = memory;
}

/* ---- the kernel */

/* The function that this one stands in front of. It is looked up once: behind a fork the loader may be locked. */
#define REAL(name)                                                            \
	({                                                                    \
		static __typeof__(&(name)) found;                             \
		if (!found)                                                   \
			found = (__typeof__(&(name)))dlsym(RTLD_NEXT, #name); \
		found;                                                        \
	})

#define WRAP(type, failure, name, parameters, ...)                   \
	type name parameters                                         \
	{                                                            \
		__typeof__(&(name)) real = REAL(name);               \
		return fails(#name) ? (failure) : real(__VA_ARGS__); \
	}
WRAP(int, -1, accept4, (int fd, struct sockaddr *address, socklen_t *size, int flags), fd, address, size, flags)
WRAP(int, -1, bind, (int fd, const struct sockaddr *address, socklen_t size), fd, address, size)
WRAP(int, -1, close_range, (unsigned first, unsigned last, int flags), first, last, flags)
WRAP(int, -1, connect, (int fd, const struct sockaddr *address, socklen_t size), fd, address, size)
WRAP(int, -1, dup2, (int fd, int to), fd, to)
WRAP(int, -1, epoll_create1, (int flags), flags)
WRAP(int, -1, epoll_ctl, (int fd, int action, int of, struct epoll_event *event), fd, action, of, event)
WRAP(int, -1, epoll_wait, (int fd, struct epoll_event *events, int most, int timeout), fd, events, most, timeout)
WRAP(int, -1, eventfd, (unsigned count, int flags), count, flags)
WRAP(int, -1, flock, (int fd, int action), fd, action)
WRAP(pid_t, -1, fork, (void))
WRAP(int, -1, fstat, (int fd, struct stat *status), fd, status)
WRAP(int, -1, fsync, (int fd), fd)
WRAP(int, -1, ftruncate, (int fd, off_t length), fd, length)
WRAP(int, -1, getsockopt, (int fd, int level, int option, void *value, socklen_t *size), fd, level, option, value, size)
WRAP(int, -1, kill, (pid_t pid, int number), pid, number)
WRAP(int, -1, link, (const char *from, const char *to), from, to)
WRAP(int, -1, linkat, (int from_fd, const char *from, int to_fd, const char *to, int flags), from_fd, from, to_fd, to,
	flags)
WRAP(int, -1, listen, (int fd, int backlog), fd, backlog)
WRAP(int, -1, lstat, (const char *path, struct stat *status), path, status)
WRAP(int, -1, mkdir, (const char *path, mode_t mode), path, mode)
WRAP(int, -1, mkostemp, (char *path, int flags), path, flags)
WRAP(int, -1, pipe2, (int ends[2], int flags), ends, flags)
WRAP(ssize_t, -1, read, (int fd, void *data, size_t size), fd, data, size)
WRAP(ssize_t, -1, readlink, (const char *path, char *data, size_t size), path, data, size)
WRAP(ssize_t, -1, readv, (int fd, const struct iovec *parts, int count), fd, parts, count)
WRAP(ssize_t, -1, recv, (int fd, void *data, size_t size, int flags), fd, data, size, flags)
WRAP(int, -1, rename, (const char *from, const char *to), from, to)
WRAP(ssize_t, -1, send, (int fd, const void *data, size_t size, int flags), fd, data, size, flags)
WRAP(int, -1, socket, (int domain, int type, int protocol), domain, type, protocol)
WRAP(int, -1, socketpair, (int domain, int type, int protocol, int ends[2]), domain, type, protocol, ends)
WRAP(int, -1, stat, (const char *path, struct stat *status), path, status)
WRAP(int, -1, unlink, (const char *path), path)
WRAP(pid_t, -1, waitpid, (pid_t pid, int *status, int options), pid, status, options)
WRAP(ssize_t, -1, write, (int fd, const void *data, size_t size), fd, data, size)
WRAP(ssize_t, -1, writev, (int fd, const struct iovec *parts, int count), fd, parts, count)
WRAP(DIR *, NULL, opendir, (const char *path), path)
WRAP(FILE *, NULL, fopen, (const char *path, const char *mode), path, mode)

int open(const char *path, int flags, ...)
{
	int (*real)(const char *, int, ...) = REAL(open);
	va_list arguments;

	va_start(arguments, flags);
	mode_t mode = flags & (O_CREAT | __O_TMPFILE) ? va_arg(arguments, mode_t) : 0;
	va_end(arguments);
	return fails("open") ? -1 : real(path, flags, mode);
}

/* What fails to close is closed all the same. */
int close(int fd)
{
	int (*real)(int) = REAL(close), status = real(fd);

	return fails("close") ? -1 : status;
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *context)
{
	__typeof__(&pthread_create) real = REAL(pthread_create);

	return fails("pthread_create") ? errno : real(thread, attributes, run, context);
}

/* ---- memory; cl-mcpd has its own malloc() in front of these */

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *memory, size_t size);

void *__libc_malloc(size_t size)
{
	__typeof__(&__libc_malloc) real = REAL(__libc_malloc);

	return fails("malloc") ? NULL : real(size);
}

void *__libc_calloc(size_t count, size_t size)
{
	__typeof__(&__libc_calloc) real = REAL(__libc_calloc);

	return fails("calloc") ? NULL : real(count, size);
}

void *__libc_realloc(void *memory, size_t size)
{
	__typeof__(&__libc_realloc) real = REAL(__libc_realloc);

	return fails("realloc") ? NULL : real(memory, size);
}
