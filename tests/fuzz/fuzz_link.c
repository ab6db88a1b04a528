/*
 * fuzz_link.c - any bytes on the link between shim and daemon, as either side reads them from a real socket.
 *
 * The first byte says how the rest is cut into pieces. Both readers must find the same frames, wherever the cuts are.
 */
#include "frame.h"
#include "inbox.h"
#include "link.h"
#include "peer.h"
#include "pending.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What a reader has seen, so that two can be compared. */
struct tally {
	size_t frames, fields;
	uint64_t numbers;
	bool broken;
};

static void require(bool condition)
{
	if (!condition)
		abort();
}

static void count_fields(struct tally *tally, struct frame frame)
{
	enum frame_status status;
	struct field field;
	uint64_t number;

	tally->frames++;
	while ((status = frame_next(&frame, &field)) == FRAME_READY) {
		tally->fields++;
		if (field_number(&field, &number))
			tally->numbers += number;
		free(field_text(&field, 4096));
	}
	tally->broken = tally->broken || status == FRAME_BROKEN;
}

/* The daemon's side. */
struct reader {
	struct tally tally;
	struct peer *peer;
};

static void on_frame(void *context, struct frame *frame)
{
	struct reader *reader = context;

	count_fields(&reader->tally, *frame);
}

static void on_gone(void *context, const char *reason)
{
	struct reader *reader = context;

	require(reason != NULL);
	peer_close(reader->peer);
	reader->peer = NULL;
}

static struct tally read_as_daemon(const uint8_t *data, size_t size, size_t piece)
{
	static const struct peer_handler handler = {.frame = on_frame, .gone = on_gone};
	static struct event_base *base;
	struct reader reader = {0};
	int ends[2];

	if (!base)
		base = event_base_new();
	require(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) == 0);
	reader.peer = peer_new(base, ends[0], &handler, &reader);
	for (size_t at = 0; at < size && reader.peer; at += piece) {
		size_t length = size - at < piece ? size - at : piece;
		if (write(ends[1], data + at, length) != (ssize_t)length)
			break;
		event_base_loop(base, EVLOOP_NONBLOCK);
	}
	close(ends[1]);
	event_base_loop(base, EVLOOP_NONBLOCK);
	if (reader.peer)
		peer_close(reader.peer);
	return reader.tally;
}

/* The shim's side: answers settle lines that it keeps. */
static void take_as_shim(struct pending *pending, struct frame frame)
{
	struct field field;
	uint64_t line = 0;

	while (frame_next(&frame, &field) == FRAME_READY)
		if (field.tag == LINK_TAG_LINE && !field_number(&field, &line))
			return;
	if (frame.type == LINK_ANSWER)
		(void)!pending_answered(pending, line);
	if (frame.type == LINK_ANSWER || frame.type == LINK_SETTLED)
		(void)!pending_settle(pending, line);
}

static struct tally read_as_shim(const uint8_t *data, size_t size, size_t piece)
{
	struct pending pending = {0};
	struct inbox inbox = {0};
	struct tally tally = {0};
	struct frame frame;
	enum frame_status status = FRAME_INCOMPLETE;
	int ends[2];

	for (int i = 0; i < 4; i++)
		pending_add(&pending, "{}", 2);
	require(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) == 0);
	for (size_t at = 0; at < size && status != FRAME_BROKEN; at += piece) {
		size_t length = size - at < piece ? size - at : piece;
		if (write(ends[1], data + at, length) != (ssize_t)length)
			break;
		while (inbox_receive(&inbox, ends[0]) > 0)
			while ((status = inbox_next(&inbox, &frame)) == FRAME_READY) {
				count_fields(&tally, frame);
				take_as_shim(&pending, frame);
			}
	}
	require(pending.waiting <= 4 && pending_settled_up_to(&pending) <= 4);
	close(ends[0]);
	close(ends[1]);
	inbox_free(&inbox);
	pending_free(&pending);
	return tally;
}

/* A frame that is announced and never comes makes both sides reserve its whole length, up to FRAME_MAX: true, but slow.
 */
static bool announces_too_much(const uint8_t *data, size_t size)
{
	struct frame frame;
	size_t frame_size;
	enum frame_status status;

	while ((status = frame_open(data, size, &frame, &frame_size)) == FRAME_READY) {
		data += frame_size;
		size -= frame_size;
	}
	return status == FRAME_INCOMPLETE && frame_size > 65536;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size < 1 || size > 16384 || announces_too_much(data + 1, size - 1))
		return -1;
	size_t piece = data[0] ? data[0] : size;
	struct tally daemon = read_as_daemon(data + 1, size - 1, piece);
	struct tally shim = read_as_shim(data + 1, size - 1, piece);

	require(daemon.frames == shim.frames && daemon.fields == shim.fields && daemon.numbers == shim.numbers &&
		daemon.broken == shim.broken);
	return 0;
}
