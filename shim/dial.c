/*
 * dial.c - the way to a daemon: connect, else start one and connect, then hello and welcome.
 */
#include "config.h"

#include "dial.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "clock.h"
#include "start.h"

#define FIRST_PAUSE 10
#define LONGEST_PAUSE 500

static enum dial_status end_attempt(struct dial *dial, enum dial_status status)
{
	if (dial->descriptor >= 0)
		close(dial->descriptor);
	dial->descriptor = -1;
	dial->stage = DIAL_STAGE_NONE;
	return status;
}

static enum dial_status fail(struct dial *dial, enum dial_status status, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

static enum dial_status fail(struct dial *dial, enum dial_status status, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(dial->reason, sizeof(dial->reason), format, arguments);
	va_end(arguments);
	return end_attempt(dial, status);
}

static uint64_t configured_timeout(void)
{
	const char *text = getenv("CL_MCP_DAEMON_TIMEOUT");
	char *end;

	if (!text || !*text)
		return DIAL_DEFAULT_TIMEOUT;
	double seconds = strtod(text, &end);
	if (*end || !(seconds >= 0.1 && seconds <= 3600)) {
		fprintf(stderr, "CL_MCP_DAEMON_TIMEOUT must be a number of seconds from 0.1 to 3600; taking %d.\n",
			DIAL_DEFAULT_TIMEOUT / 1000);
		return DIAL_DEFAULT_TIMEOUT;
	}
	return (uint64_t)(seconds * 1000);
}

/* The daemon runs in /, so a path relative to our directory would mean two places. */
static int absolute_socket(char out[static PATHS_SOCKET_SIZE])
{
	char given[PATHS_SOCKET_SIZE], here[PATH_MAX];
	int result = paths_socket(given);

	if (result < 0)
		return result;
	if (given[0] == '/')
		memcpy(out, given, sizeof(given));
	else if (!getcwd(here, sizeof(here)))
		return -errno;
	else
		result = paths_beside(here, given, out);
	return result;
}

void dial_init(struct dial *dial)
{
	*dial = (struct dial){.descriptor = -1, .timeout = configured_timeout()};
	int result = absolute_socket(dial->socket);

	if (result == 0)
		result = paths_runtime_directory(dial->socket, dial->directory, sizeof(dial->directory));
	if (result < 0)
		dial->socket[0] = '\0';
}

void dial_make_nonce(uint8_t nonce[static LINK_NONCE_SIZE])
{
	if (getrandom(nonce, LINK_NONCE_SIZE, 0) != LINK_NONCE_SIZE)
		abort();
}

static bool send_hello(const struct dial *dial)
{
	const struct dial_hello *hello = dial->hello;
	struct frame_builder frame = {0};
	char directory[PATH_MAX];

	frame_begin(&frame, LINK_HELLO);
	frame_put_number(&frame, LINK_TAG_VERSION, LINK_VERSION);
	frame_put(&frame, LINK_TAG_NONCE, hello->nonce, LINK_NONCE_SIZE);
	frame_put_number(&frame, LINK_TAG_LINES_READ, hello->lines_read);
	frame_put_number(&frame, LINK_TAG_LINES_SETTLED, hello->lines_settled);
	/* A directory that was removed under us has no name; any that exists is better then. */
	frame_put_text(&frame, LINK_TAG_DIRECTORY, getcwd(directory, sizeof(directory)) ? directory : "/");
	if (hello->wish.session)
		frame_put_text(&frame, LINK_TAG_SESSION, hello->wish.session);
	if (hello->wish.resume)
		frame_put_number(&frame, LINK_TAG_RESUME, 1);
	frame_end(&frame);
	/* It is the first on this socket, whose buffer is much larger. */
	bool sent =
		send(dial->descriptor, frame.data, frame.length, MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)frame.length;
	frame_builder_free(&frame);
	return sent;
}

/* Nobody but we ourselves and root may be at the other end: it will see all that the client says. */
static enum dial_status greet(struct dial *dial)
{
	struct ucred peer;
	socklen_t size = sizeof(peer);

	if (getsockopt(dial->descriptor, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0)
		return fail(dial, DIAL_FAILED, "who listens on %s cannot be known: %s", dial->socket, strerror(errno));
	if (peer.uid != geteuid() && peer.uid != 0)
		return fail(dial, DIAL_HOPELESS, "the process that listens on %s belongs to user %u and is not trusted",
			dial->socket, (unsigned)peer.uid);
	inbox_free(dial->inbox);
	dial->stage = DIAL_STAGE_GREETING;
	dial->deadline = clock_ms() + dial->timeout / 2;
	if (!send_hello(dial))
		return fail(dial, DIAL_FAILED, "it closed the connection at once");
	return DIAL_WAITING;
}

/* DIAL_NOBODY if nobody listens there (no reason of its own: that is no failure yet), DIAL_WAITING once the hello is
 * out. */
static enum dial_status connect_socket(struct dial *dial)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};

	memcpy(address.sun_path, dial->socket, sizeof(dial->socket));
	/* Not blocking: a daemon that hangs with a full queue would hold us here. */
	dial->descriptor = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (dial->descriptor < 0)
		return fail(dial, DIAL_FAILED, "no socket could be made: %s", strerror(errno));
	if (connect(dial->descriptor, (struct sockaddr *)&address, sizeof(address)) == 0)
		return greet(dial);
	if (errno == ENOENT || errno == ECONNREFUSED)
		return end_attempt(dial, DIAL_NOBODY);
	if (errno == EAGAIN)
		return fail(dial, DIAL_FAILED, "it does not accept connections on %s", dial->socket);
	return fail(dial, DIAL_HOPELESS, "%s cannot be used: %s", dial->socket, strerror(errno));
}

