"""What a client may send: long lines, broken lines, deep nesting, floods, and silence."""

import json
import threading
import time

import pytest

from harness import LINE_MAX, PATIENCE, kilobytes, wait_until
from mcpschema import ALL_REVISIONS, STATELESS, unknown_id_is_absent


def padded(message, length):
    """The message as a line of exactly that many bytes, with blanks inside."""
    text = json.dumps(message)
    return text[:-1] + " " * (length - len(text)) + "}"


# Long lines


def test_a_line_of_16_mebibytes_is_accepted(lisp):
    message = lisp.message("ping", request_id="long")
    lisp.expect_answer_to("long", "ping")
    lisp.send_line(padded(message, LINE_MAX))
    assert lisp.answer("long")["result"] == {}


def test_a_string_of_16_mebibytes_is_evaluated(lisp):
    def message(count):
        arguments = {"code": '(length "' + "x" * count + '")'}
        return lisp.message("tools/call", {"name": "evaluate-lisp", "arguments": arguments}, request_id="big")

    room = LINE_MAX - 1024 - len(json.dumps(message(0)))
    lisp.send(message(room))
    assert lisp.evaluation("big", 60).text == f"=> {room}"


@pytest.mark.parametrize("revision", ALL_REVISIONS)
def test_a_longer_line_is_one_error_and_the_connection_lives(client, revision):
    client.open(revision)
    client.send_line(padded(client.message("ping", request_id="too long"), LINE_MAX + 1))
    answer = client.error_without_id()
    assert answer["error"]["code"] == -32600
    if revision != STATELESS:
        assert ("id" not in answer) == unknown_id_is_absent(revision)
    assert client.evaluate("(+ 1 2)").text == "=> 3"
    assert sum("error" in a.message for a in client.arrivals) == 1


def test_the_rest_of_a_much_longer_line_is_dropped(lisp):
    lisp.write(b'{"jsonrpc":"2.0","id":"huge","method":"tools/call",'
               b'"params":{"name":"evaluate-lisp","arguments":{"code":"')
    for _ in range(40):
        lisp.write(b"x" * (1 << 20))
    lisp.write(b'"}}}\n')
    assert lisp.error_without_id()["error"]["code"] == -32600
    assert lisp.evaluate("(+ 1 2)").text == "=> 3"
    assert sum("error" in a.message for a in lisp.arrivals) == 1
    assert kilobytes(lisp.process.pid, "VmHWM", "status") < 80_000


def test_long_lines_do_not_delay_other_clients(connect):
    sender, other = connect().open(), connect().open()
    other.evaluate("1")
    sender.write(b'{"jsonrpc":"2.0","id":"half","method":"ping","padding":"' + b"x" * (15 << 20))
    began = time.monotonic()
    assert other.evaluate("(+ 1 2)").text == "=> 3"
    assert time.monotonic() - began < PATIENCE / 10
    sender.expect_answer_to("half", "ping")
    sender.write(b'"}\n')
    assert sender.answer("half")["result"] == {}


# Broken lines


@pytest.mark.parametrize("revision", ALL_REVISIONS)
@pytest.mark.parametrize("line", [
    b'{"jsonrpc":"2.0","id":1,"method":"ping\xff"}', b'{"jsonrpc":"2.0","id":1,"method":"\xc3"}', b"\xff\xfe{}",
    b'{"jsonrpc":"2.0","id":1,"method":"\xed\xa0\x80"}', b'{"jsonrpc":"2.0","id":1,"method":"\xc0\x80"}',
    b'{"jsonrpc":"2.0","id":1,"method":"\xf5\x80\x80\x80"}',
], ids=["ff", "cut short", "fffe", "surrogate", "overlong", "beyond"])
def test_invalid_utf_8_is_a_parse_error(client, revision, line):
    client.open(revision)
    client.send_line(line)
    assert client.error_without_id()["error"]["code"] == -32700
    assert client.result("tools/list")["tools"]


@pytest.mark.parametrize("line", [b"\0", b"\0\0\0\0", b'{"jsonrpc":"2.0",\0"id":1,"method":"ping"}',
                                  b'{"jsonrpc":"2.0","id":1,"method":"ping"}\0',
                                  b'{"jsonrpc":"2.0","id":1,"method":"pi\0ng"}'])
def test_a_nul_byte_is_a_parse_error(lisp, line):
    lisp.send_line(line)
    assert lisp.error_without_id()["error"]["code"] == -32700
    assert lisp.evaluate("(+ 1 2)").text == "=> 3"


