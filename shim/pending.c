/*
 * pending.c - the list of unsettled lines.
 *
 * An array by rising number: found by halving, appended at the end, swept when more than half of it is settled. So a
 * request that stays open for days costs nothing to the thousands that come and go behind it.
 */
#include "pending.h"

#include <stdlib.h>
#include <string.h>

#include "link.h"

#define FIRST_CAPACITY 16
#define SWEEP_FROM 64

static size_t memory_of(const struct pending_line *line)
{
	return sizeof(*line) + line->frame.capacity;
}

static struct pending_line *append(struct pending *pending)
{
	if (pending->count == pending->capacity) {
		pending->capacity = pending->capacity ? pending->capacity * 2 : FIRST_CAPACITY;
		pending->lines = realloc(pending->lines, pending->capacity * sizeof(*pending->lines));
		if (!pending->lines)
			abort();
	}
	struct pending_line *line = &pending->lines[pending->count++];
	*line = (struct pending_line){.number = ++pending->last_number};
	pending->waiting++;
	return line;
}

void pending_add(struct pending *pending, const char *text, size_t length)
{
	uint64_t open[LINK_OPEN_MAX];
	size_t count;
	uint64_t settled = pending_settled_save(pending, open, LINK_OPEN_MAX, &count);
	struct pending_line *line = append(pending);

	frame_begin(&line->frame, LINK_LINE);
	frame_put_number(&line->frame, LINK_TAG_LINE, line->number);
	frame_put_number(&line->frame, LINK_TAG_LINES_SETTLED, settled);
	frame_put(&line->frame, LINK_TAG_TEXT, text, length);
	for (size_t i = 0; i < count; i++)
		frame_put_number(&line->frame, LINK_TAG_OPEN, open[i]);
	frame_end(&line->frame);
	pending->memory += memory_of(line);
}

void pending_add_oversize(struct pending *pending)
{
	struct pending_line *line = append(pending);

	frame_begin(&line->frame, LINK_OVERSIZE);
	frame_put_number(&line->frame, LINK_TAG_LINE, line->number);
	frame_end(&line->frame);
	pending->memory += memory_of(line);
}

static struct pending_line *find(const struct pending *pending, uint64_t number)
{
	size_t low = 0, high = pending->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (pending->lines[middle].number < number)
			low = middle + 1;
		else
			high = middle;
	}
	return low < pending->count && pending->lines[low].number == number ? &pending->lines[low] : NULL;
}

static bool half_sent(const struct pending *pending, const struct pending_line *line)
{
	return line == pending->lines + pending->unsent && pending->unsent_offset > 0;
}

/* An answered line is never sent again, so its frame can go; but a frame that was begun must be finished. */
static void release_frame(struct pending *pending, struct pending_line *line)
{
	if (half_sent(pending, line))
		return;
	pending->memory -= line->frame.capacity;
	frame_builder_free(&line->frame);
}

/* Removes the settled lines once they are the greater part. */
static void sweep(struct pending *pending)
{
	size_t kept = 0, unsent = pending->count;

	if (pending->settled < pending->count &&
		(pending->settled < SWEEP_FROM || pending->settled * 2 < pending->count))
		return;
	for (size_t i = 0; i < pending->count; i++) {
		if (i == pending->unsent)
			unsent = kept;
		if (pending->lines[i].state != PENDING_SETTLED || half_sent(pending, &pending->lines[i]))
			pending->lines[kept++] = pending->lines[i];
		else
			pending->settled--;
	}
	pending->unsent = pending->unsent < pending->count ? unsent : kept;
	pending->count = kept;
}

bool pending_answered(struct pending *pending, uint64_t number)
{
	struct pending_line *line = find(pending, number);

	if (!line || line->state != PENDING_WAITING)
		return false;
	line->state = PENDING_ANSWERED;
	pending->waiting--;
	release_frame(pending, line);
	return true;
}

