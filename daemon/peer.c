/*
 * peer.c - reading whole frames and writing without blocking.
 */
#include "peer.h"

#include "alloc.h"
#include "clock.h"
#include "watch.h"

#include <errno.h>
#include <event2/buffer.h>
#include <sys/socket.h>
#include <unistd.h>

#define READ_SIZE (64u << 10)
/* A buffer that once held a large frame is given back when it is empty. */
#define KEEP_SIZE (256u << 10)
/* However much a peer has sent, after so long it is the others' turn. */
#define TURN_US 200

static const struct timeval at_once = {0, 0};

struct peer {
	int fd;
	const struct peer_handler *handler;
	void *context;
	struct event *readable;
	struct event *writable;
	struct event *next_turn; /* for frames that were read and have to wait */
	struct evbuffer *output;
	uint8_t *input;
	size_t start, end, capacity; /* what is read and not yet delivered lies from start to end */
	bool paused;
	bool closed;     /* while delivering: freed when the delivery returns */
	bool delivering; /* a handler is on the stack */
};

static void release(struct peer *peer)
{
	event_free(peer->readable);
	event_free(peer->writable);
	event_free(peer->next_turn);
	evbuffer_free(peer->output);
	free(peer->input);
	free(peer);
}

void peer_close(struct peer *peer)
{
	if (peer->closed)
		return;
	peer->closed = true;
	event_del(peer->readable);
	event_del(peer->writable);
	event_del(peer->next_turn);
	close(peer->fd);
	if (!peer->delivering)
		release(peer);
}

/* What came behind that has to wait until all others had their turn; nothing more is read until then. */
static void wait_for_turn(struct peer *peer)
{
	event_del(peer->readable);
	event_add(peer->next_turn, &at_once);
}

static void deliver_frames(struct peer *peer)
{
	uint64_t began = clock_microseconds();
	struct frame frame;
	size_t size;

	while (!peer->paused && !peer->closed) {
		enum frame_status status =
			frame_open(peer->input + peer->start, peer->end - peer->start, &frame, &size);
		if (status == FRAME_INCOMPLETE)
			break;
		if (status == FRAME_BROKEN) {
			peer->handler->gone(peer->context, "it sent something that is no frame");
			break;
		}
		peer->start += size;
		peer->handler->frame(peer->context, &frame);
		if (!peer->paused && !peer->closed && peer->end > peer->start &&
			clock_microseconds() - began >= TURN_US) {
			wait_for_turn(peer);
			break;
		}
	}
}

/* Room for what the next frame still lacks, at least READ_SIZE. */
static void make_room(struct peer *peer)
{
	struct frame frame;

	if (!peer->input)
		peer->input = must(malloc(peer->capacity = READ_SIZE));
	size_t have = peer->end - peer->start, want = READ_SIZE, size;

	if (frame_open(peer->input + peer->start, have, &frame, &size) == FRAME_INCOMPLETE && size > have &&
		size - have > want)
		want = size - have;
	if (peer->capacity - peer->end >= want)
		return;
	if (peer->start > 0) {
		memmove(peer->input, peer->input + peer->start, have);
		peer->start = 0;
		peer->end = have;
	}
	if (peer->capacity - peer->end < want) {
		peer->capacity = peer->end + want;
		peer->input = must(realloc(peer->input, peer->capacity));
	}
}

static void shrink_if_idle(struct peer *peer)
{
	if (peer->start < peer->end)
		return;
	peer->start = peer->end = 0;
	if (peer->capacity > KEEP_SIZE) {
		free(peer->input);
		peer->input = NULL;
		peer->capacity = 0;
	}
}

/* What is no end of the connection: it is tried again as soon as the kernel says that it may be. */
static bool is_passing(int error)
{
	return error == EAGAIN || error == EINTR || error == ENOMEM || error == ENOBUFS;
}

/* Something could not be sent, and what follows it makes no sense without it: the reading side sees the end, and tells.
 */
static void cut(struct peer *peer)
{
	shutdown(peer->fd, SHUT_RDWR);
	evbuffer_drain(peer->output, evbuffer_get_length(peer->output));
}

/* What else was read before. */
static void on_turn(evutil_socket_t fd, short what, void *context)
{
	struct peer *peer = context;

	(void)fd;
	(void)what;
	peer->delivering = true;
	deliver_frames(peer);
	peer->delivering = false;
	if (peer->closed)
		release(peer);
	else if (!peer->paused && !event_pending(peer->next_turn, EV_TIMEOUT, NULL))
		watch(peer->readable);
}

static void on_readable(evutil_socket_t fd, short what, void *context)
{
	struct peer *peer = context;

	(void)what;
	make_room(peer);
	ssize_t length = recv(fd, peer->input + peer->end, peer->capacity - peer->end, 0);
	if (length > 0)
		peer->end += (size_t)length;
	peer->delivering = true;
	if (length == 0)
		peer->handler->gone(peer->context, "it closed the connection");
	else if (length < 0 && !is_passing(errno))
		peer->handler->gone(peer->context, strerror(errno));
	else
		deliver_frames(peer);
	peer->delivering = false;
	if (peer->closed)
		release(peer);
	else
		shrink_if_idle(peer);
}

static void on_writable(evutil_socket_t fd, short what, void *context)
{
	struct peer *peer = context;

	(void)what;
	if (evbuffer_write(peer->output, fd) < 0 && !is_passing(errno))
		cut(peer);
	if (evbuffer_get_length(peer->output) > 0)
		return;
	event_del(peer->writable);
	if (!peer->handler->drained)
		return;
	peer->delivering = true;
	peer->handler->drained(peer->context);
	peer->delivering = false;
	if (peer->closed)
		release(peer);
}

struct peer *peer_new(struct event_base *base, int fd, const struct peer_handler *handler, void *context)
{
	struct peer *peer = new_zeroed(sizeof(*peer));

	evutil_make_socket_nonblocking(fd);
	peer->fd = fd;
	peer->handler = handler;
	peer->context = context;
	peer->output = must(evbuffer_new());
	peer->readable = must(event_new(base, fd, EV_READ | EV_PERSIST, on_readable, peer));
	peer->writable = must(event_new(base, fd, EV_WRITE | EV_PERSIST, on_writable, peer));
	peer->next_turn = must(evtimer_new(base, on_turn, peer));
	watch(peer->readable);
	return peer;
}

void peer_send(struct peer *peer, const struct frame_builder *builder)
{
	size_t sent = 0;

	if (peer->closed)
		return;
	if (evbuffer_get_length(peer->output) == 0) {
		ssize_t length = send(peer->fd, builder->data, builder->length, MSG_NOSIGNAL | MSG_DONTWAIT);
		if (length < 0 && !is_passing(errno)) {
			cut(peer);
			return;
		}
		sent = length > 0 ? (size_t)length : 0;
	}
	if (sent == builder->length)
		return;
	if (evbuffer_add(peer->output, builder->data + sent, builder->length - sent) < 0)
		die("out of memory");
	watch(peer->writable);
}

size_t peer_backlog(const struct peer *peer)
{
	return evbuffer_get_length(peer->output);
}

void peer_pause(struct peer *peer)
{
	if (peer->paused || peer->closed)
		return;
	peer->paused = true;
	event_del(peer->readable);
	event_del(peer->next_turn);
}

void peer_resume(struct peer *peer)
{
	if (!peer->paused || peer->closed)
		return;
	peer->paused = false;
	/* Frames that were read before the pause are delivered from the event loop, not from within the caller. */
	if (peer->end > peer->start)
		wait_for_turn(peer);
	else
		watch(peer->readable);
}
