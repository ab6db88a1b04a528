/*
 * zygote.h - the process that has Lisp ready and forks a worker for each session.
 */
#ifndef ZYGOTE_H
#define ZYGOTE_H

struct zygote_options {
	const char *runtime_directory;
	char *program;
	unsigned linger_seconds; /* without a daemon and without workers */
	int lock;                /* the directory, open and locked by who started us, or -1 */
};

/* The program's exit status. */
int zygote_run(const struct zygote_options *options);

#endif
