/*
 * text.h - a piece of text that grows at its end. Always NUL-terminated once something was added.
 */
#ifndef TEXT_H
#define TEXT_H

#include <stddef.h>

struct text {
	char *data;
	size_t length;
	size_t capacity;
};

void text_add(struct text *text, const void *data, size_t length);
void text_puts(struct text *text, const char *string);
void text_printf(struct text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
void text_free(struct text *text);

#endif
