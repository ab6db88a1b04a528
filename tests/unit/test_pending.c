/*
 * test_pending.c - that every line is sent in order, again on each new connection, and never once it is answered.
 */
#include "unit.h"
#include "link.h"
#include "pending.h"

#define PIECES 8

static void add(struct pending *pending, const char *text)
{
	pending_add(pending, text, strlen(text));
}

/* Sends up to limit bytes and appends them to sent. */
static size_t send_some(struct pending *pending, struct frame_builder *sent, size_t limit)
{
	struct iovec pieces[PIECES];
	size_t count = pending_gather(pending, pieces, PIECES), total = 0;

	for (size_t i = 0; i < count && total < limit; i++) {
		size_t part = pieces[i].iov_len < limit - total ? pieces[i].iov_len : limit - total;

		sent->data = realloc(sent->data, sent->length + part);
		memcpy(sent->data + sent->length, pieces[i].iov_base, part);
		sent->length += part;
		total += part;
	}
	pending_sent(pending, total);
	return total;
}

static void send_all(struct pending *pending, struct frame_builder *sent)
{
	while (send_some(pending, sent, 1000) > 0)
		;
}

/* The numbers of the lines in what was sent, as digits; every frame must be whole. */
static void expect_sent(struct frame_builder *sent, const char *numbers)
{
	char found[64] = "";
	size_t at = 0, size;
	struct frame frame;
	struct field field;
	uint64_t number;

	while (at < sent->length) {
		assert_int_equal(frame_open(sent->data + at, sent->length - at, &frame, &size), FRAME_READY);
		assert_int_equal(frame_next(&frame, &field), FRAME_READY);
		assert_true(field.tag == LINK_TAG_LINE && field_number(&field, &number));
		snprintf(found + strlen(found), sizeof(found) - strlen(found), "%d", (int)number);
		at += size;
	}
	assert_string_equal(found, numbers);
	free(sent->data);
	*sent = (struct frame_builder){0};
}

static void lines_are_numbered_from_one_and_sent_in_order(void **state)
{
	struct pending pending = {0};
	struct frame_builder sent = {0};

	(void)state;
	add(&pending, "one");
	add(&pending, "two");
	pending_add_oversize(&pending);
	assert_int_equal(pending.last_number, 3);
	send_all(&pending, &sent);
	expect_sent(&sent, "123");
	assert_int_equal(send_some(&pending, &sent, 1000), 0);
	pending_free(&pending);
}

static void any_cut_of_the_bytes_gives_the_same_frames(void **state)
{
	(void)state;
	for (size_t limit = 1; limit < 40; limit++) {
		struct pending pending = {0};
		struct frame_builder sent = {0};

		add(&pending, "one");
		add(&pending, "two");
		pending_add_oversize(&pending);
		while (send_some(&pending, &sent, limit) > 0)
			;
		expect_sent(&sent, "123");
		pending_free(&pending);
	}
}

static void only_what_waits_is_sent_again(void **state)
{
	struct pending pending = {0};
	struct frame_builder sent = {0};

	(void)state;
	for (int i = 0; i < 5; i++)
		add(&pending, "line");
	send_all(&pending, &sent);
	expect_sent(&sent, "12345");
	assert_true(pending_answered(&pending, 1));
	assert_true(pending_settle(&pending, 4));
	pending_rewind(&pending);
	send_all(&pending, &sent);
	expect_sent(&sent, "235");
	assert_int_equal(pending.waiting, 3);
	pending_free(&pending);
}

static void an_answer_counts_once(void **state)
{
	struct pending pending = {0};

	(void)state;
	add(&pending, "one");
	assert_false(pending_answered(&pending, 2));
	assert_false(pending_answered(&pending, 0));
	assert_true(pending_answered(&pending, 1));
	assert_false(pending_answered(&pending, 1));
	assert_true(pending_settle(&pending, 1));
	assert_false(pending_settle(&pending, 1));
	assert_false(pending_answered(&pending, 1));
	assert_int_equal(pending.memory, 0);
	pending_free(&pending);
}

static void settled_up_to_is_the_last_before_the_first_open_one(void **state)
{
	struct pending pending = {0};

	(void)state;
	assert_int_equal(pending_settled_up_to(&pending), 0);
	for (int i = 0; i < 4; i++)
		add(&pending, "line");
	assert_true(pending_settle(&pending, 3));
	assert_int_equal(pending_settled_up_to(&pending), 0);
	assert_true(pending_settle(&pending, 1));
	assert_int_equal(pending_settled_up_to(&pending), 1);
	/* Answered, but not yet on stdout. */
	assert_true(pending_answered(&pending, 2));
	assert_int_equal(pending_settled_up_to(&pending), 1);
	assert_true(pending_settle(&pending, 2));
	assert_int_equal(pending_settled_up_to(&pending), 3);
	assert_true(pending_settle(&pending, 4));
	assert_int_equal(pending_settled_up_to(&pending), 4);
	pending_free(&pending);
}

