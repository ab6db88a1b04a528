/*
 * statefile.h - where the states of hibernated sessions are: states/ID.lisp beside the database.
 */
#ifndef STATEFILE_H
#define STATEFILE_H

#include <limits.h>
#include <stdbool.h>

struct server;

/* False, with a log message, if there is no directory of ours for it. */
bool statefile_prepare(const struct server *server, const char *id, char path[static PATH_MAX]);
/* The path alone. */
void statefile_path(const struct server *server, const char *id, char path[static PATH_MAX]);
/* What the row is to say of it. */
void statefile_name(const char *id, char name[static 64]);
/* It may not be there. */
void statefile_remove(const struct server *server, const char *id);

#endif
