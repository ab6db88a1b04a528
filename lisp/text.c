/*
 * text.c - decoding what comes in and encoding what goes out.
 */
#include "config.h"

#include "text.h"

#include <string.h>

#include "utf8.h"

#define PIECE 512

cl_object text_to_lisp(const void *text, size_t length)
{
	const uint8_t *bytes = text;
	size_t characters = 0;
	uint32_t code;

	for (size_t at = 0; at < length; characters++) {
		size_t size = utf8_sequence(bytes + at, length - at, &code);
		if (size == 0)
			return NULL;
		at += size;
	}
	if (characters == length) {
		cl_object plain = ecl_alloc_simple_base_string(length);
		memcpy(plain->base_string.self, bytes, length);
		return plain;
	}
	cl_object wide = ecl_alloc_simple_extended_string(characters);
	for (size_t at = 0, index = 0; index < characters; index++) {
		at += utf8_sequence(bytes + at, length - at, &code);
		wide->string.self[index] = (ecl_character)code;
	}
	return wide;
}

/* Most text is ASCII in base strings: those runs go out as they are. A base character above 127 is Latin-1. */
static void encode_base(const uint8_t *from, const uint8_t *end, text_sink *sink, void *context)
{
	while (from < end) {
		const uint8_t *run = from;
		char encoded[4];

		while (run < end && *run < 0x80)
			run++;
		if (run > from)
			sink(context, (const char *)from, (size_t)(run - from));
		if (run < end) {
			sink(context, encoded, utf8_encode(*run, encoded));
			run++;
		}
		from = run;
	}
}

void text_from_lisp(cl_object string, size_t start, size_t end, text_sink *sink, void *context)
{
	char piece[PIECE];
	size_t used = 0;

	if (ecl_t_of(string) == t_base_string) {
		encode_base(string->base_string.self + start, string->base_string.self + end, sink, context);
		return;
	}
	for (size_t at = start; at < end; at++) {
		used += utf8_encode((uint32_t)string->string.self[at], piece + used);
		if (used > sizeof(piece) - 4) {
			sink(context, piece, used);
			used = 0;
		}
	}
	if (used > 0)
		sink(context, piece, used);
}

struct copy {
	char *out;
	size_t size;
	size_t used;
};

static void copy_piece(void *context, const char *bytes, size_t length)
{
	struct copy *copy = context;

	if (length > copy->size - copy->used)
		length = copy->size - copy->used;
	memcpy(copy->out + copy->used, bytes, length);
	copy->used += length;
}

size_t text_copy(cl_object string, char *out, size_t size)
{
	struct copy copy = {.out = out, .size = size};

	text_from_lisp(string, 0, ecl_length(string), copy_piece, &copy);
	while (copy.used > 0 && !utf8_valid(out, copy.used))
		copy.used--;
	return copy.used;
}
