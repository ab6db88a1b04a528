/*
 * sessionlock.h - the proof that a session has a process, or has none.
 *
 * A socket that refuses tells nothing: the worker may be dead and its copy not listening yet. The lock of a file beside
 * the socket belongs to the worker and all its copies together, and the kernel lets go of it when the last of them is
 * gone. So nobody takes a session for dead whose process lives, and a session never has two.
 */
#ifndef SESSIONLOCK_H
#define SESSIONLOCK_H

#include <stdbool.h>

/* A descriptor that keeps the lock, also in forked children; or -EWOULDBLOCK if another process has it. */
int sessionlock_take(const char *runtime_directory, const char *session) __attribute__((warn_unused_result));
/* True also if that cannot be known just now: who believes that nobody is there makes another one. */
bool sessionlock_is_held(const char *runtime_directory, const char *session);
/* Removes the file. Its lock must be nobody's. */
void sessionlock_remove(const char *runtime_directory, const char *session);

#endif
