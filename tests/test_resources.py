"""Sessions as resources: listed, read, completed. What is told of their changes is in test_subscriptions.py."""

import json
import os
import re
import signal
import sqlite3
import urllib.parse

import pytest

from harness import META, Runtime, kill_for_good, wait_until
from mcpschema import ALL_REVISIONS, STATELESS

NOBODY_S = "session-20260120-143022-A4F2"
PARTS = ("", "/transcript", "/definitions", "/last-error")
TEMPLATES = [f"lisp://session/{{id}}{part}" for part in PARTS]


def made(client, **arguments):
    return client.tool("create-session", **arguments).structured["id"]


def uri_of(session, part=""):
    return f"lisp://session/{urllib.parse.quote(session, safe='')}{part}"


def read(client, uri):
    """The one text that a resource has."""
    result = client.result("resources/read", {"uri": uri})
    content, = result["contents"]
    assert content["uri"] == uri
    if client.revision == STATELESS:
        assert (result["ttlMs"], result["cacheScope"]) == (0, "private")
    return content["text"]


def completed(client, value, template=TEMPLATES[0]):
    return client.result("completion/complete", {"ref": {"type": "ref/resource", "uri": template},
                                                 "argument": {"name": "id", "value": value}})["completion"]


def stored(client, session, count):
    """Waits until so many messages are on the disk."""
    wait_until(lambda: client.tool("session-info", session=session).structured["messages"] == count, "they are stored")


@pytest.fixture(scope="module")
def crowded():
    """A daemon with a hundred and one sessions."""
    with Runtime() as mine:
        client = mine.client().open()
        requests = [client.start("tools/call", {"name": "create-session", "arguments": {"name": f"n{number}"}})
                    for number in range(101)]
        assert not any(client.evaluation(request).is_error for request in requests)
        yield mine


# ---- listing

@pytest.mark.parametrize("revision", ALL_REVISIONS)
def test_the_list_names_all_sessions_and_the_parts_of_each(client, revision):
    client.open(revision)
    client.tool("create-session", name=f"My work {revision}")
    result = client.result("resources/list")
    cards = json.loads(read(client, "lisp://sessions"))["sessions"]
    assert [each["uri"] for each in result["resources"]] == \
        ["lisp://sessions"] + [uri_of(card["id"], part) for card in cards for part in PARTS]
    assert [each["name"] for each in result["resources"]] == \
        ["sessions"] + [(card["name"] or card["id"]) + part for card in cards for part in PARTS]
    assert f"My work {revision}/transcript" in [each["name"] for each in result["resources"]]
    assert all(("title" in each) == (revision >= "2025-06-18") for each in result["resources"])
    assert all(each["mimeType"] in ("application/json", "text/plain") for each in result["resources"])
    assert result.get("cacheScope") == ("private" if revision == STATELESS else None)
    for each in result["resources"]:
        assert read(client, each["uri"])


def test_the_list_is_paged_newest_first_and_holds_each_session_once(crowded):
    client = crowded.client().open()
    seen, params, sizes = [], {}, []
    while True:
        page = client.result("resources/list", params)
        uris = [each["uri"] for each in page["resources"]]
        assert ("lisp://sessions" in uris) == (not params)
        sizes.append(len(uris))
        seen += [uri.rsplit("/", 1)[1] for uri in uris if uri.count("/") == 3]
        if "nextCursor" not in page:
            break
        params = {"cursor": page["nextCursor"]}
    assert sizes == [101, 100, 100, 100, 4] and len(set(seen)) == len(seen) == 101
    assert seen == [card["id"] for card in json.loads(read(client, "lisp://sessions"))["sessions"]]


@pytest.mark.parametrize("cursor", ["", "1", "12/session-1", 7, None, "x/" + NOBODY_S])
def test_a_cursor_that_is_none_is_refused(lisp, cursor):
    assert lisp.error("resources/list", {"cursor": cursor})["code"] == -32602
    assert lisp.error("resources/templates/list", {"cursor": cursor})["code"] == -32602


