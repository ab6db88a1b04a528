/*
 * dial.h - finding the user's daemon, or starting it, and shaking hands with it.
 *
 * An attempt is begun, then continued whenever its descriptor is readable or its deadline has come, until it ends. So a
 * program can serve others meanwhile; dial_wait is for those that have nothing else to do.
 */
#ifndef DIAL_H
#define DIAL_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#include "frame.h"
#include "inbox.h"
#include "link.h"
#include "paths.h"
#include "wish.h"

/* How long a daemon may take, in milliseconds, unless CL_MCP_DAEMON_TIMEOUT says otherwise (in seconds). */
#define DIAL_DEFAULT_TIMEOUT 10000

/* What is said about ourselves in the hello. */
struct dial_hello {
	uint8_t nonce[LINK_NONCE_SIZE];
	uint64_t lines_read;
	uint64_t lines_settled;
	struct wish wish;
};

enum dial_status {
	DIAL_WAITING,  /* go on when the descriptor is readable or the deadline has come */
	DIAL_WELCOMED, /* the descriptor is the connection; it is the caller's now */
	DIAL_NOBODY,   /* no daemon runs, and none was to be started */
	DIAL_FAILED,   /* not now; the next attempt may do better. See reason */
	DIAL_HOPELESS, /* somebody has to repair something first. See reason */
};

struct dial {
	char socket[PATHS_SOCKET_SIZE];
	char directory[PATHS_SOCKET_SIZE]; /* that holds the socket, the lock and the log */
	uint64_t timeout;
	char reason[512];    /* why the last attempt failed, a clause without a full stop */
	uint64_t daemon_pid; /* as the daemon itself says */
	int descriptor;      /* what to poll for reading, -1 between attempts */
	uint64_t deadline;

	enum { DIAL_STAGE_NONE, DIAL_STAGE_STARTING, DIAL_STAGE_GREETING } stage;
	const struct dial_hello *hello;
	struct inbox *inbox;
	char said[400]; /* by a daemon that starts */
	size_t said_length;
};

/* Computes the places and reads the time-out. If that fails every attempt will be hopeless, with the reason. */
void dial_init(struct dial *dial);

/* A nonce from the kernel. */
void dial_make_nonce(uint8_t nonce[static LINK_NONCE_SIZE]);

/*
 * Begins an attempt. may_start: start a daemon if nobody answers. hello and inbox are used until the attempt ends;
 * frames that come right behind the welcome are in inbox.
 */
enum dial_status dial_begin(struct dial *dial, const struct dial_hello *hello, struct inbox *inbox, bool may_start)
	__attribute__((warn_unused_result));
enum dial_status dial_continue(struct dial *dial) __attribute__((warn_unused_result));

/*
 * Tries again and again until the time-out: ends in anything but DIAL_WAITING. A signal that *interrupted tells of
 * ends it with DIAL_FAILED; interrupted may be NULL.
 */
enum dial_status dial_wait(struct dial *dial, const struct dial_hello *hello, struct inbox *inbox, bool may_start,
	const volatile sig_atomic_t *interrupted) __attribute__((warn_unused_result));

#endif
