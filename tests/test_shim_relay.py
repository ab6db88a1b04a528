"""cl-mcp-shim relays lines without touching them, in bounded memory, whatever the client and the daemon do."""

import fcntl
import json
import os
import signal
import subprocess
import time

import pytest

import link_driver
from link_driver import ANSWER, END, LINE, OVERSIZE, SETTLED, Daemon, Shim, echo, in_background, runtime_directory

LINE_MAX = 16 << 20


@pytest.fixture
def directory():
    with runtime_directory() as made:
        yield made


@pytest.fixture
def daemon(directory):
    with Daemon(directory) as made:
        yield made


@pytest.mark.parametrize("over_sockets", [False, True], ids=["pipes", "socketpairs"])
def test_lines_and_answers_pass_unchanged(directory, daemon, over_sockets):
    lines = [b'{"jsonrpc":"2.0","id":1,"method":"ping"}', b"not json \x80\xff\x00 at all", '{"ключ":"ü"}'.encode()]
    with Shim(directory, over_sockets=over_sockets) as shim:
        peer = daemon.welcome()
        for number, text in enumerate(lines, 1):
            shim.write(text + b"\n")
            received = peer.expect(LINE)
            assert (received.line, received.text) == (number, text)
            peer.answer(received)
            assert shim.line() == text
        shim.end_of_input()
        peer.expect(END)
        assert shim.status() == 0
    assert shim.errors == b""


def test_the_hello_says_who_we_are(directory, daemon):
    with Shim(directory, "--session", "my session") as shim:
        hello = daemon.welcome().hello
        assert (hello.version, len(hello.nonce), hello.lines_read, hello.lines_settled) == (1, 16, 0, 0)
        assert hello.directory == str(directory).encode()
        assert hello.session == b"my session"
        other = Shim(directory, CL_MCP_SESSION="from the environment")
        with other:
            second = daemon.welcome().hello
            assert second.session == b"from the environment"
            assert second.nonce != hello.nonce
        assert shim.process.poll() is None


def test_a_line_may_come_in_any_pieces(directory, daemon):
    with Shim(directory) as shim:
        peer = daemon.welcome()
        for byte in b'{"id":1}\n{"id"':
            shim.write(bytes([byte]))
        assert peer.expect(LINE).text == b'{"id":1}'
        shim.write(b':2}\n{"id":3}\n{"id":4}')
        assert [peer.expect(LINE).text for _ in range(2)] == [b'{"id":2}', b'{"id":3}']
        with pytest.raises(TimeoutError):
            peer.receive(timeout=0.2)  # half a line and then silence
        shim.end_of_input()
        last = peer.expect(LINE)  # which its end makes a line
        assert last.text == b'{"id":4}'
        peer.expect(END)
        for number in range(1, 5):
            peer.send(SETTLED, line=number)
        assert shim.status() == 0


def test_a_carriage_return_is_left_to_the_daemon_and_blank_lines_are_dropped(directory, daemon):
    with Shim(directory) as shim:
        peer = daemon.welcome()
        shim.write(b'\r\n\n  \t\r\n{"id":1}\r\n\n{"id":2}\n')
        first, second = peer.expect(LINE), peer.expect(LINE)
        assert (first.line, first.text) == (1, b'{"id":1}\r')
        assert (second.line, second.text) == (2, b'{"id":2}')


def test_the_longest_line_passes_and_a_longer_one_is_reported_once(directory, daemon):
    with Shim(directory) as shim:
        peer = daemon.welcome()
        in_background(shim.write, b"x" * LINE_MAX + b"\n" + b"y" * (3 * LINE_MAX) + b"\nz\n")
        assert peer.expect(LINE).text == b"x" * LINE_MAX
        peer.send(SETTLED, line=1)
        too_long = peer.expect(OVERSIZE)
        assert too_long.line == 2
        peer.send(ANSWER, line=2, text=b"too long")
        assert shim.line() == b"too long"
        after = peer.expect(LINE)
        assert (after.line, after.text) == (3, b"z")
        peer.answer(after)
        assert shim.line() == b"z"


def test_a_line_without_end_takes_bounded_memory(directory, daemon):
    with Shim(directory) as shim:
        peer = daemon.welcome()
        block = b"y" * (1 << 20)
        for _ in range(160):
            shim.write(block)
            assert shim.resident_below(48 << 10)
        assert peer.expect(OVERSIZE).line == 1
        shim.write(b"\nnext\n")
        assert peer.expect(LINE).text == b"next"
        assert shim.resident_below(16 << 10)


