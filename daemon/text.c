/*
 * text.c - growing text.
 */
#include "text.h"

#include "alloc.h"

#include <stdarg.h>
#include <stdio.h>

/* Most answers fit, so that they grow no further. */
#define SMALLEST 1024

void text_grow(struct text *text, size_t length)
{
	text->capacity = text->length + length < SMALLEST ? SMALLEST : (text->length + length + 1) * 2;
	text->data = must(realloc(text->data, text->capacity));
}

void text_puts(struct text *text, const char *string)
{
	text_add(text, string, strlen(string));
}

void text_printf(struct text *text, const char *format, ...)
{
	char piece[512];
	va_list arguments;

	va_start(arguments, format);
	int length = vsnprintf(piece, sizeof(piece), format, arguments);
	va_end(arguments);
	if (length < 0)
		return;
	if ((size_t)length < sizeof(piece)) {
		text_add(text, piece, (size_t)length);
		return;
	}
	char *whole = must(malloc((size_t)length + 1));
	va_start(arguments, format);
	vsnprintf(whole, (size_t)length + 1, format, arguments);
	va_end(arguments);
	text_add(text, whole, (size_t)length);
	free(whole);
}

void text_free(struct text *text)
{
	free(text->data);
	*text = (struct text){0};
}
