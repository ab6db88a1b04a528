/*
 * inbox.c - receiving frames.
 */
#include "inbox.h"

#include <errno.h>
#include <sys/socket.h>

#define RECEIVE_SIZE (64u << 10)

static void take_given(struct inbox *inbox)
{
	if (inbox->given)
		bytes_taken(&inbox->bytes, inbox->given);
	inbox->given = 0;
}

long inbox_receive(struct inbox *inbox, int socket)
{
	take_given(inbox);
	size_t waiting = bytes_length(&inbox->bytes), room = RECEIVE_SIZE;

	/* A long frame is received in one piece of memory of its own size, not by doubling. */
	if (inbox->wanted > waiting + room)
		room = inbox->wanted - waiting;
	uint8_t *at = bytes_room(&inbox->bytes, room, &room);
	ssize_t received = recv(socket, at, room, MSG_DONTWAIT);

	if (received < 0)
		return -errno;
	bytes_added(&inbox->bytes, (size_t)received);
	return received;
}

enum frame_status inbox_next(struct inbox *inbox, struct frame *frame)
{
	take_given(inbox);
	enum frame_status status =
		frame_open(bytes_first(&inbox->bytes), bytes_length(&inbox->bytes), frame, &inbox->wanted);

	if (status == FRAME_READY)
		inbox->given = inbox->wanted;
	return status;
}

void inbox_free(struct inbox *inbox)
{
	bytes_free(&inbox->bytes);
	*inbox = (struct inbox){0};
}
