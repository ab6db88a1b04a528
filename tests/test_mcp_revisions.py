"""Which revision is spoken: the handshake, the stateless requests of 2026-07-28, and both in one process."""

import pytest

from harness import META, stateless_meta
from mcpschema import (
    ALL_REVISIONS, HANDSHAKE_REVISIONS, NEWEST_HANDSHAKE, STATELESS, capabilities, unknown_id_is_absent)

CLIENT = {"name": "tests", "version": "1"}


def initialize_params(version):
    return {"protocolVersion": version, "capabilities": {}, "clientInfo": CLIENT}


# The handshake


@pytest.mark.parametrize("revision", HANDSHAKE_REVISIONS)
def test_a_known_revision_is_agreed_to(client, revision):
    result = client.initialize(revision)
    assert result["protocolVersion"] == revision
    assert result["capabilities"] == capabilities(revision)
    assert result["serverInfo"]["name"] == "cl-mcp-server"
    assert result["serverInfo"]["version"].startswith("0.1.")
    assert result["instructions"].strip()


@pytest.mark.parametrize("revision", HANDSHAKE_REVISIONS)
def test_a_handshake_revision_is_sent_nothing_that_it_does_not_know(client, revision):
    result = client.initialize(revision)
    assert set(result) == {"protocolVersion", "capabilities", "serverInfo", "instructions"}
    allowed = {"name", "version"}
    if revision >= "2025-06-18":
        allowed.add("title")
    if revision >= "2025-11-25":
        allowed |= {"description", "websiteUrl"}
    assert set(result["serverInfo"]) <= allowed


@pytest.mark.parametrize("asked", ["2099-01-01", "1999-12-31", "2024-10-07", "nonsense", "", STATELESS])
def test_an_unknown_revision_is_answered_with_the_newest_handshake_revision(client, asked):
    client.revision = NEWEST_HANDSHAKE
    assert client.result("initialize", initialize_params(asked))["protocolVersion"] == NEWEST_HANDSHAKE
    assert client.result("tools/list")["tools"]


@pytest.mark.parametrize("params", [
    None, {}, {"capabilities": {}, "clientInfo": CLIENT}, initialize_params(None), initialize_params(20250618),
    initialize_params(["2025-06-18"]),
], ids=["no params", "empty params", "missing", "null", "number", "array"])
def test_a_handshake_without_a_version_string_is_refused_and_can_be_repeated(client, params):
    assert client.error("initialize", params)["code"] == -32602
    assert client.initialize("2025-06-18")["protocolVersion"] == "2025-06-18"


@pytest.mark.parametrize("revision", HANDSHAKE_REVISIONS)
def test_a_second_initialize_is_refused_and_changes_nothing(client, revision):
    client.open(revision)
    other = next(r for r in HANDSHAKE_REVISIONS if r != revision)
    assert client.error("initialize", initialize_params(other))["code"] == -32600
    tool = client.result("tools/list")["tools"][0]
    assert ("outputSchema" in tool) == (revision >= "2025-06-18")


def test_requests_are_served_before_the_initialized_notification(client):
    client.revision = "2025-06-18"
    client.result("initialize", initialize_params("2025-06-18"))
    assert client.evaluate("(+ 1 2)").text == "=> 3"


def test_initialize_cannot_be_cancelled(client):
    client.revision = NEWEST_HANDSHAKE
    request = client.start("initialize", initialize_params(NEWEST_HANDSHAKE))
    client.notify("notifications/cancelled", {"requestId": request})
    assert client.answer(request)["result"]["protocolVersion"] == NEWEST_HANDSHAKE
    assert client.result("ping") == {}


def test_initialize_with_id_0_is_answered_with_id_0(client):
    client.revision = NEWEST_HANDSHAKE
    answer = client.request("initialize", initialize_params(NEWEST_HANDSHAKE), request_id=0)
    assert answer["id"] == 0 and "result" in answer


# Before any revision is known


def test_ping_is_answered_before_initialize(client):
    assert client.request("ping")["result"] == {}