def test_an_escaped_nul_is_a_character_like_any_other(lisp):
    assert lisp.evaluate('(map \'list #\'char-code "a\0b")').text == "=> (97 0 98)"
    assert lisp.call("evaluate-lisp\0", {"code": "1"})["error"]["code"] == -32602
    assert lisp.error("ping\0")["code"] in (-32600, -32601)


@pytest.mark.parametrize("escaped", ["\\ud800", "\\udfff", "\\ud83d\\u0041", "\\ude00\\ud83d"])
def test_an_escaped_lone_surrogate_does_no_harm(lisp, escaped):
    lisp.expect_answer_to("s", "tools/call")
    lisp.send_line('{"jsonrpc":"2.0","id":"s","method":"tools/call","params":{"name":"evaluate-lisp",'
                   '"arguments":{"code":"(length \\"%s\\")"}}}' % escaped)
    lisp.wait_for(lambda m: m.get("id") == "s" or "error" in m, "an answer of some kind")
    assert lisp.evaluate("(+ 1 2)").text == "=> 3"


@pytest.mark.parametrize("depth", [1_000, 100_000, 4_000_000])
@pytest.mark.parametrize("opening", ["[", '{"a":', '[{"a":'])
def test_nested_brackets_are_refused(connect, opening, depth):
    lisp = connect().open()
    lisp.send_line(opening * (depth if len(opening) == 1 else min(depth, 2_000_000)))
    assert lisp.error_without_id()["error"]["code"] == -32700
    assert lisp.evaluate("(+ 1 2)").text == "=> 3"


@pytest.mark.parametrize("revision", ALL_REVISIONS)
def test_a_hundred_thousand_balanced_brackets_are_too_deep(client, revision):
    client.open(revision)
    client.send_line("[" * 100_000 + "]" * 100_000)
    assert client.error_without_id()["error"]["code"] == -32700
    assert client.result("tools/list")["tools"]


def test_a_hundred_thousand_brackets_in_params_are_too_deep(lisp):
    lisp.expect_answer_to(1000)
    nested = "[" * 100_000 + "]" * 100_000
    lisp.send_line('{"jsonrpc":"2.0","id":1000,"method":"tools/list","params":{"a":' + nested + "}}")
    message = lisp.wait_for(lambda m: "error" in m, "an error")
    assert message["error"]["code"] == -32700
    assert lisp.evaluate("(+ 1 2)").text == "=> 3"


def test_a_hundred_thousand_quotes_of_lisp_do_no_harm(lisp):
    lisp.evaluate("(defparameter *kept* 41)")
    assert lisp.evaluate("'" * 100_000 + "a").text
    assert lisp.evaluate("(1+ *kept*)").text == "=> 42"


@pytest.mark.parametrize("code", ["(" * 100_000, "(" * 100_000 + ")" * 100_000], ids=["open", "balanced"])
def test_a_hundred_thousand_brackets_of_lisp_are_an_error_of_the_evaluation(lisp, code):
    lisp.evaluate("(defparameter *kept* 41)")
    evaluation = lisp.evaluate(code)
    assert evaluation.is_error and evaluation.text.startswith("[ERROR] ")
    assert lisp.evaluate("(1+ *kept*)").text == "=> 42"


@pytest.mark.parametrize("ending", [b"\r\n", b" \t \n", b"\n\n\n", b"\n\r\n \n\t\n"])
def test_line_ends_of_every_kind_and_empty_lines_are_accepted(client, ending):
    client.open("2025-06-18")
    for number in range(100, 110):
        client.expect_answer_to(number, "ping")
        client.write(b"  " + json.dumps({"jsonrpc": "2.0", "id": number, "method": "ping"}).encode() + ending)
    for number in range(100, 110):
        assert client.answer(number)["result"] == {}
    assert not [a for a in client.arrivals if "error" in a.message]


def test_bytes_may_come_one_at_a_time(lisp):
    lisp.expect_answer_to("slow", "tools/call")
    params = {"name": "evaluate-lisp", "arguments": {"code": '(length "naïve 漢字 😀")'}}
    message = {"jsonrpc": "2.0", "id": "slow", "method": "tools/call", "params": params}
    line = json.dumps(message, ensure_ascii=False).encode() + b"\n"
    for position in range(len(line)):
        lisp.write(line[position:position + 1])
    assert lisp.evaluation("slow").text == "=> 10"


