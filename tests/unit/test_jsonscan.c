/*
 * test_jsonscan.c - the raw text of a member, exactly as it came.
 */
#include "unit.h"
#include "jsonscan.h"

/* The member's text, or NULL. */
static char *member(const char *text, size_t length, const char *name)
{
	struct json_span span;
	char *copy = exact_copy(text, length);
	char *result = NULL;

	if (json_scan_member(copy, length, name, &span)) {
		assert_true(span.text >= copy && span.text + span.length <= copy + length);
		result = strndup(span.text, span.length);
	}
	free(copy);
	return result;
}

static void assert_member(const char *text, const char *name, const char *expected)
{
	char *found = member(text, strlen(text), name);

	if (!found)
		fail_msg("%s: %s not found", text, name);
	assert_string_equal(found, expected);
	free(found);
}

static void assert_no_member(const char *text, const char *name)
{
	char *found = member(text, strlen(text), name);

	if (found)
		fail_msg("%s: %s should not be found, but is %s", text, name, found);
}

static void ids_of_every_kind_come_back_as_they_were_written(void **state)
{
	static const char *const ids[] = {
		"0",
		"-1",
		"-0",
		"1e3",
		"1.50",
		"9007199254740991",
		"1180591620717411303424",
		"\"\"",
		"\"abc\"",
		"\"1\"",
		"\"\\u00e9\\\"\\\\\"",
		"\"} , \\\"id\\\" : 7\"",
		"null",
		"true",
		"{\"a\":[1,2]}",
		"[[],{}]",
		"\"gr\xC3\xBC\xC3\x9F\"",
	};
	char text[200];

	(void)state;
	for (size_t i = 0; i < sizeof(ids) / sizeof(*ids); i++) {
		snprintf(text, sizeof(text), "{\"jsonrpc\":\"2.0\",\"id\":%s,\"method\":\"ping\"}", ids[i]);
		assert_member(text, "id", ids[i]);
		snprintf(text, sizeof(text), " \t{ \"id\" \r\n:\t%s }  ", ids[i]);
		assert_member(text, "id", ids[i]);
		snprintf(text, sizeof(text), "{\"a\":[{\"id\":99}],\"id\":%s}", ids[i]);
		assert_member(text, "id", ids[i]);
	}
}

static void of_several_the_last_one_counts(void **state)
{
	(void)state;
	assert_member("{\"id\":1,\"id\":2}", "id", "2");
	assert_member("{\"id\":1,\"x\":{\"id\":3},\"id\":\"b\",\"y\":0}", "id", "\"b\"");
}

static void a_member_further_inside_is_not_found(void **state)
{
	(void)state;
	assert_no_member("{\"params\":{\"id\":1}}", "id");
	assert_no_member("{\"params\":[\"id\",1]}", "id");
	assert_no_member("{\"a\":\"id\"}", "id");
	assert_no_member("{\"a\":\"\\\"id\\\":1\"}", "id");
}

static void names_are_compared_whole(void **state)
{
	(void)state;
	assert_no_member("{\"idx\":1}", "id");
	assert_no_member("{\"i\":1}", "id");
	assert_no_member("{\"ID\":1}", "id");
	assert_no_member("{\"\":1}", "id");
	assert_member("{\"\":1}", "", "1");
}

static void what_is_no_object_has_no_members(void **state)
{
	static const char *const others[] = {"", " ", "7", "\"id\"", "[{\"id\":1}]", "null", "{}", "{ }", "id:1"};

	(void)state;
	for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++)
		assert_no_member(others[i], "id");
}

static void a_broken_object_gives_nothing(void **state)
{
	static const char *const broken[] = {
		"{\"id\":1",
		"{\"id\":1,",
		"{\"id\":1,}",
		"{\"id\":}",
		"{\"id\"}",
		"{\"id\":1 2}",
		"{id:1}",
		"{\"id\":\"a}",
		"{\"id\":[1}",
		"{\"id\":1]",
		"{,\"id\":1}",
		"{\"id\":1,\"b}",
		"{\"id\":\"a\\\"}",
		"{\"id\" 1}",
		"{\"id\":,\"b\":1}",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(broken) / sizeof(*broken); i++)
		assert_no_member(broken[i], "id");
}