@pytest.mark.parametrize("revision", ALL_REVISIONS)
def test_templates_are_listed_in_every_revision(client, revision):
    result = client.open(revision).result("resources/templates/list")
    assert [each["uriTemplate"] for each in result["resourceTemplates"]] == TEMPLATES
    assert all(("title" in each) == (revision >= "2025-06-18") for each in result["resourceTemplates"])
    assert result.get("cacheScope") == ("public" if revision == STATELESS else None)


def test_listing_and_reading_start_no_process(own_runtime):
    client = own_runtime.client().open()
    session = made(client, name="Asleep")
    for each in client.result("resources/list")["resources"]:
        read(client, each["uri"])
    assert "has no process now" in read(client, uri_of(session, "/definitions"))
    assert own_runtime.status()["sessions"] == []


# ---- reading

def test_all_sessions_are_read_as_json_with_their_state(own_runtime):
    client = own_runtime.client().open()
    asleep = made(client, name="Asleep")
    awake = client.evaluate("(+ 1 2)").structured["session"]
    found = json.loads(read(client, "lisp://sessions"))
    cards = {card["id"]: card for card in found["sessions"]}
    assert found["total"] == 2 and set(cards) == {asleep, awake} and "omitted" not in found
    assert (cards[asleep]["state"], cards[awake]["state"]) == ("stored", "idle")


@pytest.mark.parametrize("revision", ALL_REVISIONS)
def test_a_session_is_read_by_id_and_by_name_as_session_info_tells_it(client, revision):
    client.open(revision)
    name = f"käse/100% {revision}"
    client.tool("create-session", name=name, metadata={"ticket": 7})
    card = json.loads(read(client, uri_of(name)))
    assert json.loads(read(client, uri_of(card["id"]))) == card
    assert card["name"] == name and card["metadata"] == {"ticket": 7} and card["state"] == "stored"
    if revision >= "2025-06-18":
        assert client.tool("session-info", session=name).structured == card


def test_a_transcript_is_read_with_its_newest_messages_last(lisp):
    session = lisp.evaluate('(format t "hello")').structured["session"]
    lisp.tool("add-message", role="user", content="a note")
    text = read(lisp, uri_of(session, "/transcript"))
    assert text.startswith(f"{session}: 3 messages\n")
    assert re.findall(r"\n--- (\d) (\w+), ", text) == [("1", "user"), ("2", "tool"), ("3", "user")]
    assert '(format t "hello")' in text and "[stdout]\nhello" in text and text.endswith("\na note\n")


def test_definitions_are_read_as_list_definitions_tells_them_and_reading_leaves_no_trace(own_runtime):
    client, other = own_runtime.client().open(), own_runtime.client("--resume").open()
    session = client.evaluate("(defun square (x) (* x x)) (defvar *a* 1)").structured["session"]
    elsewhere = made(client)
    client.evaluate("1", session=elsewhere)
    text = read(client, uri_of(session, "/definitions"))
    assert "SQUARE" in text and "*A*" in text and text == client.tool("list-definitions").text
    client.evaluate("2", session=elsewhere)
    stored(client, session, 4)
    read(client, uri_of(session, "/definitions"))
    assert client.tool("session-history", session=session).structured["total"] == 4
    assert other.evaluate("3").structured["session"] == elsewhere  # that is still the one that was used last
    after = client.evaluate("4", session=session)
    assert after.structured["evaluation"] == 5  # readings have numbers of their own
    stored(client, session, 6)
    os.kill(own_runtime.daemon_pid(), signal.SIGKILL)
    assert client.evaluate("(square 5)", session=session).text == "=> 25"


def test_definitions_wait_for_their_turn(lisp):
    session = lisp.evaluate("(+ 1 2)").structured["session"]
    running = lisp.start_evaluation("(progn (sleep 0.5) (defun late () 1))")
    assert "LATE" in read(lisp, uri_of(session, "/definitions"))
    assert lisp.answered(running)


