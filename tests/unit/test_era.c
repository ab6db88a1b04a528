/*
 * test_era.c - which revision serves a message, also when they come interleaved.
 */
#include "unit.h"
#include "era.h"

#define META(fields) "\"params\":{\"_meta\":{" fields "}}"
#define VERSION(version) "\"io.modelcontextprotocol/protocolVersion\":" version
#define CAPABILITIES "\"io.modelcontextprotocol/clientCapabilities\":{}"
#define CLIENT "\"io.modelcontextprotocol/clientInfo\":{}"

static const char *const names[] = {"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"};
#define HANDSHAKE_NAMES 4

/* Chooses for a request with that method and the rest of its members. */
static struct era_choice choose(const char *method, const char *rest, const struct revision *agreed)
{
	struct rpc_line line;
	char text[500];

	snprintf(text, sizeof(text), "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"%s\"%s%s}", method, *rest ? "," : "",
		rest);
	rpc_parse(text, strlen(text), &line);
	assert_int_equal(line.messages[0].kind, RPC_REQUEST);
	struct era_choice choice = era_choose(&line.messages[0], agreed);
	rpc_line_free(&line);
	return choice;
}

static void assert_served(const char *method, const char *rest, const struct revision *agreed, const char *name)
{
	struct era_choice choice = choose(method, rest, agreed);

	assert_int_equal(choice.verdict, ERA_SERVE);
	assert_string_equal(choice.revision->name, name);
	json_object_put(choice.data);
}

static void assert_refused(const char *method, const char *rest, const struct revision *agreed, int code)
{
	struct era_choice choice = choose(method, rest, agreed);

	assert_int_equal(choice.verdict, ERA_REFUSE);
	assert_int_equal(choice.code, code);
	assert_non_null(choice.data);
	json_object_put(choice.data);
}

static void every_published_revision_is_known(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		const struct revision *revision = revision_find(names[i]);
		assert_non_null(revision);
		assert_string_equal(revision->name, names[i]);
		assert_int_equal(revision->stateless, i >= HANDSHAKE_NAMES);
	}
	assert_null(revision_find(""));
	assert_null(revision_find("2024-11-0"));
	assert_null(revision_find("2024-11-055"));
}

static void what_a_revision_knows_is_as_published(void **state)
{
	/* One column for each name above. */
	static const bool batches[] = {false, true, false, false, false};
	static const bool progress_message[] = {false, true, true, true, true};
	static const bool annotations[] = {false, true, true, true, true};
	static const bool structured[] = {false, false, true, true, true};
	static const bool argument_results[] = {false, false, false, true, true};
	static const bool unknown_id_absent[] = {false, false, false, true, true};

	(void)state;
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		const struct revision *revision = revision_find(names[i]);
		assert_int_equal(revision->batches, batches[i]);
		assert_int_equal(revision->progress_message, progress_message[i]);
		assert_int_equal(revision->annotations, annotations[i]);
		assert_int_equal(revision->structured, structured[i]);
		assert_int_equal(revision->argument_results, argument_results[i]);
		assert_int_equal(revision->unknown_id_absent, unknown_id_absent[i]);
	}
}

static void the_handshake_agrees_on_what_was_asked_or_on_the_newest_that_has_one(void **state)
{
	static const char *const others[] = {"", "1.0", "2024-11-04", "2099-01-01", "2026-07-28", "latest"};

	(void)state;
	for (size_t i = 0; i < HANDSHAKE_NAMES; i++)
		assert_string_equal(revision_negotiate(names[i])->name, names[i]);
	for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++)
		assert_string_equal(revision_negotiate(others[i])->name, "2025-11-25");
}

static void initialize_is_a_handshake_before_and_after_one(void **state)
{
	(void)state;
	assert_int_equal(choose("initialize", "", NULL).verdict, ERA_HANDSHAKE);
	assert_int_equal(choose("initialize", META(""), NULL).verdict, ERA_HANDSHAKE);
	assert_int_equal(choose("initialize", META("\"progressToken\":0"), NULL).verdict, ERA_HANDSHAKE);
	assert_int_equal(choose("initialize", "", revision_find("2024-11-05")).verdict, ERA_HANDSHAKE);
}

static void initialize_with_a_version_in_meta_is_a_stateless_request(void **state)
{
	(void)state;
	assert_served("initialize", META(VERSION("\"2026-07-28\"") "," CAPABILITIES), NULL, "2026-07-28");
}

static void before_any_agreement_only_ping_and_our_own_methods_are_free(void **state)
{
	(void)state;
	assert_int_equal(choose("ping", "", NULL).verdict, ERA_FREE);
	assert_int_equal(choose("cl-mcpd/status", "", NULL).verdict, ERA_FREE);
	assert_refused("tools/list", "", NULL, RPC_INVALID_PARAMS);
	assert_refused("tools/call", "\"params\":{}", NULL, RPC_INVALID_PARAMS);
	assert_refused("tools/call", "\"params\":[]", NULL, RPC_INVALID_PARAMS);
	assert_refused("server/discover", "", NULL, RPC_INVALID_PARAMS);
	assert_refused("no/such", "", NULL, RPC_INVALID_PARAMS);
	assert_refused("ping2", "", NULL, RPC_INVALID_PARAMS);
}

