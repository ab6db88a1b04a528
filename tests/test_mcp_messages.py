"""JSON-RPC as each revision has it: ids, malformed messages, batches, undeclared methods."""

import json

import pytest

from mcpschema import ALL_REVISIONS, HANDSHAKE_REVISIONS, STATELESS, unknown_id_is_absent


def no_id(message, revision):
    """The two forms of `nobody in particular`."""
    if revision == STATELESS:
        return message.get("id") is None
    return "id" not in message if unknown_id_is_absent(revision) else message.get("id", 0) is None


# Ids

LEGAL_IDS = ["0", "-1", '""', '"1"', "1", str(2**53 - 1), str(-(2**53 - 1)), str(2**63), str(10**30), '"0"', '"null"',
             '"session-\\u00e9\\ud83d\\ude00"', '"quote \\" backslash \\\\ slash \\/ tab \\t nul \\u0000 end"',
             '"' + "x" * 5000 + '"']


@pytest.mark.parametrize("revision", ALL_REVISIONS)
def test_legal_ids_come_back_exactly(client, revision):
    client.open(revision)
    for text in LEGAL_IDS:
        value = json.loads(text)
        client.expect_answer_to(value, "tools/list")
        client.send_line(json.dumps(client.message("tools/list", request_id="PLACE")).replace('"PLACE"', text))
        arrival = client.arrival(value)
        assert type(arrival.message["id"]) is type(value) and arrival.message["id"] == value
        if not isinstance(value, str) and arrival.raw is not None:
            assert f'"id":{text}' in arrival.raw.decode().replace(" ", "")


@pytest.mark.parametrize("revision", ALL_REVISIONS)
def test_ids_of_evaluations_come_back_exactly(client, revision):
    client.open(revision)
    for value in (0, -1, "", "1", 1, 2**53 - 1, 10**30, 'a"b\\c\n\u0000é😀'):
        assert client.evaluation(client.start_evaluation("(+ 1 2)", request_id=value)).text == "=> 3"


@pytest.mark.parametrize("revision", ALL_REVISIONS)
@pytest.mark.parametrize("illegal", ["null", "true", "false", "[]", "[1]", "{}", "1.5"])
def test_illegal_ids_are_refused_and_nothing_is_executed(client, revision, illegal):
    client.open(revision)
    message = client.message("tools/call", {"name": "evaluate-lisp", "arguments": {"code": "(defparameter *ran* t)"}},
                             request_id="PLACE")
    client.send_line(json.dumps(message).replace('"PLACE"', illegal))
    answer = client.error_without_id()
    assert answer["error"]["code"] == -32600 and no_id(answer, revision)
    assert client.evaluate("(boundp '*ran*)").text == "=> NIL"


def test_two_requests_with_one_id_do_not_harm(lisp):
    lisp.repeatable.add(("int", "7"))
    lisp.send(lisp.message("tools/call", {"name": "evaluate-lisp", "arguments": {"code": "(sleep 0.3)"}}, request_id=7))
    lisp.send(lisp.message("tools/call", {"name": "evaluate-lisp", "arguments": {"code": "(+ 1 2)"}}, request_id=7))
    lisp.wait_for_arrivals(lambda m: m.get("id") == 7, 2, "both answers")
    assert lisp.evaluate("(+ 2 2)").text == "=> 4"


# Malformed messages


@pytest.mark.parametrize("revision", HANDSHAKE_REVISIONS)
def test_the_malformed_request_of_the_contract_is_answered_to_the_letter(client, revision):
    client.open(revision)
    client.send_line('{"not-jsonrpc":"2.0","method":"initialize"}')
    answer = client.error_without_id()
    expected = {"jsonrpc": "2.0", "error": {"code": -32600, "message": "Invalid Request",
                                            "data": "Missing required field: jsonrpc"}}
    if not unknown_id_is_absent(revision):
        expected["id"] = None
    assert answer == expected


def test_the_malformed_request_of_the_contract_before_initialize_has_a_null_id(client):
    client.send_line('{"not-jsonrpc":"2.0","method":"initialize"}')
    assert client.error_without_id() == {
        "jsonrpc": "2.0", "id": None,
        "error": {"code": -32600, "message": "Invalid Request", "data": "Missing required field: jsonrpc"}}


@pytest.mark.parametrize("revision", HANDSHAKE_REVISIONS)
def test_the_unknown_method_of_the_contract_is_answered_to_the_letter(client, revision):
    client.open(revision)
    assert client.request("unknown-method", request_id=1001) == {
        "jsonrpc": "2.0", "id": 1001,
        "error": {"code": -32601, "message": "Method not found", "data": "Method 'unknown-method' is not supported"}}


