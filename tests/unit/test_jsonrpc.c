/*
 * test_jsonrpc.c - what is a request, what is none, and that ids go back exactly as they came.
 */
#include "unit.h"
#include "jsonrpc.h"

static struct rpc_line line;

static int free_line(void **state)
{
	(void)state;
	rpc_line_free(&line);
	return 0;
}

static struct rpc_message *parse_bytes(const char *text, size_t length)
{
	char *copy = exact_copy(text, length);

	rpc_line_free(&line);
	rpc_parse(copy, length, &line);
	free(copy); /* nothing may point into the text afterwards */
	return line.messages;
}

static struct rpc_message *parse(const char *text)
{
	return parse_bytes(text, strlen(text));
}

static void assert_invalid(const char *text, enum rpc_code code)
{
	struct rpc_message *message = parse(text);

	if (line.batch || line.count != 1 || message->kind != RPC_INVALID || message->code != code || !message->problem)
		fail_msg("%.60s: kind %d, code %d", text, (int)message->kind, (int)message->code);
}

static void requests_notifications_and_responses_are_told_apart(void **state)
{
	struct rpc_message *message;

	(void)state;
	message = parse("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"a/b\",\"params\":{\"x\":1}}");
	assert_int_equal(message->kind, RPC_REQUEST);
	assert_string_equal(message->id, "1");
	assert_string_equal(message->method, "a/b");
	assert_true(json_object_is_type(message->params, json_type_object));
	message = parse("{\"jsonrpc\":\"2.0\",\"method\":\"a\"}");
	assert_int_equal(message->kind, RPC_NOTIFICATION);
	assert_null(message->id);
	assert_null(message->params);
	message = parse("{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}");
	assert_int_equal(message->kind, RPC_RESPONSE);
	message = parse("{\"jsonrpc\":\"2.0\",\"id\":\"x\",\"error\":{\"code\":1,\"message\":\"m\"}}");
	assert_int_equal(message->kind, RPC_RESPONSE);
}

static void legal_ids_are_kept_as_they_were_written(void **state)
{
	static const char *const ids[] = {"0", "-1", "7", "9007199254740991", "9223372036854775808",
		"123456789012345678901234567890", "\"\"", "\"abc\"", "\"0\"", "\"\\u0061\\n\\\"\"",
		"\"gr\xC3\xBC\xC3\x9F\"", "\"\\ud83d\\ude00\""};
	char text[200];

	(void)state;
	for (size_t i = 0; i < sizeof(ids) / sizeof(*ids); i++) {
		snprintf(text, sizeof(text), " {\"method\":\"ping\" , \"id\" : %s ,\"jsonrpc\":\"2.0\"}\r", ids[i]);
		struct rpc_message *message = parse(text);
		assert_int_equal(message->kind, RPC_REQUEST);
		assert_string_equal(message->id, ids[i]);
	}
}

static void other_ids_are_refused(void **state)
{
	static const char *const ids[] = {"null", "1.5", "1e3", "1.0", "true", "{}", "[1]"};
	char text[200];

	(void)state;
	for (size_t i = 0; i < sizeof(ids) / sizeof(*ids); i++) {
		snprintf(text, sizeof(text), "{\"jsonrpc\":\"2.0\",\"id\":%s,\"method\":\"ping\"}", ids[i]);
		assert_invalid(text, RPC_INVALID_REQUEST);
		assert_null(line.messages[0].id);
	}
}

static void of_two_ids_the_one_that_is_echoed_is_the_one_that_was_judged(void **state)
{
	struct rpc_message *message = parse("{\"jsonrpc\":\"2.0\",\"id\":1,\"id\":\"two\",\"method\":\"ping\"}");

	(void)state;
	assert_int_equal(message->kind, RPC_REQUEST);
	assert_string_equal(message->id, "\"two\"");
	assert_invalid("{\"jsonrpc\":\"2.0\",\"id\":1,\"id\":null,\"method\":\"ping\"}", RPC_INVALID_REQUEST);
	message = parse("{\"jsonrpc\":\"2.0\",\"id\":[1],\"\\u0069d\":\"two\",\"method\":\"ping\"}");
	assert_string_equal(message->id, "\"two\"");
}

