/*
 * output.c - the channels, their bounds, and the pipes behind descriptors 1 and 2.
 */
#include "config.h"

#include "output.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "clock.h"
#include "descriptors.h"
#include "utf8.h"
#include "worklink.h"

#define MANY_ITEMS 8192 /* more than fit into the bounds of any channel of short items */
#define KEEP_MAPPED 65536
#define CATCH_UP_US 200

struct line {
	size_t length;
	char bytes[OUTPUT_LAST_LINE_MAX];
};

/* What is written to a stream while nothing is evaluated is shown with the next evaluation's output, and told apart. */
enum phase {
	RUNNING, /* an evaluation, which nothing was written before */
	IDLE,    /* no evaluation, and nothing written since the last one */
	LATE,    /* no evaluation, but something written */
	BEGUN,   /* an evaluation that has not written anything, which something was written before */
};

struct channel {
	enum phase phase;
	size_t limit;
	size_t stored;
	size_t touched; /* how much of data has memory behind it */
	uint64_t total;
	long column;
	uint32_t item_count;
	uint32_t item_end[MANY_ITEMS];
	struct line line; /* the one being written */
	char *data;
};

static const size_t limits[OUTPUT_CHANNELS] = {
	[OUTPUT_STDOUT] = FRAME_OUTPUT_MAX,
	[OUTPUT_STDERR] = FRAME_OUTPUT_MAX,
	[OUTPUT_VALUES] = 1 << 20,
	[OUTPUT_WARNINGS] = 64 << 10,
	[OUTPUT_ERROR_TYPE] = 4 << 10,
	[OUTPUT_ERROR_MESSAGE] = 64 << 10,
	[OUTPUT_FRAMES] = 64 << 10,
};

static struct channel channels[OUTPUT_CHANNELS];
static int pipes[2] = {-1, -1};
/* Our own copies of the writing ends: if user code closes 1 or 2, the reading ends must not report a hang-up for ever.
 */
static int writers[2] = {-1, -1};
static char drained[65536];
static uint64_t lines;
static struct line last_line;
static pthread_mutex_t lock;