static void a_message_cut_anywhere_gives_nothing(void **state)
{
	static const char text[] = "{\"jsonrpc\":\"2.0\",\"id\":\"a\\\"b\",\"params\":{\"x\":[1,{\"y\":\"\\\\\"}]}}";

	(void)state;
	for (size_t length = 0; length < sizeof(text) - 1; length++)
		assert_null(member(text, length, "id"));
	assert_member(text, "id", "\"a\\\"b\"");
}

static void a_nul_is_no_end_of_text(void **state)
{
	static const char text[] = "{\"a\":\"x\0y\",\"id\":5}";
	char *found = member(text, sizeof(text) - 1, "id");

	(void)state;
	assert_non_null(found);
	assert_string_equal(found, "5");
	free(found);
	assert_null(member("{\"id\":5\0}", 9, "id"));
	assert_null(member("\0{\"id\":5}", 9, "id"));
}

static void deep_nesting_needs_no_stack(void **state)
{
	size_t depth = 1000000;
	char *text = malloc(2 * depth + 20);

	(void)state;
	assert_non_null(text);
	memcpy(text, "{\"a\":", 5);
	memset(text + 5, '[', depth);
	memset(text + 5 + depth, ']', depth);
	memcpy(text + 5 + 2 * depth, ",\"id\":1}", 8);
	char *found = member(text, 2 * depth + 13, "id");
	assert_non_null(found);
	assert_string_equal(found, "1");
	free(found);
	assert_null(member(text, 5 + depth, "id"));
	free(text);
}

static void the_elements_of_an_array_come_one_by_one(void **state)
{
	static const char text[] = " [ {\"id\":1} , [2,3],\"a,]b\" ,4,null ] ";
	static const char *const expected[] = {"{\"id\":1}", "[2,3]", "\"a,]b\"", "4", "null"};
	struct json_span element;
	size_t position = 0;

	(void)state;
	for (size_t i = 0; i < sizeof(expected) / sizeof(*expected); i++) {
		assert_true(json_scan_element(text, sizeof(text) - 1, &position, &element));
		assert_int_equal(element.length, strlen(expected[i]));
		assert_memory_equal(element.text, expected[i], element.length);
	}
	assert_false(json_scan_element(text, sizeof(text) - 1, &position, &element));
}

static void arrays_that_are_none_have_no_elements(void **state)
{
	static const char *const none[] = {"", "[", "[]", "[ ]", "{}", "7", "[,1]", "]"};
	struct json_span element;

	(void)state;
	for (size_t i = 0; i < sizeof(none) / sizeof(*none); i++) {
		size_t position = 0;
		assert_false(json_scan_element(none[i], strlen(none[i]), &position, &element));
	}
}

static void a_broken_array_ends_where_it_breaks(void **state)
{
	static const char text[] = "[1,\"a";
	struct json_span element;
	size_t position = 0;

	(void)state;
	assert_true(json_scan_element(text, sizeof(text) - 1, &position, &element));
	assert_false(json_scan_element(text, sizeof(text) - 1, &position, &element));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ids_of_every_kind_come_back_as_they_were_written),
		cmocka_unit_test(of_several_the_last_one_counts),
		cmocka_unit_test(a_member_further_inside_is_not_found),
		cmocka_unit_test(names_are_compared_whole),
		cmocka_unit_test(what_is_no_object_has_no_members),
		cmocka_unit_test(a_broken_object_gives_nothing),
		cmocka_unit_test(a_message_cut_anywhere_gives_nothing),
		cmocka_unit_test(a_nul_is_no_end_of_text),
		cmocka_unit_test(deep_nesting_needs_no_stack),
		cmocka_unit_test(the_elements_of_an_array_come_one_by_one),
		cmocka_unit_test(arrays_that_are_none_have_no_elements),
		cmocka_unit_test(a_broken_array_ends_where_it_breaks),
	};

	return cmocka_run_group_tests_name("jsonscan", tests, NULL, NULL);
}
