/*
 * transcript.c - writing sessions' names and messages.
 */
#include "transcript.h"

#include "card.h"

#include <inttypes.h>

void transcript_put_session(struct text *text, struct json_object *data)
{
	text_puts(text, card_text(data, "session"));
	if (*card_text(data, "name"))
		text_printf(text, " \"%s\"", card_text(data, "name"));
}

void transcript_put_message(struct text *text, struct json_object *message)
{
	struct json_object *content = json_object_object_get(message, "content");

	text_printf(text, "\n--- %" PRId64 " %s, ", card_number(message, "number"), card_text(message, "role"));
	card_put_time(text, card_number(message, "created_at"));
	if (json_object_object_get(message, "evaluation"))
		text_printf(text, ", evaluation %" PRId64, card_number(message, "evaluation"));
	if (*card_text(message, "operation"))
		text_printf(text, ", %s", card_text(message, "operation"));
	if (json_object_get_boolean(json_object_object_get(message, "undone")))
		text_puts(text, ", undone");
	text_puts(text, "\n");
	if (content)
		text_add(text, json_object_get_string(content), (size_t)json_object_get_string_len(content));
	else
		text_puts(text, "(lost with a daemon that was killed)");
	if (json_object_get_boolean(json_object_object_get(message, "is_cut")))
		text_printf(text,
			"\n... (cut here; it has %" PRId64 " characters, and session-history with `characters` shows "
			"more)",
			card_number(message, "characters"));
	text_puts(text, "\n");
}