int output_init(void)
{
	for (int i = 0; i < OUTPUT_CHANNELS; i++) {
		channels[i].limit = limits[i];
		channels[i].data = mmap(
			NULL, limits[i], PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		if (channels[i].data == MAP_FAILED)
			return -errno;
	}
	pthread_mutex_init(&lock, NULL);
	return 0;
}

static void forget_lines(void)
{
	lines = 0;
	last_line.length = 0;
}

int output_open_pipes(void)
{
	pthread_mutex_init(&lock, NULL);
	forget_lines();
	for (int i = 0; i < 2; i++) {
		int ends[2];

		if (pipe2(ends, O_CLOEXEC) < 0)
			return -errno;
		if (dup2(ends[1], STDOUT_FILENO + i) < 0)
			return -errno;
		pipes[i] = descriptors_raise(ends[0]);
		writers[i] = descriptors_raise(ends[1]);
		if (fcntl(pipes[i], F_SETFL, O_NONBLOCK) < 0)
			return -errno;
	}
	return 0;
}

void output_close_pipes(void)
{
	for (int i = 0; i < 2; i++) {
		if (pipes[i] >= 0)
			close(pipes[i]);
		if (writers[i] >= 0)
			close(writers[i]);
		pipes[i] = writers[i] = -1;
	}
}

bool output_owns(int fd)
{
	return fd == pipes[0] || fd == pipes[1] || fd == writers[0] || fd == writers[1];
}

int output_pipe(enum output_channel channel)
{
	return pipes[channel];
}

void output_lock(void)
{
	pthread_mutex_lock(&lock);
}

void output_unlock(void)
{
	pthread_mutex_unlock(&lock);
}

static void extend_line(struct line *line, const char *bytes, size_t length)
{
	size_t room = sizeof(line->bytes) - line->length;

	if (length > room)
		length = room;
	memcpy(line->bytes + line->length, bytes, length);
	line->length += length;
}

/* Progress is about lines: counts them and remembers the last one that was not empty. */
static void follow_lines(struct channel *channel, const char *bytes, size_t length)
{
	const char *end = bytes + length, *newline;

	while ((newline = memchr(bytes, '\n', (size_t)(end - bytes)))) {
		extend_line(&channel->line, bytes, (size_t)(newline - bytes));
		if (channel->line.length > 0)
			last_line = channel->line;
		channel->line.length = 0;
		lines++;
		bytes = newline + 1;
	}
	extend_line(&channel->line, bytes, (size_t)(end - bytes));
}

void output_append(enum output_channel number, const char *bytes, size_t length)
{
	struct channel *channel = &channels[number];
	size_t kept = channel->limit - channel->stored;

	/* The two streams share what a result can carry. */
	if (number <= OUTPUT_STDERR)
		kept -= channels[OUTPUT_STDOUT + OUTPUT_STDERR - number].stored;
	channel->total += length;
	if (number <= OUTPUT_STDERR)
		follow_lines(channel, bytes, length);
	if (kept > length)
		kept = length;
	else if (kept < length && number > OUTPUT_STDERR)
		kept = utf8_whole_characters(bytes, kept); /* an item is UTF-8 */
	memcpy(channel->data + channel->stored, bytes, kept);
	channel->stored += kept;
	if (channel->stored > channel->touched)
		channel->touched = channel->stored;
}

static void append_line(enum output_channel number, const char *text)
{
	output_append(number, text, strlen(text));
	output_set_column(number, 0);
}

/* Before anything but our own notices goes to a stream. */
static void tell_apart(enum output_channel number)
{
	struct channel *channel = &channels[number];

	if (channel->phase == IDLE) {
		channel->phase = LATE;
		append_line(number, "; Written since the last evaluation:\n");
	} else if (channel->phase == BEGUN) {
		channel->phase = RUNNING;
		if (channel->line.length > 0)
			append_line(number, "\n");
		append_line(number, "; Written by this evaluation:\n");
	}
}

static void drain(enum output_channel channel)
{
	int available = 0;

	if (ioctl(pipes[channel], FIONREAD, &available) < 0)
		return;
	if (available > 0)
		tell_apart(channel);
	while (available > 0) {
		size_t want = (size_t)available < sizeof(drained) ? (size_t)available : sizeof(drained);
		ssize_t got = read(pipes[channel], drained, want);
		if (got <= 0)
			return;
		output_append(channel, drained, (size_t)got);
		available -= (int)got;
	}
}

/* Twice for each evaluation, and mostly there is nothing: one system call tells. */
void output_drain(void)
{
	struct pollfd polled[2] = {{.fd = pipes[0], .events = POLLIN}, {.fd = pipes[1], .events = POLLIN}};

	if (poll(polled, 2, 0) <= 0)
		return;
	for (int i = 0; i < 2; i++)
		if (polled[i].revents & POLLIN)
			drain((enum output_channel)i);
}

void output_begin(void)
{
	/* The request has been read by now: what was written before it was sent is in the pipes. */
	output_drain();
	for (int i = 0; i < 2; i++)
		channels[i].phase = channels[i].phase == LATE ? BEGUN : RUNNING;
	forget_lines();
}

/*
 * The I/O thread drains a pipe soon, but not at once. To look into the pipe at every write would cost too much;
 * whatever starts a subprocess and waits for it takes longer than this.
 */
void output_catch_up(enum output_channel channel)
{
	static uint64_t last_us;

	if (channel > OUTPUT_STDERR)
		return;
	tell_apart(channel);
	uint64_t now = clock_microseconds();
	if (pipes[channel] < 0 || now - last_us < CATCH_UP_US)
		return;
	last_us = now;
	output_drain();
}

bool output_is_full(enum output_channel channel)
{
	return channels[channel].total > channels[channel].stored;
}

void output_end_item(enum output_channel number)
{
	struct channel *channel = &channels[number];

	if (channel->item_count < MANY_ITEMS)
		channel->item_end[channel->item_count++] = (uint32_t)channel->stored;
	channel->column = 0;
}

void output_clear(enum output_channel number)
{
	struct channel *channel = &channels[number];

	channel->stored = 0;
	channel->total = 0;
	channel->column = 0;
	channel->item_count = 0;
	channel->line.length = 0;
	/* A big answer must not keep its memory for the rest of the session's life. */
	if (channel->touched > KEEP_MAPPED) {
		madvise(channel->data, channel->limit, MADV_DONTNEED);
		channel->touched = 0;
	}
}

long output_column(enum output_channel channel)
{
	return channels[channel].column;
}

void output_set_column(enum output_channel channel, long column)
{
	channels[channel].column = column;
}

static void take_stream(struct frame_builder *result, enum output_channel number, uint8_t tag, uint8_t total_tag)
{
	const struct channel *channel = &channels[number];

	if (channel->total == 0)
		return;
	frame_put(result, tag, channel->data, channel->stored);
	frame_put_number(result, total_tag, channel->total);
}

static void take_items(struct frame_builder *result, enum output_channel number, uint8_t tag, const char *name)
{
	const struct channel *channel = &channels[number];
	uint32_t start = 0;

	for (uint32_t i = 0; i < channel->item_count; i++) {
		frame_put(result, tag, channel->data + start, channel->item_end[i] - start);
		start = channel->item_end[i];
	}
	/* An item that nobody completed: the printer was stopped in its middle. */
	if (channel->stored > start)
		frame_put(result, tag, channel->data + start, channel->stored - start);
	if (output_is_full(number))
		frame_put_text(result, WORK_CUT, name);
}

void output_forget(void)
{
	for (int i = 0; i < OUTPUT_CHANNELS; i++)
		output_clear((enum output_channel)i);
	channels[OUTPUT_STDOUT].phase = channels[OUTPUT_STDERR].phase = IDLE;
	forget_lines();
}

void output_take(struct frame_builder *result)
{
	take_stream(result, OUTPUT_STDOUT, WORK_STDOUT, WORK_STDOUT_TOTAL);
	take_stream(result, OUTPUT_STDERR, WORK_STDERR, WORK_STDERR_TOTAL);
	take_items(result, OUTPUT_WARNINGS, WORK_WARNING, "warnings");
	take_items(result, OUTPUT_VALUES, WORK_VALUE, "values");
	take_items(result, OUTPUT_ERROR_TYPE, WORK_ERROR_TYPE, "error");
	take_items(result, OUTPUT_ERROR_MESSAGE, WORK_ERROR_MESSAGE, "error");
	take_items(result, OUTPUT_FRAMES, WORK_FRAME, "backtrace");
	output_forget();
}

void output_progress(struct output_progress *progress)
{
	const struct line *line = &last_line;

	for (int i = 0; i < 2; i++)
		if (channels[i].line.length > 0)
			line = &channels[i].line;
	progress->lines = lines;
	progress->last_length = line->length;
	memcpy(progress->last_line, line->bytes, line->length);
}
