/*
 * test_utf8.c - what is UTF-8 and what is not, and that repairing always gives UTF-8.
 */
#include "unit.h"
#include "utf8.h"

static size_t sequence(const char *text, uint32_t *code)
{
	uint8_t *copy = exact_copy(text, strlen(text));
	size_t size = utf8_sequence(copy, strlen(text), code);

	free(copy);
	return size;
}

static void every_character_survives_encoding_and_decoding(void **state)
{
	char bytes[4];
	uint32_t code;

	(void)state;
	for (uint32_t character = 0; character <= 0x10FFFF; character++) {
		if (character >= 0xD800 && character <= 0xDFFF)
			continue;
		size_t size = utf8_encode(character, bytes);
		size_t expected = character < 0x80 ? 1 : character < 0x800 ? 2 : character < 0x10000 ? 3 : 4;
		if (size != expected || utf8_sequence((const uint8_t *)bytes, size, &code) != size || code != character)
			fail_msg("U+%04X does not survive", (unsigned)character);
	}
}

static void what_is_no_character_is_encoded_as_the_replacement(void **state)
{
	static const uint32_t none[] = {0xD800, 0xDBFF, 0xDC00, 0xDFFF, 0x110000, 0xFFFFFFFF};
	char bytes[4];

	(void)state;
	for (size_t i = 0; i < sizeof(none) / sizeof(*none); i++) {
		assert_int_equal(utf8_encode(none[i], bytes), 3);
		assert_memory_equal(bytes, "\xEF\xBF\xBD", 3);
	}
}

static void the_borders_of_each_length_are_accepted(void **state)
{
	static const struct {
		const char *text;
		uint32_t code;
	} borders[] = {
		{"\x01", 0x1},
		{"\x7F", 0x7F},
		{"\xC2\x80", 0x80},
		{"\xDF\xBF", 0x7FF},
		{"\xE0\xA0\x80", 0x800},
		{"\xED\x9F\xBF", 0xD7FF},
		{"\xEE\x80\x80", 0xE000},
		{"\xEF\xBF\xBF", 0xFFFF},
		{"\xF0\x90\x80\x80", 0x10000},
		{"\xF4\x8F\xBF\xBF", 0x10FFFF},
	};
	uint32_t code;

	(void)state;
	for (size_t i = 0; i < sizeof(borders) / sizeof(*borders); i++) {
		assert_int_equal(sequence(borders[i].text, &code), strlen(borders[i].text));
		assert_int_equal(code, borders[i].code);
		assert_true(utf8_valid(borders[i].text, strlen(borders[i].text)));
	}
}

static void overlong_surrogate_and_far_sequences_are_refused(void **state)
{
	static const char *const bad[] = {
		"\x80",                     /* continuation without a start */
		"\xBF",                     /* likewise */
		"\xC0\x80",                 /* NUL in two bytes */
		"\xC1\xBF",                 /* DEL in two bytes */
		"\xE0\x80\x80",             /* NUL in three */
		"\xE0\x9F\xBF",             /* U+07FF in three */
		"\xF0\x80\x80\x80",         /* NUL in four */
		"\xF0\x8F\xBF\xBF",         /* U+FFFF in four */
		"\xED\xA0\x80",             /* U+D800 */
		"\xED\xBF\xBF",             /* U+DFFF */
		"\xF4\x90\x80\x80",         /* U+110000 */
		"\xF5\x80\x80\x80",         /* beyond all */
		"\xF8\x88\x80\x80\x80",     /* five bytes, as of old */
		"\xFC\x84\x80\x80\x80\x80", /* six */
		"\xFE", "\xFF", "\xC2\x41", /* a letter where a continuation belongs */
		"\xE2\x82\x41",             /* the same one byte later */
		"\xF0\x9F\x98\x41",         /* and two */
	};
	uint32_t code;

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		assert_int_equal(sequence(bad[i], &code), 0);
		assert_false(utf8_valid(bad[i], strlen(bad[i])));
	}
}

static void a_sequence_cut_anywhere_is_refused_and_not_read_beyond_its_end(void **state)
{
	static const char *const whole[] = {"\xC3\xA9", "\xE2\x82\xAC", "\xF0\x9F\x98\x80"};
	uint32_t code;

	(void)state;
	for (size_t i = 0; i < sizeof(whole) / sizeof(*whole); i++) {
		for (size_t length = 0; length < strlen(whole[i]); length++) {
			uint8_t *copy = exact_copy(whole[i], length);
			assert_int_equal(utf8_sequence(copy, length, &code), 0);
			assert_int_equal(utf8_valid(copy, length), length == 0);
			free(copy);
		}
	}
}

/* The check takes eight bytes at a time: a bad byte must be seen wherever it stands. */
static void one_bad_byte_is_found_at_every_place(void **state)
{
	(void)state;
	for (size_t length = 1; length <= 40; length++) {
		for (size_t place = 0; place < length; place++) {
			char *text = malloc(length);
			assert_non_null(text);
			memset(text, 'a', length);
			assert_true(utf8_valid(text, length));
			text[place] = '\xFF';
			assert_false(utf8_valid(text, length));
			free(text);
		}
	}
}

static void nul_is_a_character(void **state)
{
	(void)state;
	assert_true(utf8_valid("a\0b", 3));
	assert_true(utf8_valid(NULL, 0));
}

static void assert_repaired(const char *text, size_t length, const char *expected)
{
	size_t repaired_length;
	char *copy = exact_copy(text, length);
	char *repaired = utf8_repair(copy, length, &repaired_length);

	assert_int_equal(repaired_length, strlen(expected));
	assert_memory_equal(repaired, expected, repaired_length + 1);
	assert_true(utf8_valid(repaired, repaired_length));
	free(repaired);
	free(copy);
}

static void repairing_replaces_each_bad_byte_and_nothing_else(void **state)
{
	(void)state;
	assert_repaired("", 0, "");
	assert_repaired("plain", 5, "plain");
	assert_repaired("gr\xC3\xBC\xC3\x9F", 6, "gr\xC3\xBC\xC3\x9F");
	assert_repaired("a\xFFz", 3, "a\xEF\xBF\xBDz");
	assert_repaired("\xE2\x82", 2, "\xEF\xBF\xBD\xEF\xBF\xBD");
	assert_repaired("\xED\xA0\x80", 3, "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD");
	assert_repaired("12345678\xC3", 9, "12345678\xEF\xBF\xBD");
}

static void repairing_keeps_to_three_times_the_length(void **state)
{
	char text[64];
	size_t length;

	(void)state;
	memset(text, '\xFF', sizeof(text));
	char *repaired = utf8_repair(text, sizeof(text), &length);
	assert_int_equal(length, 3 * sizeof(text));
	assert_int_equal(repaired[length], '\0');
	free(repaired);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_character_survives_encoding_and_decoding),
		cmocka_unit_test(what_is_no_character_is_encoded_as_the_replacement),
		cmocka_unit_test(the_borders_of_each_length_are_accepted),
		cmocka_unit_test(overlong_surrogate_and_far_sequences_are_refused),
		cmocka_unit_test(a_sequence_cut_anywhere_is_refused_and_not_read_beyond_its_end),
		cmocka_unit_test(one_bad_byte_is_found_at_every_place),
		cmocka_unit_test(nul_is_a_character),
		cmocka_unit_test(repairing_replaces_each_bad_byte_and_nothing_else),
		cmocka_unit_test(repairing_keeps_to_three_times_the_length),
	};

	return cmocka_run_group_tests_name("utf8", tests, NULL, NULL);
}
