"""cl-mcpctl and the prompt on a real session, at a real terminal."""

import os
import signal
import subprocess

import pytest

from harness import PATIENCE, Runtime, wait_until
from test_repl import CONTROL, Terminal


@pytest.fixture(scope="module")
def real():
    with Runtime() as runtime:
        yield runtime


def repl(runtime, text, *arguments):
    return subprocess.run([CONTROL, "repl", *arguments], env=runtime.environment, cwd=runtime.directory, input=text,
                          capture_output=True, text=True, timeout=PATIENCE, check=False)


def at_terminal(runtime, *arguments):
    environment = {**runtime.environment, "TERM": "xterm", "LANG": "C.UTF-8"}
    return Terminal(runtime.directory, *arguments, environment=environment)


def test_forms_from_a_pipe_keep_their_session(real):
    result = repl(real, "(defvar *x* 40)\n(+ *x*\n   2)\n(floor 17 5)\n(values)\n(format t \"hello~%\")\n\"é\"\n")
    assert result.stdout == '=> *X*\n=> 42\n=> 3\n=> 2\n; No values\nhello\n=> NIL\n=> "é"\n'
    assert (result.returncode, result.stderr) == (0, "")


def test_an_error_shows_its_type_and_backtrace_and_sets_the_status(real):
    result = repl(real, "(defun half (x) (/ x 0))\n(half 7)\n")
    assert result.returncode == 1
    assert "DIVISION-BY-ZERO: " in result.stdout
    assert "(HALF 7)" in result.stdout
    assert repl(real, "(car 1)\n:fine\n").returncode == 0


@pytest.mark.parametrize("text, kind", [("(foo\n", "END-OF-FILE"), (")\n", "READER-ERROR")])
def test_what_cannot_be_read_is_an_error(real, text, kind):
    result = repl(real, text)
    assert result.stdout.startswith(kind)
    assert result.returncode == 1


def test_a_terminal_session_from_beginning_to_end(real):
    with at_terminal(real) as terminal:
        terminal.expect("cl-mcp-server 0.")
        terminal.expect("CL-USER> ")
        terminal.type("(+ 1 2)\n")
        terminal.expect("=> 3\nCL-USER> ")
        terminal.type("(values 1 2)\n")
        terminal.expect("=> 1\n=> 2\nCL-USER> ")
        terminal.type("(defun half (x)\n")
        terminal.expect("       > ")
        terminal.type("  (/ x 0))\n")
        terminal.expect("=> HALF\nCL-USER> ")
        terminal.type("(half 8)\n")
        terminal.expect("DIVISION-BY-ZERO: ")
        terminal.expect("(HALF 8)")
        terminal.expect("CL-USER> ")
        terminal.type("(defpackage :mine (:use :cl)) (in-package :mine)\n")
        terminal.expect("MINE> ")
        terminal.type("\x04")
        terminal.expect("cl-mcpctl repl --session ")
        assert terminal.status() == 0


def test_ctrl_c_interrupts_a_loop_and_the_session_goes_on(real):
    with at_terminal(real) as terminal:
        terminal.expect("CL-USER> ")
        terminal.type("(defvar *kept* 7)\n")
        terminal.expect("=> *KEPT*\nCL-USER> ")
        terminal.type("(loop)\n")
        wait_until(lambda: any(session["state"] == "running" for session in real.status()["sessions"]), "it runs")
        terminal.type("\x03")
        terminal.expect("; interrupted\nCL-USER> ", timeout=5)
        terminal.type("*kept*\n")
        terminal.expect("=> 7\nCL-USER> ")


def test_a_session_can_be_come_back_to(real):
    with at_terminal(real) as terminal:
        terminal.expect("CL-USER> ")
        terminal.type("(defvar *left-behind* 99)\n")
        terminal.expect("CL-USER> ")
        terminal.type("\x04")
        terminal.expect("--session ")
        assert terminal.status() == 0
        session = terminal.shown.split("--session ")[1].split()[0]
    assert repl(real, "*left-behind*\n", "--session", session).stdout == "=> 99\n"


def test_a_daemon_killed_while_a_form_runs_is_not_noticed(own_runtime):
    process = subprocess.Popen([CONTROL, "repl"], env=own_runtime.environment, stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    process.stdin.write("(defvar *n* 0)\n(progn (incf *n*) (sleep 1) *n*)\n*n*\n")
    process.stdin.close()
    wait_until(lambda: any(session["state"] == "running" for session in own_runtime.status()["sessions"]), "it runs")
    os.kill(own_runtime.daemon_pid(), signal.SIGKILL)
    assert process.stdout.read() == "=> *N*\n=> 1\n=> 1\n"
    assert process.wait(PATIENCE) == 0
    process.stdout.close()
    process.stderr.close()


def test_status_and_shutdown_of_a_real_daemon(own_runtime):
    assert own_runtime.control("status").returncode == 3
    assert repl(own_runtime, "1\n").returncode == 0
    status = own_runtime.control("status")
    assert status.returncode == 0
    assert b"session-" in status.stdout
    assert own_runtime.control("shutdown").returncode == 0
    assert own_runtime.control("status").returncode == 3
