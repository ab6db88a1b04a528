/*
 * checkpoint.c - wording.
 *
 * Of each copy the process says in a line its kind, the evaluation after which it was made, how many evaluations ago
 * that was, when, and its name; see lisp/checkpoint.c. User code may have written it: what makes no sense is left out.
 */
#include "checkpoint.h"

#include "alloc.h"
#include "evaluation.h"
#include "session.h"
#include "store.h"

#include <inttypes.h>
#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>

#define LINE_FIELDS 5

struct copy {
	const char *kind;
	int64_t seq, back, at;
	const char *name;
};

static bool is_operation(const struct evaluation *evaluation, const char *operation)
{
	return evaluation->work.operation && strcmp(evaluation->work.operation, operation) == 0;
}

bool checkpoint_only_looks(const char *operation)
{
	return strcmp(operation, OPERATION_CHECKPOINT) == 0 || strcmp(operation, OPERATION_LIST_CHECKPOINTS) == 0;
}

bool checkpoint_rolls_back(const struct evaluation *evaluation)
{
	return is_operation(evaluation, OPERATION_ROLLBACK);
}

bool checkpoint_must_wait(const struct session *session, const struct evaluation *evaluation)
{
	if (!checkpoint_rolls_back(evaluation) || session->stored_seq >= session->received_seq)
		return false;
	store_hurry(session->server->store);
	return true;
}

/* ---- what the process says */

/* Cuts the first line off; false if there is none that makes sense. */
static bool take_line(char **lines, struct copy *copy)
{
	char *line = strsep(lines, "\n"), *fields[LINE_FIELDS];

	for (size_t i = 0; i < LINE_FIELDS; i++) {
		fields[i] = i + 1 < LINE_FIELDS ? strsep(&line, "\t") : line;
		if (!fields[i])
			return false;
	}
	*copy = (struct copy){
		.kind = fields[0],
		.seq = strtoll(fields[1], NULL, 10),
		.back = strtoll(fields[2], NULL, 10),
		.at = strtoll(fields[3], NULL, 10),
		.name = fields[4],
	};
	return true;
}

static bool is_kind(const struct copy *copy, const char *kind)
{
	return strcmp(copy->kind, kind) == 0;
}

static struct json_object *new_data(const struct session *session)
{
	struct json_object *data = json_object_new_object();

	json_object_object_add(data, "session", json_object_new_string(session->id));
	return data;
}

/* The data pass into its ownership. */
static void set_answer(struct result *result, struct text *text, struct json_object *data)
{
	const char *json = json_object_to_json_string_ext(data, JSON_C_TO_STRING_PLAIN);

	result_set_value(result, text->data);
	free(result->data.data);
	result->data = (struct result_text){new_text(json), strlen(json)};
	json_object_put(data);
	text_free(text);
}

/* ---- one is made or removed */

static void word_checkpoint(const struct session *session, struct result *result, char *lines)
{
	struct json_object *data = new_data(session);
	struct text text = {0};
	struct copy copy;

	if (!take_line(&lines, &copy))
		copy = (struct copy){.kind = "", .name = ""};
	bool is_removed = is_kind(&copy, "removed");
	if (is_removed)
		text_printf(&text, "Removed the checkpoint \"%s\", made after evaluation %" PRId64 ".", copy.name,
			copy.seq);
	else
		text_printf(&text,
			"Checkpoint \"%s\": the session as it is after evaluation %" PRId64
			". rollback-session brings it back, as often as you like, until the session is reset, hibernated or deleted, or "
			"the machine restarts.",
			copy.name, copy.seq);
	json_object_object_add(data, "checkpoint", json_object_new_string(copy.name));
	json_object_object_add(data, "evaluation", json_object_new_int64(copy.seq));
	json_object_object_add(data, "removed", json_object_new_boolean(is_removed));
	set_answer(result, &text, data);
}

/* ---- the list */

static struct json_object *describe(const struct copy *copy)
{
	struct json_object *described = json_object_new_object();

	if (!is_kind(copy, "kept"))
		json_object_object_add(described, "name", json_object_new_string(copy->name));
	json_object_object_add(described, "evaluation", json_object_new_int64(copy->seq));
	json_object_object_add(described, "made_at", json_object_new_int64(copy->at + (int64_t)STORE_UNIX_EPOCH));
	if (is_kind(copy, "aside"))
		json_object_object_add(described, "back", NULL);
	else
		json_object_object_add(described, "back", json_object_new_int64(copy->back));
	return described;
}

static void put_copy(struct text *text, const struct copy *copy)
{
	text_printf(text, "\"%s\": after evaluation %" PRId64, copy->name, copy->seq);
	if (is_kind(copy, "aside"))
		text_puts(text, ", on a branch that was rolled back");
	else if (copy->back == 0)
		text_puts(text, ", which is how the session is now");
	else
		text_printf(text, ", %" PRId64 " evaluation%s back", copy->back, copy->back == 1 ? "" : "s");
	text_puts(text, "\n");
}

