/*
 * nesting.h - how deep Lisp code is nested, without reading it.
 *
 * Reading and compiling code recurse; what is nested too deep ends in an exhausted stack. It is cheaper, and clearer,
 * to say so beforehand.
 */
#ifndef NESTING_H
#define NESTING_H

#include <stddef.h>

/* Counts parentheses outside of strings, symbols in bars, characters and comments. */
size_t nesting_depth(const char *code, size_t length);

#endif