def test_ten_thousand_pipelined_lines_are_answered_in_order(directory, daemon):
    with Shim(directory) as shim:
        in_background(lambda: echo(daemon.welcome()))
        wanted = [json.dumps({"jsonrpc": "2.0", "id": n, "method": "ping"}).encode() for n in range(10_000)]
        in_background(lambda: (shim.write(b"\n".join(wanted) + b"\n"), shim.end_of_input()))
        assert [shim.line() for _ in wanted] == wanted
        assert shim.line() is None
        assert shim.status() == 0


def test_a_client_that_never_reads_takes_bounded_memory(directory, daemon):
    with Shim(directory, reading=False, CL_MCP_DAEMON_TIMEOUT="0.3") as shim:
        peer = daemon.welcome()
        shim.write(b'{"id":1}\n')
        first = peer.expect(LINE)
        answer = link_driver.frame(ANSWER, text=b"n" * (1 << 20))
        peer.connection.settimeout(0.5)
        with pytest.raises(TimeoutError):
            for _ in range(64):
                peer.connection.sendall(answer)
        assert shim.resident_below(16 << 10)
        # Its own silence is not the daemon's: the connection is still this one when the client reads again.
        daemon.listener.settimeout(1.0)
        with pytest.raises(TimeoutError):
            daemon.listener.accept()
        assert shim.process.poll() is None
        assert first.line == 1


def test_a_daemon_that_does_not_read_stops_the_client_not_the_memory(directory, daemon):
    with Shim(directory) as shim:
        daemon.welcome()
        block = b'{"jsonrpc":"2.0","id":1,"method":"' + b"m" * 1000 + b'"}\n'
        written = [0]

        def flood():
            for _ in range(200_000):
                shim.write(block)
                written[0] += len(block)

        in_background(flood)
        before = -1
        while written[0] != before:  # until the shim takes no more
            before = written[0]
            time.sleep(0.3)
        assert written[0] < 4 << 20
        assert shim.resident_below(16 << 10)


def test_unsettled_lines_are_bounded(directory, daemon):
    with Shim(directory) as shim:
        peer = daemon.welcome()
        block = b"m" * (1 << 20) + b"\n"
        written = [0]

        def flood():
            for _ in range(256):
                shim.write(block)
                written[0] += 1

        def swallow():
            while peer.receive(timeout=None):
                pass

        in_background(flood)
        in_background(swallow)
        before = -1
        while written[0] != before:
            before = written[0]
            time.sleep(0.5)
        assert 32 <= written[0] <= 80
        assert shim.resident_below(120 << 10)


@pytest.mark.parametrize("size", [100, 4096, 65536, 5 << 20])
def test_answers_of_any_size_arrive_whole(directory, daemon, size):
    with Shim(directory) as shim:
        peer = daemon.welcome()
        shim.write(b'{"id":1}\n')
        peer.answer(peer.expect(LINE), b"a" * size)
        assert shim.line() == b"a" * size


def test_notifications_of_the_daemon_are_relayed_and_settle_nothing(directory, daemon):
    with Shim(directory) as shim:
        peer = daemon.welcome()
        shim.write(b'{"id":1}\n')
        line = peer.expect(LINE)
        peer.send(ANSWER, text=b'{"method":"notifications/progress"}')
        assert shim.line() == b'{"method":"notifications/progress"}'
        peer.answer(line, b"done")
        assert shim.line() == b"done"
        peer.answer(line, b"done twice")
        peer.send(ANSWER, line=77, text=b"to what was never asked")
        peer.send(ANSWER, text=b"last")
        assert shim.line() == b"last"


# The end of the client


def test_at_end_of_input_what_was_read_is_answered(directory, daemon):
    with Shim(directory) as shim:
        peer = daemon.welcome()
        shim.write(b'{"id":1}\n{"id":2}\n')
        first, second = peer.expect(LINE), peer.expect(LINE)
        shim.end_of_input()
        peer.expect(END)
        peer.answer(second)
        assert shim.line() == b'{"id":2}'
        assert shim.process.poll() is None
        peer.answer(first)
        assert shim.line() == b'{"id":1}'
        assert shim.line() is None
        assert shim.status() == 0


