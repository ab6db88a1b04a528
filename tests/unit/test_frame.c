/*
 * test_frame.c - the wire format: what is built is read back, and nothing that arrives is trusted.
 */
#include "unit.h"
#include "frame.h"

static struct frame_builder builder;

static int free_builder(void **state)
{
	(void)state;
	frame_builder_free(&builder);
	assert_null(builder.data);
	return 0;
}

static void build_sample(void)
{
	frame_begin(&builder, 'A');
	frame_put_number(&builder, 7, UINT64_C(0x0102030405060708));
	frame_put_text(&builder, 8, "hello");
	frame_put(&builder, 200, NULL, 0);
	frame_end(&builder);
}

static void the_bytes_are_those_of_the_specification(void **state)
{
	static const uint8_t expected[] = {
		29, 0, 0, 0, 'A',                       /* length of the rest: 1 + 13 + 10 + 5; type */
		7, 8, 0, 0, 0, 8, 7, 6, 5, 4, 3, 2, 1,  /* a number: little-endian */
		8, 5, 0, 0, 0, 'h', 'e', 'l', 'l', 'o', /* a text: no NUL */
		200, 0, 0, 0, 0,                        /* an empty field */
	};

	(void)state;
	build_sample();
	assert_int_equal(builder.length, sizeof(expected));
	assert_memory_equal(builder.data, expected, sizeof(expected));
}

static void what_was_built_is_read_back(void **state)
{
	struct frame frame;
	struct field field;
	uint64_t number;
	size_t size;

	(void)state;
	build_sample();
	assert_int_equal(frame_open(builder.data, builder.length, &frame, &size), FRAME_READY);
	assert_int_equal(size, builder.length);
	assert_int_equal(frame.type, 'A');
	assert_int_equal(frame_next(&frame, &field), FRAME_READY);
	assert_int_equal(field.tag, 7);
	assert_true(field_number(&field, &number));
	assert_true(number == UINT64_C(0x0102030405060708));
	assert_int_equal(frame_next(&frame, &field), FRAME_READY);
	assert_int_equal(field.tag, 8);
	assert_false(field_number(&field, &number));
	char *text = field_text(&field, 5);
	assert_string_equal(text, "hello");
	free(text);
	assert_int_equal(frame_next(&frame, &field), FRAME_READY);
	assert_int_equal(field.tag, 200);
	assert_int_equal(field.length, 0);
	assert_int_equal(frame_next(&frame, &field), FRAME_INCOMPLETE);
	assert_int_equal(frame_next(&frame, &field), FRAME_INCOMPLETE);
}

static void numbers_keep_all_their_bits(void **state)
{
	static const uint64_t numbers[] = {0, 1, 0xFF, 0x80000000, 0xFFFFFFFF, UINT64_C(1) << 32, UINT64_MAX};
	struct frame frame;
	struct field field;
	uint64_t number;
	size_t size;

	(void)state;
	for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++) {
		frame_begin(&builder, 'N');
		frame_put_number(&builder, 1, numbers[i]);
		frame_end(&builder);
		assert_int_equal(frame_open(builder.data, builder.length, &frame, &size), FRAME_READY);
		assert_int_equal(frame_next(&frame, &field), FRAME_READY);
		assert_true(field_number(&field, &number));
		assert_true(number == numbers[i]);
	}
}

/* Returns how the whole reading ends: READY if all fields were good. */
static enum frame_status read_all(const void *data, size_t length)
{
	struct frame frame;
	struct field field;
	size_t size;
	uint8_t *copy = exact_copy(data, length);
	enum frame_status status = frame_open(copy, length, &frame, &size);

	if (status == FRAME_READY) {
		while ((status = frame_next(&frame, &field)) == FRAME_READY) {
			uint64_t number;
			bool is_number = field_number(&field, &number);
			assert_int_equal(is_number, field.length == 8);
			free(field_text(&field, length));
		}
		if (status == FRAME_INCOMPLETE)
			status = FRAME_READY;
	}
	free(copy);
	return status;
}

static void a_frame_cut_at_any_byte_is_incomplete(void **state)
{
	struct frame frame;
	size_t size;

	(void)state;
	build_sample();
	for (size_t length = 0; length < builder.length; length++) {
		assert_int_equal(read_all(builder.data, length), FRAME_INCOMPLETE);
		assert_int_equal(frame_open(builder.data, length, &frame, &size), FRAME_INCOMPLETE);
		assert_int_equal(size, length < 4 ? FRAME_HEADER : builder.length);
	}
	assert_int_equal(read_all(builder.data, builder.length), FRAME_READY);
}

/* The frame's own length is made shorter: then its last field overruns it, unless the cut falls between two fields. */
static void a_field_that_overruns_its_frame_is_broken(void **state)
{
	(void)state;
	build_sample();
	for (size_t rest = 1; rest < builder.length - 4; rest++) {
		bool between = rest == 1 || rest == 1 + 13 || rest == 1 + 13 + 10;
		uint8_t *copy = exact_copy(builder.data, 4 + rest);
		copy[0] = (uint8_t)rest;
		assert_int_equal(read_all(copy, 4 + rest), between ? FRAME_READY : FRAME_BROKEN);
		free(copy);
	}
}