@pytest.mark.parametrize("revision", HANDSHAKE_REVISIONS)
def test_a_request_without_a_method_is_told_so_under_its_id(client, revision):
    client.open(revision)
    client.expect_answer_to(1001)
    client.send_line('{"jsonrpc":"2.0","id":1001}')
    assert client.answer(1001)["error"] == {"code": -32600, "message": "Invalid Request",
                                            "data": "Missing required field: method"}


@pytest.mark.parametrize("revision", ALL_REVISIONS)
@pytest.mark.parametrize("line", [
    "1", '"text"', "null", "true", "{}", '{"jsonrpc":"2.0"}', '{"jsonrpc":"1.0","method":"ping"}',
    '{"jsonrpc":2.0,"method":"ping"}', '{"jsonrpc":"2.0","method":7}', '{"jsonrpc":"2.0","method":null}',
])
def test_what_is_json_but_no_message_is_an_invalid_request(client, revision, line):
    client.open(revision)
    client.send_line(line)
    answer = client.error_without_id()
    assert answer["error"]["code"] == -32600 and no_id(answer, revision)
    assert client.result("tools/list")["tools"]


@pytest.mark.parametrize("revision", ALL_REVISIONS)
@pytest.mark.parametrize("line", ["{", "}", "nonsense", '{"jsonrpc":"2.0",}', '{"jsonrpc":"2.0"} trailing', "'single'",
                                  '{"a":NaN}', '{"a":01}', '{"jsonrpc":"2.0","id":1,"method":"ping"', "\x01"])
def test_what_is_no_json_is_a_parse_error(client, revision, line):
    client.open(revision)
    client.send_line(line)
    answer = client.error_without_id()
    assert answer["error"]["code"] == -32700 and no_id(answer, revision)
    assert answer["error"]["message"].startswith("Parse error")
    assert client.result("tools/list")["tools"]


@pytest.mark.parametrize("params", ["[]", "[1,2]", '"text"', "7", "true"])
def test_params_that_are_no_object_are_refused(lisp, params):
    lisp.expect_answer_to(1002)
    lisp.send_line('{"jsonrpc":"2.0","id":1002,"method":"tools/list","params":%s}' % params)
    assert lisp.answer(1002)["error"]["code"] in (-32600, -32602)


@pytest.mark.parametrize("revision", ALL_REVISIONS)
@pytest.mark.parametrize("method", [
    "prompts/list", "prompts/get", "logging/setLevel", "tasks/get", "sampling/createMessage", "roots/list", "elicitation/create",
    "notifications/progress", "tools", "TOOLS/LIST"])
def test_methods_that_were_not_declared_do_not_exist(client, revision, method):
    client.open(revision)
    assert client.error(method, {})["code"] == -32601


@pytest.mark.parametrize("revision", HANDSHAKE_REVISIONS)
def test_ping_is_answered_with_an_empty_result(client, revision):
    client.open(revision)
    assert client.result("ping") == {}


# Batches


def members(client):
    return [client.message("ping", request_id="b1"), {"jsonrpc": "2.0", "method": "notifications/x"},
            client.message("tools/list", request_id="b2"),
            client.message("tools/call", {"name": "evaluate-lisp", "arguments": {"code": "(defparameter *ran* 42)"}},
                           request_id="b3")]


def batch(client):
    return client.wait_for(lambda message: isinstance(message, list), "a batch of answers")


def test_2025_03_26_answers_a_batch_with_one_array(client):
    client.open("2025-03-26")
    client.send_line(json.dumps(members(client)))
    answers = {answer["id"]: answer for answer in batch(client)}
    assert set(answers) == {"b1", "b2", "b3"}
    assert answers["b1"]["result"] == {}
    assert answers["b2"]["result"]["tools"][0]["name"] == "evaluate-lisp"
    assert answers["b3"]["result"]["content"][0]["text"] == "=> *RAN*"
    assert client.evaluate("*ran*").text == "=> 42"
    assert not any(isinstance(a.message, dict) and a.message.get("id") in ("b1", "b2", "b3") for a in client.arrivals)


def test_2025_03_26_answers_a_batch_of_one_with_an_array(client):
    client.open("2025-03-26")
    client.send_line('[{"jsonrpc":"2.0","id":0,"method":"ping"}]')
    assert batch(client) == [{"jsonrpc": "2.0", "id": 0, "result": {}}]


def test_2025_03_26_keeps_the_answers_of_a_batch_below_8_mib_together(client):
    client.initialize("2025-03-26")
    client.tool("configure-limits", max_output=1_000_000)
    code = '(dotimes (i 100000) (write-string "0123456789"))'
    calls = [client.message("tools/call", {"name": "evaluate-lisp", "arguments": {"code": code}}) for _ in range(20)]
    client.send(calls)
    answers = batch(client)
    assert len(answers) == 20
    refused = [answer["error"]["message"] for answer in answers if "error" in answer]
    assert 0 < len(refused) < 20 and "too long together" in refused[0]