/* A directory that others can write to could hold anybody's socket. */
static bool directory_is_private(const struct dial *dial)
{
	struct stat status;

	if (lstat(dial->directory, &status) < 0)
		return errno == ENOENT;
	return S_ISDIR(status.st_mode) && status.st_uid == geteuid() && !(status.st_mode & 077);
}

static enum dial_status begin_start(struct dial *dial)
{
	int hopeless;
	char reason[sizeof(dial->reason)];
	int ready = start_daemon(dial->directory, dial->socket, reason, sizeof(reason), &hopeless);

	if (ready < 0)
		return fail(dial, hopeless ? DIAL_HOPELESS : DIAL_FAILED, "%s", reason);
	/* For whoever gives up before this attempt has ended; what an earlier one found is worth more. */
	if (!*dial->reason)
		snprintf(dial->reason, sizeof(dial->reason), "it was started but is not ready yet");
	dial->descriptor = ready;
	dial->stage = DIAL_STAGE_STARTING;
	dial->said_length = 0;
	dial->deadline = clock_ms() + dial->timeout;
	return DIAL_WAITING;
}

enum dial_status dial_begin(struct dial *dial, const struct dial_hello *hello, struct inbox *inbox, bool may_start)
{
	dial->hello = hello;
	dial->inbox = inbox;
	if (!*dial->socket)
		return fail(dial, DIAL_HOPELESS,
			"the path of its socket is longer than %d characters: set CL_MCPD_SOCKET to a shorter one",
			PATHS_SOCKET_SIZE - 1);
	if (!directory_is_private(dial))
		return fail(dial, DIAL_HOPELESS, "the directory %s must be yours and closed to others (mode 0700)",
			dial->directory);
	enum dial_status status = connect_socket(dial);
	if (status != DIAL_NOBODY)
		return status;
	if (may_start)
		return begin_start(dial);
	return fail(dial, DIAL_NOBODY, "nobody listens on %s", dial->socket);
}

/*
 * The starting daemon has spoken or is gone. In either case somebody may listen now: it, or the one that another shim
 * started a moment earlier and to which it gave way.
 */
static enum dial_status started(struct dial *dial)
{
	char said[sizeof(dial->said)];

	close(dial->descriptor);
	dial->descriptor = -1;
	memcpy(said, dial->said, dial->said_length);
	said[dial->said_length] = '\0';
	said[strcspn(said, "\n")] = '\0';
	enum dial_status status = connect_socket(dial);
	if (status != DIAL_NOBODY)
		return status;
	if (*said && strcmp(said, "ready") != 0)
		return fail(dial, DIAL_FAILED, "it did not start: %s", said);
	return fail(dial, DIAL_FAILED, "it ended as soon as it was started; see %s/%s", dial->directory, START_LOG);
}

static enum dial_status continue_start(struct dial *dial)
{
	size_t room = sizeof(dial->said) - 1 - dial->said_length;
	ssize_t length = read(dial->descriptor, dial->said + dial->said_length, room);

