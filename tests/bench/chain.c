/*
 * chain.c - three small processes that copy bytes.
 */
#include "chain.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define COPY_SIZE 65536

/* 0, or a negative errno; -EPIPE at the end of input. */
static int read_all(int fd, char *buffer, size_t length)
{
	while (length > 0) {
		ssize_t got = read(fd, buffer, length);
		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return got < 0 ? -errno : -EPIPE;
		buffer += got;
		length -= (size_t)got;
	}
	return 0;
}

static int write_all(int fd, const char *buffer, size_t length)
{
	while (length > 0) {
		ssize_t put = write(fd, buffer, length);
		if (put < 0 && errno == EINTR)
			continue;
		if (put < 0)
			return -errno;
		buffer += put;
		length -= (size_t)put;
	}
	return 0;
}

/* Copies what is there from one to the other; false when either has ended. */
static int copy_once(int from, int to, char *buffer)
{
	ssize_t got = read(from, buffer, COPY_SIZE);

	return got > 0 && write_all(to, buffer, (size_t)got) == 0;
}

/* Copies requests from in to next, and answers from next to out. */
static void relay(int in, int out, int next)
{
	static char buffer[COPY_SIZE];
	struct pollfd watched[] = {{.fd = in, .events = POLLIN}, {.fd = next, .events = POLLIN}};

	while (poll(watched, 2, -1) > 0) {
		if (watched[0].revents && !copy_once(in, next, buffer))
			break;
		if (watched[1].revents && !copy_once(next, out, buffer))
			break;
	}
	_exit(0);
}

static void echo(int socket, size_t request_size, size_t answer_size)
{
	size_t size = request_size > answer_size ? request_size : answer_size;
	char *buffer = calloc(1, size);

	while (buffer && read_all(socket, buffer, request_size) == 0)
		if (write_all(socket, buffer, answer_size) < 0)
			break;
	_exit(0);
}

enum { PIPE_TO, PIPE_FROM, FIRST_LINK, SECOND_LINK, LINKS };

/* Keeps those of the eight descriptors whose bits are set in kept. */
static void close_others(int ends[LINKS][2], unsigned kept)
{
	for (unsigned i = 0; i < 2 * LINKS; i++)
		if (!(kept & 1u << i) && ends[i / 2][i % 2] >= 0)
			close(ends[i / 2][i % 2]);
}

#define END(link, side) (1u << (2 * (link) + (side)))

static void run_part(unsigned part, int ends[LINKS][2], const struct chain *chain)
{
	switch (part) {
	case 0:
		close_others(ends, END(PIPE_TO, 0) | END(PIPE_FROM, 1) | END(FIRST_LINK, 0));
		relay(ends[PIPE_TO][0], ends[PIPE_FROM][1], ends[FIRST_LINK][0]);
		break;
	case 1:
		close_others(ends, END(FIRST_LINK, 1) | END(SECOND_LINK, 0));
		relay(ends[FIRST_LINK][1], ends[FIRST_LINK][1], ends[SECOND_LINK][0]);
		break;
	default:
		close_others(ends, END(SECOND_LINK, 1));
		echo(ends[SECOND_LINK][1], chain->request_size, chain->answer_size);
	}
}

int chain_start(struct chain *chain, size_t request_size, size_t answer_size)
{
	int ends[LINKS][2] = {{-1, -1}, {-1, -1}, {-1, -1}, {-1, -1}};
	size_t size = request_size > answer_size ? request_size : answer_size;

	*chain = (struct chain){.to = -1, .from = -1, .request_size = request_size, .answer_size = answer_size};
	chain->buffer = malloc(size);
	if (!chain->buffer)
		return -ENOMEM;
	memset(chain->buffer, 'x', size);
	if (pipe(ends[PIPE_TO]) < 0 || pipe(ends[PIPE_FROM]) < 0 ||
		socketpair(AF_UNIX, SOCK_STREAM, 0, ends[FIRST_LINK]) < 0 ||
		socketpair(AF_UNIX, SOCK_STREAM, 0, ends[SECOND_LINK]) < 0) {
		int error = errno;
		close_others(ends, 0);
		return -error;
	}
	chain->to = ends[PIPE_TO][1];
	chain->from = ends[PIPE_FROM][0];
	for (unsigned part = 0; part < 3; part++) {
		chain->processes[part] = fork();
		if (chain->processes[part] == 0)
			run_part(part, ends, chain);
	}
	close_others(ends, END(PIPE_TO, 1) | END(PIPE_FROM, 0));
	return 0;
}

int chain_call(struct chain *chain)
{
	int error = write_all(chain->to, chain->buffer, chain->request_size);

	return error < 0 ? error : read_all(chain->from, chain->buffer, chain->answer_size);
}

void chain_stop(struct chain *chain)
{
	close(chain->to);
	close(chain->from);
	for (unsigned part = 0; part < 3; part++)
		if (chain->processes[part] > 0)
			waitpid(chain->processes[part], NULL, 0);
	free(chain->buffer);
	*chain = (struct chain){.to = -1, .from = -1};
}
