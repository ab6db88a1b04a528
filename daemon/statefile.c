/*
 * statefile.c - paths of state files, and their end.
 */
#include "statefile.h"

#include "log.h"
#include "paths.h"
#include "server.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define DIRECTORY "states"
#define FIRST_LINE "; after evaluation "

static void put_path(const struct server *server, const char *id, const char *type, char path[static PATH_MAX])
{
	int length = snprintf(path, PATH_MAX, "%s/" DIRECTORY "/%s.%s", server->state_directory, id, type);

	if (length >= PATH_MAX)
		path[0] = '\0'; /* nothing can be there */
}

void statefile_path(const struct server *server, const char *id, char path[static PATH_MAX])
{
	put_path(server, id, "lisp", path);
}

void statefile_saved_path(const struct server *server, const char *id, char path[static PATH_MAX])
{
	put_path(server, id, "saved", path);
}

/* lisp/state.lisp writes that line first. */
uint64_t statefile_saved_seq(const struct server *server, const char *id)
{
	char path[PATH_MAX], line[64] = "";
	uint64_t seq = 0;

	statefile_saved_path(server, id, path);
	FILE *file = fopen(path, "re");
	if (!file)
		return 0;
	if (fgets(line, sizeof(line), file) && strncmp(line, FIRST_LINE, sizeof(FIRST_LINE) - 1) == 0)
		seq = strtoull(line + sizeof(FIRST_LINE) - 1, NULL, 10);
	fclose(file);
	return seq;
}

void statefile_demote(const struct server *server, const char *id)
{
	char from[PATH_MAX], to[PATH_MAX];

	statefile_path(server, id, from);
	statefile_saved_path(server, id, to);
	if (rename(from, to) < 0)
		log_warning("%s cannot be renamed: %s", from, strerror(errno));
}

void statefile_name(const char *id, char name[static 64])
{
	snprintf(name, 64, DIRECTORY "/%s.lisp", id);
}

bool statefile_prepare(const struct server *server, const char *id, char path[static PATH_MAX])
{
	char directory[PATH_MAX];
	int length = snprintf(directory, sizeof(directory), "%s/" DIRECTORY, server->state_directory);
	int result = length < PATH_MAX ? paths_make_private(directory) : -1;

	statefile_path(server, id, path);
	if (result < 0)
		log_error("%s is no directory of ours: no session can be hibernated", directory);
	return result == 0 && *path;
}

/* lisp/state.lisp writes the last one and renames it. */
static const char *const types[] = {"saved", "lisp", "new"};

static void remove_from(const struct server *server, const char *id, size_t first)
{
	char path[PATH_MAX];

	for (size_t i = first; i < sizeof(types) / sizeof(*types); i++) {
		put_path(server, id, types[i], path);
		unlink(path);
	}
}

void statefile_remove(const struct server *server, const char *id)
{
	remove_from(server, id, 1);
}

void statefile_forget(const struct server *server, const char *id)
{
	remove_from(server, id, 0);
}
