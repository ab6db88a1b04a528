/*
 * nesting.c - a scanner that knows as much of Lisp's syntax as hides a parenthesis.
 */
#include "nesting.h"

#include <string.h>

/* Behind the next delimiter that no backslash precedes. */
static size_t skip_quoted(const char *code, size_t length, size_t at, char delimiter)
{
	while (at < length && code[at] != delimiter)
		at += code[at] == '\\' ? 2 : 1;
	return at + 1;
}

static size_t skip_line(const char *code, size_t length, size_t at)
{
	const char *end = memchr(code + at, '\n', length - at);

	return end ? (size_t)(end - code) : length;
}

/* at is behind the opening bar; these comments nest. */
static size_t skip_block(const char *code, size_t length, size_t at)
{
	for (size_t depth = 1; at + 1 < length; at++)
		if (code[at] == '|' && code[at + 1] == '#') {
			at++;
			if (--depth == 0)
				return at + 1;
		} else if (code[at] == '#' && code[at + 1] == '|') {
			at++;
			depth++;
		}
	return length;
}

size_t nesting_depth(const char *code, size_t length)
{
	size_t depth = 0, deepest = 0, at = 0;

	while (at < length) {
		char c = code[at++];
		char next = at < length ? code[at] : '\0';

		if (c == '(' && ++depth > deepest)
			deepest = depth;
		else if (c == ')' && depth > 0)
			depth--;
		else if (c == '\\')
			at++;
		else if (c == '"' || c == '|')
			at = skip_quoted(code, length, at, c);
		else if (c == ';')
			at = skip_line(code, length, at);
		else if (c == '#' && next == '|')
			at = skip_block(code, length, at + 1);
		else if (c == '#' && next == '\\')
			at += 2;
	}
	return deepest;
}
