"""cl-mcpctl against a daemon that says what the test wants: the prompt, status and shutdown."""

import contextlib
import json
import os
import pty
import re
import select
import subprocess
import sys
import time

import pytest

import link_driver
from harness import wait_until
from link_driver import ANSWER, END, HELLO, LINE, PING, PONG, REFUSED, SETTLED, Daemon, runtime_directory

CONTROL = link_driver.BUILD_DIR / "cl-mcpctl"
SESSION = "session-20260120-143022-A4F2"


def values(*texts, **more):
    return {"session": SESSION, "package": "CL-USER", "stdout": "", "stderr": "", "warnings": [], "values": list(texts),
            "forms": 1, "elapsedMs": 0, "truncated": [], **more}


def failure(kind, message, *frames, **more):
    return values(error={"type": kind, "message": message, "backtrace": list(frames)}, **more)


class Scripted:
    """A daemon that answers evaluations from a table: code -> structured content. Everything it hears is kept."""

    def __init__(self, directory, answers):
        self.answers = answers
        self.requests = []
        self.hellos = []
        self.running = {}
        self.daemon = Daemon(directory)
        link_driver.in_background(self._accept)

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.daemon.close()

    def _accept(self):
        while True:
            self.peer = self.daemon.welcome()
            self.hellos.append(self.peer.hello)
            link_driver.in_background(self._serve, self.peer)

    def _serve(self, peer):
        while (frame := peer.receive(timeout=None)) is not None:
            if frame.kind == PING:
                peer.send(PONG)
            elif frame.kind == LINE:
                message = json.loads(frame.text)
                self.requests.append(message)
                self._answer(peer, frame, message)
            else:
                assert frame.kind == END

    def _answer(self, peer, frame, message):
        if "id" not in message:
            peer.send(SETTLED, line=frame.line)
            if message["method"] == "notifications/cancelled":
                peer.send(SETTLED, line=self.running.pop(message["params"]["requestId"]))
            return
        if message["method"] != "tools/call":
            result = self.answers.get(message["method"], {})
        else:
            content = self.answers[message["params"]["arguments"]["code"].strip()]
            if content == "runs":
                self.running[message["id"]] = frame.line
                return
            result = {"content": [{"type": "text", "text": "..."}], "isError": "error" in content,
                      "structuredContent": content}
        if isinstance(result, Exception):
            answer = {"error": {"code": -32000, "message": str(result)}}
        else:
            answer = {"result": result}
        peer.answer(frame, json.dumps({"jsonrpc": "2.0", "id": message["id"], **answer}))

    def codes(self):
        return [m["params"]["arguments"]["code"].strip() for m in self.requests if m["method"] == "tools/call"]


@pytest.fixture
def directory():
    with runtime_directory() as made:
        yield made


def control(directory, *arguments, text=None, **more):
    return subprocess.run([CONTROL, *arguments], env=link_driver.environment_of(directory, **more), cwd=directory,
                          input=text, stdin=None if text is not None else subprocess.DEVNULL, capture_output=True,
                          text=True, timeout=link_driver.PATIENCE, check=False)


# Without a terminal


def test_forms_from_a_pipe_are_evaluated_one_by_one(directory):
    answers = {"(+ 1 2)": values("3"), "(floor 17\n 5)": values("3", "2"), "(values)": values(), "1": values("1"),
               "'x": values("X")}
    with Scripted(directory, answers) as daemon:
        result = control(directory, "repl", text="(+ 1 2)\n(floor 17\n 5) ; two\n\n(values) 1 'x\n; the end\n")
    assert result.stdout == "=> 3\n=> 3\n=> 2\n; No values\n=> 1\n=> X\n"
    assert (result.returncode, result.stderr) == (0, "")
    assert daemon.codes() == list(answers)
    opening = daemon.requests[0]
    assert opening["method"] == "initialize"
    assert opening["params"]["protocolVersion"] == "2025-11-25"
    assert daemon.requests[1] == {"jsonrpc": "2.0", "method": "notifications/initialized"}
    assert "_meta" not in daemon.requests[2]["params"]