static void an_id_whose_name_is_written_with_escapes_is_an_id(void **state)
{
	struct rpc_message *message = parse("{\"jsonrpc\":\"2.0\",\"\\u0069d\":5,\"method\":\"ping\"}");

	(void)state;
	assert_int_equal(message->kind, RPC_REQUEST);
	assert_string_equal(message->id, "5");
}

static void an_id_that_is_too_long_for_an_answer_is_refused(void **state)
{
	static const char *const names[] = {"id", "\\u0069d"};
	char text[RPC_ID_MAX + 100];

	(void)state;
	for (size_t i = 0; i < 2; i++)
		for (int size = RPC_ID_MAX - 2; size <= RPC_ID_MAX - 1; size++) {
			snprintf(text, sizeof(text), "{\"jsonrpc\":\"2.0\",\"%s\":\"%0*d\",\"method\":\"ping\"}",
				names[i], size, 0);
			assert_int_equal(parse(text)->kind, size + 2 <= RPC_ID_MAX ? RPC_REQUEST : RPC_INVALID);
		}
}

static void the_id_of_an_invalid_request_is_told(void **state)
{
	(void)state;
	assert_invalid("{\"id\":3,\"method\":\"ping\"}", RPC_INVALID_REQUEST);
	assert_string_equal(line.messages[0].id, "3");
	assert_invalid("{\"jsonrpc\":\"1.0\",\"id\":\"a\",\"method\":\"ping\"}", RPC_INVALID_REQUEST);
	assert_string_equal(line.messages[0].id, "\"a\"");
}

static void what_is_json_but_no_request_is_invalid(void **state)
{
	static const char *const texts[] = {"1", "\"a\"", "null", "true", "{}", "{\"jsonrpc\":\"2.0\"}",
		"{\"jsonrpc\":2.0,\"id\":1,\"method\":\"a\"}", "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":5}",
		"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":null}", "{\"jsonrpc\":\"2.0\",\"id\":1}",
		"{\"jsonrpc\":\"2.0\\u0000\",\"id\":1,\"method\":\"a\"}",
		"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\\u0000\"}"};

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++)
		assert_invalid(texts[i], RPC_INVALID_REQUEST);
}

static void what_is_no_json_is_a_parse_error(void **state)
{
	static const char *const texts[] = {"", " ", "{", "}", "[", "{\"a\":1", "{\"a\":1}}", "{} {}", "{'a':1}",
		"{\"a\":NaN}", "{\"a\":Infinity}", "{\"a\":-Infinity}", "{\"a\":01}", "{\"a\":-01}", "{\"a\":00}",
		"{\"a\":1.}", "{\"a\":1.e5}", "{\"a\":-.5}", "{\"a\":.5}", "{\"a\":+1}", "{\"a\":0x10}", "{\"a\":1e}",
		"{\"a\":-}", "{\"a\":tru}", "{\"a\":True}", "{\"a\":nul}", "{\"a\":\"\t\"}", "{\"a\":\"\x01\"}",
		"{\"a\":\"\\x\"}", "{\"a\":\"\\u12\"}", "{\"a\":\"}", "{\"a\" 1}", "{\"a\":1,}", "[1,]", "[1 2]",
		"{a:1}", "{\"a\":1} x", "/* c */ {}", "{} // c", "\xEF\xBB\xBF{}", "\xFF", "{\"a\":\"\xC0\x80\"}",
		"{\"a\":\"\xED\xA0\x80\"}", "hello"};

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++)
		assert_invalid(texts[i], RPC_PARSE_ERROR);
}

