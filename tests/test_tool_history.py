"""session-history, search-sessions, add-message and set-session-metadata as clients see them."""

import os
import signal
import sqlite3
import time

import pytest

from mcpschema import ALL_REVISIONS

NOBODY_S = "session-20260120-143022-A4F2"
UNIVERSAL = 2208988800


def now():
    return int(time.time()) + UNIVERSAL


def is_now(moment):
    """About now: the clock of a virtual machine may be set while a test runs."""
    return abs(moment - now()) < 60


def failure(answer):
    """The type of an error."""
    assert answer.is_error, answer.text
    return answer.text.split("\n")[0].removeprefix("[ERROR] ")


def history(client, **arguments):
    return client.tool("session-history", **arguments).structured


def contents(client, **arguments):
    return [(message["number"], message["role"], message["content"]) for message in history(client, **arguments)["messages"]]


def found(client, query, **arguments):
    """What was found, by session and number."""
    return [(hit["session"], hit["number"]) for hit in client.tool("search-sessions", query=query, **arguments).structured["hits"]]


# ---- session-history

@pytest.mark.parametrize("revision", ALL_REVISIONS)
def test_an_evaluation_leaves_its_code_and_its_answer(client, revision):
    client.open(revision)
    client.evaluate("(defun square (x) (* x x))")
    client.evaluate("(square 12) (car 1)")
    text = client.tool("session-history").text
    assert "1 user, " in text and ", evaluation 1\n(defun square (x) (* x x))\n" in text
    assert ", evaluation 2\n[ERROR] TYPE-ERROR\n" in text


def test_each_message_tells_when_what_and_how_long(lisp):
    lisp.evaluate("(sleep 0.05)")
    lisp.evaluate("(car 1)")
    page = history(lisp)
    asked, answered, _, failed = page["messages"]
    assert (asked["role"], asked["content"], asked["evaluation"], asked["is_error"]) == ("user", "(sleep 0.05)", 1, False)
    assert (answered["role"], answered["content"], answered["evaluation"]) == ("tool", "=> NIL", 1)
    assert answered["package"] == "CL-USER" and 50 <= answered["elapsed_ms"] < 5000
    assert is_now(asked["created_at"]) and failed["is_error"] and not answered["is_error"]
    assert page["total"] == 4 and "next" not in page


def test_operations_stand_in_the_transcript_under_their_names(lisp):
    lisp.tool("load-system", system="no-such-system")
    assert [(message["role"], message["operation"], message["content"]) for message in history(lisp)["messages"]][0] == (
        "user", "load-system", "no-such-system")


def test_the_last_messages_come_first_hand_and_pages_lead_to_all(lisp):
    for number in range(1, 26):
        lisp.tool("add-message", role="user", content=f"m{number}")
    last = history(lisp, limit=10)
    assert [message["number"] for message in last["messages"]] == list(range(16, 26)) and last["next"] == {"before": 16}
    assert "Earlier: session-history with before 16" in lisp.tool("session-history", limit=10).text
    seen, more = [], {"after": 0}
    while more:
        page = history(lisp, limit=10, **more)
        seen += [message["content"] for message in page["messages"]]
        more = page.get("next")
    assert seen == [f"m{number}" for number in range(1, 26)]
    seen, more = [], {"before": 1000}
    while more:
        page = history(lisp, limit=7, **more)
        seen = [message["content"] for message in page["messages"]] + seen
        more = page.get("next")
    assert seen == [f"m{number}" for number in range(1, 26)]


def test_messages_are_found_by_time(lisp):
    start = now() - 1000
    for number in range(10):
        lisp.tool("add-message", role="user", content=f"m{number}", time=start + 10 * number)
    assert [message["content"] for message in history(lisp, since=start + 15, until=start + 45)["messages"]] == ["m2", "m3", "m4"]
    assert history(lisp, since=start + 1000)["messages"] == []
    assert history(lisp, since=start, limit=3)["next"] == {"after": 3}


