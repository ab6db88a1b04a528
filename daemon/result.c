/*
 * result.c - decoding a worker's RESULT frame.
 */
#include "result.h"

#include "alloc.h"
#include "utf8.h"

/* No evaluation shows more warnings, values or frames. */
#define LIST_MAX 10000

static void set_text(struct result_text *text, const struct field *field)
{
	free(text->data);
	text->data = utf8_repair(field->data, field->length, &text->length);
}

static void add_text(struct result_list *list, bool *cut, const struct field *field)
{
	if (list->count == LIST_MAX) {
		*cut = true;
		return;
	}
	/* Doubles whenever the count is a power of two. */
	if ((list->count & (list->count - 1)) == 0)
		list->items = must(reallocarray(list->items, list->count ? list->count * 2 : 1, sizeof(*list->items)));
	list->items[list->count] = (struct result_text){0};
	set_text(&list->items[list->count++], field);
}

static void note_cut(struct result *result, const struct field *field)
{
	const struct {
		const char *name;
		bool *flag;
	} flags[] = {
		{"warnings", &result->warnings_cut},
		{"values", &result->values_cut},
		{"error", &result->error_cut},
		{"backtrace", &result->frames_cut},
	};

	for (size_t i = 0; i < sizeof(flags) / sizeof(*flags); i++)
		if (field->length == strlen(flags[i].name) && memcmp(field->data, flags[i].name, field->length) == 0)
			*flags[i].flag = true;
}

static bool set_field(struct result *result, const struct field *field)
{
	uint64_t number = 0;
	bool is_number = field_number(field, &number);

	switch (field->tag) {
	case WORK_SEQ:
		result->seq = number;
		return is_number;
	case WORK_OUTCOME:
		result->outcome = (enum worker_outcome)number;
		return is_number && number <= OUTCOME_ABORTED;
	case WORK_ELAPSED:
		result->elapsed_us = number;
		return is_number;
	case WORK_FORMS:
		result->forms = number;
		return is_number;
	case WORK_EXIT_CODE:
		result->exit_code = number;
		return is_number;
	case WORK_STDOUT_TOTAL:
		result->standard_output_total = number;
		return is_number;
	case WORK_STDERR_TOTAL:
		result->error_output_total = number;
		return is_number;
	case WORK_CUT:
		note_cut(result, field);
		return true;
	case WORK_PACKAGE:
		set_text(&result->package, field);
		return true;
	case WORK_STDOUT:
		set_text(&result->standard_output, field);
		return true;
	case WORK_STDERR:
		set_text(&result->error_output, field);
		return true;
	case WORK_ERROR_TYPE:
		set_text(&result->error_type, field);
		return true;
	case WORK_ERROR_MESSAGE:
		set_text(&result->error_message, field);
		return true;
	case WORK_WARNING:
		add_text(&result->warnings, &result->warnings_cut, field);
		return true;
	case WORK_VALUE:
		add_text(&result->values, &result->values_cut, field);
		return true;
	case WORK_FRAME:
		add_text(&result->frames, &result->frames_cut, field);
		return true;
	case WORK_ORIGIN:
		result->origin = field->data;
		result->origin_length = field->length;
		return true;
	default:
		return true; /* of a later version */
	}
}

bool result_decode(struct frame *frame, struct result *result)
{
	enum frame_status status;
	struct field field;
	bool good = true;

	*result = (struct result){0};
	while (good && (status = frame_next(frame, &field)) == FRAME_READY)
		good = set_field(result, &field);
	if (good && status == FRAME_INCOMPLETE && result->seq > 0)
		return true;
	result_free(result);
	return false;
}

static void free_list(struct result_list *list)
{
	for (size_t i = 0; i < list->count; i++)
		free(list->items[i].data);
	free(list->items);
}

void result_free(struct result *result)
{
	free(result->package.data);
	free(result->standard_output.data);
	free(result->error_output.data);
	free(result->error_type.data);
	free(result->error_message.data);
	free(result->data.data);
	free_list(&result->warnings);
	free_list(&result->values);
	free_list(&result->frames);
	*result = (struct result){0};
}

void result_add_warning(struct result *result, const char *text)
{
	struct result_list *list = &result->warnings;

	list->items = must(reallocarray(list->items, list->count + 1, sizeof(*list->items)));
	memmove(list->items + 1, list->items, list->count * sizeof(*list->items));
	list->items[0] = (struct result_text){new_text(text), strlen(text)};
	list->count++;
}

void result_set_value(struct result *result, const char *text)
{
	free_list(&result->values);
	result->outcome = OUTCOME_DONE;
	result->values = (struct result_list){.items = must(calloc(1, sizeof(*result->values.items))), .count = 1};
	result->values.items[0] = (struct result_text){new_text(text), strlen(text)};
}

void result_make_error(struct result *result, uint64_t seq, const char *type, const char *message)
{
	*result = (struct result){.seq = seq, .outcome = OUTCOME_ERROR};
	result->error_type = (struct result_text){new_text(type), strlen(type)};
	result->error_message = (struct result_text){new_text(message), strlen(message)};
}
