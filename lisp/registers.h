/*
 * registers.h - what a signal handler must know about the interrupted code, for each machine.
 *
 * Needs <ucontext.h> alone, so that it can be compiled for a machine that has no Lisp here. On a machine that is not
 * listed REGISTERS_KNOWN is 0: whoever depends on registers has to do without.
 */
#ifndef REGISTERS_H
#define REGISTERS_H

#include <stdint.h>
#include <ucontext.h>

#if defined(__x86_64__)

#define REGISTERS_KNOWN 1

static inline uintptr_t registers_program_counter(const ucontext_t *context)
{
	return (uintptr_t)context->uc_mcontext.gregs[REG_RIP];
}

static inline uintptr_t registers_stack_pointer(const ucontext_t *context)
{
	return (uintptr_t)context->uc_mcontext.gregs[REG_RSP];
}

/* Where a system call leaves its result, a negative errno if it failed. */
static inline intptr_t registers_result(const ucontext_t *context)
{
	return (intptr_t)context->uc_mcontext.gregs[REG_RAX];
}

#elif defined(__aarch64__)

#define REGISTERS_KNOWN 1

static inline uintptr_t registers_program_counter(const ucontext_t *context)
{
	return (uintptr_t)context->uc_mcontext.pc;
}

static inline uintptr_t registers_stack_pointer(const ucontext_t *context)
{
	return (uintptr_t)context->uc_mcontext.sp;
}

static inline intptr_t registers_result(const ucontext_t *context)
{
	return (intptr_t)context->uc_mcontext.regs[0];
}

#else

#define REGISTERS_KNOWN 0

static inline uintptr_t registers_program_counter(const ucontext_t *context)
{
	(void)context;
	return 0;
}

static inline uintptr_t registers_stack_pointer(const ucontext_t *context)
{
	(void)context;
	return 0;
}

static inline intptr_t registers_result(const ucontext_t *context)
{
	(void)context;
	return 0;
}

#endif
#endif
