/*
 * test_input.c - that a client's bytes become the same lines however they are cut, and that too long ones cost nothing.
 */
#include "unit.h"
#include "frame.h"
#include "input.h"

/* Small enough to stand here; the queue has no test of its own. */
#include "bytes.c"

static void feed(struct input *input, const char *data, size_t length)
{
	while (length > 0) {
		size_t space;
		void *room = input_room(input, &space);
		size_t part = length < space ? length : space;

		memcpy(room, data, part);
		input_added(input, part);
		data += part;
		length -= part;
	}
}

static void expect_line(struct input *input, const char *text)
{
	struct input_line line;

	assert_int_equal(input_next(input, &line), INPUT_LINE);
	assert_int_equal(line.length, strlen(text));
	assert_memory_equal(line.text, text, line.length);
}

static void expect_more(struct input *input)
{
	struct input_line line;

	assert_int_equal(input_next(input, &line), INPUT_MORE);
}

static void lines_are_split_at_each_line_feed(void **state)
{
	struct input input = {0};

	(void)state;
	feed(&input, "one\ntwo\nthr", 11);
	expect_line(&input, "one");
	expect_line(&input, "two");
	expect_more(&input);
	feed(&input, "ee\n", 3);
	expect_line(&input, "three");
	expect_more(&input);
	input_free(&input);
}

static void a_line_may_come_byte_by_byte(void **state)
{
	static const char text[] = "{\"id\":1}\r\n{\"id\":2}\n";
	struct input input = {0};
	struct input_line line;
	size_t lines = 0;

	(void)state;
	for (size_t i = 0; i < sizeof(text) - 1; i++) {
		feed(&input, text + i, 1);
		lines += input_next(&input, &line) == INPUT_LINE;
	}
	assert_int_equal(lines, 2);
	input_free(&input);
}

static void a_carriage_return_stays(void **state)
{
	struct input input = {0};

	(void)state;
	feed(&input, "one\r\n", 5);
	expect_line(&input, "one\r");
	input_free(&input);
}

static void blank_lines_are_skipped(void **state)
{
	struct input input = {0};

	(void)state;
	feed(&input, "\n\r\n \t \n\n  x\n\n", 13);
	expect_line(&input, "  x");
	expect_more(&input);
	input_end(&input);
	expect_more(&input);
	input_free(&input);
}

static void the_end_makes_a_line_of_what_is_left(void **state)
{
	struct input input = {0};

	(void)state;
	feed(&input, "one\ntwo", 7);
	expect_line(&input, "one");
	expect_more(&input);
	input_end(&input);
	expect_line(&input, "two");
	expect_more(&input);
	input_free(&input);
}

static void a_nul_is_a_byte_like_any_other(void **state)
{
	struct input input = {0};
	struct input_line line;

	(void)state;
	feed(&input, "a\0b\n", 4);
	assert_int_equal(input_next(&input, &line), INPUT_LINE);
	assert_int_equal(line.length, 3);
	assert_memory_equal(line.text, "a\0b", 3);
	input_free(&input);
}

static void feed_many(struct input *input, char byte, size_t length)
{
	char *block = malloc(length);

	assert_non_null(block);
	memset(block, byte, length);
	feed(input, block, length);
	free(block);
}

static void the_longest_line_is_a_line(void **state)
{
	struct input input = {0};
	struct input_line line;

	(void)state;
	feed_many(&input, 'x', FRAME_LINE_MAX);
	expect_more(&input);
	feed(&input, "\n", 1);
	assert_int_equal(input_next(&input, &line), INPUT_LINE);
	assert_int_equal(line.length, FRAME_LINE_MAX);
	assert_int_equal(line.text[0], 'x');
	assert_int_equal(line.text[FRAME_LINE_MAX - 1], 'x');
	expect_more(&input);
	input_free(&input);
}

static void a_longer_line_is_reported_once_and_takes_no_memory(void **state)
{
	struct input input = {0};
	struct input_line line;

	(void)state;
	feed_many(&input, 'x', FRAME_LINE_MAX + 1);
	assert_int_equal(input_next(&input, &line), INPUT_OVERSIZE);
	expect_more(&input);
	for (int i = 0; i < 32; i++) {
		feed_many(&input, 'x', 1u << 20);
		expect_more(&input);
		assert_true(input.bytes.capacity <= 2u << 20);
	}
	feed(&input, "x\nnext\n", 7);
	expect_line(&input, "next");
	expect_more(&input);
	input_free(&input);
}

static void a_longer_line_that_came_with_its_end_is_reported_too(void **state)
{
	struct input input = {0};
	struct input_line line;

	(void)state;
	feed(&input, "first\n", 6);
	feed_many(&input, 'x', FRAME_LINE_MAX + 1);
	feed(&input, "\nnext\n", 6);
	expect_line(&input, "first");
	assert_int_equal(input_next(&input, &line), INPUT_OVERSIZE);
	expect_line(&input, "next");
	expect_more(&input);
	input_free(&input);
}

static void a_too_long_line_may_be_the_last(void **state)
{
	struct input input = {0};
	struct input_line line;

	(void)state;
	feed_many(&input, 'x', FRAME_LINE_MAX + 5);
	input_end(&input);
	assert_int_equal(input_next(&input, &line), INPUT_OVERSIZE);
	expect_more(&input);
	expect_more(&input);
	input_free(&input);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lines_are_split_at_each_line_feed),
		cmocka_unit_test(a_line_may_come_byte_by_byte),
		cmocka_unit_test(a_carriage_return_stays),
		cmocka_unit_test(blank_lines_are_skipped),
		cmocka_unit_test(the_end_makes_a_line_of_what_is_left),
		cmocka_unit_test(a_nul_is_a_byte_like_any_other),
		cmocka_unit_test(the_longest_line_is_a_line),
		cmocka_unit_test(a_longer_line_is_reported_once_and_takes_no_memory),
		cmocka_unit_test(a_longer_line_that_came_with_its_end_is_reported_too),
		cmocka_unit_test(a_too_long_line_may_be_the_last),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
