/*
 * statefile.c - paths of state files, and their end.
 */
#include "statefile.h"

#include "log.h"
#include "paths.h"
#include "server.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define DIRECTORY "states"

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

void statefile_remove(const struct server *server, const char *id)
{
	static const char *const types[] = {"lisp", "new"}; /* lisp/state.lisp writes the latter and renames it */
	char path[PATH_MAX];

	for (size_t i = 0; i < sizeof(types) / sizeof(*types); i++) {
		put_path(server, id, types[i], path);
		unlink(path);
	}
}