def test_reading_definitions_can_be_cancelled(lisp):
    session = lisp.evaluate("(+ 1 2)").structured["session"]
    running = lisp.start_evaluation("(loop)")
    reading = lisp.start("resources/read", {"uri": uri_of(session, "/definitions")})
    lisp.cancel(reading)
    lisp.cancel(running)
    assert lisp.evaluate("(+ 1 2)").text == "=> 3"


def test_a_daemon_that_is_killed_answers_a_reading_of_definitions_as_a_resource_afterwards(own_runtime):
    client = own_runtime.client().open()
    session = client.evaluate("(defclass slow () ()) (defmethod print-object ((object slow) stream) (sleep 1)"
                              " (write-string \"slow\" stream)) (defvar *slow* (make-instance 'slow))").structured["session"]
    stored(client, session, 2)
    reading = client.start("resources/read", {"uri": uri_of(session, "/definitions")})
    wait_until(lambda: own_runtime.status()["sessions"][0]["state"] == "running", "it runs")
    os.kill(own_runtime.daemon_pid(), signal.SIGKILL)
    content, = client.answer(reading)["result"]["contents"]
    assert content["uri"] == uri_of(session, "/definitions") and "*SLOW*" in content["text"]
    assert client.evaluate("(+ 1 2)").text == "=> 3"
    stored(client, session, 4)


def test_what_becomes_of_a_reading_whose_process_dies_is_told_in_the_protocol(own_runtime):
    client = own_runtime.client().open()
    session = client.evaluate("(defclass slow () ()) (defmethod print-object ((object slow) stream) (sleep 9))"
                              " (defvar *slow* (make-instance 'slow))").structured["session"]
    reading = client.start("resources/read", {"uri": uri_of(session, "/definitions")})
    status = wait_until(lambda: (s := own_runtime.status()["sessions"][0])["state"] == "running" and s, "it runs")
    kill_for_good(status["pid"])
    error = client.answer(reading)["error"]
    assert error["code"] == -32603 and "WORKER-DIED" in error["message"]


def test_the_last_error_is_read_with_its_code(lisp):
    session = lisp.evaluate("(+ 1 2)").structured["session"]
    assert read(lisp, uri_of(session, "/last-error")) == f"{session}: no evaluation has ended with an error.\n"
    lisp.evaluate("(car 1)")
    lisp.evaluate("(car 42)")
    lisp.evaluate("(+ 1 2)")
    stored(lisp, session, 8)
    text = read(lisp, uri_of(session, "/last-error"))
    assert re.findall(r"\n--- (\d) (\w+), ", text) == [("5", "user"), ("6", "tool")]
    assert "(car 42)" in text and "[ERROR] TYPE-ERROR\nThe value 42 is not of type LIST." in text


def test_a_notice_for_the_next_evaluation_is_not_spent_on_a_reading(lisp, runtime):
    session = lisp.evaluate("(defvar *x* 1)").structured["session"]

    def status():
        return next(each for each in runtime.status()["sessions"] if each["id"] == session)

    before = wait_until(lambda: (s := status())["protected"] == 1 and s, "it has a copy")
    os.kill(before["pid"], signal.SIGKILL)
    wait_until(lambda: (s := status())["pid"] != before["pid"] and s["state"] == "idle", "the copy takes over")
    assert read(lisp, uri_of(session, "/definitions")).endswith("*X* = 1")
    assert "SESSION-RESTORED" in lisp.evaluate("*x*").text


# ---- what is too long

def test_a_transcript_that_is_too_long_keeps_its_end_and_says_so(client, runtime):
    """The harness refuses a line of 8 MiB."""
    session = made(client.open())
    bell = chr(7) * 8000  # as JSON it takes six times as much
    with sqlite3.connect(runtime.database) as database:
        database.executemany(
            "INSERT INTO messages (session, number, role, content, created_at) VALUES (?, ?, 'user', ?, 3978000000)",
            [(session, number, bell) for number in range(1, 401)])
    text = read(client, uri_of(session, "/transcript"))
    first = int(re.search(r"\(cut here; session-history with before (\d+) shows earlier ones\)", text).group(1))
    numbers = [int(number) for number in re.findall(r"\n--- (\d+) user", text)]
    assert numbers == list(range(first, 401)) and first > 1
    page = client.tool("session-history", session=session, before=first, limit=1).structured
    assert page["messages"][0]["number"] == first - 1