def test_long_contents_are_cut_and_whole_on_request(lisp):
    content = "ä\U0001F600" * 5000
    lisp.tool("add-message", role="assistant", content=content)
    message, = history(lisp)["messages"]
    assert message["content"] == content[:4000] and message["is_cut"] and message["characters"] == 10000
    assert "cut here; it has 10000 characters" in lisp.tool("session-history").text
    message, = history(lisp, characters=10000)["messages"]
    assert message["content"] == content and not message["is_cut"]


def test_a_page_too_long_for_an_answer_is_refused_and_a_shorter_one_is_given(lisp):
    for _ in range(10):
        lisp.tool("add-message", role="user", content="\x01" * 500000)
    refused = lisp.tool("session-history", characters=1000000)
    assert failure(refused) == "TOO-LONG" and "a smaller limit, fewer characters" in refused.text
    message, = history(lisp, characters=1000000, limit=1)["messages"]
    assert len(message["content"]) == 500000


def test_a_session_without_history_keeps_its_numbers_and_no_contents(own_runtime):
    client = own_runtime.client().open()
    session = client.tool("create-session", history=False).structured["id"]
    assert client.evaluate('(list "whisper")', session=session).text == '=> ("whisper")'
    assert client.evaluate("1", session=session).structured["evaluation"] == 2
    client.evaluate('(dotimes (i 20000) (write-line "whisper"))', session=session)
    card = client.tool("session-info", session=session).structured
    assert (card["evaluations"], card["messages"], card["history"]) == (3, 0, False)
    assert history(client, session=session)["messages"] == [] and found(client, "whisper") == []
    client.end_of_input()
    client.wait()
    own_runtime.control("shutdown")
    files = [path for path in own_runtime.database.parent.rglob("*") if path.is_file()]
    assert not [path for path in files if b"whisper" in path.read_bytes()]


# ---- add-message

@pytest.mark.parametrize("role", ["user", "assistant", "system", "tool"])
def test_a_message_is_added_in_its_role(lisp, role):
    answer = lisp.tool("add-message", role=role, content="What is the bug?\n\t\u2028 ä")
    assert answer.text == "Added as message 1." and answer.structured["role"] == role
    assert contents(lisp) == [(1, role, "What is the bug?\n\t\u2028 ä")]


def test_messages_and_evaluations_are_numbered_in_one_order(lisp):
    lisp.tool("add-message", role="user", content="a")
    lisp.evaluate("1")
    lisp.tool("add-message", role="user", content="b")
    assert contents(lisp) == [(1, "user", "a"), (2, "user", "1"), (3, "tool", "=> 1"), (4, "user", "b")]


def test_an_unknown_role_is_refused_with_the_roles(lisp):
    answer = lisp.tool("add-message", role="developer", content="x")
    assert failure(answer) == "INVALID-ARGUMENTS" and "must be one of: user, assistant, system, tool" in answer.text


@pytest.mark.parametrize("wrong", [0, 3786825599, "tomorrow"])
def test_a_time_that_cannot_be_is_replaced_by_now_and_logged(own_runtime, wrong):
    client = own_runtime.client().open()
    wrong = now() + 90000 if wrong == "tomorrow" else wrong
    answer = client.tool("add-message", role="user", content="x", time=wrong)
    assert not answer.is_error and "INVALID-TIMESTAMP" in answer.text
    assert is_now(answer.structured["created_at"])
    assert f"INVALID-TIMESTAMP: a message of time {wrong} gets the current one" in own_runtime.log_tail()


@pytest.mark.parametrize("right", [3786825600, -100, 86000])
def test_a_time_that_can_be_is_kept(lisp, right):
    right = right if right > 100000 else now() + right
    assert lisp.tool("add-message", role="user", content="x", time=right).structured["created_at"] == right
    card = lisp.tool("session-info").structured
    assert card["updated_at"] >= card["created_at"] and abs(card["updated_at"] - now()) < 60


def test_adding_is_a_use_that_makes_the_session_the_first_of_the_list(own_runtime):
    client = own_runtime.client().open()
    first, second = (client.tool("create-session").structured["id"] for _ in range(2))
    with sqlite3.connect(own_runtime.database) as database:
        database.execute("UPDATE sessions SET created_at = created_at - 9, updated_at = updated_at - 9")
    client.tool("add-message", role="user", content="x", session=first)
    assert [card["id"] for card in client.tool("list-sessions").structured["sessions"]] == [first, second]


