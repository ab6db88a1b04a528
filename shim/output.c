/*
 * output.c - writing to stdout without ever blocking.
 */
#include "output.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

void output_init(struct output *output, int descriptor)
{
	struct stat status;
	char path[32];

	*output = (struct output){.descriptor = descriptor, .kind = OUTPUT_SHARED};
	if (fstat(descriptor, &status) < 0)
		return;
	if (S_ISSOCK(status.st_mode))
		output->kind = OUTPUT_SOCKET;
	if (S_ISREG(status.st_mode))
		output->kind = OUTPUT_OWN;
	if (!S_ISFIFO(status.st_mode))
		return;
	/* Opening a pipe anew gives a description with flags of our own, and saves asking before each write. */
	snprintf(path, sizeof(path), "/proc/self/fd/%d", descriptor);
	int own = open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC);
	if (own < 0)
		return;
	output->descriptor = own;
	output->kind = OUTPUT_OWN;
}

void output_add(struct output *output, const void *text, size_t length, uint64_t line)
{
	size_t space;
	uint8_t *at = bytes_room(&output->bytes, length + 1, &space);

	if (length > 0)
		memcpy(at, text, length);
	at[length] = '\n';
	bytes_added(&output->bytes, length + 1);
	if (line) {
		struct output_mark mark = {output->written + output_waiting(output), line};
		bytes_append(&output->marks, &mark, sizeof(mark));
	}
}

/* As much as can be written without blocking; -EAGAIN if nothing. */
static ssize_t write_some(struct output *output, const void *data, size_t length)
{
	struct pollfd poll_out = {.fd = output->descriptor, .events = POLLOUT};
	ssize_t written = -1;

	switch (output->kind) {
	case OUTPUT_SOCKET:
		written = send(output->descriptor, data, length, MSG_DONTWAIT | MSG_NOSIGNAL);
		break;
	case OUTPUT_OWN:
		written = write(output->descriptor, data, length);
		break;
	case OUTPUT_SHARED:
		if (poll(&poll_out, 1, 0) <= 0)
			return -EAGAIN;
		written = write(output->descriptor, data, length < PIPE_BUF ? length : PIPE_BUF);
		break;
	}
	return written < 0 ? -errno : written;
}

int output_flush(struct output *output)
{
	while (output_waiting(output) > 0) {
		ssize_t written = write_some(output, bytes_first(&output->bytes), output_waiting(output));

		if (written == -EAGAIN || written == -EINTR)
			return 0;
		if (written < 0)
			return (int)written;
		output->written += (uint64_t)written;
		output->inside_line = bytes_first(&output->bytes)[written - 1] != '\n';
		bytes_taken(&output->bytes, (size_t)written);
	}
	return 0;
}

void output_finish_line(struct output *output)
{
	const uint8_t *first = bytes_first(&output->bytes);
	const uint8_t *end = output->inside_line ? memchr(first, '\n', output_waiting(output)) : NULL;

	if (!end)
		return;
	output->bytes.end = output->bytes.start + (size_t)(end - first) + 1;
	/* If the client is gone, half a line hurts nobody. */
	int result = output_flush(output);
	(void)result;
}

uint64_t output_next_settled(struct output *output)
{
	struct output_mark mark;

	if (bytes_length(&output->marks) == 0)
		return 0;
	memcpy(&mark, bytes_first(&output->marks), sizeof(mark));
	if (mark.end > output->written)
		return 0;
	bytes_taken(&output->marks, sizeof(mark));
	return mark.line;
}

void output_free(struct output *output)
{
	bytes_free(&output->bytes);
	bytes_free(&output->marks);
}
