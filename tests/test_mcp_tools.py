"""tools/list and tools/call: what a tool looks like in each revision, and how calls that do not fit are answered."""

import pytest

import mcpschema
from harness import ANY_VALUES, META
from mcpschema import ALL_REVISIONS, STATELESS

DESCRIPTION = ("Evaluate Common Lisp code in a persistent REPL session. "
               "Definitions and variables persist across calls.")
CODE = {"type": "string",
        "description": "Common Lisp expression(s) to evaluate. Can be a single form or multiple forms."}
PACKAGE = {"type": "string",
           "description": "Package context for evaluation. Defaults to CL-USER or the last-used package."}


def evaluate_lisp(client):
    return next(tool for tool in client.result("tools/list")["tools"] if tool["name"] == "evaluate-lisp")


# tools/list


@pytest.mark.parametrize("revision", ALL_REVISIONS)
def test_the_tool_is_described_as_the_contract_says(client, revision):
    tool = evaluate_lisp(client.open(revision))
    assert tool["description"] == DESCRIPTION
    schema = tool["inputSchema"]
    assert schema["type"] == "object"
    assert schema["required"] == ["code"]
    assert schema["properties"]["code"] == CODE
    assert schema["properties"]["package"] == PACKAGE


@pytest.mark.parametrize("revision", ALL_REVISIONS)
def test_a_tool_has_the_fields_that_its_revision_knows_and_no_others(client, revision):
    tool = evaluate_lisp(client.open(revision))
    expected = {"name", "description", "inputSchema"}
    if mcpschema.knows_annotations(revision):
        expected.add("annotations")
    if mcpschema.knows_structured_content(revision):
        expected |= {"title", "outputSchema"}
    assert set(tool) == expected


@pytest.mark.parametrize("revision", [r for r in ALL_REVISIONS if mcpschema.knows_annotations(r)])
def test_the_annotations_admit_that_an_evaluator_can_do_anything(client, revision):
    annotations = evaluate_lisp(client.open(revision))["annotations"]
    assert annotations.get("readOnlyHint", False) is False
    assert annotations.get("destructiveHint", True) is True
    assert annotations.get("idempotentHint", False) is False
    assert annotations.get("openWorldHint", True) is True


@pytest.mark.parametrize("revision", ALL_REVISIONS)
def test_the_list_is_whole_and_always_the_same(client, revision):
    client.open(revision)
    first = client.result("tools/list")
    assert "nextCursor" not in first
    client.evaluate("(+ 1 2)")
    assert client.result("tools/list", {}) == first


@pytest.mark.parametrize("revision", ALL_REVISIONS)
@pytest.mark.parametrize("cursor", ["bogus", "", 7], ids=["bogus", "empty", "number"])
def test_a_cursor_that_was_never_given_out_is_refused(client, revision, cursor):
    client.open(revision)
    assert client.error("tools/list", {"cursor": cursor})["code"] == -32602


# Calls that do not fit


@pytest.mark.parametrize("revision", ALL_REVISIONS)
@pytest.mark.parametrize("name", ["invalid-tool-name", "", "EVALUATE-LISP", "naïve \"tool\""])
def test_an_unknown_tool_is_a_protocol_error(client, revision, name):
    client.open(revision)
    answer = client.call(name, {"code": "(+ 1 2)"})
    assert answer["error"]["code"] == -32602
    assert answer["error"]["message"] == f"Unknown tool: {name}"


@pytest.mark.parametrize("revision", ALL_REVISIONS)
@pytest.mark.parametrize("params", [
    None, {}, {"arguments": {"code": "1"}},
    {"name": None, "arguments": {"code": "1"}}, {"name": 7, "arguments": {"code": "1"}},
    {"name": "evaluate-lisp", "arguments": None}, {"name": "evaluate-lisp", "arguments": []},
    {"name": "evaluate-lisp", "arguments": "(+ 1 2)"}, {"name": "evaluate-lisp", "arguments": 7},
], ids=["no params", "empty", "no name", "null name", "number name", "null arguments", "array arguments",
        "string arguments", "number arguments"])
def test_a_call_of_the_wrong_shape_is_a_protocol_error(client, revision, params):
    client.open(revision)
    assert client.error("tools/call", params)["code"] == -32602