static void a_nul_is_a_parse_error_wherever_it_stands(void **state)
{
	static const char whole[] = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}";
	char text[sizeof(whole)];

	(void)state;
	for (size_t place = 0; place < sizeof(whole); place++) {
		memcpy(text, whole, place);
		text[place] = '\0';
		memcpy(text + place + 1, whole + place, sizeof(whole) - 1 - place);
		struct rpc_message *message = parse_bytes(text, sizeof(whole));
		assert_int_equal(message->kind, RPC_INVALID);
		assert_int_equal(message->code, RPC_PARSE_ERROR);
	}
}

static void a_request_cut_at_any_byte_is_a_parse_error(void **state)
{
	static const char whole[] =
		"{\"jsonrpc\":\"2.0\",\"id\":-1,\"method\":\"ping\",\"params\":{\"a\":[1,\"\\u00e9\"]}}";

	(void)state;
	for (size_t length = 0; length < sizeof(whole) - 1; length++) {
		struct rpc_message *message = parse_bytes(whole, length);
		assert_int_equal(message->kind, RPC_INVALID);
		assert_int_equal(message->code, RPC_PARSE_ERROR);
	}
	assert_int_equal(parse(whole)->kind, RPC_REQUEST);
}

static void very_deep_nesting_is_refused_without_harm(void **state)
{
	size_t depth = 100000;
	char *text = malloc(depth);

	(void)state;
	assert_non_null(text);
	memset(text, '[', depth);
	struct rpc_message *message = parse_bytes(text, depth);
	assert_int_equal(message->kind, RPC_INVALID);
	assert_int_equal(message->code, RPC_PARSE_ERROR);
	free(text);
}

static void a_batch_has_a_message_for_each_member(void **state)
{
	struct rpc_message *messages =
		parse("[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"a\"}, 7 ,"
		      "{\"jsonrpc\":\"2.0\",\"method\":\"b\"},{\"jsonrpc\":\"2.0\",\"id\":\"],[\","
		      "\"method\":\"c\"}, {}, []]");

	(void)state;
	assert_true(line.batch);
	assert_int_equal(line.count, 6);
	assert_int_equal(messages[0].kind, RPC_REQUEST);
	assert_string_equal(messages[0].id, "1");
	assert_int_equal(messages[1].kind, RPC_INVALID);
	assert_int_equal(messages[1].code, RPC_INVALID_REQUEST);
	assert_int_equal(messages[2].kind, RPC_NOTIFICATION);
	assert_int_equal(messages[3].kind, RPC_REQUEST);
	assert_string_equal(messages[3].id, "\"],[\"");
	assert_int_equal(messages[4].kind, RPC_INVALID);
	assert_int_equal(messages[5].kind, RPC_INVALID);
	assert_int_equal(messages[5].code, RPC_INVALID_REQUEST);
}

static void an_empty_batch_has_none(void **state)
{
	(void)state;
	parse("[]");
	assert_true(line.batch);
	assert_int_equal(line.count, 0);
	parse(" [ ] ");
	assert_true(line.batch);
	assert_int_equal(line.count, 0);
}

static void ids_are_compared_by_value_and_type(void **state)
{
	(void)state;
	assert_true(rpc_id_equal("7", "7"));
	assert_true(rpc_id_equal("\"a\"", "\"\\u0061\""));
	assert_true(rpc_id_equal("\"\"", "\"\""));
	assert_true(rpc_id_equal("\"\xF0\x9D\xA0\x80\"", "\"\\ud836\\udc00\""));
	assert_false(rpc_id_equal("7", "\"7\""));
	assert_false(rpc_id_equal("\"7\"", "7"));
	assert_false(rpc_id_equal("7", "8"));
	assert_false(rpc_id_equal("123456789012345678901234567890", "123456789012345678901234567891"));
	assert_false(rpc_id_equal("\"a\"", "\"b\""));
	assert_false(rpc_id_equal("\"a\"", "\"a\\u0000\""));
	assert_false(rpc_id_equal("0", "\"\""));
}