static void a_field_of_the_greatest_length_is_broken(void **state)
{
	static const uint8_t bytes[] = {6, 0, 0, 0, 'A', 1, 0xFF, 0xFF, 0xFF, 0xFF};

	(void)state;
	assert_int_equal(read_all(bytes, sizeof(bytes)), FRAME_BROKEN);
}

static void the_length_is_judged_as_soon_as_it_is_there(void **state)
{
	static const struct {
		uint32_t rest;
		enum frame_status status;
	} lengths[] = {
		{0, FRAME_BROKEN}, /* not even a type */
		{1, FRAME_INCOMPLETE},
		{FRAME_MAX, FRAME_INCOMPLETE},
		{FRAME_MAX + 1, FRAME_BROKEN},
		{0x7FFFFFFF, FRAME_BROKEN},
		{0xFFFFFFFF, FRAME_BROKEN},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(lengths) / sizeof(*lengths); i++) {
		uint32_t rest = lengths[i].rest;
		uint8_t bytes[4] = {(uint8_t)rest, (uint8_t)(rest >> 8), (uint8_t)(rest >> 16), (uint8_t)(rest >> 24)};
		assert_int_equal(read_all(bytes, sizeof(bytes)), lengths[i].status);
	}
}

static void a_frame_without_fields_is_good(void **state)
{
	struct frame frame;
	struct field field;
	size_t size;

	(void)state;
	frame_begin(&builder, 'p');
	frame_end(&builder);
	assert_int_equal(builder.length, FRAME_HEADER);
	assert_int_equal(frame_open(builder.data, builder.length, &frame, &size), FRAME_READY);
	assert_int_equal(size, FRAME_HEADER);
	assert_int_equal(frame_next(&frame, &field), FRAME_INCOMPLETE);
}

static void frames_behind_each_other_are_told_apart(void **state)
{
	struct frame frame;
	size_t size;
	uint8_t both[2 * FRAME_HEADER];

	(void)state;
	frame_begin(&builder, '1');
	frame_end(&builder);
	memcpy(both, builder.data, FRAME_HEADER);
	memcpy(both + FRAME_HEADER, builder.data, FRAME_HEADER);
	both[FRAME_HEADER + 4] = '2';
	assert_int_equal(frame_open(both, sizeof(both), &frame, &size), FRAME_READY);
	assert_int_equal(frame.type, '1');
	assert_ptr_equal(frame.end, both + FRAME_HEADER);
	assert_int_equal(frame_open(both + size, sizeof(both) - size, &frame, &size), FRAME_READY);
	assert_int_equal(frame.type, '2');
}

static void the_longest_line_fits_with_its_fields(void **state)
{
	struct frame frame;
	struct field field;
	size_t size;
	char *line = malloc(FRAME_LINE_MAX);

	(void)state;
	assert_non_null(line);
	memset(line, 'x', FRAME_LINE_MAX);
	frame_begin(&builder, 'L');
	frame_put_number(&builder, 7, UINT64_MAX);
	frame_put(&builder, 8, line, FRAME_LINE_MAX);
	frame_end(&builder);
	assert_int_equal(frame_open(builder.data, builder.length, &frame, &size), FRAME_READY);
	assert_int_equal(frame_next(&frame, &field), FRAME_READY);
	assert_int_equal(frame_next(&frame, &field), FRAME_READY);
	assert_int_equal(field.length, FRAME_LINE_MAX);
	assert_memory_equal(field.data, line, FRAME_LINE_MAX);
	free(line);
}

static void a_text_that_is_too_long_or_holds_a_nul_is_refused(void **state)
{
	const struct field with_nul = {.tag = 1, .data = (const uint8_t *)"a\0b", .length = 3};
	const struct field plain = {.tag = 1, .data = (const uint8_t *)"abc", .length = 3};
	const struct field empty = {.tag = 1, .data = (const uint8_t *)"", .length = 0};

	(void)state;
	assert_null(field_text(&with_nul, 100));
	assert_null(field_text(&plain, 2));
	char *text = field_text(&plain, 3);
	assert_string_equal(text, "abc");
	free(text);
	text = field_text(&empty, 0);
	assert_string_equal(text, "");
	free(text);
}

static void only_eight_bytes_are_a_number(void **state)
{
	static const uint8_t bytes[16];
	uint64_t number;

	(void)state;
	for (size_t length = 0; length <= sizeof(bytes); length++) {
		const struct field field = {.tag = 1, .data = bytes, .length = length};
		assert_int_equal(field_number(&field, &number), length == 8);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_bytes_are_those_of_the_specification),
		cmocka_unit_test(what_was_built_is_read_back),
		cmocka_unit_test(numbers_keep_all_their_bits),
		cmocka_unit_test(a_frame_cut_at_any_byte_is_incomplete),
		cmocka_unit_test(a_field_that_overruns_its_frame_is_broken),
		cmocka_unit_test(a_field_of_the_greatest_length_is_broken),
		cmocka_unit_test(the_length_is_judged_as_soon_as_it_is_there),
		cmocka_unit_test(a_frame_without_fields_is_good),
		cmocka_unit_test(frames_behind_each_other_are_told_apart),
		cmocka_unit_test(the_longest_line_fits_with_its_fields),
		cmocka_unit_test(a_text_that_is_too_long_or_holds_a_nul_is_refused),
		cmocka_unit_test(only_eight_bytes_are_a_number),
	};

	return cmocka_run_group_tests_name("frame", tests, NULL, free_builder);
}
