/*
 * globals.h - whether user code has changed a global variable that reading depends on, see globals.lisp.
 */
#ifndef GLOBALS_H
#define GLOBALS_H

#include <ecl/ecl.h>
#include <stdbool.h>

/* Both are simple vectors: symbols, and the values that they had when globals_note was called last. */
bool globals_differ(cl_object symbols, cl_object values);
void globals_note(cl_object symbols, cl_object values);

#endif
