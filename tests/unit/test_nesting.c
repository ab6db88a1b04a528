/*
 * test_nesting.c - how deep code is nested, whatever hides its parentheses.
 */
#include "unit.h"

#include "nesting.h"

#include <string.h>

static size_t depth(const char *code)
{
	return nesting_depth(code, strlen(code));
}

static void parentheses_are_counted(void **state)
{
	(void)state;
	assert_int_equal(depth(""), 0);
	assert_int_equal(depth("foo"), 0);
	assert_int_equal(depth("(+ 1 2)"), 1);
	assert_int_equal(depth("(a (b) (c (d)) (e)) (f)"), 3);
	assert_int_equal(depth("((("), 3);
}

static void more_closing_than_opening_ones_do_no_harm(void **state)
{
	(void)state;
	assert_int_equal(depth(")))) (a)"), 1);
}

static void strings_bars_characters_and_comments_hide_them(void **state)
{
	(void)state;
	assert_int_equal(depth("(a \"(((\" b)"), 1);
	assert_int_equal(depth("(a \"\\\"(((\" (b))"), 2);
	assert_int_equal(depth("(a |((| (b))"), 2);
	assert_int_equal(depth("(a #\\( #\\( (b))"), 2);
	assert_int_equal(depth("(a \\( (b))"), 2);
	assert_int_equal(depth("(a ; (((\n (b))"), 2);
	assert_int_equal(depth("(a #| (( #| (( |# (( |# (b))"), 2);
	assert_int_equal(depth("#\\\"(a (b))"), 2);
}

static void text_that_ends_in_the_middle_of_something_is_no_trouble(void **state)
{
	static const char *const texts[] = {"(\"", "(\"\\", "(|", "(#\\", "(#|", "(#| |", "(\\", "(;", "(#"};

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
		/* In memory of its own, so that the sanitizer sees a byte too many. */
		char *copy = strdup(texts[i]);
		assert_int_equal(nesting_depth(copy, strlen(texts[i])), 1);
		free(copy);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(parentheses_are_counted),
		cmocka_unit_test(more_closing_than_opening_ones_do_no_harm),
		cmocka_unit_test(strings_bars_characters_and_comments_hide_them),
		cmocka_unit_test(text_that_ends_in_the_middle_of_something_is_no_trouble),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
