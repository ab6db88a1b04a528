/*
 * listener.h - listening sockets in the runtime directory, and who may connect to them.
 */
#ifndef LISTENER_H
#define LISTENER_H

/*
 * Listens on a socket of that name. It is made under another name and renamed once it listens, so that whoever finds
 * it can connect. A socket that stood there is replaced. The descriptor, or a negative errno.
 */
int listener_open(const char *directory, const char *name) __attribute__((warn_unused_result));

/* The next connection of a peer with our own uid, non-blocking; -EAGAIN if there is none, others are turned away. */
int listener_accept(int listener) __attribute__((warn_unused_result));

#endif
