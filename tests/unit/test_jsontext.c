/*
 * test_jsontext.c - JSON is read as json-c reads it, but strictly, and written as json-c writes it.
 */
#include "unit.h"
#include "jsontext.h"

#define STYLE (JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE)

static struct json_object *value;
static struct text text;

static int forget(void **state)
{
	(void)state;
	json_object_put(value);
	value = NULL;
	text_free(&text);
	return 0;
}

/* What is wrong with it, or NULL; the value is kept. */
static const char *read_bytes(const char *bytes, size_t length)
{
	char *copy = exact_copy(bytes, length);

	json_object_put(value);
	const char *problem = jsontext_read(copy, length, &value);
	free(copy);
	return problem;
}

static void assert_same(const char *json)
{
	struct json_object *theirs = json_tokener_parse(json);

	assert_null(read_bytes(json, strlen(json)));
	if (!json_object_equal(value, theirs))
		fail_msg("%s was read as %s", json, json_object_to_json_string(value));
	text_free(&text);
	jsontext_put(&text, value);
	assert_string_equal(text.data, json_object_to_json_string_ext(theirs, STYLE));
	assert_int_equal(text.length, strlen(text.data));
	json_object_put(theirs);
}

static void values_are_read_and_written_as_by_json_c(void **state)
{
	static const char *const texts[] = {"null", "true", "false", "0", "-0", "7", "-1", "9223372036854775807",
		"9223372036854775808", "18446744073709551615", "18446744073709551616", "99999999999999999999999",
		"-9223372036854775808", "-9223372036854775809", "-99999999999999999999", "0.5", "-1.25e-3", "1e400",
		"1E+2", "0.1000", "\"\"", "\"a\"", "\"/\\/\"", "\"\\\"\\\\\\b\\f\\n\\r\\t\"", "\"gr\xC3\xBC\xC3\x9F\"",
		"\"\\u0061\\u00fc\\u20AC\\u0000x\"", "\"\\ud83d\\ude00\"", "\"\x7F\"", "[]", "{}", "[[],{}]",
		" [ 1 ,\t\"b\" , null ]\r", "\n{\n\t\"a\" :\n[\n1\n,\n2 ]\r\n}\n",
		"{\"a\":1,\"b\":{\"c\":[true,false,null]},\"a\":2}", "{\"\":0}", "{\"\\u0061\\n\":\"\\u0001\\u001f\"}"};

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++)
		assert_same(texts[i]);
}

static void half_a_surrogate_pair_becomes_a_replacement_character(void **state)
{
	static const char *const texts[] = {
		"\"\\ud83d\"", "\"\\ude00\"", "\"\\ud83d\\ud83d\\ude00\"", "\"\\ud83d\\n\"", "\"\\ud83dx\""};
	static const char *const meanings[] = {"\"\xEF\xBF\xBD\"", "\"\xEF\xBF\xBD\"",
		"\"\xEF\xBF\xBD\xF0\x9F\x98\x80\"", "\"\xEF\xBF\xBD\\n\"", "\"\xEF\xBF\xBDx\""};

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
		assert_null(read_bytes(texts[i], strlen(texts[i])));
		text_free(&text);
		jsontext_put(&text, value);
		assert_string_equal(text.data, meanings[i]);
	}
}

static void no_beginning_of_an_object_is_one(void **state)
{
	static const char json[] = "{\"a\\u0062\":[1.5e3,\"\\ud83d\\ude00\",{\"c\":null}],\"d\":true,\"e\":-0}";

	(void)state;
	for (size_t length = 0; length < sizeof(json) - 1; length++) {
		assert_non_null(read_bytes(json, length));
		assert_null(value);
	}
	assert_null(read_bytes(json, sizeof(json) - 1));
}

static void only_sane_depths_are_read(void **state)
{
	char brackets[130];

	(void)state;
	for (size_t depth = 63; depth <= 64; depth++) {
		memset(brackets, '[', depth);
		memset(brackets + depth, ']', depth);
		const char *problem = read_bytes(brackets, 2 * depth);
		if (depth == 63)
			assert_null(problem);
		else
			assert_string_equal(problem, "The message is nested too deeply");
	}
	/* How many there are does not matter. */
	brackets[0] = '[';
	for (size_t at = 1; at < sizeof(brackets) - 1; at += 2)
		memcpy(brackets + at, at > 1 ? ",1" : " 1", 2);
	brackets[sizeof(brackets) - 1] = ']';
	assert_null(read_bytes(brackets, sizeof(brackets)));
}

static void what_is_written_piece_by_piece_is_whole(void **state)
{
	struct json_object *rest = json_tokener_parse("{\"d\":[],\"e\":null}"), *nothing = json_object_new_object();

	(void)state;
	text_puts(&text, "{");
	jsontext_put_members(&text, nothing);
	jsontext_put_name(&text, "{a");
	text_puts(&text, "[");
	jsontext_put_element(&text, "[", 1);
	jsontext_put_element(&text, "", 0);
	text_puts(&text, "]");
	jsontext_put_name(&text, "b");
	jsontext_put_number(&text, UINT64_MAX);
	jsontext_put_name(&text, "c");
	jsontext_put_number(&text, 0);
	jsontext_put_members(&text, rest);
	text_puts(&text, "}");
	assert_string_equal(text.data, "{\"{a\":[\"[\",\"\"],\"b\":18446744073709551615,\"c\":0,\"d\":[],\"e\":null}");
	json_object_put(rest);
	json_object_put(nothing);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(values_are_read_and_written_as_by_json_c, forget),
		cmocka_unit_test_teardown(half_a_surrogate_pair_becomes_a_replacement_character, forget),
		cmocka_unit_test_teardown(no_beginning_of_an_object_is_one, forget),
		cmocka_unit_test_teardown(only_sane_depths_are_read, forget),
		cmocka_unit_test_teardown(what_is_written_piece_by_piece_is_whole, forget),
	};

	return cmocka_run_group_tests_name("jsontext", tests, NULL, NULL);
}
