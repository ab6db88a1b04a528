/*
 * repl.h - a Lisp prompt on a session.
 */
#ifndef REPL_H
#define REPL_H

/* session may be NULL: a new one. Returns the exit status. */
int repl_run(const char *session);

#endif
