"""Peers that misbehave: workers that lie, clients that flood or do not read. The daemon lives and serves the others."""

import os
import socket
import struct
import time

import pytest

from harness import stateless_meta, wait_until
from worker_driver import encode

SESSION = "session-20260120-143022-A4F2"


def hello(**more):
    return encode("h", **{"version": 1, "session": SESSION, "pid": 1, "incarnation": 1, "seq": 0, "kept": 0, **more})


LIES = {
    "no frame at all": b"\xff" * 64,
    "a length without end": struct.pack("<I", 0xFFFFFFF0),
    "a result before its hello": encode("r", seq=1, outcome=0),
    "another session's name": hello(session="session-20260120-143022-FFFF"),
    "another version": hello(version=99),
    "a result that nobody asked for": hello() + encode("r", seq=7, outcome=0, origin=b"garbage"),
    "more results than it has": hello(kept=1) + 2 * encode("r", seq=1, outcome=0, origin=b"garbage"),
    "an outcome that is none": hello(kept=1) + encode("r", seq=1, outcome=99),
    "two hellos": hello() + hello(),
    "an evaluation for nobody": hello(seq=3, running=3, origin=b"garbage") + encode("r", seq=3, outcome=0) + b"\0\0\0\0",
}


@pytest.mark.parametrize("lie", LIES.values(), ids=LIES.keys())
def test_a_worker_that_lies_is_left_and_the_others_are_served(own_runtime, lie):
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(own_runtime.directory / SESSION))
        listener.listen()
        listener.settimeout(10)
        client = own_runtime.client().open()
        daemon = own_runtime.daemon_pid()
        link, _ = listener.accept()
        with link:
            link.settimeout(10)
            link.sendall(lie)
            try:
                while link.recv(4096):
                    pass
            except ConnectionResetError:
                pass
        assert client.evaluate("(+ 1 2)").text == "=> 3"
        assert own_runtime.daemon_pid() == daemon


def test_a_client_that_does_not_read_holds_up_no_other_on_its_session(own_runtime):
    reader = own_runtime.client("--session", "shared").open()
    reader.evaluate("1")
    deaf = own_runtime.client("--session", "shared", reading=False)
    deaf.revision = "2025-11-25"
    deaf.start("initialize", {"protocolVersion": deaf.revision, "capabilities": {},
                              "clientInfo": {"name": "t", "version": "1"}})
    for _ in range(20):
        deaf.start_evaluation('(incf *count*) (dotimes (i 100000) (write-string "0123456789"))')
    reader.evaluate("(defvar *count* 0)")
    # More answers than anybody buffers are due to the deaf one; then its turn is over.
    steady, last = 0, None
    while steady < 3:
        count = reader.evaluate("*count*", timeout=10).text
        steady, last = (steady + 1 if count == last else 0), count
    deaf.finish()


def test_thousands_of_cancellations_hold_up_nobody(own_runtime):
    flood, other = own_runtime.client().open(), own_runtime.client().open()
    other.evaluate("1")
    running = flood.start_evaluation("(loop)")
    ids = [f"req-{number}" for number in range(3000)]
    flood.send_all([flood.message("tools/call", {"name": "evaluate-lisp", "arguments": {"code": "1"}}, request_id=name)
                    for name in ids])
    assert flood.answer(flood.start("ping"))["result"] == {}
    began = time.monotonic()
    for name in reversed(ids):
        flood.cancel(name)
    flood.cancel(running)
    assert other.evaluate("(+ 1 2)", timeout=5).text == "=> 3"
    assert flood.evaluate("(+ 2 2)").text == "=> 4"
    assert time.monotonic() - began < 10


def test_what_waits_behind_an_evaluation_that_kills_its_process_is_evaluated(own_runtime):
    client = own_runtime.client().open()
    for turn in range(5):
        deadly = client.start_evaluation('(ext:system "kill -SEGV $PPID")')
        first, second = client.start_evaluation("(list 1)"), client.start_evaluation("(list 2)")
        assert client.evaluation(deadly).text.startswith("[ERROR] WORKER-DIED\n")
        assert client.evaluation(first).text.endswith("=> (1)")
        assert client.evaluation(second).text == "=> (2)", turn


def test_a_shutdown_while_lisp_boots_leaves_no_process(own_runtime):
    client = own_runtime.client().open()
    assert client.result("cl-mcpd/status")["zygote"]["state"] == "booting"
    own_runtime.control("shutdown")
    client.finish()
    wait_until(lambda: not own_runtime.processes(), "all have left", 10)


def test_names_that_are_not_utf_8_get_into_no_answer(own_runtime):
    place = os.fsencode(own_runtime.directory) + b"/d\xff"
    os.mkdir(place)
    client = own_runtime.client(directory=place).open()
    assert client.evaluate("(ext:getcwd)").text == '=> #P"/"'
    assert client.tool("session-info").structured["directory"] == "/"
    assert client.tool("list-sessions").structured["total"] == 1
    assert "not UTF-8" in own_runtime.log_tail()
    refused = own_runtime.client(b"--session", b"n\xff").request("ping")
    assert "a session's name is UTF-8" in refused["error"]["message"]


LONG_NAMES = ["a" + "\u00e9" * 150, "\U0001f600" * 80, "ab" + "\u4e2d" * 100]


@pytest.mark.parametrize("name", LONG_NAMES)
def test_what_is_quoted_is_cut_without_leaving_half_a_character(client, name):
    """The Client checks that each line is valid UTF-8."""
    client.open("2024-11-05")
    assert client.error(name)["code"] == -32601
    assert client.call(name)["error"]["code"] == -32602
    assert client.call("evaluate-lisp", {"code": "1", name: 1})["error"]["code"] == -32602
    for session in (name, "session-" + name):
        assert client.call("evaluate-lisp", {"code": "1", "session": session})["result"]["isError"]
    data = client.error("tools/list", {"_meta": stateless_meta(name)})["data"]
    assert data["requested"] and name.startswith(data["requested"])