static void put_kept(struct text *text, struct json_object *kept)
{
	bool has_any = false;

	for (size_t i = json_object_array_length(kept); i-- > 0;) {
		struct json_object *copy = json_object_array_get_idx(kept, i);
		int64_t back = json_object_get_int64(json_object_object_get(copy, "back"));
		if (back == 0)
			continue;
		text_printf(text, "%s%" PRId64,
			has_any ? ", " : "Kept by itself, for rollback-session with `evaluations`: ", back);
		has_any = true;
	}
	text_puts(text, has_any ? " back" : "No earlier state is kept by itself now.");
}

static void word_list(const struct session *session, struct result *result, char *lines)
{
	struct json_object *data = new_data(session);
	struct json_object *checkpoints = json_object_new_array(), *kept = json_object_new_array();
	struct text text = {0};
	struct copy copy;

	while (take_line(&lines, &copy)) {
		json_object_array_add(is_kind(&copy, "kept") ? kept : checkpoints, describe(&copy));
		if (!is_kind(&copy, "kept"))
			put_copy(&text, &copy);
	}
	if (json_object_array_length(checkpoints) == 0)
		text_puts(&text, "No checkpoints. checkpoint-session makes one.\n");
	put_kept(&text, kept);
	json_object_object_add(data, "checkpoints", checkpoints);
	json_object_object_add(data, "kept", kept);
	set_answer(result, &text, data);
}

void checkpoint_word(const struct session *session, const struct evaluation *evaluation, struct result *result)
{
	if (result->outcome != OUTCOME_DONE || !evaluation->work.operation ||
		!checkpoint_only_looks(evaluation->work.operation))
		return;
	char *lines =
		new_text(result->values.count > 0 && result->values.items[0].data ? result->values.items[0].data : "");
	if (is_operation(evaluation, OPERATION_CHECKPOINT))
		word_checkpoint(session, result, lines);
	else
		word_list(session, result, lines);
	free(lines);
}

/* ---- rolled back */

static void put_undone(struct text *text, const struct worker_hello *hello, uint64_t last)
{
	const struct worker_undone *undone = &hello->undone;

	if (undone->first > last) {
		text_puts(text, "Nothing is undone by that.");
		return;
	}
	if (undone->first == last)
		text_printf(text, "Evaluation %" PRIu64 " is undone, and not repeated", last);
	else
		text_printf(text, "Evaluations %" PRIu64 " to %" PRIu64 " are undone, and not repeated", undone->first,
			last);
	for (size_t i = 0; i < undone->count; i++) {
		bool is_cut = undone->count == WORKER_UNDONE_MAX;
		text_printf(text, "%s%s", i ? "; " : is_cut ? ", the last ones of them: " : ": ", undone->code[i]);
	}
	if (undone->count == 0)
		text_puts(text, ".");
}

static struct json_object *describe_undone(const struct worker_hello *hello, uint64_t last)
{
	struct json_object *undone = json_object_new_object(), *codes = json_object_new_array();

	json_object_object_add(undone, "first", json_object_new_int64((int64_t)hello->undone.first));
	json_object_object_add(undone, "last", json_object_new_int64((int64_t)last));
	for (size_t i = 0; i < hello->undone.count; i++)
		json_object_array_add(codes, json_object_new_string(hello->undone.code[i]));
	json_object_object_add(undone, "evaluations", codes);
	return undone;
}

void checkpoint_make_result(struct result *result, const struct session *session, const struct evaluation *evaluation,
	const struct worker_hello *hello)
{
	const char *code = evaluation->work.code ? evaluation->work.code : "";
	const char *name = strncmp(code, "to ", 3) == 0 ? code + 3 : NULL;
	struct json_object *data = new_data(session);
	uint64_t last = hello->rolled_back_seq - 1;
	struct text text = {0};

	*result = (struct result){.seq = hello->rolled_back_seq, .restored = hello->restored_seq};
	text_puts(&text, "Rolled back");
	if (name)
		text_printf(&text, " to the checkpoint \"%s\"", name);
	text_printf(&text, ": the session is as it was after evaluation %" PRIu64 ". ", hello->restored_seq);
	put_undone(&text, hello, last);
	json_object_object_add(data, "checkpoint", name ? json_object_new_string(name) : NULL);
	json_object_object_add(data, "restored", json_object_new_int64((int64_t)hello->restored_seq));
	json_object_object_add(data, "undone", hello->undone.first > last ? NULL : describe_undone(hello, last));
	set_answer(result, &text, data);
}