@pytest.mark.parametrize("revision", ALL_REVISIONS)
@pytest.mark.parametrize("arguments,named", [
    (None, "code"), ({}, "code"), ({"code": None}, "code"), ({"code": 7}, "code"), ({"code": ["(+ 1 2)"]}, "code"),
    ({"code": "(+ 1 2)", "package": 7}, "package"), ({"package": "CL-USER"}, "code"),
    ({"code": "(+ 1 2)", "no-such-argument": 1}, "no-such-argument"),
    ({"code": "(+ 1 2)", "timeout": -1}, "timeout"),
    ({"code": "(+ 1 2)", "timeout": 1e10}, "timeout"),
    ({"code": "(+ 1 2)", "timeout": "1"}, "timeout"),
    ({"code": "(+ 1 2)", "package": "CL\0X"}, "package"),
], ids=["missing arguments", "empty", "null code", "number code", "array code", "number package", "only package",
        "unknown", "negative timeout", "endless timeout", "text timeout",
        "package with a NUL"])
def test_arguments_that_do_not_fit_are_reported_as_the_revision_wants(client, revision, arguments, named):
    client.open(revision)
    answer = client.call("evaluate-lisp", arguments)
    if mcpschema.bad_arguments_are_results(revision):
        assert answer["result"]["isError"] is True
        assert named in answer["result"]["content"][0]["text"]
    else:
        assert answer["error"]["code"] == -32602
        assert named in answer["error"]["message"] + str(answer["error"].get("data"))


@pytest.mark.parametrize("value", ANY_VALUES, ids=str)
def test_any_value_of_any_argument_of_any_tool_is_answered(lisp, runtime, value):
    daemon = runtime.daemon_pid()
    calls = []
    for tool in lisp.result("tools/list")["tools"]:
        schema = tool["inputSchema"]
        fitting = {name: schema["properties"][name].get("enum", ["x"])[0] for name in schema.get("required", [])}
        calls += [{"name": tool["name"], "arguments": {**fitting, name: value}} for name in schema["properties"]]
    for request in [lisp.start("tools/call", call) for call in calls]:
        lisp.evaluation(request)
    assert runtime.daemon_pid() == daemon


def test_calls_that_do_not_fit_create_no_session(own_runtime):
    client = own_runtime.client().open()
    client.result("tools/list")
    client.call("no-such-tool", {})
    client.call("evaluate-lisp", {})
    assert client.result("cl-mcpd/status")["sessions"] == []
    client.evaluate("(+ 1 2)")
    assert len(client.result("cl-mcpd/status")["sessions"]) == 1


# Results


@pytest.mark.parametrize("revision", ALL_REVISIONS)
@pytest.mark.parametrize("code,text,is_error", [
    ("(+ 1 2)", "=> 3", False),
    ("(car 42)", "[ERROR] TYPE-ERROR\nThe value 42 is not of type LIST.\n\n[Backtrace]\n0: (CAR 42)", True),
])
def test_a_result_has_the_fields_that_its_revision_knows_and_no_others(client, revision, code, text, is_error):
    client.open(revision)
    result = client.result("tools/call", {"name": "evaluate-lisp", "arguments": {"code": code}})
    assert result["content"] == [{"type": "text", "text": text}]
    assert result["isError"] is is_error
    expected = {"content", "isError"}
    if mcpschema.knows_structured_content(revision):
        expected.add("structuredContent")
    if revision == STATELESS:
        expected.add("resultType")
    assert set(result) - {"_meta"} == expected
    # Every revision has _meta in results; only the stateless one has keys of the protocol's own there.
    keys = {key.rpartition("/")[0] for key in result.get("_meta", {})}
    assert keys <= {"io.github.cl-mcp-server"} | ({META.rstrip("/")} if revision == STATELESS else set())


@pytest.mark.parametrize("revision", [r for r in ALL_REVISIONS if mcpschema.knows_structured_content(r)])
@pytest.mark.parametrize("code", ["(+ 1 2)", "(values)", "", "(progn (print 1) (warn \"w\") (values 1 2))", "(car 42)",
                                  "(foo", "(error \"x\")", "(ext:quit 3)"])
def test_structured_content_fits_the_tools_output_schema(client, revision, code):
    client.open(revision)
    schema = evaluate_lisp(client)["outputSchema"]
    assert schema["type"] == "object"
    mcpschema.check_against(schema, client.evaluate(code).structured)
