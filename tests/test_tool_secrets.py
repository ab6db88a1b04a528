"""What a client marks as secret reaches its answer and nothing that is stored, whoever dies."""

import os
import signal

import pytest

from harness import wait_until
from test_tool_sessions import failure, info, made

KEY = "sk-7Fq\\\"x ü!"  # with what Lisp and JSON escape
PLAIN = "hunter2-correct-horse"


def lisp_string(text):
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def stored_in(runtime, *needles):
    """Where one of the texts is in the database's files, as it is or as JSON or Lisp would have it."""
    forms = {form.encode() for needle in needles
             for form in (needle, lisp_string(needle)[1:-1], lisp_string(lisp_string(needle)[1:-1])[1:-1])}
    return [path.name for path in runtime.database.parent.glob("sessions.db*") if any(form in path.read_bytes() for form in forms)]


def history(client, session):
    return client.tool("session-history", session=session, limit=1000).text


def settled_history(client, session, messages):
    wait_until(lambda: info(client, session)["messages"] == messages, "it is stored")
    return history(client, session)


@pytest.mark.parametrize("secret", [PLAIN, KEY])
def test_a_secret_is_answered_as_it_is_and_stored_as_secret(own_runtime, secret):
    client = own_runtime.client().open()
    session = made(client)
    code = (f'(progn (format t "out ~a~%" {lisp_string(secret)}) (format *error-output* "err ~a" {lisp_string(secret)})'
            f' (warn "careful with ~a" {lisp_string(secret)}) (values {lisp_string(secret)} 1))')
    answer = client.evaluate(code, session=session, secrets=[secret])
    shown = answer.structured
    assert shown["stdout"] == f"out {secret}" and shown["stderr"].startswith(f"err {secret}") and secret in shown["warnings"][0]
    assert shown["values"] == [lisp_string(secret), "1"] and lisp_string(secret) in answer.text
    kept = settled_history(client, session, 2)
    assert kept.count("[secret]") == 8 and '=> "[secret]"' in kept and '(values "[secret]" 1)' in kept and "out [secret]" in kept
    assert client.tool("search-sessions", query="secret").structured["hits"]
    assert not client.tool("search-sessions", query="hunter2").structured["hits"]
    own_runtime.control("shutdown")
    assert stored_in(own_runtime, secret) == []


def test_a_secret_in_an_error_and_its_backtrace_is_not_stored(own_runtime):
    client = own_runtime.client().open()
    session = made(client)
    client.evaluate('(defun connect-with (key) (error "no access with ~a" key))', session=session)
    answer = client.evaluate(f'(connect-with "{PLAIN}")', session=session, secrets=[PLAIN])
    assert answer.structured["error"]["message"] == f"no access with {PLAIN}" and f'(CONNECT-WITH "{PLAIN}")' in answer.text
    kept = settled_history(client, session, 4)
    assert "no access with [secret]" in kept and '(CONNECT-WITH "[secret]")' in kept
    own_runtime.control("shutdown")
    assert stored_in(own_runtime, PLAIN) == []


def test_output_that_is_cut_is_kept_without_its_secrets(own_runtime):
    client = own_runtime.client().open()
    session = made(client)
    answer = client.evaluate(f'(dotimes (i 20000) (format t "line ~d {PLAIN}~%" i))', session=session, secrets=[PLAIN, "line 1 "])
    assert PLAIN in answer.structured["stdout"]
    piece = client.tool("read-output", session=session, offset=0, length=1000).text
    assert "[secret][secret]\nline 2 [secret]\n" in piece and PLAIN not in piece
    own_runtime.control("shutdown")
    assert stored_in(own_runtime, PLAIN) == []


