/*
 * interrupt.h - stopping a running evaluation from outside.
 */
#ifndef INTERRUPT_H
#define INTERRUPT_H

#include <stdbool.h>
#include <stdint.h>

/* False if this build knows too little about the machine or about ECL to interrupt anything. */
bool interrupt_is_possible(void);
/* Once, in the zygote, when Lisp has booted. */
void interrupt_init(void);
/* In every new process, on its main thread; can be called again after a fork. */
void interrupt_enable(void);

/* The evaluation that may be interrupted from now on. Only inside its frame. */
void interrupt_begin(uint64_t seq);
void interrupt_end(void);

/* Asks the main thread to stop that evaluation; harmless if another one runs. Has to be repeated until it has ended. */
void interrupt_send(uint64_t seq);

/*
 * Called by the compiled runtime (host.lisp) behind what takes long and cannot be left meanwhile: code that does little
 * else would hardly ever be found at a moment when it can.
 */
void interrupt_point(void);

/* True if code at the context's program counter must not be jumped out of. */
bool interrupt_is_unsafe_at(const void *context);

#endif
