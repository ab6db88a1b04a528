/*
 * form.h - where a Lisp form ends in a text, so that the prompt knows when to evaluate and when to ask for more.
 *
 * It knows lists, strings, comments, |symbols|, characters and the prefixes of the standard readtable. It does not
 * read: whatever it takes for a form is judged by the Lisp that evaluates it.
 */
#ifndef FORM_H
#define FORM_H

#include <stddef.h>

enum form_status {
	FORM_NONE,       /* nothing but blanks and comments */
	FORM_INCOMPLETE, /* something is open: more lines are needed */
	FORM_COMPLETE,   /* the first form ends at *end */
};

/* text is whole lines: its end is the end of a symbol. */
enum form_status form_scan(const char *text, size_t length, size_t *end) __attribute__((warn_unused_result));

#endif