def test_a_message_that_is_sent_again_after_a_kill_is_added_once(own_runtime):
    client = own_runtime.client().open()
    for turn in range(15):
        request = client.start("tools/call", {"name": "add-message", "arguments": {"role": "user", "content": f"m{turn}"}})
        os.kill(own_runtime.daemon_pid(), signal.SIGKILL)
        assert client.evaluation(request).text == f"Added as message {turn + 1}."
    assert [content for _, _, content in contents(client)] == [f"m{turn}" for turn in range(15)]


# ---- search-sessions

def test_words_are_found_in_code_results_messages_and_names(own_runtime):
    client = own_runtime.client().open()
    session = client.tool("create-session", name="Quaternion work").structured["id"]
    client.evaluate('(defun rotate-vector (v) "turn" v)', session=session)
    client.evaluate('(princ "banana")', session=session)
    client.tool("add-message", role="user", content="Please mind the Ölflasche", session=session)
    assert found(client, "rotate-vector") == [(session, 2), (session, 1)]
    assert found(client, "banana") == [(session, 4), (session, 3)]
    assert found(client, "ölfl mind") == [(session, 5)]
    answer = client.tool("search-sessions", query="quaternion")
    assert answer.structured["names"] == [{"session": session, "name": "Quaternion work"}] and not answer.structured["hits"]
    assert answer.text == f'named: {session} "Quaternion work"'
    assert client.tool("search-sessions", query="pineapple").text == "Nothing found."


def test_a_hit_is_shown_in_its_context(lisp):
    words = [f"w{number}" for number in range(200)]
    lisp.tool("add-message", role="user", content=" ".join(words).replace("w100", "needle"))
    hit, = lisp.tool("search-sessions", query="needle", session=lisp.tool("session-info").structured["id"]).structured["hits"]
    assert "w99 «needle» w101" in hit["text"] and hit["text"].startswith("…") and len(hit["text"]) < 200


def test_a_hit_beside_words_without_end_is_shown_in_part(lisp):
    lisp.tool("add-message", role="user", content="x" * 5000 + " boundless " + "y" * 500000)
    lisp.tool("add-message", role="user", content="boundless " + "y" * 500000)
    second, first = lisp.tool("search-sessions", query="boundless", session=lisp.tool("session-info").structured["id"]).structured["hits"]
    assert "xxx «boundless» yyy" in first["text"] and len(first["text"]) == 2002
    assert second["text"] == "«boundless» " + "y" * 1988 + "…"


def test_all_words_must_be_there_each_perhaps_as_a_beginning(lisp):
    session = lisp.evaluate("1").structured["session"]
    lisp.tool("add-message", role="user", content="the multiple-value-bind form and the zebra")
    assert found(lisp, "zeb mult", session=session) == [(session, 3)]
    assert found(lisp, "multiple-value-b", session=session) == [(session, 3)]
    assert found(lisp, "zebra lion", session=session) == []


@pytest.mark.parametrize("query", ['"', "NOT x OR (", 'a"b AND c', "x*", "col:x", "(defun f (x) \"doc\")", "^near", "NEAR(a b)", "-x", "ä AND"])
def test_no_query_is_taken_for_syntax(lisp, query):
    answer = lisp.tool("search-sessions", query=query)
    assert not answer.is_error or "must hold a word" in answer.text


@pytest.mark.parametrize("query", ["", "   ", "()", "+ - *"])
def test_a_query_without_a_word_is_refused(lisp, query):
    answer = lisp.tool("search-sessions", query=query)
    assert failure(answer) == "INVALID-ARGUMENTS" and "must hold a word" in answer.text


def test_pages_of_hits_lead_to_all_newest_first(own_runtime):
    client = own_runtime.client().open()
    for number in range(23):
        client.tool("add-message", role="user", content=f"needle {number}")
    seen, more = [], {}
    while True:
        page = client.tool("search-sessions", query="needle", **more).structured
        seen += [hit["number"] for hit in page["hits"]]
        if "next_before" not in page:
            break
        more = {"before": page["next_before"]}
    assert seen == list(range(23, 0, -1))