def test_output_warnings_and_errors_are_shown(directory):
    answers = {
        "(out)": values("42", stdout="hello\nworld", stderr="trouble", warnings=["STYLE-WARNING: unused X"],
                        truncated=["stdout"]),
        "(bad)": failure("DIVISION-BY-ZERO", "Division by zero.", "(/ 1 0)", "(BAD)", stdout="before\n"),
    }
    with Scripted(directory, answers):
        result = control(directory, "repl", text="(out)\n(bad)\n")
    assert result.stdout == ("hello\nworld\n; STYLE-WARNING: unused X\n=> 42\n; cut because it was too long: stdout\n"
                             "before\nDIVISION-BY-ZERO: Division by zero.\n  0: (/ 1 0)\n  1: (BAD)\n")
    assert result.stderr == "trouble\n"
    assert result.returncode == 1


def test_only_the_last_form_decides_the_status(directory):
    with Scripted(directory, {"bad": failure("ERROR", "x"), "1": values("1")}):
        assert control(directory, "repl", text="bad\n1\n").returncode == 0
        assert control(directory, "repl", text="1\nbad").returncode == 1
        assert control(directory, "repl", text="").returncode == 0


def test_a_form_left_open_is_lisp_s_to_complain_about(directory):
    with Scripted(directory, {"(foo": failure("END-OF-FILE", "open")}):
        result = control(directory, "repl", text="(foo\n")
    assert result.stdout == "END-OF-FILE: open\n"


def test_a_named_session_is_asked_for_and_checked_first(directory):
    with Scripted(directory, {"": values(package="MINE"), "1": values("1")}) as daemon:
        result = control(directory, "repl", "--session", SESSION, text="1\n")
        assert result.stdout == "=> 1\n"
        assert daemon.hellos[0].session.decode() == SESSION
        assert daemon.codes() == ["", "1"]
    with Scripted(directory, {"": failure("SESSION-NOT-FOUND", "nobody has it")}):
        result = control(directory, "repl", "--session", "x", text="1\n")
        assert "nobody has it" in result.stdout
        assert result.returncode == 1


def test_a_lost_daemon_is_found_again(directory):
    with Scripted(directory, {"(long)": "runs", "1": values("1")}) as daemon:
        process = subprocess.Popen([CONTROL, "repl"], env=link_driver.environment_of(directory), stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, text=True)
        process.stdin.write("(long)\n")
        process.stdin.close()
        wait_until(lambda: daemon.running, "the form runs")
        daemon.answers["(long)"] = values("done")
        daemon.peer.connection.shutdown(2)
        assert process.stdout.read() == "=> done\n"
        assert process.wait(10) == 0
        assert len({hello.nonce for hello in daemon.hellos}) == 1


def test_a_refusal_is_shown(directory):
    with Daemon(directory) as daemon:
        link_driver.in_background(lambda: [(peer := daemon.accept()).expect(HELLO),
                                           peer.send(REFUSED, text="too old, restart")])
        result = control(directory, "repl", text="1\n")
    assert "too old, restart" in result.stderr
    assert result.returncode == 1


# status and shutdown

STATUS = {"version": "0.1.0", "pid": 4711, "uptimeMs": 3723000,
          "zygote": {"state": "ready", "pid": 4712, "bootMs": 180, "lisp": "ECL 21.2.1", "fallbacks": ["sigaltstack"]},
          "sessions": [{"id": SESSION, "state": "running", "pid": 4713, "directory": "/home/me"}], "clients": 2}


def test_status_is_a_short_table(directory):
    with Scripted(directory, {"cl-mcpd/status": STATUS}) as daemon:
        shown = control(directory, "status")
        as_json = control(directory, "status", "--json")
        assert [m["method"] for m in daemon.requests] == ["cl-mcpd/status"] * 2
    assert shown.returncode == 0
    for word in ("0.1.0", "4711", "1 h 2 min 3 s", "ready", "4712", "ECL 21.2.1", "180 ms", "sigaltstack", SESSION,
                 "running", "4713", "/home/me"):
        assert word in shown.stdout
    assert json.loads(as_json.stdout) == STATUS


@pytest.mark.parametrize("command", ["status", "shutdown"])
def test_no_daemon_is_said_with_status_3_and_none_is_started(directory, command):
    result = control(directory, command)
    assert (result.returncode, result.stdout, result.stderr) == (3, "", "No daemon (cl-mcpd) is running.\n")
    assert list(directory.iterdir()) == []


