/*
 * unixsocket.h - Unix sockets that are only ours.
 */
#ifndef UNIXSOCKET_H
#define UNIXSOCKET_H

/* A connected, non-blocking socket to a process of our own user; else a negative errno. */
int unixsocket_connect(const char *path) __attribute__((warn_unused_result));

/*
 * A listening, non-blocking socket. Bound under another name and then renamed, so that whoever finds the path can
 * connect. A negative errno otherwise.
 */
int unixsocket_listen(const char *path) __attribute__((warn_unused_result));

/* The pid of the process at the other end if that is our own user's, else -EPERM. */
int unixsocket_check_peer(int fd) __attribute__((warn_unused_result));

#endif
