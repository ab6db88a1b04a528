/*
 * paths.h - where the socket, the database and the other programs are.
 *
 * MCP clients start servers with little more than HOME and PATH, so everything is computed, nothing depends on
 * XDG_RUNTIME_DIR. All functions return 0 or a negative errno; -ENAMETOOLONG if a path does not fit.
 */
#ifndef PATHS_H
#define PATHS_H

#include <stddef.h>

/* A socket's path with its NUL: what struct sockaddr_un holds. */
#define PATHS_SOCKET_SIZE 108

/* $CL_MCPD_SOCKET, or "socket" in the user's runtime directory. Makes nothing. */
int paths_socket(char out[static PATHS_SOCKET_SIZE]) __attribute__((warn_unused_result));

/* The directory that holds the socket at path: the lock and the sockets of zygote and workers stand there too. */
int paths_runtime_directory(const char *socket_path, char *out, size_t size) __attribute__((warn_unused_result));

/* A file beside the socket. */
int paths_beside(const char *directory, const char *name, char out[static PATHS_SOCKET_SIZE])
	__attribute__((warn_unused_result));

/* $XDG_STATE_HOME/cl-mcpd or ~/.local/state/cl-mcpd; HOME from passwd if it is not set. Makes nothing. */
int paths_state_directory(char *out, size_t size) __attribute__((warn_unused_result));

/*
 * Makes the directory and its missing parents, the last one with mode 0700. -EPERM unless it is then a directory, no
 * symbolic link, of ours, that nobody else can enter.
 */
int paths_make_private(const char *path) __attribute__((warn_unused_result));

/* The program of that name: beside the running one (as in a build tree), else where it was installed. -ENOENT if in
 * neither. */
int paths_sibling(const char *program, char *out, size_t size) __attribute__((warn_unused_result));

#endif
