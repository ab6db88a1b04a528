/*
 * registers.c - uses everything in lisp/registers.h, so that it is compiled for machines that no test runs on.
 */
#include "registers.h"

#if !REGISTERS_KNOWN
#error "this machine's registers are not known"
#endif

/* In a handler, on the stack of the interrupted code: its pc is some place, its sp lies above ours. */
int registers_look_sane(const ucontext_t *context);

int registers_look_sane(const ucontext_t *context)
{
	char here;

	return registers_program_counter(context) != 0 && registers_stack_pointer(context) > (uintptr_t)&here &&
		registers_result(context) >= INTPTR_MIN;
}
