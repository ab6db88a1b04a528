"""cl-mcp-shim finds, starts and finds again its daemon, and answers by itself when there is none."""

import json
import os
import pathlib
import re
import signal
import subprocess
import tempfile
import time

import pytest

import link_driver
from harness import wait_until
from link_driver import ANSWER, HELLO, LINE, PING, PONG, REFUSED, SETTLED, WELCOME, Daemon, Shim, runtime_directory

QUICK = {"CL_MCP_DAEMON_TIMEOUT": "1"}


@pytest.fixture
def directory():
    with runtime_directory() as made:
        yield made


@pytest.fixture
def daemon(directory):
    with Daemon(directory) as made:
        yield made


def request(number):
    return json.dumps({"jsonrpc": "2.0", "id": number, "method": "ping"}).encode()


def check_error(message, number, *words):
    assert message["jsonrpc"] == "2.0"
    assert message["id"] == number
    assert message["error"]["code"] == -32603
    for word in words:
        assert word in message["error"]["message"]


# A connection that is lost


def test_only_what_is_not_settled_is_sent_again(directory, daemon):
    with Shim(directory) as shim:
        peer = daemon.welcome()
        shim.write(b"".join(request(n) + b"\n" for n in range(1, 6)))
        lines = [peer.expect(LINE) for _ in range(5)]
        peer.answer(lines[0])
        peer.send(SETTLED, line=2)
        peer.answer(lines[3])
        assert [shim.line(), shim.line()] == [request(1), request(4)]
        peer.close()
        again = daemon.welcome()
        assert again.hello.nonce == peer.hello.nonce
        assert (again.hello.lines_read, again.hello.lines_settled) == (5, 2)
        resent = [again.expect(LINE), again.expect(LINE)]
        assert [(line.line, line.text) for line in resent] == [(3, request(3)), (5, request(5))]
        again.answer(lines[0], b"late")
        for line in resent:
            again.answer(line)
        assert [shim.line(), shim.line()] == [request(3), request(5)]
        shim.write(request(6) + b"\n")
        assert again.expect(LINE).line == 6
    assert shim.errors == b""


def test_an_answer_that_was_cut_off_is_not_shown_and_comes_again(directory, daemon):
    with Shim(directory) as shim:
        peer = daemon.welcome()
        shim.write(request(1) + b"\n")
        line = peer.expect(LINE)
        peer.send_bytes(link_driver.frame(ANSWER, line=1, text=b"a" * 100_000)[:70_000])
        peer.close()
        again = daemon.welcome()
        assert again.expect(LINE).line == 1
        again.answer(line, b"whole")
        assert shim.line() == b"whole"


def test_end_of_input_is_told_to_the_new_connection(directory, daemon):
    with Shim(directory) as shim:
        peer = daemon.welcome()
        shim.write(request(1) + b"\n")
        shim.end_of_input()
        assert [peer.receive().kind, peer.receive().kind] == [LINE, "E"]
        peer.close()
        again = daemon.welcome()
        line = again.expect(LINE)
        again.expect("E")
        again.answer(line)
        assert shim.line() == request(1)
        assert shim.status() == 0


@pytest.mark.parametrize("garbage", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\0\0\0\0", b"\xff\xff\xff\xff"],
                         ids=["text", "length 0", "length 2^32"])
def test_a_daemon_that_talks_garbage_is_left_for_a_better_one(directory, daemon, garbage):
    with Shim(directory) as shim:
        peer = daemon.welcome()
        shim.write(request(1) + b"\n")
        peer.expect(LINE)
        peer.send_bytes(garbage)
        again = daemon.welcome()
        again.answer(again.expect(LINE))
        assert shim.line() == request(1)


def test_frames_and_fields_of_a_newer_version_are_skipped(directory, daemon):
    with Shim(directory) as shim:
        peer = daemon.welcome()
        shim.write(request(1) + b"\n")
        peer.expect(LINE)
        unknown = b"\xc8\x03\0\0\0new"
        peer.send_bytes(b"\x09\0\0\0Z" + unknown)
        body = b"A" + unknown + b"\x08\x02\0\0\0ok" + b"\x07\x08\0\0\0\x01" + b"\0" * 7
        peer.send_bytes(len(body).to_bytes(4, "little") + body)
        assert shim.line() == b"ok"


def test_a_restarted_daemon_that_nobody_needs_is_not_started(directory):
    program = link_driver.install(directory)
    with Daemon(directory) as daemon, Shim(directory, program=program):
        daemon.welcome()
        daemon.close()
        time.sleep(0.5)  # there is no event to wait for: nothing must happen
        assert link_driver.starts(directory) == []


