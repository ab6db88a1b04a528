"""The official JSON Schemas of the five MCP revisions, and what each kind of message is checked against."""

import functools
import json
import pathlib

import jsonschema

HANDSHAKE_REVISIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
NEWEST_HANDSHAKE = "2025-11-25"
STATELESS = "2026-07-28"
ALL_REVISIONS = HANDSHAKE_REVISIONS + (STATELESS,)

RESULT_TYPES = {
    "initialize": "InitializeResult",
    "ping": "EmptyResult",
    "server/discover": "DiscoverResult",
    "tools/list": "ListToolsResult",
    "tools/call": "CallToolResult",
    "resources/list": "ListResourcesResult",
    "resources/templates/list": "ListResourceTemplatesResult",
    "resources/read": "ReadResourceResult",
    "completion/complete": "CompleteResult",
    "resources/subscribe": "EmptyResult",
    "resources/unsubscribe": "EmptyResult",
    "subscriptions/listen": "SubscriptionsListenResult",
}
SERVER_NOTIFICATIONS = {
    "notifications/progress": "ProgressNotification",
    "notifications/resources/list_changed": "ResourceListChangedNotification",
    "notifications/resources/updated": "ResourceUpdatedNotification",
    "notifications/subscriptions/acknowledged": "SubscriptionsAcknowledgedNotification",
}


def knows_annotations(revision):
    return revision >= "2025-03-26"


def knows_progress_message(revision):
    return revision >= "2025-03-26"


def knows_structured_content(revision):
    return revision >= "2025-06-18"


def capabilities(revision):
    """What the server declares."""
    known = {"tools": {}, "resources": {"subscribe": True, "listChanged": True}}
    return known if revision < "2025-03-26" else {**known, "completions": {}}


def bad_arguments_are_results(revision):
    """From 2025-11-25 on the model, not the client, is told about arguments that do not fit."""
    return revision >= "2025-11-25"


def unknown_id_is_absent(revision):
    """An error that cannot name its request: null up to 2025-06-18 and before a revision is known, absent after."""
    return revision is not None and revision >= "2025-11-25"


@functools.lru_cache(maxsize=None)
def _document(revision):
    return json.loads((pathlib.Path(__file__).parent / "schemas" / f"{revision}.json").read_text())


@functools.lru_cache(maxsize=None)
def _validator(revision, type_name):
    document = _document(revision)
    section = "$defs" if "$defs" in document else "definitions"
    if type_name not in document[section]:
        raise KeyError(f"the schema of {revision} has no type {type_name}")
    draft = jsonschema.Draft202012Validator if section == "$defs" else jsonschema.Draft7Validator
    return draft({section: document[section], "$ref": f"#/{section}/{type_name}"})


def check(revision, type_name, value):
    """Raises AssertionError unless value is a type_name of that revision."""
    error = jsonschema.exceptions.best_match(_validator(revision, type_name).iter_errors(value))
    if error is not None:
        where = "/".join(str(step) for step in error.absolute_path)
        raise AssertionError(f"no valid {type_name} of {revision}: at /{where}: {error.message[:500]}")


def check_against(schema, value):
    """Raises AssertionError unless value fits a tool's own schema (2020-12, as the protocol says)."""
    jsonschema.Draft202012Validator.check_schema(schema)
    error = jsonschema.exceptions.best_match(jsonschema.Draft202012Validator(schema).iter_errors(value))
    if error is not None:
        raise AssertionError(f"does not fit the tool's schema: {error.message[:500]}")


def check_server_message(revision, message, request_method=None):
    """
    Checks one message that the server wrote. request_method: what the request with the message's id asked for. A
    client whose revision is not known yet (None) is held to the oldest revision.
    """
    revision = revision or HANDSHAKE_REVISIONS[0]
    if "method" in message:
        assert "id" not in message, f"the server sent a request: {message}"
        assert message["method"] in SERVER_NOTIFICATIONS, f"unasked notification: {message}"
        check(revision, SERVER_NOTIFICATIONS[message["method"]], message)
    elif "error" in message:
        assert "result" not in message, message
        if revision == STATELESS and message.get("id", 0) is None:
            # Nothing is remembered from a request for the next, so that the process may count as one without revision.
            message = {key: value for key, value in message.items() if key != "id"}
        if not unknown_id_is_absent(revision):
            assert "id" in message, f"{revision} has no error without an id: {message}"
            # The schema does not know null, JSON-RPC 2.0 demands it when the id could not be found.
            message = {**message, "id": 0} if message["id"] is None else message
        check(revision, "JSONRPCErrorResponse" if revision >= "2025-11-25" else "JSONRPCError", message)
    else:
        check(revision, "JSONRPCResultResponse" if revision >= "2025-11-25" else "JSONRPCResponse", message)
        if request_method in RESULT_TYPES:
            check(revision, RESULT_TYPES[request_method], message["result"])
