"""The story that sessions are for: a client dies in the middle of its work, another one finds it, and nothing is lost."""

import os
import signal

import pytest

from harness import wait_until
from mcpschema import NEWEST_HANDSHAKE, STATELESS
from test_tool_sessions import info, present


@pytest.mark.parametrize("revision", [NEWEST_HANDSHAKE, STATELESS])
@pytest.mark.parametrize("and_the_daemon", [False, True])
def test_a_client_dies_in_the_middle_and_another_picks_the_work_up(own_runtime, revision, and_the_daemon):
    # Somebody names a session, defines something and starts a long computation.
    first = own_runtime.client().open(revision)
    session = first.tool("create-session", name="Prime work", model="model-a").structured["id"]
    first.tool("resume-session", session="Prime work")
    first.evaluate("(defun smallest-divisor (n) (loop for d from 2 thereis (and (zerop (mod n d)) d)))", session=session)
    gate = own_runtime.directory / "gate"
    first.start_evaluation(f'(progn (loop until (probe-file "{gate}") do (sleep 0.01))'
                           ' (format t "the answer of the long computation~%") (smallest-divisor 9991))', session=session)
    wait_until(lambda: info(first, session)["state"] == "running", "it runs")

    # The client is killed, perhaps with the daemon; the computation goes on and ends without anybody.
    shim = first.process
    os.kill(shim.pid, signal.SIGKILL)
    shim.wait()
    first.abandon()
    if and_the_daemon:
        os.kill(own_runtime.daemon_pid(), signal.SIGKILL)
    gate.touch()

    # Another client finds the session by its name, with the definition and the result in its transcript.
    second = own_runtime.client().open(revision)
    (card,) = second.tool("list-sessions").structured["sessions"]
    assert (card["id"], card["name"], card["model"]) == (session, "Prime work", "model-a")
    second.tool("resume-session", session="Prime work")
    wait_until(lambda: info(second, "Prime work")["messages"] == 4, "the computation has ended and is stored")
    history = second.tool("session-history", session="Prime work").structured["messages"]
    assert [message["role"] for message in history] == ["user", "tool", "user", "tool"]
    assert history[3]["content"].endswith("the answer of the long computation\n\n=> 97") and history[3]["evaluation"] == 2
    assert second.evaluate("(smallest-divisor 91)", session="Prime work").text == "=> 7"

    # It is found by what it printed and by what was asked, too.
    for words in ("long computation", "smallest-divisor"):
        hits = second.tool("search-sessions", query=words).structured["hits"]
        assert hits and {hit["session"] for hit in hits} == {session}

    # A third one joins: each sees the other's work, calls run one after the other, and session-info says who is there.
    third = own_runtime.client().open(revision)
    third.tool("resume-session", session="Prime work")
    third.evaluate("(defvar *count* 0)", session="Prime work")
    requests = [(client, client.start_evaluation("(incf *count*)", session="Prime work")) for client in (second, third) * 10]
    assert sorted(int(client.evaluation(request).text[3:]) for client, request in requests) == list(range(1, 21))
    assert {client["pid"] for client in info(third, session)["clients"]} == {second.process.pid, third.process.pid}
    second.finish()
    wait_until(lambda: present(third, session="Prime work") == ["tests"], "one has left")
    assert third.evaluate("*count*", session="Prime work").text == "=> 20"