def test_2025_03_26_says_nothing_to_a_batch_of_notifications(client):
    client.open("2025-03-26")
    client.send_line('[{"jsonrpc":"2.0","method":"notifications/x"},{"jsonrpc":"2.0","method":"notifications/y"}]')
    assert client.result("ping") == {}
    assert len([a for a in client.arrivals if "method" not in a.message]) == 2  # initialize and ping


def test_2025_03_26_refuses_an_empty_batch_with_one_error(client):
    client.open("2025-03-26")
    client.send_line("[]")
    answer = client.error_without_id()
    assert answer["error"]["code"] == -32600 and answer["id"] is None


def test_2025_03_26_refuses_each_member_that_is_no_object(client):
    client.open("2025-03-26")
    client.send_line('[1,"two",null,[],{"jsonrpc":"2.0","id":5,"method":"ping"},{"foo":"boo"}]')
    answers = batch(client)
    assert len(answers) == 6
    assert [a for a in answers if "result" in a] == [{"jsonrpc": "2.0", "id": 5, "result": {}}]
    assert all(a["error"]["code"] == -32600 and a["id"] is None for a in answers if "error" in a)


@pytest.mark.parametrize("line", ["1," * 10000 + "1", ",".join(f'{{"id":"{"x" * 60000}{n}"}}' for n in range(100))],
                         ids=["members", "ids"])
def test_2025_03_26_refuses_a_batch_that_no_answer_could_hold(client, line):
    client.open("2025-03-26")
    client.send_line(f"[{line}]")
    assert client.error_without_id()["error"]["code"] == -32600
    client.send_line("[" + "1," * 9999 + "1]")
    assert len(batch(client)) == 10000


def test_2025_03_26_answers_each_member_with_a_long_id_although_one_answer_is_too_long(client):
    client.initialize("2025-03-26")
    client.tool("configure-limits", max_output=1_000_000)
    code = '(dotimes (i 100000) (write-string (string (code-char 1))))'
    calls = [client.message("tools/call", {"name": "evaluate-lisp", "arguments": {"code": code}}, f"{n}" + "x" * 60000)
             for n in range(60)]
    client.send(calls)
    assert [answer["id"] for answer in batch(client)] == [call["id"] for call in calls]


def test_2025_03_26_does_not_initialize_inside_a_batch(client):
    client.expect_answer_to(900)
    params = {"protocolVersion": "2025-03-26", "capabilities": {}, "clientInfo": {"name": "tests", "version": "1"}}
    client.send_line(json.dumps([{"jsonrpc": "2.0", "id": 900, "method": "initialize", "params": params}]))
    first = client.wait_for(lambda message: True, "an answer")
    for answer in first if isinstance(first, list) else [first]:
        assert answer["error"]["code"] == -32600
    assert client.initialize("2025-03-26")["protocolVersion"] == "2025-03-26"


def test_2025_03_26_answers_a_batch_once_its_slowest_member_is_done(client):
    client.open("2025-03-26")
    slow = client.message("tools/call", {"name": "evaluate-lisp", "arguments": {"code": "(progn (sleep 0.3) 1)"}},
                          request_id="slow")
    client.send_line(json.dumps([slow, client.message("ping", request_id="quick")]))
    assert client.result("ping") == {}  # and meanwhile others are served
    assert {answer["id"] for answer in batch(client)} == {"slow", "quick"}


@pytest.mark.parametrize("revision", [r for r in ALL_REVISIONS if r != "2025-03-26"])
@pytest.mark.parametrize("which", ["requests", "empty", "numbers"])
def test_the_other_revisions_refuse_a_batch_with_one_error_and_execute_nothing(client, revision, which):
    client.open(revision)
    lines = {"requests": json.dumps(members(client)), "empty": "[]", "numbers": "[1,2,3]"}
    client.send_line(lines[which])
    answer = client.error_without_id()
    assert answer["error"]["code"] == -32600 and no_id(answer, revision)
    assert client.evaluate("(boundp '*ran*)").text == "=> NIL"
    assert not any(isinstance(a.message, list) for a in client.arrivals)
    assert sum("error" in a.message for a in client.arrivals) == 1


def test_a_batch_before_any_revision_is_refused_with_one_error(client):
    client.send_line('[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","id":2,"method":"ping"}]')
    answer = client.error_without_id()
    assert answer["error"]["code"] == -32600 and answer["id"] is None
    assert client.request("ping", request_id=3)["result"] == {}