static void a_begun_frame_is_finished_although_its_answer_came(void **state)
{
	(void)state;
	for (int settle = 0; settle < 2; settle++) {
		struct pending pending = {0};
		struct frame_builder sent = {0};

		add(&pending, "a line that is long enough to be cut");
		add(&pending, "two");
		assert_int_equal(send_some(&pending, &sent, 10), 10);
		assert_true(pending_answered(&pending, 1));
		if (settle)
			assert_true(pending_settle(&pending, 1));
		send_all(&pending, &sent);
		expect_sent(&sent, "12");
		pending_rewind(&pending);
		send_all(&pending, &sent);
		expect_sent(&sent, "2");
		pending_free(&pending);
	}
}

static void a_begun_frame_is_dropped_with_its_connection(void **state)
{
	struct pending pending = {0};
	struct frame_builder sent = {0};

	(void)state;
	add(&pending, "a line that is long enough to be cut");
	add(&pending, "two");
	send_some(&pending, &sent, 10);
	assert_true(pending_answered(&pending, 1));
	pending_rewind(&pending);
	free(sent.data);
	sent = (struct frame_builder){0};
	send_all(&pending, &sent);
	expect_sent(&sent, "2");
	pending_free(&pending);
}

static void the_text_is_kept_for_an_answer_of_our_own(void **state)
{
	struct pending pending = {0};
	const struct pending_line *line;
	size_t length;

	(void)state;
	add(&pending, "one");
	pending_add_oversize(&pending);
	line = pending_first_waiting(&pending);
	assert_non_null(line);
	assert_false(line->was_sent);
	assert_memory_equal(pending_text(line, &length), "one", 3);
	assert_int_equal(length, 3);
	assert_true(pending_settle(&pending, 1));
	line = pending_first_waiting(&pending);
	assert_int_equal(line->number, 2);
	assert_null(pending_text(line, &length));
	assert_true(pending_settle(&pending, 2));
	assert_null(pending_first_waiting(&pending));
	pending_free(&pending);
}

static void a_request_that_stays_open_holds_no_others(void **state)
{
	struct pending pending = {0};
	struct frame_builder sent = {0};

	(void)state;
	add(&pending, "stays open");
	for (uint64_t i = 2; i <= 100000; i++) {
		add(&pending, "comes and goes");
		while (send_some(&pending, &sent, 1000) > 0)
			sent.length = 0;
		assert_true(pending_settle(&pending, i));
	}
	assert_true(pending.capacity < 1000);
	assert_true(pending.memory < 1000);
	assert_int_equal(pending.waiting, 1);
	assert_true(pending_settle(&pending, 1));
	assert_int_equal(pending.memory, 0);
	free(sent.data);
	pending_free(&pending);
}

static void what_is_settled_behind_open_lines_is_told_with_them(void **state)
{
	struct pending pending = {0};
	uint64_t open[2];
	size_t count;

	(void)state;
	for (int i = 0; i < 9; i++)
		add(&pending, "x");
	assert_int_equal(pending_settled_save(&pending, open, 2, &count), 0);
	assert_int_equal(count, 0);
	assert_true(pending_settle(&pending, 2));
	assert_true(pending_settle(&pending, 3));
	assert_int_equal(pending_settled_save(&pending, open, 2, &count), 3);
	assert_true(count == 1 && open[0] == 1);
	assert_true(pending_settle(&pending, 5));
	assert_true(pending_settle(&pending, 7)); /* behind a third one */
	assert_int_equal(pending_settled_save(&pending, open, 2, &count), 5);
	assert_true(count == 2 && open[0] == 1 && open[1] == 4);
	assert_true(pending_settle(&pending, 1));
	assert_true(pending_settle(&pending, 4));
	assert_true(pending_settle(&pending, 8));
	assert_true(pending_settle(&pending, 9));
	assert_int_equal(pending_settled_save(&pending, open, 2, &count), 9);
	assert_true(count == 1 && open[0] == 6);
	assert_int_equal(pending_settled_up_to(&pending), 5);
	pending_free(&pending);
}

static void a_text_is_found_among_what_is_said_with_it(void **state)
{
	struct pending pending = {0};
	size_t length;

	(void)state;
	add(&pending, "open");
	add(&pending, "two");
	assert_true(pending_settle(&pending, 2));
	add(&pending, "three");
	assert_memory_equal(pending_text(&pending.lines[pending.count - 1], &length), "three", 5);
	assert_int_equal(length, 5);
	pending_free(&pending);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lines_are_numbered_from_one_and_sent_in_order),
		cmocka_unit_test(any_cut_of_the_bytes_gives_the_same_frames),
		cmocka_unit_test(only_what_waits_is_sent_again),
		cmocka_unit_test(an_answer_counts_once),
		cmocka_unit_test(settled_up_to_is_the_last_before_the_first_open_one),
		cmocka_unit_test(what_is_settled_behind_open_lines_is_told_with_them),
		cmocka_unit_test(a_text_is_found_among_what_is_said_with_it),
		cmocka_unit_test(a_begun_frame_is_finished_although_its_answer_came),
		cmocka_unit_test(a_begun_frame_is_dropped_with_its_connection),
		cmocka_unit_test(the_text_is_kept_for_an_answer_of_our_own),
		cmocka_unit_test(a_request_that_stays_open_holds_no_others),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