@pytest.mark.slow
def test_at_end_of_input_an_evaluation_is_waited_for_five_seconds(directory, daemon):
    with Shim(directory) as shim, Shim(directory, "--wait") as patient:
        peers = [daemon.welcome(), daemon.welcome()]
        for one in (shim, patient):
            one.write(b'{"id":1}\n')
        lines = [peer.expect(LINE) for peer in peers]
        start = time.monotonic()
        shim.end_of_input()
        patient.end_of_input()
        for peer in peers:
            peer.expect(END)
            in_background(echo, peer)  # which answers pings
        assert shim.status() == 0
        assert 4.5 < time.monotonic() - start < 7
        assert patient.process.poll() is None
        for peer, line in zip(peers, lines):
            try:
                peer.answer(line)
            except (BrokenPipeError, OSError):
                pass  # the one that left
        assert patient.line() == b'{"id":1}'
        assert patient.status() == 0


def test_no_input_at_all_is_a_quiet_end(directory, daemon):
    with Shim(directory) as shim:
        shim.end_of_input()
        assert shim.status(5) == 0
    assert shim.errors == b""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_ends_it_at_once_with_status_0(directory, daemon, number):
    with Shim(directory) as shim:
        peer = daemon.welcome()
        shim.write(b'{"id":1}\n')
        peer.expect(LINE)
        start = time.monotonic()
        shim.process.send_signal(number)
        assert shim.status() == 0
        assert time.monotonic() - start < 1
        assert shim.line() is None
        assert peer.receive() is None


def test_sigterm_under_a_flood_of_input_ends_it_too(directory, daemon):
    with Shim(directory) as shim:
        in_background(lambda: echo(daemon.welcome()))

        def flood():
            while True:
                shim.write(b'{"id":1}\n' * 5000)

        in_background(flood)
        shim.line()
        shim.process.send_signal(signal.SIGTERM)
        assert shim.status(5) == 0
        while shim.line() is not None:  # asserts that no half line was left
            pass


@pytest.mark.parametrize("over_sockets", [False, True], ids=["pipes", "socketpairs"])
def test_a_client_that_closes_stdout_is_left_quietly(directory, daemon, over_sockets):
    with Shim(directory, reading=False, over_sockets=over_sockets) as shim:
        daemon.welcome()
        shim.stdout.close()
        assert shim.status(5) == 0
    assert shim.errors == b""


def test_stdout_closed_while_answers_wait_is_a_quiet_end(directory, daemon):
    with Shim(directory, reading=False) as shim:
        peer = daemon.welcome()
        shim.write(b'{"id":1}\n')
        peer.answer(peer.expect(LINE), b"a" * (300 << 10))
        os.read(shim.stdout.fileno(), 1)
        shim.stdout.close()
        assert shim.status(5) == 0
    assert shim.errors == b""


def test_the_streams_flags_are_left_alone(directory, daemon):
    with Shim(directory) as shim:
        peer = daemon.welcome()
        shim.write(b'{"id":1}\n')
        peer.answer(peer.expect(LINE))
        shim.line()
        for descriptor in (0, 1):
            flags = open(f"/proc/{shim.process.pid}/fdinfo/{descriptor}", encoding="ascii").read()
            value = int(flags.split("flags:")[1].split()[0], 8)
            assert not value & os.O_NONBLOCK
        assert not fcntl.fcntl(shim.stdout.fileno(), fcntl.F_GETFL) & os.O_NONBLOCK


# Options


def run(*arguments):
    return subprocess.run([link_driver.BUILD_DIR / "cl-mcp-shim", *arguments], capture_output=True, text=True,
                          stdin=subprocess.DEVNULL, timeout=10, check=False)


def test_help_and_version():
    shown = run("--help")
    assert (shown.returncode, shown.stderr) == (0, "")
    for word in ("--session", "--resume", "--wait", "--version", "CL_MCPD_SOCKET", "CL_MCP_DAEMON_TIMEOUT", "CL_MCP_SESSION",
                 "CL_MCP_RESUME"):
        assert word in shown.stdout
    assert run("--version").stdout.startswith("cl-mcp-shim 0.")


@pytest.mark.parametrize("arguments", [["--nonsense"], ["-x"], ["stray"], ["--session"]])
def test_a_wrong_option_is_one_clear_line_and_status_2(arguments):
    result = run(*arguments)
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.count("\n") == 1
    assert arguments[0] in result.stderr
