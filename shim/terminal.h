/*
 * terminal.h - lines from a person: editing and history by libedit.
 */
#ifndef TERMINAL_H
#define TERMINAL_H

#include <signal.h>
#include <stddef.h>

struct terminal;

enum terminal_status {
	TERMINAL_LINE,        /* *line, with its LF, is valid until the next call */
	TERMINAL_END,         /* Ctrl-D on an empty line */
	TERMINAL_INTERRUPTED, /* Ctrl-C: *interrupted was set; the caller clears it */
};

/* history_path may be NULL: then nothing is kept. interrupted is what the handler of SIGINT sets. */
struct terminal *terminal_open(const char *history_path, const volatile sig_atomic_t *interrupted);
enum terminal_status terminal_read(struct terminal *terminal, const char *prompt, const char **line, size_t *length);
/* Adds a line to the history, on disk too. */
void terminal_remember(struct terminal *terminal, const char *line);
void terminal_close(struct terminal *terminal);

#endif
