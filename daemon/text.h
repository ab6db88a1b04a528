/*
 * text.h - a piece of text that grows at its end. Always NUL-terminated once something was added.
 */
#ifndef TEXT_H
#define TEXT_H

#include <stddef.h>
#include <string.h>

struct text {
	char *data;
	size_t length;
	size_t capacity;
};

/* Makes room for so many bytes more and the NUL. */
void text_grow(struct text *text, size_t length);

/* Inline, because an answer is made of hundreds of pieces. */
static inline void text_add(struct text *text, const void *data, size_t length)
{
	if (length >= text->capacity - text->length)
		text_grow(text, length);
	if (length)
		memcpy(text->data + text->length, data, length);
	text->length += length;
	text->data[text->length] = '\0';
}

void text_puts(struct text *text, const char *string);
void text_printf(struct text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
void text_free(struct text *text);

#endif