static void assert_text(struct text *text, const char *expected)
{
	assert_string_equal(text->data, expected);
	assert_int_equal(text->length, strlen(expected));
	text_free(text);
	assert_null(text->data);
}

static void answers_are_written_on_one_line(void **state)
{
	struct text text = {0};
	struct json_object *result = json_object_new_object();

	(void)state;
	json_object_object_add(result, "text", json_object_new_string("a\nb\x1b\"/\xC3\xA9"));
	rpc_put_result(&text, "\"\\u0061\"", result);
	assert_text(
		&text, "{\"jsonrpc\":\"2.0\",\"id\":\"\\u0061\",\"result\":{\"text\":\"a\\nb\\u001b\\\"/\xC3\xA9\"}}");
	rpc_put_notification(&text, "notifications/x", result);
	assert_text(&text,
		"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/x\",\"params\":{\"text\":\"a\\nb\\u001b\\\"/\xC3\xA9\"}}");
	json_object_put(result);
}

static void errors_say_that_they_know_no_id_in_either_form(void **state)
{
	struct text text = {0};
	struct json_object *data = json_object_new_string("why");

	(void)state;
	rpc_put_error(&text, NULL, RPC_ID_NULL, RPC_PARSE_ERROR, NULL, NULL);
	assert_text(&text, "{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":-32700,\"message\":\"Parse error\"}}");
	rpc_put_error(&text, NULL, RPC_ID_ABSENT, RPC_INVALID_REQUEST, NULL, data);
	assert_text(&text,
		"{\"jsonrpc\":\"2.0\",\"error\":{\"code\":-32600,\"message\":\"Invalid Request\",\"data\":\"why\"}}");
	rpc_put_error(&text, "0", RPC_ID_ABSENT, -32022, "a \"b\"", NULL);
	assert_text(&text, "{\"jsonrpc\":\"2.0\",\"id\":0,\"error\":{\"code\":-32022,\"message\":\"a \\\"b\\\"\"}}");
	json_object_put(data);
}

static void messages_append_to_what_is_there(void **state)
{
	struct text text = {0};

	(void)state;
	text_add(&text, "[", 1);
	for (int i = 0; i < 1000; i++)
		text_add(&text, "x", 1);
	assert_int_equal(text.length, 1001);
	assert_int_equal(strlen(text.data), 1001);
	text_free(&text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(requests_notifications_and_responses_are_told_apart),
		cmocka_unit_test(legal_ids_are_kept_as_they_were_written),
		cmocka_unit_test(other_ids_are_refused),
		cmocka_unit_test(of_two_ids_the_one_that_is_echoed_is_the_one_that_was_judged),
		cmocka_unit_test(an_id_whose_name_is_written_with_escapes_is_an_id),
		cmocka_unit_test(an_id_that_is_too_long_for_an_answer_is_refused),
		cmocka_unit_test(the_id_of_an_invalid_request_is_told),
		cmocka_unit_test(what_is_json_but_no_request_is_invalid),
		cmocka_unit_test(what_is_no_json_is_a_parse_error),
		cmocka_unit_test(a_nul_is_a_parse_error_wherever_it_stands),
		cmocka_unit_test(a_request_cut_at_any_byte_is_a_parse_error),
		cmocka_unit_test(very_deep_nesting_is_refused_without_harm),
		cmocka_unit_test(a_batch_has_a_message_for_each_member),
		cmocka_unit_test(an_empty_batch_has_none),
		cmocka_unit_test(ids_are_compared_by_value_and_type),
		cmocka_unit_test(answers_are_written_on_one_line),
		cmocka_unit_test(errors_say_that_they_know_no_id_in_either_form),
		cmocka_unit_test(messages_append_to_what_is_there),
	};

	return cmocka_run_group_tests_name("jsonrpc", tests, NULL, free_line);
}
