/*
 * relay.c - the loop of the shim.
 *
 * A small line costs one read, one write to the daemon, one read, one write to stdout, and the two waits between them;
 * all time limits are kept by the time-out of those waits. Nothing else here blocks, so that the shim can always end,
 * and always answer by itself when no daemon does.
 */
#include "relay.h"

#include <errno.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "clock.h"
#include "dial.h"
#include "inbox.h"
#include "input.h"
#include "output.h"
#include "pending.h"
#include "selfanswer.h"

/* While unsettled lines take more memory than this, no more are read. */
#define UNSETTLED_MAX (64u << 20)
/* While more than this waits for the client, nothing more is taken from the daemon. */
#define OUTPUT_MAX (1u << 20)
/* Lines that one system call sends. */
#define GATHER 64
/* At end of input an evaluation that runs is waited for this long. */
#define END_WAIT 5000
/* Pauses between attempts to reach a daemon; the last is for a shim that has nothing to ask. */
#define FIRST_PAUSE 10
#define LONGEST_PAUSE 500
#define LONGEST_IDLE_PAUSE 10000
/* A line never makes an attempt come sooner than this after the last one. */
#define SHORTEST_PAUSE 100

#define NEVER UINT64_MAX

#define SILENT "it does not answer any more"

struct relay {
	const struct relay_options *options;
	struct input input;
	struct output output;
	struct pending pending;

	int link; /* the connection, -1 while there is none */
	struct inbox inbox;
	struct dial dial;
	struct dial_hello hello;
	bool dialling;
	bool tried;        /* the first attempt is behind us */
	uint64_t retry_at; /* when to dial again */
	uint64_t tried_at; /* when the last attempt ended */
	uint64_t pause;
	uint64_t trouble_since; /* lines have waited without a daemon since then, NEVER if none do */
	bool reported;          /* stderr knows of the trouble */

	uint64_t heard_at; /* when the daemon last said anything */
	uint64_t asked_at; /* when it was pinged, NEVER if it has spoken since */
	bool ping_due;
	bool end_due;
	bool congested; /* the socket does not take all that is to be sent */

	uint64_t progress_at; /* when a line was last settled or written, for the wait at end of input */
	bool gone;            /* the client has closed stdout, or a signal came */
};

static bool is_connected(const struct relay *relay)
{
	return relay->link >= 0;
}

/* ---- to stdout */

static void flush_output(struct relay *relay)
{
	size_t before = output_waiting(&relay->output);
	bool answers = output_holds_answer(&relay->output);
	uint64_t line;

	if (before == 0)
		return;
	if (output_flush(&relay->output) < 0)
		relay->gone = true;
	/* A notification of progress is none: at end of input it would keep us for as long as the evaluation runs. */
	if (answers && output_waiting(&relay->output) < before)
		relay->progress_at = clock_ms();
	while ((line = output_next_settled(&relay->output)) != 0)
		if (!pending_settle(&relay->pending, line))
			break;
}

/* ---- when there is no daemon */

/* Answers everything that waits with an error. What was never sent cannot have run; of the rest we do not know. */
static void answer_all(struct relay *relay)
{
	const struct pending_line *line;
	char message[sizeof(relay->dial.reason) + 256];
	size_t length = 0;

	while ((line = pending_first_waiting(&relay->pending)) != NULL) {
		uint64_t number = line->number;
		const char *text = pending_text(line, &length);
		struct bytes answer = {0};

		snprintf(message, sizeof(message),
			"The Lisp daemon (cl-mcpd) cannot be reached: %s. %s"
			"Repeat the request to try again; 'cl-mcpctl status' shows whether a daemon runs.",
			relay->dial.reason,
			line->was_sent ? "The request had been sent and may have been carried out. " : "");
		if (selfanswer_make(text, length, message, &answer) && pending_answered(&relay->pending, number))
			output_add(&relay->output, bytes_first(&answer), bytes_length(&answer), number);
		else if (!pending_settle(&relay->pending, number))
			break;
		bytes_free(&answer);
	}
	if (!relay->reported)
		fprintf(stderr, "cl-mcp-shim: the daemon (cl-mcpd) cannot be reached: %s\n", relay->dial.reason);
	relay->reported = true;
	relay->trouble_since = NEVER;
	flush_output(relay);
}

/* The next attempt comes after a pause that grows from one to the next. */
static void dial_later(struct relay *relay)
{
	uint64_t longest = relay->pending.waiting ? LONGEST_PAUSE : LONGEST_IDLE_PAUSE;

	relay->dialling = false;
	relay->tried_at = clock_ms();
	relay->retry_at = relay->tried_at + relay->pause;
	relay->pause = relay->pause ? relay->pause * 2 : FIRST_PAUSE;
	if (relay->pause > longest)
		relay->pause = longest;
}

