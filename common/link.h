/*
 * link.h - what a shim and the daemon say to each other, in the frames of frame.h.
 *
 * The shim numbers the lines that it reads from its client, from 1, and keeps each until it is settled: by an ANSWER
 * that names it and is fully on stdout, or by SETTLED. After a lost connection it says HELLO with the same nonce and
 * sends again what is not settled; the daemon knows a line by (nonce, line) and never runs one twice.
 */
#ifndef LINK_H
#define LINK_H

#define LINK_VERSION 1
#define LINK_NONCE_SIZE 16
/* A request may stay open for days; what was said behind it is settled all the same. */
#define LINK_OPEN_MAX 8

/* Shim to daemon. */
enum link_to_daemon {
	LINK_HELLO = 'H', /* VERSION, NONCE, LINES_READ, LINES_SETTLED, DIRECTORY, perhaps SESSION or RESUME */
	LINK_LINE = 'L',  /* LINE, LINES_SETTLED, TEXT, perhaps OPEN: one line of the client's, without its line end */
	LINK_OVERSIZE = 'O', /* LINE: the client's line was longer than FRAME_LINE_MAX and was dropped */
	LINK_END = 'E',      /* the client has closed its output: no line will follow */
	LINK_PING = 'P',     /* are you alive? answered by PONG at once */
};

/* Daemon to shim. */
enum link_to_shim {
	LINK_WELCOME = 'W', /* VERSION, PID */
	LINK_ANSWER = 'A',  /* TEXT: a line for the client; LINE: the line that it settles, absent for notifications */
	LINK_SETTLED = 'S', /* LINE: nothing more will be said about it */
	LINK_PONG = 'p',
	LINK_REFUSED =
		'X', /* TEXT: why this shim cannot be served, for a person to read; the connection is then closed */
};

enum link_tag {
	LINK_TAG_VERSION = 1,       /* number */
	LINK_TAG_NONCE = 2,         /* LINK_NONCE_SIZE bytes */
	LINK_TAG_LINES_READ = 3,    /* number: the last line that the shim has read */
	LINK_TAG_LINES_SETTLED = 4, /* number: all lines up to this one are settled, save those that OPEN names */
	LINK_TAG_DIRECTORY = 5,     /* text: where the client runs; a new session starts there */
	LINK_TAG_SESSION = 6,       /* text: the session asked for by id or name */
	LINK_TAG_LINE = 7,          /* number */
	LINK_TAG_TEXT = 8,          /* bytes */
	LINK_TAG_PID = 9,           /* number */
	LINK_TAG_RESUME = 10,       /* number, not 0: the session used last is asked for; SESSION comes before it */
	LINK_TAG_OPEN = 11, /* number, up to LINK_OPEN_MAX of them: a line before LINES_SETTLED that is not settled */
};

#endif
