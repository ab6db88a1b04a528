/*
 * frame.c - building and reading the frames of frame.h.
 */
#include "frame.h"

#include <stdlib.h>
#include <string.h>

static void put_u32(uint8_t *at, uint32_t value)
{
	for (int i = 0; i < 4; i++)
		at[i] = (uint8_t)(value >> (8 * i));
}

static uint32_t get_u32(const uint8_t *at)
{
	return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

static uint8_t *grow(struct frame_builder *builder, size_t more)
{
	if (builder->length + more > builder->capacity) {
		size_t capacity = builder->capacity ? builder->capacity : 256;

		while (capacity < builder->length + more)
			capacity *= 2;
		builder->data = realloc(builder->data, capacity);
		if (!builder->data)
			abort(); /* adoption after a crash is the tested path, see docs/decisions */
		builder->capacity = capacity;
	}
	uint8_t *at = builder->data + builder->length;
	builder->length += more;
	return at;
}

void frame_begin(struct frame_builder *builder, uint8_t type)
{
	builder->length = 0;
	grow(builder, FRAME_HEADER)[4] = type;
}

void frame_put(struct frame_builder *builder, uint8_t tag, const void *data, size_t length)
{
	uint8_t *at = grow(builder, FRAME_FIELD_HEADER + length);

	at[0] = tag;
	put_u32(at + 1, (uint32_t)length);
	if (length)
		memcpy(at + FRAME_FIELD_HEADER, data, length);
}

void frame_put_text(struct frame_builder *builder, uint8_t tag, const char *text)
{
	frame_put(builder, tag, text, strlen(text));
}

void frame_put_number(struct frame_builder *builder, uint8_t tag, uint64_t number)
{
	uint8_t bytes[8];

	put_u32(bytes, (uint32_t)number);
	put_u32(bytes + 4, (uint32_t)(number >> 32));
	frame_put(builder, tag, bytes, sizeof(bytes));
}

void frame_end(struct frame_builder *builder)
{
	put_u32(builder->data, (uint32_t)(builder->length - 4));
}

void frame_builder_free(struct frame_builder *builder)
{
	free(builder->data);
	*builder = (struct frame_builder){0};
}

enum frame_status frame_open(const void *data, size_t length, struct frame *frame, size_t *size)
{
	const uint8_t *bytes = data;

	*size = FRAME_HEADER;
	if (length < 4)
		return FRAME_INCOMPLETE;
	uint32_t rest = get_u32(bytes);
	if (rest < 1 || rest > FRAME_MAX)
		return FRAME_BROKEN;
	*size = 4 + (size_t)rest;
	if (length < *size)
		return FRAME_INCOMPLETE;
	*frame = (struct frame){.type = bytes[4], .fields = bytes + FRAME_HEADER, .end = bytes + *size};
	return FRAME_READY;
}

enum frame_status frame_next(struct frame *frame, struct field *field)
{
	size_t left = (size_t)(frame->end - frame->fields);

	if (left == 0)
		return FRAME_INCOMPLETE;
	if (left < FRAME_FIELD_HEADER)
		return FRAME_BROKEN;
	uint32_t length = get_u32(frame->fields + 1);
	if (length > left - FRAME_FIELD_HEADER)
		return FRAME_BROKEN;
	*field = (struct field){.tag = frame->fields[0], .data = frame->fields + FRAME_FIELD_HEADER, .length = length};
	frame->fields += FRAME_FIELD_HEADER + length;
	return FRAME_READY;
}

bool field_number(const struct field *field, uint64_t *number)
{
	if (field->length != 8)
		return false;
	*number = (uint64_t)get_u32(field->data) | (uint64_t)get_u32(field->data + 4) << 32;
	return true;
}

char *field_text(const struct field *field, size_t limit)
{
	if (field->length > limit || memchr(field->data, '\0', field->length))
		return NULL;
	char *text = malloc(field->length + 1);
	if (!text)
		abort();
	if (field->length)
		memcpy(text, field->data, field->length);
	text[field->length] = '\0';
	return text;
}
