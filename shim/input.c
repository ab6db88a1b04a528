/*
 * input.c - splitting the client's bytes into lines.
 */
#include "input.h"

#include <string.h>

#include "frame.h"

/* What one read asks for: a pipe's whole capacity. */
#define READ_SIZE (64u << 10)

static void take(struct input *input, size_t length)
{
	bytes_taken(&input->bytes, length);
	input->searched = 0;
}

/* The caller is done with the line that it was given. */
static void take_given(struct input *input)
{
	if (input->given)
		take(input, input->given);
	input->given = 0;
}

void *input_room(struct input *input, size_t *space)
{
	take_given(input);
	return bytes_room(&input->bytes, READ_SIZE, space);
}

void input_added(struct input *input, size_t length)
{
	bytes_added(&input->bytes, length);
}

void input_end(struct input *input)
{
	input->ended = true;
}

static bool is_blank(const char *text, size_t length)
{
	for (size_t i = 0; i < length; i++)
		if (text[i] != ' ' && text[i] != '\t' && text[i] != '\r')
			return false;
	return true;
}

/* Drops the rest of a line that was too long; true once its end was seen. */
static bool drop(struct input *input)
{
	size_t length = bytes_length(&input->bytes);
	const uint8_t *first = bytes_first(&input->bytes);
	const uint8_t *end = length ? memchr(first, '\n', length) : NULL;

	take(input, end ? (size_t)(end - first) + 1 : length);
	input->dropping = !end;
	return end;
}

enum input_status input_next(struct input *input, struct input_line *line)
{
	for (;;) {
		take_given(input);
		if (input->dropping && !drop(input))
			return INPUT_MORE;
		size_t length = bytes_length(&input->bytes);
		if (length == 0)
			return INPUT_MORE;
		const char *first = (const char *)bytes_first(&input->bytes);
		const char *end = memchr(first + input->searched, '\n', length - input->searched);
		size_t line_length = end ? (size_t)(end - first) : length;

		if (line_length > FRAME_LINE_MAX) {
			input->dropping = true;
			return INPUT_OVERSIZE;
		}
		if (!end && !input->ended) {
			input->searched = length;
			return INPUT_MORE;
		}
		input->given = end ? line_length + 1 : line_length;
		if (!is_blank(first, line_length)) {
			*line = (struct input_line){first, line_length};
			return INPUT_LINE;
		}
	}
}

void input_free(struct input *input)
{
	bytes_free(&input->bytes);
	*input = (struct input){0};
}
