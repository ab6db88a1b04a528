/*
 * memo.c - the row of a session as a frame. It has been in the hands of user code.
 */
#include "memo.h"

#include "alloc.h"
#include "session.h"
#include "store.h"
#include "utf8.h"

#include <limits.h>

#define MEMO_TYPE 'M'
/* Longer ones tell what could not be restored from a file. */
#define EPITAPH_MAX 2048

enum memo_tag {
	MEMO_NAME = 1,
	MEMO_DIRECTORY = 2,
	MEMO_CREATED = 3,
	MEMO_HISTORY = 4,
	MEMO_LIMITS = 5,
	MEMO_EPITAPH = 6,
};

void memo_encode(struct frame_builder *builder, const struct session *session)
{
	struct text limits = {0};

	limit_encode(&session->limits, &limits);
	frame_begin(builder, MEMO_TYPE);
	if (session->name)
		frame_put_text(builder, MEMO_NAME, session->name);
	frame_put_text(builder, MEMO_DIRECTORY, session->directory);
	frame_put_number(builder, MEMO_CREATED, session->created_at);
	frame_put_number(builder, MEMO_HISTORY, session->has_history);
	frame_put_text(builder, MEMO_LIMITS, limits.data);
	if (session->epitaph && session->epitaph_seq == 0 && strlen(session->epitaph) < EPITAPH_MAX)
		frame_put_text(builder, MEMO_EPITAPH, session->epitaph);
	frame_end(builder);
	text_free(&limits);
}

static void take_number(struct session *session, const struct field *field)
{
	uint64_t number;

	if (!field_number(field, &number))
		return;
	if (field->tag == MEMO_HISTORY)
		session->has_history = number != 0;
	else if (store_time_is_likely(number))
		session->created_at = number;
}

static void take_text(struct session *session, const struct field *field)
{
	size_t length;
	char *text = utf8_repair(field->data, field->length, &length);

	if (field->tag == MEMO_NAME && *text && session_name_valid(text))
		replace_text(&session->name, text);
	else if (field->tag == MEMO_DIRECTORY && *text == '/')
		replace_text(&session->directory, text);
	else if (field->tag == MEMO_LIMITS)
		limit_decode(&session->limits, text);
	free(text);
}

void memo_recall_epitaph(const uint8_t *data, size_t length, struct session *session)
{
	struct frame frame;
	struct field field;
	size_t size;

	if (session->epitaph || frame_open(data, length, &frame, &size) != FRAME_READY || frame.type != MEMO_TYPE)
		return;
	while (frame_next(&frame, &field) == FRAME_READY)
		if (field.tag == MEMO_EPITAPH && field.length < EPITAPH_MAX) {
			free(session->epitaph);
			session->epitaph = utf8_repair(field.data, field.length, &size);
			session->epitaph_seq = 0;
		}
}

bool memo_decode(const uint8_t *data, size_t length, struct session *session)
{
	struct frame frame;
	struct field field;
	size_t size;

	if (frame_open(data, length, &frame, &size) != FRAME_READY || frame.type != MEMO_TYPE)
		return false;
	while (frame_next(&frame, &field) == FRAME_READY && field.length < PATH_MAX)
		if (field.tag == MEMO_CREATED || field.tag == MEMO_HISTORY)
			take_number(session, &field);
		else
			take_text(session, &field);
	return true;
}