# A daemon that is silent


def test_a_stalled_daemon_is_pinged_then_left_and_the_client_told(directory, daemon):
    with Shim(directory, **QUICK) as shim:
        peer = daemon.welcome()
        shim.write(request(1) + b"\n" + request(2) + b"\n" + b'{"jsonrpc":"2.0","method":"notifications/x"}\n')
        lines = [peer.expect(LINE) for _ in range(3)]
        peer.expect(PING)
        assert peer.receive() is None  # no answer: the shim hangs up
        peer = daemon.accept()
        assert peer.expect(HELLO).lines_read == 3  # and this one says nothing at all
        check_error(shim.message(), 1, "may have been carried out")
        check_error(shim.message(), 2)
        assert shim.silent()
        wait_until(lambda: shim.errors.count(b"\n") == 1, "stderr is told once")
        later = daemon.welcome()
        shim.write(request(4) + b"\n")
        later.answer(lines[0], b"late")
        line = later.expect(LINE)
        assert line.line == 4
        later.answer(line)
        assert shim.line() == request(4)


def test_a_daemon_that_answers_pings_may_take_its_time(directory, daemon):
    with Shim(directory, CL_MCP_DAEMON_TIMEOUT="0.5") as shim:
        peer = daemon.welcome()
        shim.write(request(1) + b"\n")
        line = peer.expect(LINE)
        for _ in range(6):
            peer.expect(PING)
            peer.send(PONG)
        peer.answer(line)
        assert shim.line() == request(1)
        with pytest.raises(TimeoutError):
            peer.receive(timeout=0.5)  # nothing waits: no pings


def test_a_daemon_that_welcomes_and_then_stalls_each_time_parks_nobody(directory, daemon):
    with Shim(directory, CL_MCP_DAEMON_TIMEOUT="0.5") as shim:
        shim.write(request(1) + b"\n")
        link_driver.in_background(lambda: [daemon.welcome() for _ in range(10)])
        check_error(shim.message(timeout=10), 1)


def test_a_line_that_kills_every_daemon_parks_nobody(directory, daemon):
    def die_of_it():
        while True:
            peer = daemon.welcome()
            peer.expect(LINE)
            peer.close()

    with Shim(directory, **QUICK) as shim:
        link_driver.in_background(die_of_it)
        shim.write(request(1) + b"\n")
        check_error(shim.message(timeout=10), 1, "closed the connection")


def test_a_full_queue_of_connections_does_not_block_the_shim(directory):
    with Daemon(directory, backlog=0) as daemon:
        first = link_driver.Shim(directory)
        with first, Shim(directory, **QUICK) as shim:
            shim.write(request(1) + b"\n")
            check_error(shim.message(timeout=10), 1)
        daemon.close()


# No daemon


def test_refusal_is_passed_on_at_once(directory, daemon):
    with Shim(directory) as shim:
        peer = daemon.accept()
        peer.expect(HELLO)
        shim.write(request("a") + b"\n")
        peer.send(REFUSED, text='this daemon is "newer": restart the client')
        peer.close()
        check_error(shim.message(), "a", 'this daemon is "newer": restart the client')
        wait_until(lambda: b"restart the client" in shim.errors, "stderr says it too")
        assert shim.process.poll() is None


def test_another_version_is_refused_in_plain_words(directory, daemon):
    with Shim(directory) as shim:
        peer = daemon.accept()
        peer.expect(HELLO)
        shim.write(request(1) + b"\n")
        peer.send(WELCOME, version=99, pid=1)
        check_error(shim.message(), 1, "version 99", "restart the client")


def installed_daemon():
    """The path of an installed cl-mcpd that a lone shim would find."""
    strings = re.findall(rb"/[ -~]*/(?:bin|cl-mcp-server)\0", (link_driver.BUILD_DIR / "cl-mcp-shim").read_bytes())
    paths = [pathlib.Path(os.fsdecode(text[:-1])) / "cl-mcpd" for text in strings]
    return next((path for path in paths if path.is_file()), None)