@pytest.mark.parametrize("method", ["tools/list", "tools/call", "server/discover", "no-such-method"])
def test_a_request_of_no_revision_is_told_both_ways_out(client, method):
    error = client.error(method)
    assert error["code"] == -32602
    told = error["message"] + str(error.get("data", ""))
    assert "initialize" in told and "_meta" in told


# The stateless revision


def test_discover_describes_the_server(client):
    client.open(STATELESS)
    result = client.result("server/discover")
    assert result["supportedVersions"] == [STATELESS]
    assert result["capabilities"] == capabilities(STATELESS)
    assert result["instructions"].strip()
    assert result["resultType"] == "complete"
    assert isinstance(result["ttlMs"], int) and result["ttlMs"] >= 0
    assert result["cacheScope"] in ("public", "private")
    assert result["_meta"][META + "serverInfo"]["name"] == "cl-mcp-server"


def test_discover_then_initialize_works(client):
    client.send({"jsonrpc": "2.0", "id": "d1", "method": "server/discover", "params": {"_meta": stateless_meta()}})
    assert client.answer("d1")["result"]["supportedVersions"] == [STATELESS]
    assert client.initialize("2025-06-18")["protocolVersion"] == "2025-06-18"
    assert client.evaluate("(+ 1 2)").text == "=> 3"


def test_discover_is_answered_after_initialize(client):
    client.open("2025-03-26")
    client.send({"jsonrpc": "2.0", "id": "d1", "method": "server/discover", "params": {"_meta": stateless_meta()}})
    assert client.answer("d1")["result"]["supportedVersions"] == [STATELESS]
    assert client.error("server/discover")["code"] == -32601  # the handshake revisions do not have it


def test_every_stateless_result_is_complete_and_names_the_server(client):
    client.open(STATELESS)
    for result in (client.result("server/discover"), client.result("tools/list"),
                   client.result("tools/call", {"name": "evaluate-lisp", "arguments": {"code": "(+ 1 2)"}}),
                   client.result("tools/call", {"name": "evaluate-lisp", "arguments": {"code": "(car 42)"}}),
                   client.result("tools/call", {"name": "evaluate-lisp", "arguments": {}})):
        assert result["resultType"] == "complete"
        info = result["_meta"][META + "serverInfo"]
        assert info["name"] == "cl-mcp-server" and info["version"].startswith("0.1.")


def test_stateless_lists_say_how_long_they_may_be_kept(client):
    result = client.open(STATELESS).result("tools/list")
    assert isinstance(result["ttlMs"], int) and result["ttlMs"] >= 0
    assert result["cacheScope"] == "public"
    assert "nextCursor" not in result


@pytest.mark.parametrize("meta", [
    {META + "protocolVersion": STATELESS},
    {META + "clientCapabilities": {}},
    {META + "clientInfo": CLIENT},
    stateless_meta(version=20260728),
    stateless_meta(capabilities=[]),
    stateless_meta(capabilities="none"),
    stateless_meta(version=["2026-07-28"]),
    {META + "protocolVersion": "1900-01-01"},
], ids=["no capabilities", "no version", "only clientInfo", "numeric version", "array capabilities",
        "string capabilities", "array version", "shape before version"])