static void lose_link(struct relay *relay, const char *why)
{
	close(relay->link);
	relay->link = -1;
	relay->congested = false;
	inbox_free(&relay->inbox);
	pending_rewind(&relay->pending);
	snprintf(relay->dial.reason, sizeof(relay->dial.reason), "%s", why);
	dial_later(relay);
}

/* ---- to the daemon */

static bool send_small(struct relay *relay, uint8_t type)
{
	struct frame_builder frame = {0};

	frame_begin(&frame, type);
	frame_end(&frame);
	/* Five bytes go whole or not at all. */
	ssize_t sent = send(relay->link, frame.data, frame.length, MSG_DONTWAIT | MSG_NOSIGNAL);
	frame_builder_free(&frame);
	return sent > 0;
}

/* Sends what the socket takes. A broken connection shows when it is read, with whatever was said before the end. */
static void flush_link(struct relay *relay)
{
	struct iovec pieces[GATHER];
	struct msghdr message = {.msg_iov = pieces};

	if (!is_connected(relay))
		return;
	relay->congested = false;
	while ((message.msg_iovlen = pending_gather(&relay->pending, pieces, GATHER)) > 0) {
		ssize_t sent = sendmsg(relay->link, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
		if (sent < 0) {
			relay->congested = true;
			return;
		}
		pending_sent(&relay->pending, (size_t)sent);
	}
	if (relay->ping_due && send_small(relay, LINK_PING))
		relay->ping_due = false;
	if (relay->end_due && send_small(relay, LINK_END))
		relay->end_due = false;
	relay->congested = relay->ping_due || relay->end_due;
}

/* ---- from the client */

static void read_input(struct relay *relay)
{
	struct input_line line;
	enum input_status status;
	size_t space;
	void *room = input_room(&relay->input, &space);
	ssize_t length = read(STDIN_FILENO, room, space);

	if (length < 0 && (errno == EINTR || errno == EAGAIN))
		return;
	if (length > 0)
		input_added(&relay->input, (size_t)length);
	else
		input_end(&relay->input);
	bool waited = relay->pending.waiting > 0;
	while ((status = input_next(&relay->input, &line)) != INPUT_MORE) {
		if (status == INPUT_LINE)
			pending_add(&relay->pending, line.text, line.length);
		else
			pending_add_oversize(&relay->pending);
	}
	if (relay->input.ended) {
		relay->end_due = true;
		relay->progress_at = clock_ms();
	}
	if (is_connected(relay)) {
		/* Silence counts from the first line that waits. */
		if (!waited)
			relay->heard_at = clock_ms();
		flush_link(relay);
	} else if (!waited && relay->pending.waiting > 0) {
		relay->retry_at = relay->tried_at + SHORTEST_PAUSE;
		relay->pause = FIRST_PAUSE;
	}
}

/* ---- from the daemon */

/* The daemon is well: it has settled something, or answers pings. A new trouble begins from nothing. */
static void daemon_is_well(struct relay *relay)
{
	relay->trouble_since = NEVER;
	relay->pause = 0;
	if (relay->reported)
		fprintf(stderr, "cl-mcp-shim: the daemon is back\n");
	relay->reported = false;
}

/* It has taken us, but cannot serve us: somebody has to repair something first. */
static void take_refusal(struct relay *relay, const struct field *text)
{
	char why[sizeof(relay->dial.reason)];

	snprintf(why, sizeof(why), "%.*s", (int)text->length, text->data ? (const char *)text->data : "");
	lose_link(relay, why);
	answer_all(relay);
}

static void take_frame(struct relay *relay, struct frame *frame)
{
	struct field field, text = {0};
	uint64_t line = 0;

	while (frame_next(frame, &field) == FRAME_READY) {
		if (field.tag == LINK_TAG_TEXT)
			text = field;
		if (field.tag == LINK_TAG_LINE && !field_number(&field, &line))
			line = 0;
	}
	switch (frame->type) {
	case LINK_ANSWER:
		if (line && !pending_answered(&relay->pending, line))
			return; /* late: we have answered it ourselves, or it came twice */
		output_add(&relay->output, text.data, text.length, line);
		break;
	case LINK_SETTLED:
		if (!pending_settle(&relay->pending, line))
			return;
		break;
	case LINK_PONG:
		break;
	case LINK_REFUSED:
		take_refusal(relay, &text);
		return;
	default:
		return; /* of a newer version, perhaps */
	}
	if (line || frame->type == LINK_PONG)
		daemon_is_well(relay);
	if (line)
		relay->progress_at = relay->heard_at;
}

/* Takes the frames that have come, as long as the client takes the answers. */
static void take_frames(struct relay *relay)
{
	struct frame frame;

	while (output_waiting(&relay->output) < OUTPUT_MAX) {
		switch (inbox_next(&relay->inbox, &frame)) {
		case FRAME_READY:
			take_frame(relay, &frame);
			break;
		case FRAME_INCOMPLETE:
			flush_output(relay);
			return;
		case FRAME_BROKEN:
			lose_link(relay, "what it sends cannot be understood");
			flush_output(relay);
			return;
		}
		if (output_waiting(&relay->output) >= OUTPUT_MAX)
			flush_output(relay);
	}
}

static void read_link(struct relay *relay)
{
	long length = inbox_receive(&relay->inbox, relay->link);

	if (length == -EAGAIN || length == -EINTR)
		return;
	if (length <= 0) {
		lose_link(relay, "it closed the connection");
		return;
	}
	relay->heard_at = clock_ms();
	relay->asked_at = NEVER;
	take_frames(relay);
}

/* ---- connecting */

static void dialled(struct relay *relay, enum dial_status status)
{
	switch (status) {
	case DIAL_WAITING:
		relay->dialling = true;
		return;
	case DIAL_WELCOMED:
		relay->dialling = false;
		relay->link = relay->dial.descriptor;
		relay->dial.descriptor = -1;
		relay->heard_at = clock_ms();
		relay->asked_at = NEVER;
		relay->ping_due = false;
		relay->end_due = relay->input.ended;
		flush_link(relay);
		take_frames(relay); /* some may have come with the welcome */
		return;
	case DIAL_HOPELESS:
		dial_later(relay);
		/* Also said when nobody has asked yet: a person may be looking. */
		answer_all(relay);
		return;
	case DIAL_NOBODY:
	case DIAL_FAILED:
		dial_later(relay);
		return;
	}
}

static void dial_now(struct relay *relay)
{
	/* A daemon that was ended on purpose is not started again before somebody needs it. */
	bool may_start = !relay->tried || relay->pending.waiting > 0;

	relay->tried = true;
	relay->hello.lines_read = relay->pending.last_number;
	relay->hello.lines_settled = pending_settled_up_to(&relay->pending);
	dialled(relay, dial_begin(&relay->dial, &relay->hello, &relay->inbox, may_start));
}

/* ---- time */

/* The daemon's silence counts only while something waits for it and while we listen. */
static bool counts_silence(const struct relay *relay)
{
	return is_connected(relay) && relay->pending.waiting > 0 && output_waiting(&relay->output) < OUTPUT_MAX;
}

static uint64_t silence_deadline(const struct relay *relay)
{
	if (!counts_silence(relay))
		return NEVER;
	if (relay->asked_at == NEVER)
		return relay->heard_at + relay->dial.timeout * 3 / 10;
	return relay->asked_at + relay->dial.timeout / 2;
}

static uint64_t end_deadline(const struct relay *relay)
{
	return relay->input.ended && !relay->options->wait ? relay->progress_at + END_WAIT : NEVER;
}

/*
 * The first trouble is given all the time there is. Lines that come while it lasts wait only for the attempt that is
 * under way, and a little more: two shims may be starting a daemon at once.
 */
static uint64_t give_up_deadline(const struct relay *relay)
{
	if (is_connected(relay) || relay->pending.waiting == 0 || relay->trouble_since == NEVER)
		return NEVER;
	if (relay->reported && !relay->dialling)
		return relay->trouble_since + relay->dial.timeout / 10;
	return relay->trouble_since + relay->dial.timeout;
}

static void keep_time(struct relay *relay, uint64_t now)
{
	if (!is_connected(relay) && relay->dialling && now >= relay->dial.deadline)
		dialled(relay, dial_continue(&relay->dial));
	else if (!is_connected(relay) && !relay->dialling && now >= relay->retry_at)
		dial_now(relay);
	if (!is_connected(relay) && relay->pending.waiting > 0 && relay->trouble_since == NEVER)
		relay->trouble_since = now;
	if (now >= give_up_deadline(relay))
		answer_all(relay);
	if (now >= silence_deadline(relay)) {
		if (relay->asked_at != NEVER) {
			/* The trouble began when it first did not answer, not when we stopped waiting. */
			uint64_t began = relay->asked_at;
			lose_link(relay, SILENT);
			relay->trouble_since = relay->trouble_since == NEVER ? began : relay->trouble_since;
			return;
		}
		relay->asked_at = now;
		relay->ping_due = true;
		flush_link(relay);
	}
}

static int until(uint64_t deadline, uint64_t now, int shortest)
{
	if (deadline == NEVER)
		return shortest;
	uint64_t left = deadline > now ? deadline - now : 0;
	if (left > 60000)
		left = 60000;
	return shortest < 0 || (int)left < shortest ? (int)left : shortest;
}

static int next_timeout(const struct relay *relay, uint64_t now)
{
	int timeout = -1;

	if (!is_connected(relay))
		timeout = until(relay->dialling ? relay->dial.deadline : relay->retry_at, now, timeout);
	timeout = until(give_up_deadline(relay), now, timeout);
	timeout = until(silence_deadline(relay), now, timeout);
	return until(end_deadline(relay), now, timeout);
}

/* ---- the loop */

enum { POLL_INPUT, POLL_OUTPUT, POLL_DAEMON, POLL_STOP, POLL_COUNT };

static void wait_for_events(struct relay *relay, struct pollfd polls[static POLL_COUNT])
{
	bool full = relay->pending.memory > UNSETTLED_MAX || relay->congested;

	polls[POLL_STOP] = (struct pollfd){.fd = relay->options->stop, .events = POLLIN};
	polls[POLL_INPUT] = (struct pollfd){.fd = relay->input.ended || full ? -1 : STDIN_FILENO, .events = POLLIN};
	/* Asked for nothing, stdout still tells when the client has closed it. */
	polls[POLL_OUTPUT] = (struct pollfd){.fd = relay->output.descriptor};
	if (output_waiting(&relay->output) > 0)
		polls[POLL_OUTPUT].events = POLLOUT;
	polls[POLL_DAEMON] = (struct pollfd){.fd = -1};
	if (relay->dialling)
		polls[POLL_DAEMON] = (struct pollfd){.fd = relay->dial.descriptor, .events = POLLIN};
	if (is_connected(relay)) {
		if (output_waiting(&relay->output) < OUTPUT_MAX)
			polls[POLL_DAEMON].events |= POLLIN;
		if (relay->congested)
			polls[POLL_DAEMON].events |= POLLOUT;
		/* A hang-up is always reported, so what we do not listen to must not be asked at all. */
		if (polls[POLL_DAEMON].events)
			polls[POLL_DAEMON].fd = relay->link;
	}
	if (poll(polls, POLL_COUNT, next_timeout(relay, clock_ms())) < 0)
		for (int i = 0; i < POLL_COUNT; i++)
			polls[i].revents = 0;
}

static void serve(struct relay *relay, const struct pollfd polls[static POLL_COUNT])
{
	if (polls[POLL_STOP].revents || polls[POLL_OUTPUT].revents & (POLLERR | POLLHUP | POLLNVAL)) {
		relay->gone = true;
		return;
	}
	if (polls[POLL_OUTPUT].revents & POLLOUT) {
		bool was_full = output_waiting(&relay->output) >= OUTPUT_MAX;

		flush_output(relay);
		if (was_full && is_connected(relay) && output_waiting(&relay->output) < OUTPUT_MAX) {
			/* We were not listening: its silence was ours. */
			relay->heard_at = clock_ms();
			relay->asked_at = NEVER;
			take_frames(relay);
		}
	}
	if (polls[POLL_INPUT].revents)
		read_input(relay);
	if (polls[POLL_DAEMON].revents && relay->dialling) {
		dialled(relay, dial_continue(&relay->dial));
		return;
	}
	if (polls[POLL_DAEMON].revents & POLLOUT)
		flush_link(relay);
	if (polls[POLL_DAEMON].revents & ~POLLOUT && is_connected(relay))
		read_link(relay);
}

static bool is_finished(struct relay *relay)
{
	if (relay->gone)
		return true;
	if (!relay->input.ended)
		return false;
	if (relay->pending.waiting == 0 && output_waiting(&relay->output) == 0)
		return true;
	if (clock_ms() < end_deadline(relay))
		return false;
	if (counts_silence(relay) && relay->asked_at != NEVER)
		lose_link(relay, SILENT);
	if (!is_connected(relay))
		answer_all(relay);
	return true;
}

void relay_run(const struct relay_options *options)
{
	struct relay relay = {
		.options = options,
		.link = -1,
		.trouble_since = NEVER,
		.asked_at = NEVER,
		.hello.wish = options->wish,
	};
	struct pollfd polls[POLL_COUNT];

	output_init(&relay.output, STDOUT_FILENO);
	dial_init(&relay.dial);
	dial_make_nonce(relay.hello.nonce);
	dial_now(&relay);
	while (!is_finished(&relay)) {
		wait_for_events(&relay, polls);
		serve(&relay, polls);
		keep_time(&relay, clock_ms());
	}
	output_finish_line(&relay.output);
	if (is_connected(&relay))
		close(relay.link);
	inbox_free(&relay.inbox);
	input_free(&relay.input);
	output_free(&relay.output);
	pending_free(&relay.pending);
}
