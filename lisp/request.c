/*
 * request.c - reading EVALUATE and CLONE frames.
 */
#include "config.h"

#include "request.h"

#include <stdlib.h>
#include <string.h>

#include "worklink.h"

static bool read_field(struct request *request, const struct field *field)
{
	switch (field->tag) {
	case WORK_INCARNATION:
		return field_number(field, &request->incarnation);
	case WORK_SEQ:
		return field_number(field, &request->seq);
	case WORK_TIME_LIMIT:
		return field_number(field, &request->time_limit_ms);
	case WORK_HEAP_LIMIT:
		return field_number(field, &request->heap_limit);
	case WORK_PROTECT:
		return field_number(field, &request->protect);
	case WORK_ORIGIN:
		request->origin = field->data;
		request->origin_length = field->length;
		return true;
	case WORK_PACKAGE:
		request->package = field->data;
		request->package_length = field->length;
		return true;
	case WORK_OPERATION:
		request->operation = field->data;
		request->operation_length = field->length;
		return true;
	case WORK_CODE:
		request->code = field->data;
		request->code_length = field->length;
		return true;
	case WORK_SHOWN:
		request->shown = field->data;
		request->shown_length = field->length;
		return true;
	default:
		return true;
	}
}

struct request *request_read(const struct frame *frame)
{
	size_t length = (size_t)(frame->end - frame->fields);
	struct request *request = calloc(1, sizeof(*request));
	struct field field;
	enum frame_status status;

	if (!request)
		abort();
	request->bytes = malloc(length + 1);
	if (!request->bytes)
		abort();
	memcpy(request->bytes, frame->fields, length);
	struct frame copy = {.type = frame->type, .fields = request->bytes, .end = request->bytes + length};
	while ((status = frame_next(&copy, &field)) == FRAME_READY)
		if (!read_field(request, &field))
			break;
	if (status == FRAME_INCOMPLETE && request->seq > 0 && request->code)
		return request;
	request_free(request);
	return NULL;
}

bool request_is_session_id(const char *text)
{
	static const char allowed[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-";

	return strlen(text) == WORKLINK_SESSION_ID_LENGTH && strspn(text, allowed) == WORKLINK_SESSION_ID_LENGTH;
}

struct request *request_read_clone(const struct frame *frame)
{
	struct request *request = calloc(1, sizeof(*request));
	struct frame rest = *frame;
	enum frame_status status;
	struct field field;

	if (!request)
		abort();
	while ((status = frame_next(&rest, &field)) == FRAME_READY)
		if (field.tag == WORK_SESSION && !request->clone)
			request->clone = field_text(&field, WORKLINK_SESSION_ID_LENGTH);
	if (status == FRAME_INCOMPLETE && request->clone && request_is_session_id(request->clone))
		return request;
	request_free(request);
	return NULL;
}

void request_free(struct request *request)
{
	free(request->clone);
	free(request->bytes);
	free(request);
}

void request_queue_add(struct request_queue *queue, struct request *request)
{
	if (queue->last)
		queue->last->next = request;
	else
		queue->first = request;
	queue->last = request;
	queue->length++;
}

struct request *request_queue_take(struct request_queue *queue)
{
	struct request *request = queue->first;

	queue->first = request->next;
	if (!queue->first)
		queue->last = NULL;
	queue->length--;
	return request;
}
