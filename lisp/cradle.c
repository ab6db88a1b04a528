/*
 * cradle.c - a datagram with two descriptors and the sender's credentials, and the answer to it.
 *
 * One datagram holds all, so that the zygote never waits for the rest of it.
 */
#include "config.h"

#include "cradle.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "paths.h"
#include "request.h"

#define PATIENCE_S 2 /* the zygote never does anything that takes long */
#define DESCRIPTORS 2

enum sent { LINEAGE, LINE };

union control {
	struct cmsghdr aligned;
	char bytes[CMSG_SPACE(sizeof(struct ucred)) + CMSG_SPACE(DESCRIPTORS * sizeof(int))];
};

static int address_of(const char *directory, struct sockaddr_un *address)
{
	*address = (struct sockaddr_un){.sun_family = AF_UNIX};
	return paths_beside(directory, WORKLINK_CRADLE_SOCKET, address->sun_path);
}

/* ---- in the zygote */

int cradle_open(const char *directory)
{
	struct sockaddr_un address;
	int on = 1, result = address_of(directory, &address);

	if (result < 0)
		return result;
	int cradle = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (cradle < 0)
		return -errno;
	unlink(address.sun_path); /* a dead zygote's: only one can get here */
	if (setsockopt(cradle, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)) < 0 ||
		bind(cradle, (struct sockaddr *)&address, sizeof(address)) < 0) {
		result = -errno;
		close(cradle);
		return result;
	}
	return cradle;
}

static void close_all(const int fds[], size_t count)
{
	for (size_t i = 0; i < count; i++)
		close(fds[i]);
}

/* How many descriptors have come. */
static size_t read_control(struct msghdr *message, struct ucred *sender, int fds[static DESCRIPTORS])
{
	size_t count = 0;

	*sender = (struct ucred){.pid = 0, .uid = (uid_t)-1};
	for (struct cmsghdr *part = CMSG_FIRSTHDR(message); part; part = CMSG_NXTHDR(message, part)) {
		if (part->cmsg_level != SOL_SOCKET)
			continue;
		if (part->cmsg_type == SCM_CREDENTIALS && part->cmsg_len == CMSG_LEN(sizeof(*sender)))
			memcpy(sender, CMSG_DATA(part), sizeof(*sender));
		/* There is no room for more of them, and they come in one piece. */
		if (part->cmsg_type == SCM_RIGHTS && part->cmsg_len <= CMSG_LEN(DESCRIPTORS * sizeof(int))) {
			count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
			memcpy(fds, CMSG_DATA(part), count * sizeof(int));
		}
	}
	return count;
}

/* False if nothing was received. */
static bool receive(int cradle, struct newborn *newborn, bool *makes_sense)
{
	struct iovec text = {.iov_base = newborn->session, .iov_len = WORKLINK_SESSION_ID_LENGTH};
	union control control;
	struct msghdr message = {.msg_iov = &text,
		.msg_iovlen = 1,
		.msg_control = control.bytes,
		.msg_controllen = sizeof(control.bytes)};
	ssize_t length = recvmsg(cradle, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	int fds[DESCRIPTORS];
	struct ucred sender;

	if (length < 0)
		return false;
	size_t count = read_control(&message, &sender, fds);
	newborn->session[length] = '\0';
	newborn->pid = sender.pid;
	newborn->lineage = count == DESCRIPTORS ? lineage_open(fds[LINEAGE]) : NULL;
	*makes_sense = newborn->lineage && sender.uid == geteuid() && !(message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) &&
		request_is_session_id(newborn->session);
	if (*makes_sense) {
		newborn->line = fds[LINE];
		close(fds[LINEAGE]);
		return true;
	}
	if (newborn->lineage)
		lineage_free(newborn->lineage);
	close_all(fds, count);
	return true;
}

bool cradle_receive(int cradle, struct newborn *newborn)
{
	bool makes_sense = false;

	while (!makes_sense && receive(cradle, newborn, &makes_sense))
		;
	return makes_sense;
}

static void say(const struct newborn *newborn, const char *bytes, size_t length)
{
	/* If it cannot be said the clone is gone, and we shall see that. */
	(void)!send(newborn->line, bytes, length, MSG_DONTWAIT | MSG_NOSIGNAL);
}

void cradle_agree(const struct newborn *newborn)
{
	say(newborn, "", 1);
}

void cradle_refuse(const struct newborn *newborn, const char *why)
{
	say(newborn, why, strlen(why));
	close(newborn->line);
	lineage_free(newborn->lineage);
}

/* ---- in the clone */

static int send_announcement(const char *directory, const char *session, const int fds[static DESCRIPTORS])
{
	static const struct timeval patience = {.tv_sec = PATIENCE_S};
	struct iovec text = {.iov_base = (char *)session, .iov_len = strlen(session)};
	struct sockaddr_un address;
	union control control = {0};
	struct msghdr message = {.msg_name = &address,
		.msg_namelen = sizeof(address),
		.msg_iov = &text,
		.msg_iovlen = 1,
		.msg_control = control.bytes,
		.msg_controllen = CMSG_SPACE(DESCRIPTORS * sizeof(int))};
	struct cmsghdr *rights = CMSG_FIRSTHDR(&message);
	int result = address_of(directory, &address);

	if (result < 0)
		return result;
	rights->cmsg_level = SOL_SOCKET;
	rights->cmsg_type = SCM_RIGHTS;
	rights->cmsg_len = CMSG_LEN(DESCRIPTORS * sizeof(int));
	memcpy(CMSG_DATA(rights), fds, DESCRIPTORS * sizeof(int));
	int from = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (from < 0)
		return -errno;
	setsockopt(from, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
	result = sendmsg(from, &message, MSG_NOSIGNAL) < 0 ? -errno : 0;
	close(from);
	return result;
}

/* False, with the reason, if the zygote does not agree. */
static bool hear_agreement(int line, char *why, size_t size)
{
	struct pollfd answer = {.fd = line, .events = POLLIN};
	ssize_t length = -1;

	if (poll(&answer, 1, PATIENCE_S * 1000) > 0)
		length = recv(line, why, size - 1, MSG_DONTWAIT);
	if (length == 1 && why[0] == '\0')
		return true;
	if (length > 0)
		why[length] = '\0';
	else
		snprintf(why, size, "the zygote does not answer");
	return false;
}

int cradle_announce(const char *directory, const char *session, int lineage, char *why, size_t size)
{
	int ends[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0) {
		snprintf(why, size, "cannot talk to the zygote: %s", strerror(errno));
		return -1;
	}
	int fds[DESCRIPTORS] = {[LINEAGE] = lineage, [LINE] = ends[1]};
	int result = send_announcement(directory, session, fds);
	close(ends[1]);
	if (result < 0)
		snprintf(why, size, "the zygote is gone (%s)", strerror(-result));
	if (result == 0 && hear_agreement(ends[0], why, size))
		return ends[0];
	close(ends[0]);
	return -1;
}