def test_a_missing_program_is_said_at_once_and_found_once_it_is_there(directory):
    if installed_daemon():
        pytest.skip(f"{installed_daemon()} is installed")
    program = link_driver.install(directory, daemon=False)
    with Shim(directory, program=program) as shim:
        shim.write(request(1) + b"\n")
        check_error(shim.message(timeout=3), 1, "cl-mcpd was found neither")
        shim.write(request(2) + b"\n")
        check_error(shim.message(timeout=3), 2, "cl-mcpd was found neither")
        wait_until(lambda: shim.errors.count(b"\n") == 1, "stderr is told once")
        with Daemon(directory) as daemon:
            peer = daemon.welcome()
            shim.write(request(3) + b"\n")
            peer.answer(peer.expect(LINE))
            assert shim.line() == request(3)
        wait_until(lambda: b"back" in shim.errors, "stderr tells that it is over")


def test_at_end_of_input_without_a_daemon_everything_is_answered(directory):
    program = link_driver.install(directory)
    (directory / "start-error").write_text("the disk is full\n")
    with Shim(directory, program=program, **QUICK) as shim:
        shim.write(request(1) + b"\n")
        shim.end_of_input()
        check_error(shim.message(), 1, "did not start: the disk is full")
        assert shim.line() is None
        assert shim.status() == 0
    assert len(link_driver.starts(directory)) < 20


ERRORS_BY_LINE = [
    (b'{"jsonrpc":"2.0","id":0,"method":"x"}', [0]),
    (b' {"method":"x","params":{"id":7},"id": -1 } \r', [-1]),
    (b'{"id":"","method":"x"}', [""]),
    (b'{"id":"\\u00e9\\"","method":"x"}', ['é"']),
    (b'{"id":9007199254740993,"method":"x"}', [9007199254740993]),
    (b'{"id":null,"method":"x"}', [None]),
    (b'{"id":{"a":1},"method":"x"}', [None]),
    (b'{"id":"\xff","method":"x"}', [None]),
    (b'{"id":01,"method":"x"}', [None]),
    (b'{"id":nan,"method":"x"}', [None]),
    (b'{"id":1,"method":"x"', [None]),
    (b"nonsense", [None]),
    (b"[]", [None]),
    (b"[1,", [None]),
    (b'{"jsonrpc":"2.0","method":"notifications/x"}', []),
    (b'{"jsonrpc":"2.0","id":3,"result":{}}', []),
    (b'{"jsonrpc":"2.0","id":3,"error":{}}', []),
    (b'[{"method":"n"}]', []),
    (b'[{"method":"n"},{"id":1,"method":"x"},{"id":"b","method":"y"},{"id":4,"result":1},5]', [[1, "b", None]]),
    (b"[" + b"1," * 300000 + b"1]", [None]),
]


def test_each_kind_of_line_gets_the_error_that_it_can_have(directory, daemon):
    with Shim(directory) as shim:
        peer = daemon.accept()
        peer.expect(HELLO)
        shim.write(b"".join(line + b"\n" for line, _ in ERRORS_BY_LINE))
        shim.write(b"z" * (17 << 20) + b"\n" + request("last") + b"\n")
        peer.send(REFUSED, text="no")
        for line, ids in ERRORS_BY_LINE:
            for wanted in ids:
                answer = shim.message()
                found = [one["id"] for one in answer] if isinstance(answer, list) else answer["id"]
                assert found == wanted, line[:100]
        check_error(shim.message(), None)
        check_error(shim.message(), "last")


def test_a_directory_that_others_can_enter_is_refused(directory):
    with Daemon(directory), Shim(directory) as shim:
        pass
    directory.chmod(0o755)
    with Shim(directory) as shim:
        shim.write(request(1) + b"\n")
        check_error(shim.message(), 1, str(directory), "0700")


def test_a_socket_path_that_is_too_long_is_an_error_not_a_crash(directory):
    with Shim(directory, CL_MCPD_SOCKET="/tmp/" + "x" * 200) as shim:
        shim.write(request(1) + b"\n")
        check_error(shim.message(), 1, "CL_MCPD_SOCKET")


# Starting


