/*
 * mcpclient.c - requests over the link, for the person's tool.
 */
#include "mcpclient.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "clock.h"
#include "link.h"

#define NEVER UINT64_MAX

static enum dial_status connect_client(struct mcp_client *client)
{
	client->hello.lines_read = client->pending.last_number;
	client->hello.lines_settled = pending_settled_up_to(&client->pending);
	enum dial_status status =
		dial_wait(&client->dial, &client->hello, &client->inbox, client->may_start, client->interrupted);

	if (status == DIAL_WELCOMED) {
		client->link = client->dial.descriptor;
		client->dial.descriptor = -1;
		pending_rewind(&client->pending);
	}
	return status;
}

enum dial_status mcp_open(struct mcp_client *client, const struct wish *wish, bool may_start)
{
	client->link = -1;
	client->may_start = may_start;
	if (wish)
		client->hello.wish = *wish;
	dial_init(&client->dial);
	dial_make_nonce(client->hello.nonce);
	return connect_client(client);
}

const char *mcp_reason(const struct mcp_client *client)
{
	return client->dial.reason;
}

static uint64_t add_message(struct mcp_client *client, json_object *message, const char *method, json_object *params)
{
	size_t length;

	json_object_object_add(message, "jsonrpc", json_object_new_string("2.0"));
	json_object_object_add(message, "method", json_object_new_string(method));
	if (params)
		json_object_object_add(message, "params", params);
	const char *text = json_object_to_json_string_length(message, JSON_C_TO_STRING_PLAIN, &length);
	pending_add(&client->pending, text, length);
	json_object_put(message);
	return client->pending.last_number;
}

/* True if something is left that the socket does not take now. A broken connection shows when it is read. */
static bool flush(struct mcp_client *client)
{
	struct iovec pieces[4];
	struct msghdr message = {.msg_iov = pieces};

	while ((message.msg_iovlen = pending_gather(&client->pending, pieces, 4)) > 0) {
		ssize_t sent = sendmsg(client->link, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
		if (sent < 0)
			return true;
		pending_sent(&client->pending, (size_t)sent);
	}
	return false;
}

uint64_t mcp_request(struct mcp_client *client, const char *method, json_object *params)
{
	json_object *message = json_object_new_object();

	json_object_object_add(message, "id", json_object_new_int64(++client->last_id));
	return add_message(client, message, method, params);
}

void mcp_notify(struct mcp_client *client, const char *method, json_object *params)
{
	add_message(client, json_object_new_object(), method, params);
	if (client->link >= 0)
		flush(client);
}

/* The line that the frame settles, 0 for none; *answer is set if the line is the wanted one. */
static uint64_t take_frame(struct mcp_client *client, struct frame *frame, uint64_t wanted, json_object **answer)
{
	struct field field, text = {0};
	uint64_t line = 0;

	while (frame_next(frame, &field) == FRAME_READY) {
		if (field.tag == LINK_TAG_TEXT)
			text = field;
		if (field.tag == LINK_TAG_LINE && !field_number(&field, &line))
			line = 0;
	}
	if ((frame->type != LINK_ANSWER && frame->type != LINK_SETTLED) || !pending_settle(&client->pending, line))
		return 0;
	if (frame->type == LINK_ANSWER && line == wanted) {
		struct json_tokener *tokener = json_tokener_new_ex(JSON_TOKENER_DEFAULT_DEPTH * 4);

		*answer = json_tokener_parse_ex(tokener, (const char *)text.data, (int)text.length);
		json_tokener_free(tokener);
	}
	return line;
}

/* Looks through what has come for the end of the wanted line. */
static bool take_frames(struct mcp_client *client, uint64_t wanted, json_object **answer, bool *broken)
{
	struct frame frame;

	for (;;) {
		enum frame_status status = inbox_next(&client->inbox, &frame);

		*broken = status == FRAME_BROKEN;
		if (status != FRAME_READY)
			return false;
		if (take_frame(client, &frame, wanted, answer) == wanted)
			return true;
	}
}

static void drop_link(struct mcp_client *client)
{
	close(client->link);
	client->link = -1;
	inbox_free(&client->inbox);
}

static void ping(struct mcp_client *client)
{
	struct frame_builder frame = {0};

	frame_begin(&frame, LINK_PING);
	frame_end(&frame);
	/* If it does not fit, the daemon has not read for long, and the silence that follows will show it. */
	ssize_t sent = send(client->link, frame.data, frame.length, MSG_DONTWAIT | MSG_NOSIGNAL);
	(void)sent;
	frame_builder_free(&frame);
}

/* One round of waiting on the connection; false if the connection is to be given up. */
static bool wait_on_link(struct mcp_client *client, uint64_t limit, uint64_t *heard_at, uint64_t *asked_at)
{
	bool congested = flush(client);
	struct pollfd wait = {.fd = client->link, .events = (short)(POLLIN | (congested ? POLLOUT : 0))};
	uint64_t deadline =
		*asked_at == NEVER ? *heard_at + client->dial.timeout * 3 / 10 : *asked_at + client->dial.timeout / 2;
	uint64_t now = clock_ms(), until = deadline < limit ? deadline : limit;

	if (poll(&wait, 1, until > now ? (int)(until - now) : 0) < 0)
		return true;
	if (wait.revents & ~POLLOUT) {
		long length = inbox_receive(&client->inbox, client->link);
		if (length == 0 || (length < 0 && length != -EAGAIN && length != -EINTR))
			return false;
		*heard_at = clock_ms();
		*asked_at = NEVER;
		return true;
	}
	now = clock_ms();
	if (now < deadline)
		return true;
	if (*asked_at != NEVER)
		return false;
	*asked_at = now;
	if (!congested)
		ping(client);
	return true;
}

enum mcp_status mcp_wait(struct mcp_client *client, uint64_t line, int64_t limit, json_object **answer)
{
	uint64_t start = clock_ms(), end = limit < 0 ? NEVER : start + (uint64_t)limit;
	uint64_t heard_at = start, asked_at = NEVER;
	unsigned lost = 0;

	*answer = NULL;
	for (;;) {
		bool broken = false;

		if (client->link < 0) {
			/* A request that kills each daemon it meets must end, too. */
			if (lost++ > 3 || connect_client(client) != DIAL_WELCOMED)
				return client->interrupted && *client->interrupted ? MCP_INTERRUPTED : MCP_LOST;
			heard_at = clock_ms();
			asked_at = NEVER;
		}
		if (take_frames(client, line, answer, &broken))
			return *answer ? MCP_ANSWERED : MCP_UNANSWERED;
		if (broken || !wait_on_link(client, end, &heard_at, &asked_at)) {
			drop_link(client);
			continue;
		}
		if (client->interrupted && *client->interrupted)
			return MCP_INTERRUPTED;
		if (clock_ms() >= end)
			return MCP_LATE;
	}
}

void mcp_close(struct mcp_client *client)
{
	if (client->link >= 0)
		drop_link(client);
	inbox_free(&client->inbox);
	pending_free(&client->pending);
}
