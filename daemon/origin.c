/*
 * origin.c - the note on who asked, as a frame.
 */
#include "origin.h"

#include "alloc.h"
#include "conversation.h"
#include "secrets.h"
#include "resource.h"

#define ORIGIN_TYPE 'O'

enum origin_tag {
	ORIGIN_NONCE = 1,
	ORIGIN_LINE = 2,
	ORIGIN_ITEM = 3,
	ORIGIN_ID = 4,
	ORIGIN_REVISION = 5,
	ORIGIN_TOKEN = 6,
	ORIGIN_STARTED = 7,
	ORIGIN_CODE = 8,
	ORIGIN_DEFAULT = 9,
	ORIGIN_OPERATION = 10,
	ORIGIN_OUTPUT_MAX = 11,
	ORIGIN_VALUE_MAX = 12,
	ORIGIN_URI = 13,
	ORIGIN_SECRET = 14, /* repeated */
	ORIGIN_UNRECORDED = 15,
	ORIGIN_PACKAGE = 16,
};

static void put_code(struct frame_builder *builder, const struct work *work)
{
	size_t length = work->code_length;
	char *hidden;

	if (!work->secrets) {
		if (length <= ORIGIN_CODE_MAX)
			frame_put(builder, ORIGIN_CODE, work->code, length);
		return;
	}
	for (size_t i = 0; i < json_object_array_length(work->secrets); i++)
		frame_put_text(
			builder, ORIGIN_SECRET, json_object_get_string(json_object_array_get_idx(work->secrets, i)));
	hidden = new_copy(work->code, length);
	secrets_hide(work->secrets, &hidden, &length);
	if (length <= ORIGIN_CODE_MAX)
		frame_put(builder, ORIGIN_CODE, hidden, length);
	free(hidden);
}

void origin_encode(struct frame_builder *builder, const struct request *request, uint64_t started_at, bool is_default,
	const struct work *work)
{
	frame_begin(builder, ORIGIN_TYPE);
	frame_put(builder, ORIGIN_NONCE, request->conversation->nonce, LINK_NONCE_SIZE);
	frame_put_number(builder, ORIGIN_LINE, request->line);
	frame_put_number(builder, ORIGIN_ITEM, request->item);
	frame_put_text(builder, ORIGIN_ID, request->id);
	frame_put_text(builder, ORIGIN_REVISION, request->revision->name);
	if (request->progress_token)
		frame_put_text(builder, ORIGIN_TOKEN, request->progress_token);
	if (request->uri)
		frame_put_text(builder, ORIGIN_URI, request->uri);
	frame_put_number(builder, ORIGIN_STARTED, started_at);
	frame_put_number(builder, ORIGIN_DEFAULT, is_default);
	frame_put_number(builder, ORIGIN_OUTPUT_MAX, work->output_max);
	frame_put_number(builder, ORIGIN_VALUE_MAX, work->value_max);
	if (work->operation)
		frame_put_text(builder, ORIGIN_OPERATION, work->operation);
	if (work->package && strlen(work->package) <= ORIGIN_PACKAGE_MAX)
		frame_put_text(builder, ORIGIN_PACKAGE, work->package);
	if (work->is_unrecorded)
		frame_put_number(builder, ORIGIN_UNRECORDED, 1);
	put_code(builder, work);
	frame_end(builder);
}

static bool take_field(struct origin *origin, const struct field *field)
{
	uint64_t number = 0;
	char *name;

	switch (field->tag) {
	case ORIGIN_NONCE:
		if (field->length != LINK_NONCE_SIZE)
			return false;
		memcpy(origin->nonce, field->data, LINK_NONCE_SIZE);
		return true;
	case ORIGIN_LINE:
		return field_number(field, &origin->line);
	case ORIGIN_ITEM:
		if (!field_number(field, &number) || number > UINT32_MAX)
			return false;
		origin->item = (uint32_t)number;
		return true;
	case ORIGIN_STARTED:
		return field_number(field, &origin->started_at);
	case ORIGIN_OUTPUT_MAX:
		return field_number(field, &origin->output_max);
	case ORIGIN_VALUE_MAX:
		return field_number(field, &origin->value_max);
	case ORIGIN_DEFAULT:
		if (!field_number(field, &number))
			return false;
		origin->is_default = number != 0;
		return true;
	case ORIGIN_ID:
		free(origin->id);
		return (origin->id = field_text(field, RPC_ID_MAX)) != NULL;
	case ORIGIN_TOKEN:
		free(origin->progress_token);
		return (origin->progress_token = field_text(field, RPC_ID_MAX)) != NULL;
	case ORIGIN_OPERATION:
		free(origin->operation);
		return (origin->operation = field_text(field, 64)) != NULL;
	case ORIGIN_PACKAGE:
		free(origin->package);
		return (origin->package = field_text(field, ORIGIN_PACKAGE_MAX)) != NULL;
	case ORIGIN_URI:
		free(origin->uri);
		return (origin->uri = field_text(field, RESOURCE_URI_MAX)) != NULL;
	case ORIGIN_CODE:
		free(origin->code);
		origin->code = new_copy(field->data, field->length); /* may hold NULs */
		origin->code_length = field->length;
		return true;
	case ORIGIN_SECRET:
		if (!origin->secrets)
			origin->secrets = json_object_new_array();
		json_object_array_add(
			origin->secrets, json_object_new_string_len((const char *)field->data, (int)field->length));
		return true;
	case ORIGIN_UNRECORDED:
		if (!field_number(field, &number))
			return false;
		origin->is_unrecorded = number != 0;
		return true;
	case ORIGIN_REVISION:
		name = field_text(field, 32);
		origin->revision = name ? revision_find(name) : NULL;
		free(name);
		return origin->revision != NULL;
	default:
		return true;
	}
}

bool origin_decode(const uint8_t *data, size_t length, struct origin *origin)
{
	enum frame_status status;
	struct frame frame;
	struct field field;
	size_t size;
	bool good = true;

	*origin = (struct origin){0};
	if (frame_open(data, length, &frame, &size) != FRAME_READY || frame.type != ORIGIN_TYPE)
		return false;
	while (good && (status = frame_next(&frame, &field)) == FRAME_READY)
		good = take_field(origin, &field);
	if (good && status == FRAME_INCOMPLETE && origin->id && origin->revision)
		return true;
	origin_free(origin);
	return false;
}

void origin_free(struct origin *origin)
{
	free(origin->id);
	free(origin->progress_token);
	free(origin->operation);
	free(origin->package);
	free(origin->uri);
	free(origin->code);
	json_object_put(origin->secrets);
	*origin = (struct origin){0};
}