def test_sessions_that_are_too_many_are_counted(own_runtime):
    client = own_runtime.client().open()
    made(client)
    with sqlite3.connect(own_runtime.database) as database:
        database.execute("""
            WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 150)
            INSERT INTO sessions (id, owner, directory, created_at, updated_at, metadata)
              SELECT printf('session-20200101-000000-%04X', i), ?, '/', 3787000000, 3787000000,
                json_object('text', replace(hex(zeroblob(32000)), '0', 'x')) FROM n""", (os.getuid(),))
    found = json.loads(read(client, "lisp://sessions"))
    assert found["total"] == 151 and found["omitted"] == 151 - len(found["sessions"]) > 0


def test_a_model_s_name_of_any_length_is_cut(lisp):
    session = made(lisp, model="m" * 9_000_000)
    card = json.loads(read(lisp, uri_of(session)))
    assert card["model_is_cut"] and set(card["model"]) == {"m"}
    assert session in read(lisp, "lisp://sessions")
    lisp.tool("delete-session", session=session)


# ---- what is not there

@pytest.mark.parametrize("revision", ALL_REVISIONS)
@pytest.mark.parametrize("part", PARTS)
def test_an_unknown_session_is_not_found_in_the_revision_s_code(client, revision, part):
    error = client.open(revision).error("resources/read", {"uri": uri_of(NOBODY_S, part)})
    assert error["code"] == (-32602 if revision == STATELESS else -32002)
    assert error["data"] == {"uri": uri_of(NOBODY_S, part)}


@pytest.mark.parametrize("uri", [
    "", "lisp://", "lisp://session", "lisp://session/", "lisp://sessions/", "lisp://sessions/" + NOBODY_S, "file:///etc/passwd",
    uri_of(NOBODY_S, "/"), uri_of(NOBODY_S, "/source"), uri_of(NOBODY_S, "/transcript/"), "lisp://session/%", "lisp://session/%4",
    "lisp://session/%zz", "lisp://session/%00", "lisp://session/a%00b", "lisp://session/%ff", "lisp://session/" + "a" * 5000])
def test_a_uri_that_names_nothing_is_not_found(lisp, uri):
    error = lisp.error("resources/read", {"uri": uri})
    assert (error["code"], error["message"]) == (-32002, "Resource not found")


@pytest.mark.parametrize("params", [None, {}, {"uri": None}, {"uri": 7}, {"uri": ["lisp://sessions"]}, {"uri": "lisp://\0"}])
def test_a_uri_that_is_no_text_is_refused(lisp, params):
    assert lisp.error("resources/read", params)["code"] == -32602


def test_a_foreign_session_is_not_listed_read_or_completed_and_answers_as_one_that_is_not_there(client, runtime):
    session = made(client.open(), name="Somebody's")
    with sqlite3.connect(runtime.database) as database:
        database.execute("UPDATE sessions SET owner = owner + 1 WHERE id = ?", (session,))
    assert session not in str(client.result("resources/list")) and session not in read(client, "lisp://sessions")
    assert completed(client, "Somebody")["values"] == [] == completed(client, session)["values"]
    for part in PARTS:
        for name in (session, "Somebody's"):
            foreign, unknown = (client.error("resources/read", {"uri": uri_of(each, part)}) for each in (name, NOBODY_S))
            assert json.dumps(foreign).replace(uri_of(name), uri_of(NOBODY_S)) == json.dumps(unknown)


def test_a_store_that_fails_is_an_internal_error(own_runtime):
    client = own_runtime.client().open()
    made(client)
    with sqlite3.connect(own_runtime.database, isolation_level=None) as database:
        database.execute("BEGIN IMMEDIATE")  # nobody else can write for more than two seconds
        error = client.error("resources/read", {"uri": "lisp://sessions"})
        assert error["code"] == -32603 and error["message"].startswith("STORAGE-FAILED")
    assert wait_until(lambda: "result" in client.request("resources/read", {"uri": "lisp://sessions"}), "it is mended")


