"""export-session and import-session: a session that goes to another machine, and the errors of the storage document."""

import json
import os
import re
import signal
import sqlite3
import time

import pytest

from harness import ANY_VALUES, Runtime

SESSION = "session-20260120-143022-A4F2"
CREATED = 3_978_000_000  # 2026-01-21, universal time


def now():
    return int(time.time()) + 2208988800


def failure(answer):
    """The type of an error."""
    assert answer.is_error, answer.text
    return answer.text.split("\n")[0].removeprefix("[ERROR] ")


def document(**changes):
    """A document as the storage contract has it, with nothing that only we know."""
    whole = {"id": SESSION, "name": "Debug Session", "created_at": CREATED, "updated_at": CREATED + 5, "model": "m-1",
             "metadata": {"provider": "x", "total_input_tokens": 3},
             "conversation": {"messages": [{"role": "user", "content": "What is the bug?", "created_at": CREATED + 1},
                                           {"role": "assistant", "content": "Ä off-by-one", "created_at": CREATED + 2}]}}
    return {key: value for key, value in {**whole, **changes}.items() if value is not ...}


def exported(client, **arguments):
    answer = client.tool("export-session", **arguments)
    assert not answer.is_error, answer.text
    return answer.structured


def worked(client):
    """The id of a session in which something was done."""
    session = client.tool("create-session", name="Work", model="m", metadata={"a": [1, None]}).structured["id"]
    client.evaluate("(in-package :cl-user) (defvar *x* 1)", session=session)
    client.evaluate("(car 1)", session=session)
    client.evaluate('(princ (code-char 0)) (princ "\U0001F600")', session=session)
    client.tool("configure-limits", session=session, max_output=5000)
    client.tool("add-message", session=session, role="assistant", content='"quoted" \\ \n\t\u2028', time=now() - 50)
    return session


@pytest.fixture
def other_machine():
    with Runtime() as other:
        yield other


def test_a_session_goes_to_another_machine_in_a_file_and_is_the_same_there(own_runtime, other_machine):
    here, there = own_runtime.client().open(), other_machine.client().open()
    session = worked(here)
    path = other_machine.directory / "session.json"
    answer = here.tool("export-session", session="Work", file=str(path))
    size = path.stat().st_size
    assert answer.text == f"Exported {session} to {path}: 7 messages, {size} bytes." and path.stat().st_mode & 0o777 == 0o600
    assert there.tool("import-session", file="session.json").text == f'Imported {session} "Work" with 7 messages.'
    original = json.loads(path.read_text())
    copy = exported(there, session=session)
    assert original.pop("directory") == str(own_runtime.directory) and copy.pop("directory")
    assert copy == original
    assert there.evaluate("(+ 1 2)", session="Work").structured["evaluation"] == 4
    assert there.tool("search-sessions", query="quoted").structured["hits"][0]["session"] == session
    assert "5000" in there.tool("configure-limits", session="Work").text


def test_a_document_holds_what_the_storage_contract_wants(lisp):
    session = worked(lisp)
    told = exported(lisp, session=session)
    card = lisp.tool("session-info", session=session).structured
    for key in ("id", "name", "created_at", "updated_at", "model", "metadata"):
        assert told[key] == card[key]
    messages = told["conversation"]["messages"]
    assert [message["role"] for message in messages] == ["user", "tool"] * 3 + ["assistant"]
    assert messages[5]["content"] == "[stdout]\n\u2400\U0001F600\n\n=> \"\U0001F600\""
    assert messages[3]["is_error"] and messages[3]["evaluation"] == 2
    assert set(told["metadata"]) == {"a"} and json.loads(lisp.tool("export-session", session=session).text) == told


def test_a_file_that_was_laid_out_in_lines_is_imported(own_runtime):
    client = own_runtime.client().open()
    session = worked(client)
    path = own_runtime.directory / "session.json"
    assert not client.tool("export-session", session=session, file=path.name).is_error
    path.write_text(json.dumps(json.loads(path.read_text()), indent=2) + "\r\n")
    answer = client.tool("import-session", file=path.name, new_id=True, name="Again")
    assert not answer.is_error, answer.text
    assert exported(client, session="Again")["conversation"] == exported(client, session=session)["conversation"]


def test_a_bare_document_of_the_contract_is_imported(lisp):
    answer = lisp.tool("import-session", document=document(), new_id=True, name="Bare")
    assert re.fullmatch(r'Imported (session-\S{20}) "Bare" with 2 messages\.', answer.text)
    told = exported(lisp, session="Bare")
    assert (told["created_at"], told["updated_at"], told["model"]) == (CREATED, CREATED + 5, "m-1")
    assert told["metadata"] == document()["metadata"]
    assert [(m["number"], m["role"], m["content"], m["created_at"]) for m in told["conversation"]["messages"]] == [
        (1, "user", "What is the bug?", CREATED + 1), (2, "assistant", "Ä off-by-one", CREATED + 2)]


