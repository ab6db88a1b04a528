/*
 * statefile.h - where the states of sessions are, beside the database: states/ID.lisp of hibernated ones, and of others
 * what was written last, states/ID.saved.
 */
#ifndef STATEFILE_H
#define STATEFILE_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

struct server;

/* False, with a log message, if there is no directory of ours for it. */
bool statefile_prepare(const struct server *server, const char *id, char path[static PATH_MAX]);
/* The path alone. */
void statefile_path(const struct server *server, const char *id, char path[static PATH_MAX]);
/* Of the one that is written while the session goes on: states/ID.saved. */
void statefile_saved_path(const struct server *server, const char *id, char path[static PATH_MAX]);
/* The evaluation that it was written after; 0 if there is none. */
uint64_t statefile_saved_seq(const struct server *server, const char *id);
/* What the session was hibernated into becomes that. */
void statefile_demote(const struct server *server, const char *id);
/* What the row is to say of it. */
void statefile_name(const char *id, char name[static 64]);
/* What it was hibernated into, and what was to become that; it may not be there. */
void statefile_remove(const struct server *server, const char *id);
/* All that there is. */
void statefile_forget(const struct server *server, const char *id);

#endif
