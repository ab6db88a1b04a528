/*
 * secrets.c - finding texts in texts.
 */
#include "secrets.h"

#include "alloc.h"
#include "text.h"

#include <string.h>

static const char stand_in[] = "[secret]";

#define PLACE_BITS 12

/* What is looked for. */
struct needle {
	char *text;
	size_t length;
};

struct needles {
	struct needle list[2 * SECRETS_MAX];
	size_t count;
	bool begins[1 << PLACE_BITS]; /* one of them may begin with what has that place */
};

/* Of the first bytes, so that most of a text is passed over at a glance, whatever the secrets have in common. */
static uint32_t place_of(const char *text)
{
	uint32_t beginning;

	memcpy(&beginning, text, sizeof(beginning));
	return beginning * 2654435761u >> (32 - PLACE_BITS);
}
_Static_assert(SECRETS_BYTES_MIN >= sizeof(uint32_t), "a secret has no place otherwise");

bool secrets_valid(struct json_object *secrets)
{
	size_t bytes = 0, count = json_object_array_length(secrets);

	for (size_t i = 0; i < count; i++) {
		struct json_object *secret = json_object_array_get_idx(secrets, i);
		size_t length = (size_t)json_object_get_string_len(secret);
		if (!json_object_is_type(secret, json_type_string) || length < SECRETS_BYTES_MIN ||
			strlen(json_object_get_string(secret)) != length)
			return false;
		bytes += length;
	}
	return count <= SECRETS_MAX && bytes <= SECRETS_BYTES_MAX;
}

static void add_needle(struct needles *needles, const char *text, size_t length)
{
	if (length < SECRETS_BYTES_MIN) /* a worker may be out of its mind */
		return;
	needles->list[needles->count++] = (struct needle){new_copy(text, length), length};
	needles->begins[place_of(text)] = true;
}

/* In code and in printed values a quote or a backslash within a string has a backslash before it. */
static void add_printed(struct needles *needles, const char *secret)
{
	struct text printed = {0};

	for (; *secret; secret++) {
		if (*secret == '"' || *secret == '\\')
			text_puts(&printed, "\\");
		text_add(&printed, secret, 1);
	}
	add_needle(needles, printed.data, printed.length);
	text_free(&printed);
}

static void take(struct needles *needles, struct json_object *secrets)
{
	*needles = (struct needles){0};
	for (size_t i = 0; i < json_object_array_length(secrets) && i < SECRETS_MAX; i++) {
		const char *secret = json_object_get_string(json_object_array_get_idx(secrets, i));
		add_needle(needles, secret, strlen(secret));
		if (strpbrk(secret, "\"\\"))
			add_printed(needles, secret);
	}
}

static void drop(struct needles *needles)
{
	for (size_t i = 0; i < needles->count; i++)
		free(needles->list[i].text);
}

/* The longest one that begins there; 0 if none does. */
static size_t match(const struct needles *needles, const char *text, size_t length)
{
	size_t longest = 0;

	if (length < SECRETS_BYTES_MIN || !needles->begins[place_of(text)])
		return 0;
	for (size_t i = 0; i < needles->count; i++) {
		const struct needle *needle = &needles->list[i];
		if (needle->length > longest && needle->length <= length &&
			memcmp(text, needle->text, needle->length) == 0)
			longest = needle->length;
	}
	return longest;
}

static void hide(const struct needles *needles, char **text, size_t *length)
{
	struct text hidden = {0};
	size_t done = 0, found;

	for (size_t i = 0; i < *length; i += found ? found : 1) {
		found = match(needles, *text + i, *length - i);
		if (!found)
			continue;
		text_add(&hidden, *text + done, i - done);
		text_puts(&hidden, stand_in);
		done = i + found;
	}
	if (done == 0)
		return;
	text_add(&hidden, *text + done, *length - done);
	free(*text);
	*text = hidden.data;
	*length = hidden.length;
}

void secrets_hide(struct json_object *secrets, char **text, size_t *length)
{
	struct needles needles;

	if (!secrets || !*text)
		return;
	take(&needles, secrets);
	hide(&needles, text, length);
	drop(&needles);
}

/* What was written and not kept stays as much. */
static void hide_stream(const struct needles *needles, struct result_text *text, uint64_t *total)
{
	size_t before = text->length;

	hide(needles, &text->data, &text->length);
	*total = *total > before ? *total - before + text->length : text->length;
}

static void hide_list(const struct needles *needles, struct result_list *list)
{
	for (size_t i = 0; i < list->count; i++)
		hide(needles, &list->items[i].data, &list->items[i].length);
}

void secrets_hide_result(struct json_object *secrets, struct result *result)
{
	struct needles needles;

	if (!secrets)
		return;
	take(&needles, secrets);
	hide_stream(&needles, &result->standard_output, &result->standard_output_total);
	hide_stream(&needles, &result->error_output, &result->error_output_total);
	hide(&needles, &result->package.data, &result->package.length);
	hide(&needles, &result->error_type.data, &result->error_type.length);
	hide(&needles, &result->error_message.data, &result->error_message.length);
	hide_list(&needles, &result->warnings);
	hide_list(&needles, &result->values);
	hide_list(&needles, &result->frames);
	drop(&needles);
}
