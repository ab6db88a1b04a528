/*
 * frame.h - the one wire format of all our private links.
 *
 *   frame = u32 length of what follows, u8 type, field*
 *   field = u8 tag, u32 length, bytes
 *
 * Integers are little-endian; a number in a field takes eight bytes. A reader
 * skips tags that it does not know, which is how programs of neighbouring
 * versions understand each other. Nothing that arrives is trusted: every
 * length is checked before a byte behind it is touched.
 */
#ifndef FRAME_H
#define FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FRAME_HEADER 5 /* length and type */
#define FRAME_FIELD_HEADER 5

/* The longest line that a client may send and the longest that it gets back. */
#define FRAME_LINE_MAX (16u << 20)
#define FRAME_ANSWER_MAX (8u << 20)
/* What is kept of an evaluation's output, standard output and standard error together. */
#define FRAME_OUTPUT_MAX (16u << 20)
/* No frame is longer: a line or an output, and room for the fields around it. */
#define FRAME_MAX (FRAME_LINE_MAX + (2u << 20))

/* Building. The buffer is reused from frame to frame; running out of memory ends the process. */
struct frame_builder {
	uint8_t *data;
	size_t length;
	size_t capacity;
};

void frame_begin(struct frame_builder *builder, uint8_t type);
void frame_put(struct frame_builder *builder, uint8_t tag, const void *data, size_t length);
void frame_put_text(struct frame_builder *builder, uint8_t tag, const char *text);
void frame_put_number(struct frame_builder *builder, uint8_t tag, uint64_t number);
/* Writes the length; the frame is builder->data, builder->length bytes, until the next frame_begin. */
void frame_end(struct frame_builder *builder);
void frame_builder_free(struct frame_builder *builder);

/* Reading. */
enum frame_status {
	FRAME_READY,      /* a whole frame is there */
	FRAME_INCOMPLETE, /* more bytes are needed */
	FRAME_BROKEN,     /* no frame of ours: the peer is not to be trusted */
};

struct frame {
	uint8_t type;
	const uint8_t *fields; /* where frame_next goes on */
	const uint8_t *end;
};

struct field {
	uint8_t tag;
	const uint8_t *data;
	size_t length;
};

/*
 * Looks for a frame at the start of data. *size is the frame's whole size, as soon as the header is there;
 * otherwise FRAME_HEADER. The frame points into data.
 */
enum frame_status frame_open(const void *data, size_t length, struct frame *frame, size_t *size)
	__attribute__((warn_unused_result));

/* FRAME_READY with the next field, FRAME_INCOMPLETE behind the last one, FRAME_BROKEN if it overruns the frame. */
enum frame_status frame_next(struct frame *frame, struct field *field) __attribute__((warn_unused_result));

/* False unless the field is a number of eight bytes. */
bool field_number(const struct field *field, uint64_t *number) __attribute__((warn_unused_result));
/* A copy with a NUL behind it; NULL if the field is longer than limit or holds a NUL itself. */
char *field_text(const struct field *field, size_t limit) __attribute__((warn_unused_result));

#endif
