/*
 * repl.h - a Lisp prompt on a session.
 */
#ifndef REPL_H
#define REPL_H

#include "wish.h"

/* Returns the exit status. */
int repl_run(const struct wish *wish);

#endif