	if (length > 0) {
		dial->said_length += (size_t)length;
		if ((size_t)length < room && !memchr(dial->said, '\n', dial->said_length))
			return DIAL_WAITING;
		return started(dial);
	}
	if (length == 0)
		return started(dial);
	if (errno != EAGAIN && errno != EINTR)
		return started(dial);
	if (clock_ms() >= dial->deadline)
		return fail(dial, DIAL_FAILED, "it was started but is not ready after %.1f s; see %s/%s",
			(double)dial->timeout / 1000, dial->directory, START_LOG);
	return DIAL_WAITING;
}

static enum dial_status welcome(struct dial *dial, struct frame *frame)
{
	uint64_t version = 0;
	struct field field;

	while (frame_next(frame, &field) == FRAME_READY) {
		if (field.tag == LINK_TAG_VERSION && !field_number(&field, &version))
			version = 0;
		if (field.tag == LINK_TAG_PID && !field_number(&field, &dial->daemon_pid))
			dial->daemon_pid = 0;
	}
	if (version != LINK_VERSION)
		return fail(dial, DIAL_HOPELESS,
			"the running daemon speaks version %llu of the link and this program version %d: "
			"run 'cl-mcpctl shutdown' of the daemon's version, or restart the client",
			(unsigned long long)version, LINK_VERSION);
	dial->stage = DIAL_STAGE_NONE;
	return DIAL_WELCOMED;
}

static enum dial_status refused(struct dial *dial, struct frame *frame)
{
	struct field field;
	char *text = NULL;

	while (!text && frame_next(frame, &field) == FRAME_READY)
		if (field.tag == LINK_TAG_TEXT)
			text = field_text(&field, sizeof(dial->reason) - 64);
	enum dial_status status = fail(dial, DIAL_HOPELESS, "it refused us: %s", text ? text : "it did not say why");
	free(text);
	return status;
}

static enum dial_status continue_greeting(struct dial *dial)
{
	struct frame frame;
	long length = inbox_receive(dial->inbox, dial->descriptor);

	if (length == 0 || (length < 0 && length != -EAGAIN && length != -EINTR))
		return fail(dial, DIAL_FAILED, "it closed the connection without a welcome");
	switch (inbox_next(dial->inbox, &frame)) {
	case FRAME_READY:
		if (frame.type == LINK_WELCOME)
			return welcome(dial, &frame);
		if (frame.type == LINK_REFUSED)
			return refused(dial, &frame);
		break;
	case FRAME_INCOMPLETE:
		if (clock_ms() < dial->deadline)
			return DIAL_WAITING;
		return fail(dial, DIAL_FAILED, "it does not answer on %s (no welcome within %.1f s)", dial->socket,
			(double)dial->timeout / 2000);
	case FRAME_BROKEN:
		break;
	}
	return fail(dial, DIAL_FAILED, "what answers on %s does not speak as cl-mcpd does", dial->socket);
}

enum dial_status dial_continue(struct dial *dial)
{
	return dial->stage == DIAL_STAGE_STARTING ? continue_start(dial) : continue_greeting(dial);
}

enum dial_status dial_wait(struct dial *dial, const struct dial_hello *hello, struct inbox *inbox, bool may_start,
	const volatile sig_atomic_t *interrupted)
{
	uint64_t give_up = clock_ms() + dial->timeout;
	uint64_t pause = FIRST_PAUSE;

	for (;;) {
		enum dial_status status = dial_begin(dial, hello, inbox, may_start);

		while (status == DIAL_WAITING) {
			struct pollfd wait = {.fd = dial->descriptor, .events = POLLIN};
			uint64_t now = clock_ms();

			if (poll(&wait, 1, dial->deadline > now ? (int)(dial->deadline - now) : 0) < 0 && interrupted &&
				*interrupted)
				return fail(dial, DIAL_FAILED, "interrupted");
			status = dial_continue(dial);
		}
		if (status != DIAL_FAILED || clock_ms() + pause >= give_up)
			return status;
		if (poll(NULL, 0, (int)pause) < 0 && interrupted && *interrupted)
			return fail(dial, DIAL_FAILED, "interrupted");
		pause = pause * 2 < LONGEST_PAUSE ? pause * 2 : LONGEST_PAUSE;
	}
}