def test_the_daemon_is_started_detached_and_clean(directory):
    program = link_driver.install(directory)
    shim = subprocess.Popen(  # from surroundings as dirty as they can be
        ["/usr/bin/python3", "-c", "import os,signal,sys\n"
         "os.dup2(os.open('/dev/null',os.O_RDONLY),40)\nos.set_inheritable(40,True)\n"
         "signal.signal(signal.SIGUSR1,signal.SIG_IGN)\nsignal.pthread_sigmask(signal.SIG_BLOCK,[signal.SIGUSR2])\n"
         f"os.execv({str(program)!r},[{str(program)!r}])"],
        env=link_driver.environment_of(directory, CL_MCP_SESSION="mine", CL_MCP_RESUME="1"), cwd=directory, stdin=subprocess.PIPE,
        stdout=subprocess.PIPE)
    with shim:
        shim.stdin.write(request(1) + b"\n")
        shim.stdin.flush()
        assert shim.stdout.readline() == request(1) + b"\n"
        start, = link_driver.starts(directory)
        assert start["parent"] != shim.pid
        assert start["session"] not in (start["pid"], os.getsid(shim.pid))  # it can never get a terminal
        assert start["terminal"] == 0
        assert start["directory"] == "/"
        assert int(start["blocked"], 16) == 0
        # Python itself ignores SIGPIPE and SIGXFSZ.
        assert int(start["ignored"], 16) & ~(1 << signal.SIGPIPE - 1 | 1 << signal.SIGXFSZ - 1) == 0
        assert not {"CL_MCP_SESSION", "CL_MCP_RESUME"} & set(start["environment"])
        descriptors = start["descriptors"]
        assert descriptors["0"] == "/dev/null"
        assert descriptors["1"] == descriptors["2"] == str(directory / "log")
        assert descriptors["3"].startswith("pipe:")
        assert not [name for number, name in descriptors.items() if int(number) > 3 and not name.startswith("/proc/")]
        children = pathlib.Path(f"/proc/{shim.pid}/task/{shim.pid}/children").read_text()
        assert children == ""  # not even a zombie
        shim.stdin.close()
        assert shim.wait(10) == 0
    log = directory / "log"
    assert log.read_text() == "started\n"
    assert log.stat().st_mode & 0o777 == 0o600
    assert pathlib.Path(f"/proc/{start['pid']}").exists()  # it lives on


def test_a_log_that_is_a_link_is_refused(directory):
    program = link_driver.install(directory)
    (directory / "log").symlink_to("/tmp/somewhere-else")
    with Shim(directory, program=program) as shim:
        shim.write(request(1) + b"\n")
        check_error(shim.message(), 1, str(directory / "log"))
    assert link_driver.starts(directory) == []


def test_racing_shims_share_one_daemon(directory):
    program = link_driver.install(directory)
    shims = [Shim(directory, program=program) for _ in range(6)]
    for number, shim in enumerate(shims):
        shim.write(request(number) + b"\n")
    for number, shim in enumerate(shims):
        assert shim.line() == request(number)
        shim.end_of_input()
        assert shim.status() == 0
    assert (directory / "log").read_text() == "started\n"


def test_a_killed_daemon_is_started_again_and_the_request_answered(directory):
    program = link_driver.install(directory)
    with Shim(directory, program=program) as shim:
        shim.write(request(1) + b"\n")
        assert shim.line() == request(1)
        for number in range(2, 5):
            os.kill(link_driver.starts(directory)[-1]["pid"], signal.SIGKILL)
            shim.write(request(number) + b"\n")
            assert shim.line() == request(number)
    assert shim.errors == b""


def test_a_dead_daemon_s_socket_does_not_matter(directory):
    program = link_driver.install(directory)
    left = Daemon(directory)
    left.listener.close()
    assert (directory / "socket").exists()
    with Shim(directory, program=program) as shim:
        shim.write(request(1) + b"\n")
        assert shim.line() == request(1)


def in_a_world_of_its_own(*command):
    """
    The command with an empty /tmp and /run, where the usual socket is nobody else's, and with all it starts. These
    tests stay where they are, even if that is below /tmp.
    """
    return ["unshare", "--user", "--map-root-user", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc",
            "sh", "-c", 'mount --bind "$0" /mnt && mount -t tmpfs none /tmp && mount -t tmpfs none /run && '
            'mkdir -p "$0" && mount --bind /mnt "$0" && exec "$@"', str(link_driver.HERE), *command]


@pytest.mark.parametrize("keep", [("HOME", "PATH"), ("PATH",), ()], ids=["HOME and PATH", "PATH", "nothing"])
def test_an_empty_environment_is_enough(keep):
    if subprocess.run(in_a_world_of_its_own("true"), capture_output=True, check=False).returncode != 0:
        pytest.skip("this machine allows no namespaces of one's own (unshare)")
    with tempfile.TemporaryDirectory(dir="/var/tmp") as place:
        program = link_driver.install(place)
        environment = {"HOME": place, "PATH": "/usr/bin:/bin"}
        settings = [f"{name}={environment[name]}" for name in keep]
        result = subprocess.run(in_a_world_of_its_own("env", "-i", *settings, str(program)), input=request(1),
                                capture_output=True, timeout=30, check=False)
    assert (result.returncode, result.stdout, result.stderr) == (0, request(1) + b"\n", b"")