def test_a_silent_daemon_is_reported(directory):
    with Daemon(directory):
        result = control(directory, "status", CL_MCP_DAEMON_TIMEOUT="0.4")
    assert result.returncode == 1
    assert "does not answer" in result.stderr


def test_shutdown_waits_until_the_daemon_is_gone(directory):
    ending = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    with Daemon(directory) as daemon:
        process = subprocess.Popen([CONTROL, "shutdown"], env=link_driver.environment_of(directory))
        peer = daemon.accept()
        peer.expect(HELLO)
        peer.send("W", version=1, pid=ending.pid)
        line = peer.expect(LINE)
        assert json.loads(line.text)["method"] == "cl-mcpd/shutdown"
        peer.answer(line, '{"jsonrpc":"2.0","id":1,"result":{}}')
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.3)
        ending.communicate(b"\n")
        assert process.wait(10) == 0


def test_a_refused_shutdown_is_an_error(directory):
    with Scripted(directory, {"cl-mcpd/shutdown": RuntimeError("not you")}):
        result = control(directory, "shutdown")
    assert result.returncode == 1
    assert "not you" in result.stderr


def test_help_version_and_wrong_usage(directory):
    for arguments in (["--help"], ["help"]):
        shown = control(directory, *arguments)
        assert shown.returncode == 0
        for word in ("repl", "status", "hibernate", "shutdown", "--session", "--resume", "--json", "Exit status"):
            assert word in shown.stdout
    assert control(directory, "--version").stdout.startswith("cl-mcpctl 0.")
    for arguments in ([], ["nonsense"], ["status", "extra"], ["--nonsense"], ["repl", "--session"]):
        result = control(directory, *arguments)
        assert (result.returncode, result.stdout) == (2, "")
        assert result.stderr.count("\n") == 1


# At a terminal


