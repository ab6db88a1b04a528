/*
 * limits.h - what an evaluation may use up, and its restoration.
 */
#ifndef LIMITS_H
#define LIMITS_H

#include <stdbool.h>
#include <stddef.h>

/* What this build can do at all, see recipes.h. */
bool limits_stacks_are_possible(void);
bool limits_float_traps_are_possible(void);

/* Once, in the zygote, when Lisp has booted. Replaces ECL's handler of stack overflows. */
void limits_init(void);
/* Gives ECL its own handler back. */
void limits_leave_stacks_alone(void);

/* What the next evaluations may use, in bytes; 0: the default. */
void limits_set_heap(size_t size);
/* The same, for the runtime (host.lisp). */
long limits_heap(void);
/* Heap, stacks, float traps, signal mask: as if nothing had happened. After every evaluation, outside its frame. */
void limits_restore(bool after_jump);

/* Who jumps out of a signal handler needs this: the kernel starts handlers with all traps masked. */
void limits_restore_float_traps(void);

/* Before a fork: a heap that has grown much may be mostly free again, and each copy would have to map it. */
void limits_give_back(void);

#endif
