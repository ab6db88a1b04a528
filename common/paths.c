/*
 * paths.c - computing the places of paths.h.
 */
#include "paths.h"

#include <errno.h>
#include <limits.h>
#include <pwd.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int print(char *out, size_t size, const char *format, ...) __attribute__((format(printf, 3, 4)));

static int print(char *out, size_t size, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	int length = vsnprintf(out, size, format, arguments);
	va_end(arguments);
	return length < 0 || (size_t)length >= size ? -ENAMETOOLONG : 0;
}

int paths_socket(char out[static PATHS_SOCKET_SIZE])
{
	const char *given = getenv("CL_MCPD_SOCKET");
	char session[64];
	struct stat status;
	unsigned uid = geteuid();

	if (given && *given)
		return print(out, PATHS_SOCKET_SIZE, "%s", given);
	snprintf(session, sizeof(session), "/run/user/%u", uid);
	if (lstat(session, &status) == 0 && S_ISDIR(status.st_mode) && status.st_uid == uid)
		return print(out, PATHS_SOCKET_SIZE, "%s/cl-mcpd/socket", session);
	return print(out, PATHS_SOCKET_SIZE, "/tmp/cl-mcpd-%u/socket", uid);
}

int paths_runtime_directory(const char *socket_path, char *out, size_t size)
{
	const char *slash = strrchr(socket_path, '/');

	if (!slash)
		return print(out, size, ".");
	if (slash == socket_path)
		return print(out, size, "/");
	return print(out, size, "%.*s", (int)(slash - socket_path), socket_path);
}

int paths_beside(const char *directory, const char *name, char out[static PATHS_SOCKET_SIZE])
{
	return print(out, PATHS_SOCKET_SIZE, "%s/%s", directory, name);
}

int paths_state_directory(char *out, size_t size)
{
	const char *state = getenv("XDG_STATE_HOME");
	const char *home = getenv("HOME");

	if (state && *state == '/')
		return print(out, size, "%s/cl-mcpd", state);
	if (!home || *home != '/') {
		const struct passwd *entry = getpwuid(geteuid());
		if (!entry)
			return -ENOENT;
		home = entry->pw_dir;
	}
	return print(out, size, "%s/.local/state/cl-mcpd", home);
}

int paths_make_private(const char *path)
{
	char part[PATH_MAX];
	struct stat status;

	if (print(part, sizeof(part), "%s", path) < 0)
		return -ENAMETOOLONG;
	for (char *slash = strchr(part + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		if (mkdir(part, 0755) < 0 && errno != EEXIST)
			return -errno;
		*slash = '/';
	}
	if (mkdir(part, 0700) < 0 && errno != EEXIST)
		return -errno;
	if (lstat(part, &status) < 0)
		return -errno;
	if (!S_ISDIR(status.st_mode) || status.st_uid != geteuid() || (status.st_mode & 077))
		return -EPERM;
	return 0;
}

int paths_sibling(const char *program, char *out, size_t size)
{
	static const char *const installed[] = {CL_MCP_LIBEXECDIR, CL_MCP_BINDIR};
	char self[PATH_MAX];
	ssize_t length = readlink("/proc/self/exe", self, sizeof(self) - 1);

	if (length > 0) {
		self[length] = '\0';
		*strrchr(self, '/') = '\0';
		if (print(out, size, "%s/%s", self, program) == 0 && access(out, X_OK) == 0)
			return 0;
	}
	for (size_t i = 0; i < sizeof(installed) / sizeof(*installed); i++)
		if (print(out, size, "%s/%s", installed[i], program) == 0 && access(out, X_OK) == 0)
			return 0;
	return -ENOENT;
}