def test_a_last_line_without_a_line_end_is_served(runtime):
    with runtime.client() as client:
        client.open()
        client.expect_answer_to("last", "ping")
        client.write(b'{"jsonrpc":"2.0","id":"last","method":"ping"}')
        client.end_of_input()
        assert client.wait(10) == 0
        assert client.answer("last")["result"] == {}


# Floods and silence


def test_ten_thousand_pipelined_requests_are_all_answered_once(lisp):
    messages = []
    for number in range(10_000):
        if number % 10 == 0:
            params = {"name": "evaluate-lisp", "arguments": {"code": f"(* 2 {number})"}}
            messages.append(lisp.message("tools/call", params, request_id=number + 100))
        else:
            messages.append(lisp.message("tools/list" if number % 10 == 1 else "ping", request_id=number + 100))
    writer = threading.Thread(target=lisp.send_all, args=(messages, 120))
    writer.start()
    for number in range(10_000):
        answer = lisp.answer(number + 100, 120)
        if number % 10 == 0:
            assert answer["result"]["content"][0]["text"] == f"=> {2 * number}"
        else:
            assert "result" in answer
    writer.join()
    # finish() makes sure that none was answered twice


def test_half_a_line_and_then_silence_holds_up_nobody(connect):
    silent, other = connect().open(), connect().open()
    silent.expect_answer_to("later", "ping")
    silent.write(b'{"jsonrpc":"2.0","id":"later",')
    for number in range(50):
        assert other.evaluate(f"(1+ {number})").text == f"=> {number + 1}"
    silent.write(b'"method":"ping"}\n')
    assert silent.answer("later")["result"] == {}


def begin_deaf(runtime):
    """A client that has said its part of the handshake and reads nothing."""
    deaf = runtime.client(reading=False)
    deaf.revision = "2025-11-25"
    deaf.start("initialize", {"protocolVersion": deaf.revision, "capabilities": {},
                              "clientInfo": {"name": "tests", "version": "1"}})
    return deaf


def test_a_client_that_never_reads_costs_no_memory_and_holds_up_nobody(own_runtime):
    own_runtime.ready()
    daemon = own_runtime.daemon_pid()
    other = own_runtime.client().open()
    other.evaluate("1")
    before = kilobytes(daemon, "VmRSS", "status")
    deaf = begin_deaf(own_runtime)
    code = '(dotimes (i 20000) (write-string "' + "0123456789" * 7 + '"))'
    # Some 280 MB of answers, since text and structuredContent both carry the output.
    evaluations = [deaf.start_evaluation(code) for _ in range(100)]
    lists = b"".join(json.dumps(deaf.message("tools/list", request_id=f"l{n}")).encode() + b"\n" for n in range(20_000))
    for number in range(20_000):
        deaf.expect_answer_to(f"l{number}", "tools/list")
    written = 0
    try:
        deaf.write(lists, 3)
        written = len(lists)
    except TimeoutError as stuck:
        written = stuck.written
    highest = {"daemon": 0, "shim": 0}
    settled = time.monotonic() + 4
    while time.monotonic() < settled:
        highest["daemon"] = max(highest["daemon"], kilobytes(daemon, "VmRSS", "status"))
        highest["shim"] = max(highest["shim"], kilobytes(deaf.process.pid, "VmRSS", "status"))
        assert other.evaluate("(+ 1 2)", timeout=5).text == "=> 3"
    print(f"never reading: daemon {before} -> {highest['daemon']} kB, shim {highest['shim']} kB, {written} bytes taken")
    assert highest["daemon"] < before + 96 * 1024
    assert highest["shim"] < 96 * 1024
    # It was only slow: now it reads, and nothing was lost.
    deaf.start_reading()
    if written < len(lists):
        deaf.write(lists[written:], 60)
    for request in evaluations:
        assert deaf.evaluation(request, 120).text.startswith("[stdout]\n0123456789")
    for number in range(20_000):
        assert "result" in deaf.answer(f"l{number}", 120)


def test_a_client_that_does_not_read_a_busy_evaluation_leaves_the_session_cancellable(runtime):
    """Back-pressure on the answers must not stop the way in: the cancellation is read behind many unread answers."""
    with begin_deaf(runtime) as deaf:
        marker = runtime.directory / "deaf-running"
        request = deaf.start_evaluation(f'(progn (with-open-file (out "{marker}" :direction :output)) (loop))')
        wait_until(marker.exists, "the evaluation runs")
        for _ in range(200):
            deaf.start("tools/list")
        deaf.cancel(request)
        deaf.start_reading()
        assert deaf.evaluate("(+ 1 2)").text == "=> 3"
