/*
 * utf8.c - checking, writing and repairing UTF-8.
 */
#include "utf8.h"

#include <stdlib.h>
#include <string.h>

#define REPLACEMENT 0xFFFD

size_t utf8_sequence(const uint8_t *text, size_t length, uint32_t *code)
{
	static const uint32_t smallest[] = {0, 0, 0x80, 0x800, 0x10000};
	uint32_t value;
	size_t size;

	if (length == 0)
		return 0;
	if (text[0] < 0x80) {
		*code = text[0];
		return 1;
	}
	if (text[0] < 0xC2 || text[0] > 0xF4)
		return 0;
	size = text[0] < 0xE0 ? 2 : text[0] < 0xF0 ? 3 : 4;
	if (size > length)
		return 0;
	value = text[0] & (0x7Fu >> size);
	for (size_t i = 1; i < size; i++) {
		if ((text[i] & 0xC0) != 0x80)
			return 0;
		value = value << 6 | (text[i] & 0x3Fu);
	}
	if (value < smallest[size] || value > 0x10FFFF || (value >= 0xD800 && value <= 0xDFFF))
		return 0;
	*code = value;
	return size;
}

/* Most text is ASCII: eight bytes at a time until one is not. */
static size_t ascii_prefix(const uint8_t *text, size_t length)
{
	size_t at = 0;
	uint64_t word;

	for (; at + sizeof(word) <= length; at += sizeof(word)) {
		memcpy(&word, text + at, sizeof(word));
		if (word & UINT64_C(0x8080808080808080))
			break;
	}
	while (at < length && text[at] < 0x80)
		at++;
	return at;
}

bool utf8_valid(const void *text, size_t length)
{
	const uint8_t *bytes = text;
	uint32_t code;

	for (size_t at = 0; at < length;) {
		at += ascii_prefix(bytes + at, length - at);
		if (at == length)
			break;
		size_t size = utf8_sequence(bytes + at, length - at, &code);
		if (size == 0)
			return false;
		at += size;
	}
	return true;
}

size_t utf8_whole_characters(const void *text, size_t length)
{
	const uint8_t *bytes = text;
	uint32_t code;

	for (size_t back = 1; back <= 4 && back <= length; back++)
		if ((bytes[length - back] & 0xC0) != 0x80)
			return utf8_sequence(bytes + length - back, back, &code) ? length : length - back;
	return length;
}

size_t utf8_encode(uint32_t code, char out[static 4])
{
	if (code > 0x10FFFF || (code >= 0xD800 && code <= 0xDFFF))
		code = REPLACEMENT;
	if (code < 0x80) {
		out[0] = (char)code;
		return 1;
	}
	if (code < 0x800) {
		out[0] = (char)(0xC0 | code >> 6);
		out[1] = (char)(0x80 | (code & 0x3F));
		return 2;
	}
	if (code < 0x10000) {
		out[0] = (char)(0xE0 | code >> 12);
		out[1] = (char)(0x80 | (code >> 6 & 0x3F));
		out[2] = (char)(0x80 | (code & 0x3F));
		return 3;
	}
	out[0] = (char)(0xF0 | code >> 18);
	out[1] = (char)(0x80 | (code >> 12 & 0x3F));
	out[2] = (char)(0x80 | (code >> 6 & 0x3F));
	out[3] = (char)(0x80 | (code & 0x3F));
	return 4;
}

char *utf8_repair(const void *text, size_t length, size_t *out_length)
{
	const uint8_t *bytes = text;
	char *out = malloc(length * 3 + 4);
	size_t used = 0;
	uint32_t code;

	if (!out)
		abort();
	for (size_t at = 0; at < length;) {
		size_t plain = ascii_prefix(bytes + at, length - at);
		memcpy(out + used, bytes + at, plain);
		used += plain;
		at += plain;
		if (at == length)
			break;
		size_t size = utf8_sequence(bytes + at, length - at, &code);
		used += utf8_encode(size ? code : REPLACEMENT, out + used);
		at += size ? size : 1;
	}
	out[used] = '\0';
	*out_length = used;
	return out;
}