def test_an_id_or_name_that_is_there_is_refused_and_can_be_changed(own_runtime):
    client = own_runtime.client().open()
    assert client.tool("import-session", document=document()).structured["id"] == SESSION
    again = client.tool("import-session", document=document(name="Other"))
    assert failure(again) == "SESSION-EXISTS" and "new-id" in again.text
    again = client.tool("import-session", document=document(), new_id=True)
    assert failure(again) == "SESSION-EXISTS" and "`name`" in again.text
    copy = client.tool("import-session", document=document(), new_id=True, name="Copy")
    assert copy.structured["id"] != SESSION and client.tool("list-sessions").structured["total"] == 2


def test_an_id_that_is_somebody_else_s_becomes_another_and_tells_nothing(own_runtime):
    client = own_runtime.client().open()
    client.tool("import-session", document=document())
    with sqlite3.connect(own_runtime.database) as database:
        database.execute("UPDATE sessions SET owner = owner + 1")
    answer = client.tool("import-session", document=document())
    assert not answer.is_error and answer.structured["id"] != SESSION and answer.structured["name"] == "Debug Session"


@pytest.mark.parametrize("wrong", ["session-20260120-143022-A4F2-1234", "session-20260120-143022-a4f2", "", 7, None, ...])
def test_an_id_of_the_wrong_shape_is_refused(lisp, wrong):
    assert failure(lisp.tool("import-session", document=document(id=wrong, name=None))) == "INVALID-SESSION-ID"


@pytest.mark.parametrize("wrong", [..., None, [], "text", {}, {"messages": None}])
def test_a_session_without_a_conversation_gets_an_empty_one_and_it_is_logged(own_runtime, wrong):
    client = own_runtime.client().open()
    answer = client.tool("import-session", document=document(conversation=wrong))
    assert "with 0 messages.\nMISSING-CONVERSATION: " in answer.text
    assert exported(client, session=SESSION)["conversation"] == {"messages": []}
    assert "MISSING-CONVERSATION" in own_runtime.log_tail()


@pytest.mark.parametrize("name", ["created_at", "updated_at"])
@pytest.mark.parametrize("wrong", [-1, 0, 3786825599, "ahead", "yesterday", 1.5, None, ...])
def test_a_timestamp_that_cannot_be_is_replaced_and_logged(own_runtime, name, wrong):
    client = own_runtime.client().open()
    wrong = now() + 100000 if wrong == "ahead" else wrong
    answer = client.tool("import-session", document=document(**{name: wrong}))
    assert "INVALID-TIMESTAMP" in answer.text and "INVALID-TIMESTAMP" in own_runtime.log_tail()
    told = exported(client, session=SESSION)
    assert told["updated_at"] >= told["created_at"] >= CREATED and abs(told["updated_at"] - now()) < 60


def test_updated_before_created_is_put_right(lisp):
    answer = lisp.tool("import-session", document=document(updated_at=CREATED - 9), new_id=True, name="Order")
    assert "INVALID-TIMESTAMP" in answer.text
    told = exported(lisp, session="Order")
    assert told["created_at"] == told["updated_at"] == CREATED


def test_a_message_whose_time_cannot_be_gets_the_current_one(lisp):
    messages = [{"role": "user", "content": "x", "created_at": 5}, {"role": "user", "content": "y", "created_at": CREATED}]
    answer = lisp.tool("import-session", document=document(conversation={"messages": messages}), new_id=True, name="Times")
    assert "INVALID-TIMESTAMP: messages" in answer.text
    first, second = exported(lisp, session="Times")["conversation"]["messages"]
    assert abs(first["created_at"] - now()) < 60 and second["created_at"] == CREATED


def test_metadata_beyond_64_kb_is_refused_and_nothing_is_imported(own_runtime):
    client = own_runtime.client().open()
    answer = client.tool("import-session", document=document(metadata={"x": "y" * 65536}))
    assert failure(answer) == "METADATA-OVERFLOW"
    assert client.tool("list-sessions").structured["total"] == 0
    with sqlite3.connect(own_runtime.database) as database:
        assert database.execute("SELECT count(*) FROM messages").fetchone() == (0,)


@pytest.mark.parametrize("wrong", [
    {"format": "zip"}, {"format": 7}, {"version": 2, "format": "cl-mcp-session"}, {"name": "session-1"}, {"name": "a\nb"},
    {"conversation": {"messages": [1]}}, {"conversation": {"messages": [{"role": "user"}, {"role": "boss", "content": "x"}]}},
    {"conversation": {"messages": [{"role": "user", "content": 7}]}},
])
def test_a_document_that_makes_no_sense_is_refused_in_words(lisp, wrong):
    answer = lisp.tool("import-session", document=document(**wrong), new_id=True)
    assert failure(answer) == "INVALID-ARGUMENTS" and len(answer.text) > 40