# ---- completion

@pytest.mark.parametrize("revision", ALL_REVISIONS)
def test_ids_and_names_are_completed_by_prefix_in_every_revision(client, revision):
    client.open(revision)
    for name in ("alpha", "Alps", "al%_"):
        client.tool("create-session", name=f"{revision} {name}")
    cards = json.loads(read(client, "lisp://sessions"))["sessions"]
    every = {card["id"] for card in cards} | {card["name"] for card in cards if card["name"]}
    assert set(completed(client, "")["values"]) == every and completed(client, "")["total"] == len(every)
    assert set(completed(client, revision + " al")["values"]) == {revision + " alpha", revision + " al%_"}
    assert completed(client, revision + " al%")["values"] == [revision + " al%_"]
    assert completed(client, "x")["values"] == []
    assert cards[0]["id"] in completed(client, cards[0]["id"][:-1], TEMPLATES[2])["values"]
    assert completed(client, "session-")["total"] == len(cards)
    for value in completed(client, revision)["values"]:
        assert read(client, uri_of(value))


def test_no_more_than_a_hundred_values_are_given_and_the_rest_is_counted(crowded):
    client = crowded.client().open()
    more = completed(client, "n")
    assert len(more["values"]) == 100 and (more["total"], more["hasMore"]) == (101, True)
    every = completed(client, "n1")
    assert len(every["values"]) == 12 and (every["total"], every["hasMore"]) == (12, False)


@pytest.mark.parametrize("params", [
    None, {}, {"ref": {"type": "ref/prompt", "name": "x"}, "argument": {"name": "id", "value": ""}},
    {"ref": {"type": "ref/resource", "uri": "lisp://sessions"}, "argument": {"name": "id", "value": ""}},
    {"ref": {"type": "ref/resource", "uri": TEMPLATES[0]}, "argument": {"name": "other", "value": ""}},
    {"ref": {"type": "ref/resource", "uri": TEMPLATES[0]}, "argument": {"name": "id", "value": 7}},
    {"ref": {"type": "ref/resource", "uri": TEMPLATES[0]}, "argument": {"name": "id"}},
    {"ref": {"type": "ref/resource", "uri": TEMPLATES[0]}}, {"ref": [], "argument": []}])
def test_what_cannot_be_completed_is_refused(lisp, params):
    assert lisp.error("completion/complete", params)["code"] == -32602


def test_every_stateless_result_is_complete_and_names_the_server(client):
    client.open(STATELESS)
    session = made(client)
    reference = {"ref": {"type": "ref/resource", "uri": TEMPLATES[0]}, "argument": {"name": "id", "value": ""}}
    for result in (client.result("resources/list"), client.result("resources/templates/list"),
                   client.result("completion/complete", reference),
                   *(client.result("resources/read", {"uri": uri_of(session, part)}) for part in PARTS)):
        assert result["resultType"] == "complete" and result["_meta"][META + "serverInfo"]["name"] == "cl-mcp-server"


def test_resources_are_read_while_a_loop_runs(lisp):
    session = lisp.evaluate("(+ 1 2)").structured["session"]
    running = lisp.start_evaluation("(loop)")
    wait_until(lambda: json.loads(read(lisp, uri_of(session)))["state"] == "running", "it runs")
    assert read(lisp, uri_of(session, "/transcript")) and lisp.result("resources/list")["resources"]
    lisp.cancel(running)


def test_reading_in_a_batch_is_answered_with_the_others(client):
    client.open("2025-03-26")
    messages = [client.message("resources/read", {"uri": uri}, request_id=f"b{number}")
                for number, uri in enumerate(["lisp://sessions", uri_of(NOBODY_S)])]
    client.send_line(json.dumps(messages))
    answers = {each["id"]: each for each in client.wait_for(lambda message: isinstance(message, list), "the batch")}
    assert "contents" in answers["b0"]["result"] and answers["b1"]["error"]["code"] == -32002
