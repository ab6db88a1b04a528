/*
 * zygote.h - the process that has Lisp ready and forks a worker for each session.
 */
#ifndef ZYGOTE_H
#define ZYGOTE_H

struct zygote_options {
	const char *runtime_directory;
	char *program;
	unsigned linger_seconds; /* without a daemon and without workers */
};

/* The program's exit status. */
int zygote_run(const struct zygote_options *options);

#endif