static void after_the_handshake_its_revision_serves(void **state)
{
	(void)state;
	for (size_t i = 0; i < HANDSHAKE_NAMES; i++) {
		assert_served("tools/list", "", revision_find(names[i]), names[i]);
		assert_served("tools/list", META("\"progressToken\":1"), revision_find(names[i]), names[i]);
		assert_served("ping", "", revision_find(names[i]), names[i]);
		assert_served("tools/list", "\"params\":{\"_meta\":7}", revision_find(names[i]), names[i]);
	}
}

static void stateless_requests_are_served_whatever_was_agreed_on(void **state)
{
	static const char good[] = META(VERSION("\"2026-07-28\"") "," CAPABILITIES);

	(void)state;
	assert_served("tools/list", good, NULL, "2026-07-28");
	assert_served("ping", good, NULL, "2026-07-28");
	for (size_t i = 0; i < HANDSHAKE_NAMES; i++)
		assert_served("tools/list", good, revision_find(names[i]), "2026-07-28");
}

static void a_stateless_request_that_lacks_something_is_refused(void **state)
{
	static const char *const metas[] = {
		META(VERSION("\"2026-07-28\"")),
		META(VERSION("5") "," CAPABILITIES),
		META(VERSION("null") "," CAPABILITIES),
		META(CAPABILITIES),
		META(CLIENT),
		META(VERSION("\"2026-07-28\"") ",\"io.modelcontextprotocol/clientCapabilities\":[]"),
		META(VERSION("\"2026-07-28\"") ",\"io.modelcontextprotocol/clientCapabilities\":null"),
	};

	(void)state;
	for (size_t i = 0; i < sizeof(metas) / sizeof(*metas); i++) {
		assert_refused("tools/list", metas[i], NULL, RPC_INVALID_PARAMS);
		assert_refused("tools/list", metas[i], revision_find("2025-06-18"), RPC_INVALID_PARAMS);
	}
}

static void an_unsupported_stateless_version_is_named_with_those_that_are_supported(void **state)
{
	static const char *const versions[] = {"1900-01-01", "2025-11-25", ""};
	char rest[300];

	(void)state;
	for (size_t i = 0; i < sizeof(versions) / sizeof(*versions); i++) {
		struct json_object *requested, *supported;
		snprintf(rest, sizeof(rest), META(VERSION("\"%s\"") "," CAPABILITIES), versions[i]);
		struct era_choice choice = choose("tools/list", rest, NULL);
		assert_int_equal(choice.verdict, ERA_REFUSE);
		assert_int_equal(choice.code, ERA_UNSUPPORTED_VERSION);
		assert_string_equal(choice.message, "Unsupported protocol version");
		assert_true(json_object_object_get_ex(choice.data, "requested", &requested));
		assert_string_equal(json_object_get_string(requested), versions[i]);
		assert_true(json_object_object_get_ex(choice.data, "supported", &supported));
		assert_string_equal(
			json_object_to_json_string_ext(supported, JSON_C_TO_STRING_PLAIN), "[\"2026-07-28\"]");
		json_object_put(choice.data);
	}
}

static void an_unknown_id_has_the_form_of_the_revision(void **state)
{
	(void)state;
	assert_int_equal(era_unknown_id(NULL), RPC_ID_NULL);
	assert_int_equal(era_unknown_id(revision_find("2025-06-18")), RPC_ID_NULL);
	assert_int_equal(era_unknown_id(revision_find("2025-11-25")), RPC_ID_ABSENT);
	assert_int_equal(era_unknown_id(revision_find("2026-07-28")), RPC_ID_ABSENT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_published_revision_is_known),
		cmocka_unit_test(what_a_revision_knows_is_as_published),
		cmocka_unit_test(the_handshake_agrees_on_what_was_asked_or_on_the_newest_that_has_one),
		cmocka_unit_test(initialize_is_a_handshake_before_and_after_one),
		cmocka_unit_test(initialize_with_a_version_in_meta_is_a_stateless_request),
		cmocka_unit_test(before_any_agreement_only_ping_and_our_own_methods_are_free),
		cmocka_unit_test(after_the_handshake_its_revision_serves),
		cmocka_unit_test(stateless_requests_are_served_whatever_was_agreed_on),
		cmocka_unit_test(a_stateless_request_that_lacks_something_is_refused),
		cmocka_unit_test(an_unsupported_stateless_version_is_named_with_those_that_are_supported),
		cmocka_unit_test(an_unknown_id_has_the_form_of_the_revision),
	};

	return cmocka_run_group_tests_name("era", tests, NULL, NULL);
}