bool pending_settle(struct pending *pending, uint64_t number)
{
	struct pending_line *line = find(pending, number);

	if (!line || line->state == PENDING_SETTLED)
		return false;
	if (line->state == PENDING_WAITING) {
		pending->waiting--;
		release_frame(pending, line);
	}
	line->state = PENDING_SETTLED;
	pending->memory -= sizeof(*line);
	pending->settled++;
	sweep(pending);
	return true;
}

uint64_t pending_settled_save(const struct pending *pending, uint64_t *open, size_t max, size_t *count)
{
	uint64_t settled = 0;
	size_t seen = 0;

	*count = 0;
	/* The line behind the last one has not come yet. */
	for (size_t i = 0; i <= pending->count; i++) {
		bool is_last = i == pending->count;
		uint64_t number = is_last ? pending->last_number + 1 : pending->lines[i].number;

		if (!is_last && pending->lines[i].state == PENDING_SETTLED)
			continue;
		if (seen == 0 || open[seen - 1] + 1 < number) {
			settled = number - 1;
			*count = seen;
		}
		if (seen == max || is_last)
			break;
		open[seen++] = number;
	}
	return settled;
}

uint64_t pending_settled_up_to(const struct pending *pending)
{
	size_t count;

	return pending_settled_save(pending, NULL, 0, &count);
}

const struct pending_line *pending_first_waiting(const struct pending *pending)
{
	for (size_t i = 0; i < pending->count && pending->waiting > 0; i++)
		if (pending->lines[i].state == PENDING_WAITING)
			return &pending->lines[i];
	return NULL;
}

const char *pending_text(const struct pending_line *line, size_t *length)
{
	struct frame frame;
	struct field field;
	size_t size;

	if (frame_open(line->frame.data, line->frame.length, &frame, &size) != FRAME_READY)
		return NULL;
	while (frame_next(&frame, &field) == FRAME_READY)
		if (field.tag == LINK_TAG_TEXT) {
			*length = field.length;
			return (const char *)field.data;
		}
	return NULL;
}

/* Steps over lines whose answer came before they were sent again. */
static void skip_answered(struct pending *pending)
{
	while (pending->unsent < pending->count && pending->lines[pending->unsent].state != PENDING_WAITING)
		pending->unsent++;
}

void pending_rewind(struct pending *pending)
{
	/* A begun frame of a line that was answered meanwhile has nobody left to go to. */
	if (pending->unsent < pending->count && pending->unsent_offset > 0) {
		struct pending_line *line = &pending->lines[pending->unsent];

		pending->unsent_offset = 0;
		if (line->state != PENDING_WAITING)
			release_frame(pending, line);
	}
	pending->unsent = 0;
	pending->unsent_offset = 0;
	skip_answered(pending);
}

size_t pending_gather(const struct pending *pending, struct iovec *pieces, size_t max)
{
	size_t used = 0, offset = pending->unsent_offset;

	for (size_t i = pending->unsent; i < pending->count && used < max; i++) {
		const struct frame_builder *frame = &pending->lines[i].frame;

		if (pending->lines[i].state != PENDING_WAITING && offset == 0)
			continue;
		pieces[used].iov_base = frame->data + offset;
		pieces[used++].iov_len = frame->length - offset;
		offset = 0;
	}
	return used;
}

void pending_sent(struct pending *pending, size_t length)
{
	while (length > 0) {
		if (pending->unsent_offset == 0)
			skip_answered(pending);
		struct pending_line *line = &pending->lines[pending->unsent];
		size_t left = line->frame.length - pending->unsent_offset;

		line->was_sent = true;
		if (length < left) {
			pending->unsent_offset += length;
			return;
		}
		length -= left;
		pending->unsent_offset = 0;
		if (line->state != PENDING_WAITING)
			release_frame(pending, line);
		pending->unsent++;
	}
}

void pending_free(struct pending *pending)
{
	for (size_t i = 0; i < pending->count; i++)
		frame_builder_free(&pending->lines[i].frame);
	free(pending->lines);
	*pending = (struct pending){0};
}