def test_what_belongs_to_somebody_else_is_not_found(own_runtime):
    client = own_runtime.client().open()
    session = client.tool("create-session", name="Secret plan").structured["id"]
    client.tool("add-message", role="user", content="attack at dawn", session=session)
    assert found(client, "dawn") == [(session, 1)]
    with sqlite3.connect(own_runtime.database) as database:
        database.execute("UPDATE sessions SET owner = owner + 1")
    answer = client.tool("search-sessions", query="dawn").structured
    assert answer["hits"] == [] and client.tool("search-sessions", query="plan").structured["names"] == []
    for tool, more in (("session-history", {}), ("add-message", {"role": "user", "content": "x"}), ("set-session-metadata", {}),
                       ("search-sessions", {"query": "dawn"})):
        foreign, unknown = (client.tool(tool, session=name, **more) for name in (session, NOBODY_S))
        assert failure(foreign) == "SESSION-NOT-FOUND" and foreign.text.replace(session, NOBODY_S) == unknown.text
        assert failure(client.tool(tool, session="session-1", **more)) == "INVALID-SESSION-ID"


def test_what_was_deleted_is_not_found(own_runtime):
    client = own_runtime.client().open()
    session = client.tool("create-session", name="Needle").structured["id"]
    client.evaluate('"needle"', session=session)
    assert found(client, "needle")
    client.tool("delete-session", session=session)
    answer = client.tool("search-sessions", query="needle").structured
    assert answer == {"names": [], "hits": []}
    with sqlite3.connect(own_runtime.database) as database:
        assert database.execute("SELECT count(*) FROM messages").fetchone() == (0,)
        database.execute("INSERT INTO message_words (message_words, rank) VALUES ('integrity-check', 1)")


# ---- set-session-metadata

def test_metadata_is_merged_and_keys_are_removed(lisp):
    def metadata(**arguments):
        return lisp.tool("set-session-metadata", **arguments).structured["metadata"]

    assert metadata() == {}
    assert metadata(set={"provider": "x", "tags": {"a": 1, "b": [1, 2]}}) == {"provider": "x", "tags": {"a": 1, "b": [1, 2]}}
    assert metadata(set={"tags": {"a": 2, "c": None}, "n": 1.5}) == {"provider": "x", "tags": {"a": 2, "b": [1, 2]}, "n": 1.5}
    assert metadata(remove=["n", "absent"], set={"provider": None}) == {"tags": {"a": 2, "b": [1, 2]}}
    assert lisp.tool("session-info").structured["metadata"] == {"tags": {"a": 2, "b": [1, 2]}}


def test_token_counts_add_up(lisp):
    lisp.tool("set-session-metadata", input_tokens=100, output_tokens=50)
    lisp.tool("set-session-metadata", input_tokens=7)
    answer = lisp.tool("set-session-metadata", output_tokens=1, model="claude-sonnet-4-20250514")
    assert answer.structured["metadata"] == {"total_input_tokens": 107, "total_output_tokens": 51}
    assert lisp.tool("session-info").structured["model"] == "claude-sonnet-4-20250514"


def test_tokens_are_counted_once_though_the_daemon_is_killed(own_runtime):
    client = own_runtime.client().open()
    for turn in range(1, 16):
        request = client.start("tools/call", {"name": "set-session-metadata", "arguments": {"input-tokens": 1}})
        os.kill(own_runtime.daemon_pid(), signal.SIGKILL)
        assert client.evaluation(request).structured["metadata"] == {"total_input_tokens": turn}


def test_an_update_beyond_64_kb_is_refused_and_what_was_stored_stays(lisp):
    lisp.tool("set-session-metadata", set={"kept": 1})
    answer = lisp.tool("set-session-metadata", set={"big": "ä" * 33000})
    assert failure(answer) == "METADATA-OVERFLOW" and "What was stored stays" in answer.text
    assert lisp.tool("session-info").structured["metadata"] == {"kept": 1}


def test_keys_to_remove_must_be_strings(lisp):
    answer = lisp.tool("set-session-metadata", remove=[1])
    assert failure(answer) == "INVALID-ARGUMENTS" and "array of strings" in answer.text