class Terminal:
    """cl-mcpctl repl in a terminal of its own."""

    def __init__(self, directory, *arguments, environment=None):
        environment = environment or link_driver.environment_of(directory, TERM="xterm", LANG="C.UTF-8")
        self.pid, self.descriptor = pty.fork()
        if self.pid == 0:
            os.chdir(directory)
            os.execve(CONTROL, [str(CONTROL), "repl", *arguments], environment)
        self.raw = b""
        self.shown = ""  # without the control sequences
        self.seen = 0
        self.code = None

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        if self.code is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, 9)
            os.waitpid(self.pid, 0)
        os.close(self.descriptor)

    def _read(self, timeout):
        if not select.select([self.descriptor], [], [], timeout)[0]:
            return False
        try:
            chunk = os.read(self.descriptor, 65536)
        except OSError:
            return None
        self.raw += chunk
        self.shown += re.sub(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b[=>]|\x07", "", chunk.decode(errors="replace"))
        return bool(chunk)

    def expect(self, text, timeout=link_driver.PATIENCE):
        """Waits until the text is shown behind what was expected before."""
        deadline = time.monotonic() + timeout
        while (position := self.shown.replace("\r", "").find(text, self.seen)) < 0:
            left = deadline - time.monotonic()
            assert left > 0 and self._read(left) is not None, f"{text!r} is not shown: {self.shown[-2000:]!r}"
        self.seen = position + len(text)

    def type(self, text):
        os.write(self.descriptor, text.encode())

    def status(self, timeout=link_driver.PATIENCE):
        deadline = time.monotonic() + timeout
        while self._read(max(0, deadline - time.monotonic())):
            pass
        self.code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return self.code


def test_a_terminal_shows_prompt_values_and_the_way_back(directory):
    answers = {"(+ 1 2)": values("3"), "(in-package :foo)": values("T", package="FOO")}
    with Scripted(directory, answers), Terminal(directory) as terminal:
        terminal.expect("cl-mcp-server 0.")
        terminal.expect("Ctrl-D leaves")
        terminal.expect("CL-USER> ")
        terminal.type("(+ 1 2)\n")
        terminal.expect("=> 3\nCL-USER> ")
        terminal.type("(in-package :foo)\n")
        terminal.expect("=> T\nFOO> ")
        terminal.type("\x04")
        terminal.expect(f"cl-mcpctl repl --session {SESSION}")
        assert terminal.status() == 0


def test_a_terminal_asks_for_the_rest_of_a_form(directory):
    with Scripted(directory, {'(list 1\n "a\n b")': values("ok")}), Terminal(directory) as terminal:
        terminal.expect("CL-USER> ")
        terminal.type("(list 1\n")
        terminal.expect("       > ")
        terminal.type(' "a\n')
        terminal.expect("       > ")
        terminal.type(' b")\n')
        terminal.expect("=> ok\nCL-USER> ")


def test_ctrl_c_at_the_prompt_clears_the_line_and_an_open_form(directory):
    with Scripted(directory, {"7": values("7")}) as daemon, Terminal(directory) as terminal:
        terminal.expect("CL-USER> ")
        terminal.type("(never")
        terminal.expect("(never")
        terminal.type("\x03")
        terminal.expect("\nCL-USER> ")
        terminal.type("(open\n")
        terminal.expect("       > ")
        terminal.type("\x03")
        terminal.expect("\nCL-USER> ")
        terminal.type("7\n")
        terminal.expect("=> 7")
        assert daemon.codes() == ["7"]


def test_ctrl_c_cancels_the_form_that_runs(directory):
    with Scripted(directory, {"(loop)": "runs", "7": values("7")}) as daemon, Terminal(directory) as terminal:
        for _ in range(2):
            terminal.expect("CL-USER> ")
            terminal.type("(loop)\n")
            wait_until(lambda: daemon.running, "the form runs")
            terminal.type("\x03")
            terminal.expect("; interrupted\n")
        terminal.expect("CL-USER> ")
        terminal.type("7\n")
        terminal.expect("=> 7\nCL-USER> ")
        request = [m for m in daemon.requests if m["method"] == "tools/call"][0]
        cancel = [m for m in daemon.requests if m["method"] == "notifications/cancelled"][0]
        assert cancel["params"]["requestId"] == request["id"]


def test_what_is_typed_while_a_form_runs_is_not_lost(directory):
    with Scripted(directory, {"(slow)": "runs", "7": values("7")}) as daemon, Terminal(directory) as terminal:
        terminal.expect("CL-USER> ")
        terminal.type("(slow)\n")
        wait_until(lambda: daemon.running, "the form runs")
        terminal.type("7\n\x04")
        terminal.expect("7")
        request, line = daemon.running.popitem()
        daemon.peer.send(ANSWER, line=line, text=json.dumps(
            {"jsonrpc": "2.0", "id": request, "result": {"content": [], "structuredContent": values("slow")}}))
        terminal.expect("=> slow")
        terminal.expect("=> 7")
        assert terminal.status() == 0


def test_history_is_kept_across_runs_and_private(directory):
    with Scripted(directory, {'(print "é")': values("1")}) as daemon:
        with Terminal(directory) as terminal:
            terminal.expect("CL-USER> ")
            terminal.type('(print "é")\n')
            terminal.expect("=> 1\nCL-USER> ")
            terminal.type("\x04")
            assert terminal.status() == 0
        with Terminal(directory) as terminal:
            terminal.expect("CL-USER> ")
            terminal.type("\x1b[A")
            terminal.expect('(print "é")')
            terminal.type("\n")
            terminal.expect("=> 1\nCL-USER> ")
        assert daemon.codes() == ['(print "é")'] * 2
    state = directory / "state" / "cl-mcpd"
    assert state.stat().st_mode & 0o777 == 0o700
    assert (state / "history").stat().st_mode & 0o777 == 0o600


def test_colour_is_for_terminals_that_want_it(directory):
    shown = {}
    kinds = {"colour": {"TERM": "xterm"}, "dumb": {"TERM": "dumb"}, "no": {"TERM": "xterm", "NO_COLOR": "1"}}
    for name, more in kinds.items():
        environment = link_driver.environment_of(directory, **more)
        with Scripted(directory, {"(bad)": failure("ERROR", "it broke", "(BAD)")}), \
                Terminal(directory, environment=environment) as terminal:
            terminal.expect("CL-USER> ")
            terminal.type("(bad)\n")
            terminal.expect("0: (BAD)")
            shown[name] = terminal.raw
    assert b"\x1b[31mERROR: it broke" in shown["colour"]
    assert b"\x1b[31m" not in shown["dumb"] + shown["no"]