def test_a_secret_is_not_stored_when_the_daemon_dies_between_answer_and_commit(own_runtime):
    client = own_runtime.client().open()
    session = made(client)
    for turn in range(12):
        answer = client.evaluate(f'(list {turn} "{PLAIN}")', session=session, secrets=[PLAIN])
        assert answer.text == f'=> ({turn} "{PLAIN}")'
        os.kill(own_runtime.daemon_pid(), signal.SIGKILL)
    kept = settled_history(client, session, 24)
    assert all(f'=> ({turn} "[secret]")' in kept and f'(list {turn} "[secret]")' in kept for turn in range(12))
    own_runtime.control("shutdown")
    assert stored_in(own_runtime, PLAIN) == []


def test_a_secret_is_not_stored_when_the_daemon_dies_while_it_is_evaluated(own_runtime):
    client = own_runtime.client().open()
    session = made(client)
    gate = own_runtime.directory / "gate"
    running = client.start_evaluation(f'(progn (loop until (probe-file "{gate}") do (sleep 0.01)) "{PLAIN}")', session=session,
                                      secrets=[PLAIN])
    wait_until(lambda: info(client, session)["state"] == "running", "it runs")
    os.kill(own_runtime.daemon_pid(), signal.SIGKILL)
    wait_until(lambda: info(client, session)["state"] == "running", "it is adopted")
    gate.touch()
    assert client.evaluation(running).text == f'=> "{PLAIN}"'
    assert '=> "[secret]"' in settled_history(client, session, 2)
    own_runtime.control("shutdown")
    assert stored_in(own_runtime, PLAIN) == []


def test_code_that_is_undone_is_named_without_its_secrets(own_runtime):
    client = own_runtime.client().open()
    session = made(client)
    client.evaluate("1", session=session, protect=True)
    client.evaluate("(progn (mp:process-run-function 'busy (lambda () (loop (sleep 0.1)))) 2)", session=session)  # no copies now
    client.evaluate(f'(defvar *key* "{PLAIN}")', session=session, secrets=[PLAIN])
    os.kill(info(client, session)["pid"], signal.SIGKILL)
    answer = client.evaluate("3", session=session)
    assert '(defvar *key* "[secret]")' in answer.text and PLAIN not in answer.text
    settled_history(client, session, 8)
    own_runtime.control("shutdown")
    assert stored_in(own_runtime, PLAIN) == []


def test_progress_shows_no_secret(lisp):
    request = lisp.start_evaluation(f'(loop (format t "with {PLAIN} on~%") (finish-output) (sleep 0.05))', token="p",
                                    secrets=[PLAIN])
    wait_until(lambda: lisp.progress("p"), "progress")
    lisp.cancel(request)
    messages = [arrival.message["params"]["message"] for arrival in lisp.progress("p")]
    assert all("with [secret] on" in message and PLAIN not in message for message in messages)


def test_the_longest_of_overlapping_secrets_goes(lisp):
    session = made(lisp)
    lisp.evaluate('(list "abcdefgh" "abcdxx")', session=session, secrets=["abcd", "abcdefgh"])
    assert '=> ("[secret]" "[secret]xx")' in settled_history(lisp, session, 2)


@pytest.mark.parametrize("secrets", [["abc"], [""], [1], [None], ["a\0bcd"], ["x" * 16385], [f"text {i}" for i in range(65)]])
def test_what_cannot_be_a_secret_is_refused_and_nothing_is_evaluated(lisp, secrets):
    answer = lisp.evaluate("(defvar *evaluated* t)", secrets=secrets)
    assert failure(answer) == "INVALID-ARGUMENTS" and "at least 4 bytes" in answer.text
    assert lisp.evaluate("(boundp '*evaluated*)").text == "=> NIL"


def test_a_call_without_history_leaves_no_messages(own_runtime):
    client = own_runtime.client().open()
    session = made(client)
    client.evaluate("(defvar *x* 1)", session=session)
    before = settled_history(client, session, 2)
    assert client.evaluate(f'(in-package :cl-user) "{PLAIN}"', session=session, history=False).structured["evaluation"] == 2
    assert client.evaluate("(1+ *x*)", session=session).structured["evaluation"] == 3
    after = settled_history(client, session, 4)
    assert PLAIN not in after and before.split("\n", 1)[1] in after
    assert info(client, session)["evaluations"] == 3
