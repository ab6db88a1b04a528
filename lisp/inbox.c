/*
 * inbox.c - whole frames out of a stream of bytes.
 */
#include "config.h"

#include "inbox.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define READ_SIZE 65536

static void reserve(struct inbox *inbox, size_t size)
{
	if (size <= inbox->capacity)
		return;
	inbox->data = realloc(inbox->data, size);
	if (!inbox->data)
		abort();
	inbox->capacity = size;
}

void inbox_clear(struct inbox *inbox)
{
	inbox->length = 0;
}

static bool handle_frames(struct inbox *inbox, bool (*handle)(const struct frame *frame))
{
	size_t done = 0, size = 0;
	enum frame_status status;
	struct frame frame;

	while ((status = frame_open(inbox->data + done, inbox->length - done, &frame, &size)) == FRAME_READY) {
		if (!handle(&frame))
			return false;
		done += size;
	}
	if (status == FRAME_BROKEN)
		return false;
	inbox->length -= done;
	memmove(inbox->data, inbox->data + done, inbox->length);
	if (inbox->length == 0 && inbox->capacity > 4 * READ_SIZE) {
		free(inbox->data);
		*inbox = (struct inbox){0};
	}
	reserve(inbox, size > inbox->length + READ_SIZE ? size : inbox->length + READ_SIZE);
	return true;
}

bool inbox_read(struct inbox *inbox, int connection, bool (*handle)(const struct frame *frame))
{
	reserve(inbox, inbox->length + READ_SIZE);
	ssize_t length = recv(connection, inbox->data + inbox->length, inbox->capacity - inbox->length, MSG_DONTWAIT);
	if (length < 0 && (errno == EAGAIN || errno == EINTR))
		return true;
	if (length <= 0)
		return false;
	inbox->length += (size_t)length;
	return handle_frames(inbox, handle);
}
