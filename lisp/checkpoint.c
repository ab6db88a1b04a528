/*
 * checkpoint.c - what is asked of the shelf, and what it has.
 *
 * A copy is told as one line: KIND, SEQ, BACK, AT and NAME, with tabs between them. KIND is `checkpoint`, `aside` for
 * one of a branch that was left, or `kept` for one without a name. BACK is how many evaluations before now it was.
 */
#include "config.h"

#include "checkpoint.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "evaluation.h"
#include "snapshot.h"
#include "text.h"

/* All copies in words take less. */
#define TEXT_MAX (SHELF_PLACES * (SHELF_NAME_SIZE + 128))

struct text {
	size_t length;
	char data[TEXT_MAX];
};

static void __attribute__((format(printf, 2, 3))) put(struct text *text, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	int length = vsnprintf(text->data + text->length, TEXT_MAX - text->length, format, arguments);
	va_end(arguments);
	text->length += (size_t)length;
	if (text->length >= TEXT_MAX)
		text->length = TEXT_MAX - 1;
}

/* ---- what there is */

static void put_copy(struct text *text, const struct shelf_copy *copy)
{
	const char *kind = !shelf_is_named(copy) ? "kept" : copy->is_aside ? "aside" : "checkpoint";

	put(text, "%s\t%" PRIu64 "\t%" PRIu64 "\t%" PRIu64 "\t%s\n", kind, copy->state.seq,
		snapshot_depth() - copy->state.depth, copy->state.at, copy->state.name);
}

/* In the order in which evaluations have led to them. */
static void put_all(struct text *text, const struct shelf *shelf)
{
	uint64_t last = 0;

	for (;;) {
		const struct shelf_copy *next = NULL;
		for (int i = 0; i < SHELF_PLACES; i++) {
			const struct shelf_copy *copy = &shelf->copies[i];
			uint64_t rank = copy->state.seq * SHELF_PLACES + (uint64_t)i + 1;
			bool is_next = rank > last &&
				(!next || rank < next->state.seq * SHELF_PLACES + (uint64_t)(next - shelf->copies) + 1);
			if (copy->process && is_next)
				next = copy;
		}
		if (!next)
			return;
		last = next->state.seq * SHELF_PLACES + (uint64_t)(next - shelf->copies) + 1;
		if (shelf_is_there(next))
			put_copy(text, next);
	}
}

static void put_choice(struct text *text, const struct shelf *shelf)
{
	const char *separator = " Checkpoints: ";
	bool has_any = false;

	for (int i = 0; i < SHELF_PLACES; i++) {
		const struct shelf_copy *copy = &shelf->copies[i];
		if (!copy->process || !shelf_is_named(copy) || !shelf_is_there(copy))
			continue;
		put(text, "%s\"%s\" (after evaluation %" PRIu64 ")", separator, copy->state.name, copy->state.seq);
		separator = ", ";
		has_any = true;
	}
	put(text, has_any ? "." : " There are no checkpoints.");
}

static void put_steps_back(struct text *text, const struct shelf *shelf)
{
	const char *separator = " States of so many evaluations back are kept: ";
	uint64_t depth = snapshot_depth();
	bool has_any = false;

	for (uint64_t back = 1; back <= depth && back <= 1000; back++)
		if (shelf_find_depth(shelf, depth - back) != SHELF_NONE) {
			put(text, "%s%" PRIu64, separator, back);
			separator = ", ";
			has_any = true;
		}
	put(text, has_any ? "." : " No earlier state is kept by itself.");
	if (snapshot_resident_bytes() > SNAPSHOT_SMALL_BYTES)
		put(text,
			" Of a session with more than %" PRIu64
			" MB in memory none is kept by itself: make checkpoints.",
			(uint64_t)(SNAPSHOT_SMALL_BYTES >> 20));
}

/* ---- the operations */

static void refuse(
	struct checkpoint_plan *plan, const struct request *request, const char *type, const struct text *why)
{
	plan->step = CHECKPOINT_ANSWER;
	evaluation_put_error(request, type, why->data, &plan->result);
}

/* False, and the request is answered, if no further copy can be kept. */
static bool may_keep(struct checkpoint_plan *plan, const struct request *request, const struct shelf *shelf)
{
	unsigned count = shelf_count_named(shelf) - (plan->place != SHELF_NONE);
	uint64_t resident = snapshot_resident_bytes();
	struct text why = {0};

	if (snapshot_threads_remain()) {
		put(&why,
			"No checkpoint was made: Lisp threads are running, and a copy would not have them. End them "
			"(mp:process-kill, then mp:process-join) and try again.");
		refuse(plan, request, "CHECKPOINT-REFUSED", &why);
		return false;
	}
	if (count < SHELF_NAMED_MAX && (count + 1) * resident <= CHECKPOINT_BYTES_MAX)
		return true;
	if (count >= SHELF_NAMED_MAX)
		put(&why, "No checkpoint was made: there are %u, and a session may have no more.", count);
	else
		put(&why,
			"No checkpoint was made: this session has %" PRIu64
			" MB in memory, and all its checkpoints together might come to more than %" PRIu64 " MB.",
			resident >> 20, (uint64_t)(CHECKPOINT_BYTES_MAX >> 20));
	put(&why, " Remove one with checkpoint-session and `remove`.");
	put_choice(&why, shelf);
	refuse(plan, request, "CHECKPOINT-LIMIT", &why);
	return false;
}

