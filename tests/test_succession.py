"""What is told of a death, and what is stored, when the daemon dies as well: nothing is forgotten, and nothing out of order."""

import contextlib
import os
import pathlib
import signal
import socket
import sqlite3
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent / "crash"))

from harness import alive, kill_for_good, wait_until
from mischief import connections_of
from test_survival import NOTHING_LOST, protect, session_pid

UNDONE = "The session goes on as it was 2 evaluations before. Undone, and not repeated: "
THREAD = "(defvar *t* (mp:process-run-function 'idle #'sleep 1000))"  # while it runs no copies are made


@contextlib.contextmanager
def nothing_is_stored(runtime):
    with contextlib.closing(sqlite3.connect(runtime.database, isolation_level=None, timeout=30)) as database:
        database.execute("BEGIN IMMEDIATE")
        yield


def run(client, code):
    """Starts an evaluation and waits until it runs."""
    trace = client.runtime.directory / f"trace{len(client.sent)}"
    request = client.start_evaluation(f'(progn (open "{trace}" :direction :probe :if-does-not-exist :create) {code})')
    wait_until(trace.exists, "it runs")
    return request


def contents(client, count):
    wait_until(lambda: client.tool("session-info").structured["messages"] == count, "all is stored")
    return [message["content"] for message in client.tool("session-history", limit=100).structured["messages"]]


def test_what_was_undone_is_told_also_when_the_daemon_that_should_have_told_it_dies(own_runtime):
    client = own_runtime.client().open()
    client.evaluate("(defvar *n* 0)")
    pid = protect(client)
    for code in (THREAD, "(incf *n*)"):
        client.evaluate(code)
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: session_pid(client) != pid, "its copy has taken over")
    request = run(client, "(sleep 0.5) *n*")
    os.kill(own_runtime.daemon_pid(), signal.SIGKILL)
    assert UNDONE + THREAD + "; (incf *n*)\n" in client.evaluation(request).text
    assert client.evaluate("*n*").text == "=> 0"


def test_that_the_process_is_a_new_one_is_told_also_when_the_daemon_that_should_have_told_it_dies(own_runtime):
    client = own_runtime.client().open()
    kill_for_good(protect(client))
    wait_until(lambda: client.result("cl-mcpd/status")["sessions"][0]["state"] == "empty", "its process is known to be dead")
    request = run(client, "(sleep 0.5) 1")
    os.kill(own_runtime.daemon_pid(), signal.SIGKILL)
    text = client.evaluation(request).text
    assert text.count("It goes on in a new process") == 1, text
    assert client.evaluate("1").text == "=> 1"


def test_what_is_undone_is_told_to_the_next_if_the_one_that_was_interrupted_was_cancelled(own_runtime):
    client = own_runtime.client().open()
    client.evaluate("(defvar *n* 0)")
    protect(client)
    for code in (THREAD, "(incf *n*)"):
        client.evaluate(code)
    client.cancel(run(client, "(mp:without-interrupts (loop))"))
    text = client.evaluate("*n*").text
    assert text.startswith("[warnings]\nSESSION-RESTORED: ") and UNDONE + THREAD + "; (incf *n*)\n" in text and text.endswith("=> 0")


def test_results_that_only_the_copy_has_are_stored_in_their_order_before_the_one_that_was_interrupted(own_runtime):
    client = own_runtime.client().open()
    client.evaluate("(defvar *n* 0)")
    with nothing_is_stored(own_runtime):
        for _ in range(5):
            client.evaluate("(incf *n*)")
        pid = protect(client)
        request = run(client, "(sleep 1000)")
        os.kill(own_runtime.daemon_pid(), signal.SIGKILL)
        os.kill(pid, signal.SIGKILL)
    died = client.evaluation(request).text
    assert died.startswith("[ERROR] WORKER-DIED\n") and died.endswith(NOTHING_LOST)
    messages = contents(client, 16)
    assert messages[2:] == [
        *(text for n in range(1, 6) for text in ("(incf *n*)", f"=> {n}")), "1", "=> 1",
        messages[-2], died]
    assert client.evaluate("*n*").text == "=> 5"


def test_a_session_that_a_dead_zygote_has_left_can_be_deleted(own_runtime):
    client = own_runtime.client().open()
    session = client.evaluate("(defvar *n* 0)").structured["session"]
    pid = protect(client)
    os.kill(own_runtime.ready()["zygote"]["pid"], signal.SIGKILL)
    assert client.tool("delete-session", session=session).text.startswith("Deleted ")
    assert not alive(pid) and not list(own_runtime.directory.glob("session-*"))


def test_a_process_that_is_cut_off_while_nobody_can_end_it_goes_on(own_runtime):
    client = own_runtime.client().open()
    client.evaluate("(defvar *n* 0)")
    zygote, pid = own_runtime.ready()["zygote"]["pid"], protect(client)
    request = run(client, "(sleep 0.5) (incf *n*)")
    os.kill(zygote, signal.SIGSTOP)
    try:
        for link, peer in connections_of(own_runtime.daemon_pid()):
            if peer == pid:
                link.shutdown(socket.SHUT_RDWR)
            link.close()
    except PermissionError as problem:
        pytest.skip(f"sockets of other processes cannot be had here: {problem}")
    finally:
        os.kill(zygote, signal.SIGKILL)
    assert client.evaluation(request).text.endswith("=> 1")
    assert client.evaluate("(incf *n*)").text == "=> 2"
    assert session_pid(client) == pid
