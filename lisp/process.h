/*
 * process.h - telling a process from another one that got its pid later.
 *
 * A pid and the time when the process began, in one number, so that it can be written at once where others read it.
 */
#ifndef PROCESS_H
#define PROCESS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* A process that is there, or has not been reaped. 0 if it is not. */
uint64_t process_identify(pid_t pid);
pid_t process_pid(uint64_t process);
/* When it began, in clock ticks since boot; 0 if unknown. */
uint64_t process_start(pid_t pid);

/* One that has died and was not reaped yet does not live. */
bool process_is_alive(uint64_t process);
/* Returns when it is dead, or after so many milliseconds (-1: never); at once if there is none. */
void process_await_end(uint64_t process, int timeout_ms);
/* Kills it, and no other. */
void process_kill(uint64_t process);

#endif
