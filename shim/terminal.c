/*
 * terminal.c - libedit behind terminal.h.
 */
#include "config.h"

#include "terminal.h"

#include <errno.h>
#include <fcntl.h>
#include <histedit.h>
#include <langinfo.h>
#include <locale.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <wchar.h>

#define HISTORY_LINES 1000
#define CTRL_D '\004'

struct terminal {
	EditLine *editor;
	History *history;
	char *history_path;
	const char *prompt;
	const volatile sig_atomic_t *interrupted;
	sigset_t waiting_mask; /* while waiting for a key */
};

/* libedit knows no client data in this handler. */
static volatile sig_atomic_t resized;

static void on_resize(int number)
{
	(void)number;
	resized = 1;
}

static char *prompt_of(EditLine *editor)
{
	struct terminal *terminal = NULL;

	el_get(editor, EL_CLIENTDATA, &terminal);
	return (char *)(uintptr_t)terminal->prompt;
}

/* Instead of libedit's own: it would not come back from a signal that it does not know. */
static int read_character(EditLine *editor, wchar_t *character)
{
	struct terminal *terminal = NULL;
	mbstate_t state = {0};

	el_get(editor, EL_CLIENTDATA, &terminal);
	for (;;) {
		struct pollfd wait = {.fd = STDIN_FILENO, .events = POLLIN};
		char byte;

		/* The signals are blocked but for this wait, so that none comes unseen between a look and the wait. */
		int ready = *terminal->interrupted ? -1 : ppoll(&wait, 1, NULL, &terminal->waiting_mask);
		if (*terminal->interrupted)
			return -1;
		if (resized)
			el_resize(editor);
		resized = 0;
		if (ready < 0)
			continue;
		ssize_t length = read(STDIN_FILENO, &byte, 1);
		if (length < 0 && errno == EINTR)
			continue;
		if (length <= 0)
			return (int)length;
		/* While a form runs the terminal is not ours, and a Ctrl-D typed then reaches us as a NUL. */
		if (byte == '\0')
			byte = CTRL_D;
		size_t result = mbrtowc(character, &byte, 1, &state);
		if (result == (size_t)-2)
			continue;
		if (result != (size_t)-1)
			return 1;
		state = (mbstate_t){0}; /* no character of this locale */
	}
}

/* Without a locale libedit would take UTF-8 for control characters. */
static void choose_locale(void)
{
	setlocale(LC_CTYPE, "");
	if (strcmp(nl_langinfo(CODESET), "ANSI_X3.4-1968") == 0)
		setlocale(LC_CTYPE, "C.UTF-8");
}

static void set_history(struct terminal *terminal, const char *path)
{
	HistEvent event;

	terminal->history = history_init();
	if (!terminal->history)
		abort();
	history(terminal->history, &event, H_SETSIZE, HISTORY_LINES);
	history(terminal->history, &event, H_SETUNIQUE, 1);
	el_set(terminal->editor, EL_HIST, history, terminal->history);
	if (!path)
		return;
	/* Made before libedit writes it, so that it is never readable to others; and not through somebody's link. */
	int file = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (file < 0)
		return;
	fchmod(file, 0600);
	close(file);
	terminal->history_path = strdup(path);
	history(terminal->history, &event, H_LOAD, path);
}

struct terminal *terminal_open(const char *history_path, const volatile sig_atomic_t *interrupted)
{
	struct terminal *terminal = calloc(1, sizeof(*terminal));
	struct sigaction resize = {.sa_handler = on_resize};

	if (!terminal)
		abort();
	choose_locale();
	terminal->interrupted = interrupted;
	terminal->editor = el_init("cl-mcpctl", stdin, stdout, stderr);
	if (!terminal->editor)
		abort();
	sigaction(SIGWINCH, &resize, NULL);
	el_set(terminal->editor, EL_CLIENTDATA, terminal);
	el_set(terminal->editor, EL_PROMPT, prompt_of);
	el_set(terminal->editor, EL_EDITOR, "emacs");
	el_set(terminal->editor, EL_SIGNAL, 0);
	el_set(terminal->editor, EL_GETCFN, read_character);
	el_set(terminal->editor, EL_BIND, "^R", "em-inc-search-prev", NULL);
	el_set(terminal->editor, EL_BIND, "\t", "ed-insert", NULL);
	set_history(terminal, history_path);
	el_source(terminal->editor, NULL);
	return terminal;
}

enum terminal_status terminal_read(struct terminal *terminal, const char *prompt, const char **line, size_t *length)
{
	int count = 0;
	sigset_t blocked;

	sigemptyset(&blocked);
	sigaddset(&blocked, SIGINT);
	sigaddset(&blocked, SIGWINCH);
	sigprocmask(SIG_BLOCK, &blocked, &terminal->waiting_mask);
	terminal->prompt = prompt;
	/* Before the prompt is shown, not after it as libedit would: what is typed at once must not be echoed twice. */
	el_set(terminal->editor, EL_PREP_TERM, 1);
	*line = el_gets(terminal->editor, &count);
	sigprocmask(SIG_SETMASK, &terminal->waiting_mask, NULL);
	if (*terminal->interrupted)
		return TERMINAL_INTERRUPTED;
	if (!*line || count <= 0)
		return TERMINAL_END;
	*length = (size_t)count;
	return TERMINAL_LINE;
}

void terminal_remember(struct terminal *terminal, const char *line)
{
	HistEvent event;

	history(terminal->history, &event, H_ENTER, line);
	if (terminal->history_path)
		history(terminal->history, &event, H_SAVE, terminal->history_path);
}

void terminal_close(struct terminal *terminal)
{
	history_end(terminal->history);
	el_end(terminal->editor);
	free(terminal->history_path);
	free(terminal);
}