WHOLE = document(
    format="cl-mcp-session", version=1, name=None, directory="/", package="CL-USER", limits="", history=True, evaluations=1,
    conversation={"messages": [{"role": "user", "content": "x", "created_at": CREATED, "evaluation": 1, "operation": None,
                                "package": "CL-USER", "outcome": 0, "elapsed_us": 1, "is_error": False}]})


def places(value, path=()):
    """The path to each member and element of a document."""
    for key, part in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield (*path, key)
        yield from places(part, (*path, key))


def changed(value, path, new):
    """A copy with another value in that place."""
    if not path:
        return new
    copy = value.copy()
    copy[path[0]] = changed(value[path[0]], path[1:], new)
    return copy


@pytest.mark.parametrize("value", ANY_VALUES, ids=str)
def test_a_document_with_any_value_in_any_place_is_imported_or_refused(lisp, runtime, value):
    daemon = runtime.daemon_pid()
    requests = [lisp.start("tools/call", {"name": "import-session", "arguments": {
        "document": changed(WHOLE, path, value), "new-id": True}}) for path in places(WHOLE)]
    for request in requests:
        answer = lisp.evaluation(request)
        if not answer.is_error:
            assert exported(lisp, session=answer.structured["id"])["id"] == answer.structured["id"]
    assert runtime.daemon_pid() == daemon


def test_metadata_that_are_too_deep_for_a_list_of_sessions_are_refused(own_runtime):
    client = own_runtime.client().open()
    (own_runtime.directory / "deep.json").write_text(json.dumps(document(metadata=...))[:-1] + ',"metadata":' + '{"a":' * 62 + "1" + "}" * 63)
    answer = client.tool("import-session", file="deep.json")
    assert failure(answer) == "INVALID-ARGUMENTS" and "nested too deeply" in answer.text
    assert client.tool("list-sessions").structured["total"] == 0


def test_odd_numbers_of_evaluations_are_left_out(lisp):
    messages = [{"role": role, "content": "x", "evaluation": number, "created_at": CREATED}
                for role, number in (("user", 3), ("tool", 3), ("user", 3), ("tool", 2), ("assistant", 9), ("user", -1), ("user", 8))]
    assert not lisp.tool("import-session", document=document(conversation={"messages": messages}), new_id=True, name="Odd").is_error
    told = exported(lisp, session="Odd")
    assert [message["evaluation"] for message in told["conversation"]["messages"]] == [3, 3, None, None, None, None, 8]
    assert told["evaluations"] == 8 and lisp.evaluate("1", session="Odd").structured["evaluation"] == 9


def test_files_that_cannot_be_are_told_by_name(own_runtime):
    client = own_runtime.client().open()
    session = worked(client)
    for path, words in (("there.json", "choose another name"), ("no/such/directory.json", "No such file"), (".", "choose another name")):
        (own_runtime.directory / "there.json").write_text("{}")
        answer = client.tool("export-session", session=session, file=path)
        assert failure(answer) == "FILE-ERROR" and words in answer.text
    assert (own_runtime.directory / "there.json").read_text() == "{}"
    (own_runtime.directory / "broken.json").write_text('{"id": ')
    os.mkfifo(own_runtime.directory / "pipe")
    for path, words in (("absent.json", "No such file"), ("broken.json", "no JSON"), (".", "no file"), ("pipe", "no file")):
        answer = client.tool("import-session", file=path)
        assert failure(answer) == "FILE-ERROR" and words in answer.text
    answer = client.tool("import-session")
    assert failure(answer) == "INVALID-ARGUMENTS" and "either file or document" in answer.text


def test_a_document_too_long_for_an_answer_goes_into_a_file(own_runtime):
    client = own_runtime.client().open()
    for _ in range(5):
        client.tool("add-message", role="user", content="x" * 1_000_000)
    assert "Give a `file`" in client.tool("export-session").text
    assert not client.tool("export-session", file="long.json").is_error
    assert (own_runtime.directory / "long.json").stat().st_size > 5_000_000
    client.tool("create-session", name="quoted")
    for _ in range(9):
        client.tool("add-message", session="quoted", role="user", content='"\n' * 25_000)
    assert len(exported(client, session="quoted")["conversation"]["messages"]) == 9  # in less than 8 MiB
    assert not client.tool("import-session", file="long.json", new_id=True).is_error


def test_exports_and_imports_that_a_kill_cuts_off_are_done_once(own_runtime):
    client = own_runtime.client().open()
    worked(client)
    for turn in range(10):
        for tool, arguments in (("export-session", {"session": "Work", "file": f"{turn}.json"}),
                                ("import-session", {"file": f"{turn}.json", "new-id": True, "name": f"copy {turn}"})):
            request = client.start("tools/call", {"name": tool, "arguments": arguments})
            os.kill(own_runtime.daemon_pid(), signal.SIGKILL)
            answer = client.evaluation(request)
            assert not answer.is_error, answer.text
    assert client.tool("list-sessions").structured["total"] == 11
