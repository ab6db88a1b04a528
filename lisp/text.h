/*
 * text.h - between Lisp's strings and UTF-8.
 */
#ifndef TEXT_H
#define TEXT_H

#include <ecl/ecl.h>
#include <stddef.h>
#include <stdint.h>

/* A Lisp string, or NULL if the text is not UTF-8. Allocates on the Lisp heap: only inside an evaluation. */
cl_object text_to_lisp(const void *text, size_t length);

/* Calls sink with pieces of the string's characters from start to end in UTF-8; lone surrogates become U+FFFD. */
typedef void text_sink(void *context, const char *bytes, size_t length);
void text_from_lisp(cl_object string, size_t start, size_t end, text_sink *sink, void *context);

/* The whole string into out, cut at a character's end if it does not fit; the number of bytes. */
size_t text_copy(cl_object string, char *out, size_t size);

#endif
