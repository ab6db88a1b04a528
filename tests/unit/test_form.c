/*
 * test_form.c - where the first form of a text ends.
 */
#include "unit.h"
#include "form.h"

static void expect_complete(const char *text, const char *first)
{
	char *copy = exact_copy(text, strlen(text));
	size_t end = 0;
	enum form_status status = form_scan(copy, strlen(text), &end);

	if (status != FORM_COMPLETE || end != strlen(first) || memcmp(text, first, end) != 0)
		fail_msg("in \"%s\" status %d, end %zu instead of \"%s\"", text, status, end, first);
	free(copy);
}

static void expect_status(const char *text, enum form_status wanted)
{
	char *copy = exact_copy(text, strlen(text));
	size_t end;
	enum form_status status = form_scan(copy, strlen(text), &end);

	if (status != wanted)
		fail_msg("\"%s\" has status %d instead of %d", text, status, wanted);
	free(copy);
}

static void one_form_is_taken_from_several(void **state)
{
	static const char *const forms[] = {
		"42",
		"foo",
		"(+ 1 2)",
		"((a) (b (c)))",
		"\"text\"",
		"\"a \\\" ( b\"",
		"'foo",
		"'(1 2)",
		"`(a ,b ,@c)",
		"#'car",
		"#(1 2 3)",
		"#2A((1 2) (3 4))",
		"#S(point :x 1)",
		"#P\"/tmp/\"",
		"#.(+ 1 2)",
		"#\\(",
		"#\\)",
		"#\\;",
		"#\\\"",
		"#\\Space",
		"#\\ ",
		"#:gensym",
		"#*1011",
		"#b101",
		"#C(1 2)",
		"#1=(a . #1#)",
		"|a ( b|",
		"a|;|b",
		"a\\(b",
		"pkg::|x y|z",
		"(list #\\( \"(\" |(| ; (\n #| ( |# 1)",
		"(a #+sbcl (b) c)",
		"#+(or ecl sbcl) (foo)",
		"#-ecl 1",
		"'#:x",
		"#| note |# (x)",
		"; note\n(x)",
	};
	char text[200];

	(void)state;
	for (size_t i = 0; i < sizeof(forms) / sizeof(*forms); i++) {
		snprintf(text, sizeof(text), "%s (next)", forms[i]);
		expect_complete(text, forms[i]);
		snprintf(text, sizeof(text), "%s\n", forms[i]);
		expect_complete(text, forms[i]);
	}
}

static void forms_need_no_blank_between_them(void **state)
{
	(void)state;
	expect_complete("(a)(b)", "(a)");
	expect_complete("\"a\"\"b\"", "\"a\"");
	expect_complete("a(b)", "a");
	expect_complete("a\"b\"", "a");
	expect_complete("a;b", "a");
}

static void what_is_open_needs_more(void **state)
{
	static const char *const open[] = {
		"(",
		"(a",
		"(a\n",
		"\"",
		"\"a\n",
		"\"a\\\"",
		"|a",
		"a|b",
		"'\n",
		"#'",
		"`(a ,",
		"#",
		"#(",
		"#|",
		"#| a #| b |#",
		"(a #| )",
		"(a ; )\n",
		"(a #\\)",
		"#\\",
		"#+ecl",
		"#+ecl\n",
		"#P\"a",
		"a\\",
		"(\"a)\n",
		"(|a)\n",
		"#2A((1 2)",
		"#1=\n",
		"#.",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(open) / sizeof(*open); i++)
		expect_status(open[i], FORM_INCOMPLETE);
}

static void blanks_and_comments_are_no_form(void **state)
{
	static const char *const none[] = {
		"", "\n", " \t\r\n\f", "; a (\n", "#| ( \" |#\n", "#| a #| b |# c |#", "; a"};

	(void)state;
	for (size_t i = 0; i < sizeof(none) / sizeof(*none); i++)
		expect_status(none[i], FORM_NONE);
}

static void a_stray_bracket_takes_the_rest_along(void **state)
{
	(void)state;
	expect_complete(") (a b)\n", ") (a b)\n");
	expect_complete("(a)) b\n", "(a)");
}

/* Whatever the bytes are, it comes to an end inside the text. */
static void any_bytes_are_survived(void **state)
{
	static const char alphabet[] = "()\"'`,;#|\\ \n1a+-.=@\0\xff";
	char text[12];
	uint32_t seed = 1;

	(void)state;
	for (int round = 0; round < 200000; round++) {
		size_t length = seed % sizeof(text) + 1, end = 1;

		for (size_t i = 0; i < length; i++) {
			seed = seed * 1664525 + 1013904223;
			text[i] = alphabet[(seed >> 16) % (sizeof(alphabet) - 1)];
		}
		char *copy = exact_copy(text, length);
		if (form_scan(copy, length, &end) == FORM_COMPLETE)
			assert_true(end >= 1 && end <= length);
		free(copy);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_form_is_taken_from_several),
		cmocka_unit_test(forms_need_no_blank_between_them),
		cmocka_unit_test(what_is_open_needs_more),
		cmocka_unit_test(blanks_and_comments_are_no_form),
		cmocka_unit_test(a_stray_bracket_takes_the_rest_along),
		cmocka_unit_test(any_bytes_are_survived),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