def test_incomplete_meta_is_refused(client, meta):
    client.send({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": meta}})
    assert client.answer(1)["error"]["code"] == -32602


def test_client_info_is_not_required(client):
    meta = stateless_meta(clientInfo=None)
    client.send({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": meta}})
    assert client.answer(1)["result"]["tools"]


@pytest.mark.parametrize("version", ["1900-01-01", "2099-01-01", "", *HANDSHAKE_REVISIONS])
@pytest.mark.parametrize("method", ["tools/list", "server/discover", "no-such-method"])
def test_an_unsupported_stateless_version_is_refused_before_the_method_is_looked_at(client, version, method):
    client.send({"jsonrpc": "2.0", "id": 1, "method": method, "params": {"_meta": stateless_meta(version)}})
    answer = client.answer(1)
    assert answer["error"] == {"code": -32022, "message": "Unsupported protocol version",
                               "data": {"supported": [STATELESS], "requested": version}}


@pytest.mark.parametrize("method", ["ping", "initialize", "logging/setLevel", "resources/subscribe",
                                    "resources/unsubscribe", "tasks/list", "tasks/result"])
def test_what_2026_07_28_removed_is_no_method_there(client, method):
    client.open(STATELESS)
    assert client.error(method, initialize_params(NEWEST_HANDSHAKE))["code"] == -32601


def test_nothing_is_remembered_from_one_stateless_request_for_the_next(client):
    client.send({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": stateless_meta()}})
    assert "result" in client.answer(1)
    client.send({"jsonrpc": "2.0", "id": 2, "method": "tools/list"})
    assert client.answer(2)["error"]["code"] == -32602
    client.send({"jsonrpc": "2.0", "id": 3, "method": "tools/list",
                 "params": {"_meta": {META + "protocolVersion": STATELESS}}})
    assert client.answer(3)["error"]["code"] == -32602


def test_a_stray_initialized_notification_changes_nothing(client):
    client.open(STATELESS)
    assert client.evaluate("(defparameter *kept* 5)").text == "=> *KEPT*"
    client.notify("notifications/initialized")
    client.notify("notifications/initialized", {"_meta": {}})
    assert client.result("tools/list")["resultType"] == "complete"
    assert client.evaluate("*kept*").text == "=> 5"
    client.send({"jsonrpc": "2.0", "id": "plain", "method": "tools/list"})
    assert client.answer("plain")["error"]["code"] == -32602


@pytest.mark.parametrize("revision", HANDSHAKE_REVISIONS)
def test_both_eras_are_served_interleaved_in_one_process(client, revision):
    client.open(revision)
    for turn in range(3):
        plain = client.result("tools/list")
        assert not {"resultType", "ttlMs", "cacheScope", "_meta"} & set(plain)
        client.send({"jsonrpc": "2.0", "id": f"s{turn}", "method": "tools/list", "params": {"_meta": stateless_meta()}})
        assert client.answer(f"s{turn}")["result"]["resultType"] == "complete"
        client.send({"jsonrpc": "2.0", "id": f"p{turn}", "method": "ping", "params": {"_meta": stateless_meta()}})
        assert client.answer(f"p{turn}")["error"]["code"] == -32601
        assert client.result("ping") == {}


def test_other_meta_keys_do_not_choose_an_era(client):
    client.open("2025-06-18")
    result = client.result("tools/list", {"_meta": {"traceparent": "00-1-2-01", "com.example/x": 1}})
    assert "resultType" not in result


@pytest.mark.parametrize("revision", ALL_REVISIONS)
def test_notifications_are_never_answered(client, revision):
    client.open(revision)
    client.notify("notifications/no-such-thing", {"a": 1})
    client.notify("tools/list")
    client.notify("notifications/cancelled")
    client.notify("initialize", initialize_params(NEWEST_HANDSHAKE))
    client.notify("tools/call", {"name": "no-such-tool"})
    assert client.result("tools/list")["tools"]
    assert [a.message for a in client.arrivals if "method" not in a.message and a.message.get("id") is None] == []


@pytest.mark.parametrize("revision", ALL_REVISIONS)
def test_responses_to_nothing_are_ignored(client, revision):
    client.open(revision)
    client.send_line('{"jsonrpc":"2.0","id":77,"result":{}}')
    client.send_line('{"jsonrpc":"2.0","id":"x","error":{"code":-1,"message":"no"}}')
    assert client.result("tools/list")["tools"]
    assert all(a.message.get("id") not in (77, "x", None) for a in client.arrivals if "method" not in a.message)


@pytest.mark.parametrize("revision", HANDSHAKE_REVISIONS)
def test_an_error_that_names_no_request_has_the_id_that_the_revision_allows(client, revision):
    client.open(revision)
    client.send_line("this is no JSON")
    answer = client.error_without_id()
    assert ("id" not in answer) == unknown_id_is_absent(revision)
    assert answer["error"]["code"] == -32700


def test_an_error_before_any_revision_has_a_null_id(client):
    client.send_line("this is no JSON")
    answer = client.error_without_id()
    assert answer["error"]["code"] == -32700 and answer["id"] is None
