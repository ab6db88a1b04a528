/*
 * batch.c - collecting answers, with room for a word to each request.
 */
#include "batch.h"

#include "alloc.h"
#include "conversation.h"
#include "frame.h"

#include <stdbool.h>

/* What an error of ours takes at most, besides the id. */
#define REFUSAL_SIZE 320

struct batch {
	uint64_t line;
	size_t open;     /* requests still to be answered, and one for the parser while it is at work */
	size_t reserved; /* for errors, should the answers that are still to come be too long */
	struct text answers;
};

static size_t refusal_size(const char *id)
{
	return REFUSAL_SIZE + (id ? strlen(id) : 0);
}

struct batch *batch_new(uint64_t line, const struct rpc_line *parsed)
{
	struct batch *batch;
	size_t reserved = 0;

	for (size_t i = 0; i < parsed->count; i++)
		reserved += refusal_size(parsed->messages[i].id);
	if (reserved > FRAME_ANSWER_MAX / 2)
		return NULL;
	batch = new_zeroed(sizeof(*batch));
	batch->line = line;
	batch->open = 1;
	batch->reserved = reserved;
	return batch;
}

void batch_expect(struct batch *batch)
{
	batch->open++;
}

void batch_add(struct batch *batch, const char *id, const struct text *answer)
{
	struct text refusal = {0};

	text_puts(&batch->answers, batch->answers.length ? "," : "[");
	batch->reserved -= refusal_size(id);
	if (batch->answers.length + answer->length + batch->reserved + sizeof("]") > FRAME_ANSWER_MAX) {
		rpc_put_error(&refusal, id, RPC_ID_NULL, RPC_INTERNAL_ERROR,
			"The answers of this batch are too long together. The request was served; send the next one like "
			"it on a line of its own.",
			NULL);
		answer = &refusal;
	}
	text_add(&batch->answers, answer->data, answer->length);
	text_free(&refusal);
}

static bool is_over(struct batch *batch)
{
	return --batch->open == 0;
}

static void batch_free(struct batch *batch)
{
	text_free(&batch->answers);
	free(batch);
}

void batch_release(struct batch *batch, struct conversation *conversation)
{
	if (!is_over(batch))
		return;
	if (batch->answers.length > 0) {
		text_puts(&batch->answers, "]");
		conversation_answer(conversation, batch->line, &batch->answers);
	} else {
		conversation_settle(conversation, batch->line);
	}
	batch_free(batch);
}

void batch_abandon(struct batch *batch)
{
	if (is_over(batch))
		batch_free(batch);
}