static void plan_copy(struct checkpoint_plan *plan, const struct request *request, const char *name)
{
	struct text text = {0};

	plan->step = CHECKPOINT_KEEP;
	snprintf(plan->name, sizeof(plan->name), "%s", name);
	put(&text, "checkpoint\t%" PRIu64 "\t0\t0\t%s\n", request->seq, plan->name);
	evaluation_put_value(request, text.data, &plan->result);
	evaluation_put_error(request, "CHECKPOINT-REFUSED",
		"No checkpoint was made: the system allows no further process. Try again.", &plan->failure);
}

static void keep(struct checkpoint_plan *plan, const struct request *request, struct lineage *lineage, const char *name,
	bool replaces)
{
	const struct shelf *shelf = lineage_shelf(lineage);
	int former = shelf_find_named(shelf, name);
	struct text why = {0};

	if (former != SHELF_NONE && !replaces) {
		put(&why,
			"There is a checkpoint \"%s\" already, made after evaluation %" PRIu64
			". Choose another name, or say `replace`.",
			name, shelf->copies[former].state.seq);
		refuse(plan, request, "CHECKPOINT-EXISTS", &why);
		return;
	}
	plan->place = former;
	if (may_keep(plan, request, shelf))
		plan_copy(plan, request, name);
}

static void fail_to_find(
	struct checkpoint_plan *plan, const struct request *request, const struct shelf *shelf, const char *name)
{
	struct text why = {0};

	put(&why, "There is no checkpoint \"%s\" (or its process is dead).", name);
	put_choice(&why, shelf);
	refuse(plan, request, "CHECKPOINT-NOT-FOUND", &why);
}

static void drop(struct checkpoint_plan *plan, const struct request *request, struct lineage *lineage, const char *name)
{
	struct shelf *shelf = lineage_shelf(lineage);
	int place = shelf_find_named(shelf, name);
	struct text text = {0};

	if (place == SHELF_NONE) {
		fail_to_find(plan, request, shelf, name);
		return;
	}
	put(&text, "removed\t%" PRIu64 "\t0\t0\t%s\n", shelf->copies[place].state.seq, name);
	snapshot_dismiss(lineage, place);
	evaluation_put_value(request, text.data, &plan->result);
}

static void perform_checkpoint(struct checkpoint_plan *plan, const struct request *request, struct lineage *lineage,
	const char *verb, const char *what)
{
	if (strcmp(verb, "remove") == 0)
		drop(plan, request, lineage, what);
	else
		keep(plan, request, lineage, what, strcmp(verb, "replace") == 0);
}

static void perform_rollback(struct checkpoint_plan *plan, const struct request *request, struct lineage *lineage,
	const char *verb, const char *what)
{
	const struct shelf *shelf = lineage_shelf(lineage);
	uint64_t depth = snapshot_depth(), back = strtoull(what, NULL, 10);
	struct text why = {0};

	plan->step = CHECKPOINT_LEAVE;
	if (strcmp(verb, "to") == 0) {
		plan->place = shelf_find_named(shelf, what);
		if (plan->place == SHELF_NONE)
			fail_to_find(plan, request, shelf, what);
		return;
	}
	plan->place = back <= depth ? shelf_find_depth(shelf, depth - back) : SHELF_NONE;
	if (plan->place != SHELF_NONE)
		return;
	put(&why, "The state of %" PRIu64 " evaluation%s back is not kept, and nothing was rolled back.", back,
		back == 1 ? "" : "s");
	put_steps_back(&why, shelf);
	put_choice(&why, shelf);
	refuse(plan, request, "STATE-NOT-KEPT", &why);
}

static void perform_list(struct checkpoint_plan *plan, const struct request *request, struct lineage *lineage,
	const char *verb, const char *what)
{
	struct text text = {0};

	(void)verb;
	(void)what;
	put_all(&text, lineage_shelf(lineage));
	evaluation_put_value(request, text.data, &plan->result);
}

static const struct {
	const char *name;
	void (*perform)(struct checkpoint_plan *plan, const struct request *request, struct lineage *lineage,
		const char *verb, const char *what);
} operations[] = {
	{"checkpoint-session", perform_checkpoint},
	{"rollback-session", perform_rollback},
	{"list-checkpoints", perform_list},
};

#define OPERATIONS (sizeof(operations) / sizeof(*operations))

/* OPERATIONS if it is none of them. */
static size_t find(const struct request *request)
{
	size_t i = 0;

	while (i < OPERATIONS &&
		!(request->operation && request->operation_length == strlen(operations[i].name) &&
			memcmp(request->operation, operations[i].name, request->operation_length) == 0))
		i++;
	return i;
}

bool checkpoint_is_asked(const struct request *request)
{
	return find(request) < OPERATIONS;
}

void checkpoint_perform(const struct request *request, struct lineage *lineage, struct checkpoint_plan *plan)
{
	char words[16 + SHELF_NAME_SIZE];

	*plan = (struct checkpoint_plan){.step = CHECKPOINT_ANSWER, .place = SHELF_NONE};
	if (request->cancelled) {
		evaluation_put_cancelled(request, &plan->result);
		return;
	}
	snprintf(words, sizeof(words), "%.*s", (int)request->code_length, (const char *)request->code);
	char *what = strchr(words, ' ');
	if (what)
		*what++ = '\0';
	operations[find(request)].perform(plan, request, lineage, words, what ? what : "");
}

cl_object checkpoint_names(void)
{
	const struct shelf *shelf = snapshot_shelf();
	cl_object names = ECL_NIL;

	for (int i = SHELF_PLACES; shelf && i-- > 0;) {
		const struct shelf_copy *copy = &shelf->copies[i];
		if (copy->process && shelf_is_named(copy) && shelf_is_there(copy))
			names = ecl_cons(
				text_to_lisp((const uint8_t *)copy->state.name, strlen(copy->state.name)), names);
	}
	return names;
}
