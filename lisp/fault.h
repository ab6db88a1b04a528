/*
 * fault.h - segmentation faults: overflow of the C stack, ECL's guard page, and the end.
 */
#ifndef FAULT_H
#define FAULT_H

#include <stdbool.h>

bool fault_is_possible(void);
/* Handlers and the alternate stack, in every new process on its main thread; can be called again after a fork. */
void fault_enable(void);

#endif
