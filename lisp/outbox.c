/*
 * outbox.c - sending whole frames in order over a connection that takes them piecemeal.
 */
#include "config.h"

#include "outbox.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

struct outbox_result {
	struct outbox_result *next;
	uint64_t seq;
	struct frame_builder frame;
};

void outbox_connect(struct outbox *outbox, int connection)
{
	if (outbox->connection >= 0)
		close(outbox->connection);
	outbox->connection = connection;
	outbox->reports.length = 0;
	outbox->reports_sent = 0;
	outbox->sending = outbox->first;
	outbox->result_sent = 0;
}

void outbox_report(struct outbox *outbox, const struct frame_builder *frame)
{
	struct frame_builder *reports = &outbox->reports;

	if (outbox->connection < 0)
		return;
	if (reports->length + frame->length > reports->capacity) {
		reports->capacity = reports->length + frame->length + 4096;
		reports->data = realloc(reports->data, reports->capacity);
		if (!reports->data)
			abort();
	}
	memcpy(reports->data + reports->length, frame->data, frame->length);
	reports->length += frame->length;
}

void outbox_keep(struct outbox *outbox, uint64_t seq, struct frame_builder *frame)
{
	struct outbox_result *result = calloc(1, sizeof(*result));

	if (!result)
		abort();
	result->seq = seq;
	result->frame = *frame;
	*frame = (struct frame_builder){0};
	if (outbox->last)
		outbox->last->next = result;
	else
		outbox->first = result;
	outbox->last = outbox->held = result;
	if (!outbox->sending)
		outbox->sending = result;
	outbox->count++;
	outbox->bytes += result->frame.capacity;
}

void outbox_release(struct outbox *outbox)
{
	outbox->held = NULL;
}

void outbox_amend(struct outbox *outbox, struct frame_builder *frame)
{
	struct outbox_result *result = outbox->held;

	outbox->bytes -= result->frame.capacity;
	frame_builder_free(&result->frame);
	result->frame = *frame;
	*frame = (struct frame_builder){0};
	outbox->bytes += result->frame.capacity;
}

void outbox_forget(struct outbox *outbox, uint64_t seq)
{
	while (outbox->first && outbox->first->seq <= seq) {
		struct outbox_result *result = outbox->first;

		/* Half of a frame cannot be taken back; and nobody can have stored what is held. */
		if (result == outbox->held || (result == outbox->sending && outbox->result_sent > 0))
			return;
		if (result == outbox->sending)
			outbox->sending = result->next;
		outbox->first = result->next;
		if (!outbox->first)
			outbox->last = NULL;
		outbox->count--;
		outbox->bytes -= result->frame.capacity;
		frame_builder_free(&result->frame);
		free(result);
	}
}

bool outbox_is_full(const struct outbox *outbox)
{
	return outbox->count >= OUTBOX_RESULTS_MAX || outbox->bytes >= OUTBOX_BYTES_MAX;
}

static bool is_result_due(const struct outbox *outbox)
{
	return outbox->sending && outbox->sending != outbox->held;
}

bool outbox_is_pending(const struct outbox *outbox)
{
	return outbox->connection >= 0 && (is_result_due(outbox) || outbox->reports_sent < outbox->reports.length);
}

/* 1 if all of it is gone, 0 if the connection is full, or a negative errno. */
static int send_piece(int connection, const struct frame_builder *frame, size_t *sent)
{
	while (*sent < frame->length) {
		ssize_t length =
			send(connection, frame->data + *sent, frame->length - *sent, MSG_DONTWAIT | MSG_NOSIGNAL);

		if (length >= 0)
			*sent += (size_t)length;
		else if (errno == EAGAIN || errno == EWOULDBLOCK)
			return 0;
		else if (errno != EINTR)
			return -errno;
	}
	return 1;
}

int outbox_send(struct outbox *outbox)
{
	while (outbox_is_pending(outbox)) {
		int result;

		if (outbox->result_sent == 0 && outbox->reports_sent < outbox->reports.length) {
			result = send_piece(outbox->connection, &outbox->reports, &outbox->reports_sent);
			if (result <= 0)
				return result;
			outbox->reports.length = 0;
			outbox->reports_sent = 0;
			continue;
		}
		result = send_piece(outbox->connection, &outbox->sending->frame, &outbox->result_sent);
		if (result <= 0)
			return result;
		outbox->sending = outbox->sending->next;
		outbox->result_sent = 0;
	}
	return 0;
}
