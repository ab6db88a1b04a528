"""The life of shim and daemon: start, races, leaving, memory, descriptors."""

import contextlib
import os
import shutil
import signal
import stat
import subprocess
import time

import pytest

from harness import BUILD_DIR, PROGRAMS, Runtime, copies_of, kilobytes, kill_for_good, open_files, wait_until
from mcpschema import NEWEST_HANDSHAKE, STATELESS


# Starting


@pytest.mark.parametrize("count", [2, 10])
def test_shims_that_race_start_one_daemon(own_runtime, count):
    clients = [own_runtime.client() for _ in range(count)]
    for client in clients:
        client.open()
    pids = {client.result("cl-mcpd/status")["pid"] for client in clients}
    assert len(pids) == 1
    assert wait_until(lambda: own_runtime.daemons() == list(pids), "one daemon is left")
    assert own_runtime.daemon_pid() in pids
    assert clients[0].result("cl-mcpd/status")["clients"] == count
    for number, client in enumerate(clients):
        assert client.evaluate(f"(+ {number} 1)").text == f"=> {number + 1}"


def test_racing_clients_that_leave_at_once_do_no_harm(own_runtime):
    for _ in range(5):
        client = own_runtime.client()
        client.terminate()
        client.wait(5)
        client.finish()
    assert own_runtime.client().open().evaluate("(+ 1 2)").text == "=> 3"
    assert len(own_runtime.daemons()) == 1


def test_home_and_path_are_environment_enough():
    """The socket is then computed: only tried where nobody's daemon is, and ended afterwards."""
    uid = os.geteuid()
    place = f"/run/user/{uid}"
    if not (os.path.isdir(place) and os.stat(place).st_uid == uid):
        place = f"/tmp/cl-mcpd-{uid}"
    else:
        place += "/cl-mcpd"
    if os.path.exists(f"{place}/socket"):
        pytest.skip(f"the user's own daemon may be running: {place}/socket is there")
    with Runtime() as runtime:
        runtime.environment = {"HOME": str(runtime.directory), "PATH": "/usr/bin:/bin"}
        client = runtime.client().open()
        assert client.evaluate('(format nil "~a λ" (+ 1 2))').text == '=> "3 λ"'
        assert stat.S_IMODE(os.stat(place).st_mode) == 0o700
        assert os.path.exists(f"{place}/socket")
        client.finish()
    shutil.rmtree(place)


def test_nobody_else_can_enter_the_runtime_directory(own_runtime):
    own_runtime.environment["CL_MCPD_SOCKET"] = str(own_runtime.directory / "run" / "socket")
    own_runtime.client().open().evaluate("1")
    assert stat.S_IMODE(os.stat(own_runtime.directory / "run").st_mode) == 0o700
    for entry in (own_runtime.directory / "run").iterdir():
        assert stat.S_IMODE(entry.stat().st_mode) & 0o077 == 0 or entry.is_socket(), entry


def copied_programs(directory, worker):
    """A directory like a build tree whose cl-mcp-worker is a script."""
    directory.mkdir()
    for name in PROGRAMS[:3]:
        shutil.copy(BUILD_DIR / name, directory / name)
    (directory / "cl-mcp-worker").write_text(f"#!/bin/sh\n{worker}\n")
    (directory / "cl-mcp-worker").chmod(0o755)
    return directory


def test_the_daemon_answers_while_the_zygote_still_boots(own_runtime):
    fifo = own_runtime.directory / "fifo"
    os.mkfifo(fifo)
    own_runtime.programs = copied_programs(own_runtime.directory / "programs",
                                           f'read line <"{fifo}"\nexec "{BUILD_DIR}/cl-mcp-worker" "$@"')
    legacy, stateless = own_runtime.client().open(), own_runtime.client().open(STATELESS)
    assert legacy.result("tools/list")["tools"][0]["name"] == "evaluate-lisp"
    assert stateless.result("server/discover")["supportedVersions"] == [STATELESS]
    assert stateless.result("tools/list")["tools"][0]["name"] == "evaluate-lisp"
    assert legacy.result("cl-mcpd/status")["zygote"]["state"] == "booting"
    waiting = legacy.start_evaluation("(+ 1 2)")
    cancelled = stateless.start_evaluation("(defparameter *ran* t)")
    stateless.cancel(cancelled)
    assert legacy.result("ping") == {}
    assert not legacy.answered(waiting)
    fifo.write_text("go\n")
    assert legacy.evaluation(waiting).text == "=> 3"
    assert stateless.evaluate("(boundp '*ran*)").text == "=> NIL"
    assert legacy.result("cl-mcpd/status")["zygote"]["state"] == "ready"


def test_a_zygote_that_a_killed_daemon_had_begun_is_the_only_one_and_ends_with_a_shutdown(own_runtime):
    fifo, begun = own_runtime.directory / "fifo", own_runtime.directory / "begun"
    os.mkfifo(fifo)
    own_runtime.programs = copied_programs(
        own_runtime.directory / "programs",
        f'echo $$ >>"{begun}"\nread line <"{fifo}"\nexec "{BUILD_DIR}/cl-mcp-worker" "$@"')
    client = own_runtime.client().open()
    for _ in range(3):
        wait_until(begun.exists, "the zygote has begun")
        os.kill(own_runtime.daemon_pid(), signal.SIGKILL)
        assert client.result("cl-mcpd/status")["zygote"]["state"] == "booting"
    assert len(begun.read_text().split()) == 1
    with subprocess.Popen([own_runtime.programs / "cl-mcpctl", "shutdown"], env=own_runtime.environment) as leaving:
        fifo.write_text("go\n")
    assert leaving.returncode == 0
    wait_until(lambda: not any("cl-mcp-worker" in command for command in own_runtime.processes().values()), "no zygote is left")


@pytest.mark.slow
def test_a_zygote_that_cannot_start_is_reported_instead_of_hanging():
    with contextlib.ExitStack() as stack:
        clients = []
        for worker in ("exit 1", "kill -9 $$", "exit 0"):
            runtime = stack.enter_context(Runtime())
            runtime.programs = copied_programs(runtime.directory / "programs", worker)
            clients.append(runtime.client().open())
        requests = [client.start_evaluation("(+ 1 2)") for client in clients]
        for client, request in zip(clients, requests):
            answer = client.answer(request)
            assert "error" in answer or answer["result"]["isError"]
            assert client.result("ping") == {}


@pytest.mark.slow
@pytest.mark.parametrize("broken", ["missing", "fails"])
def test_a_daemon_that_cannot_be_had_is_reported_to_each_request(own_runtime, broken):
    programs = copied_programs(own_runtime.directory / "programs", "exit 1")
    (programs / "cl-mcpd").unlink()
    if broken == "fails":
        (programs / "cl-mcpd").write_text("#!/bin/sh\nexit 1\n")
        (programs / "cl-mcpd").chmod(0o755)
    own_runtime.programs = programs
    client = own_runtime.client()
    ids = (0, "", "text", 10**30, -1)
    for value in ids:
        client.start("ping", request_id=value)
    for value in ids:
        answer = client.answer(value, 20)
        assert answer["error"]["code"] == -32603
        assert "cl-mcpd" in answer["error"]["message"] + str(answer["error"].get("data"))
    client.notify("notifications/initialized")
    client.end_of_input()
    assert client.wait(10) == 0
    assert len(client.arrivals) == 5


def test_no_recipe_of_the_worker_has_fallen_back(runtime):
    zygote = runtime.ready()["zygote"]
    assert zygote["lisp"].startswith("ECL ")
    if zygote["lisp"] != "ECL 21.2.1":
        pytest.skip(f"only promised for ECL 21.2.1, this is {zygote['lisp']} with {zygote['fallbacks']}")
    assert zygote["fallbacks"] == []


def test_status_describes_the_service(runtime):
    with runtime.client() as client:
        client.open()
        session = client.evaluate("1").structured["session"]
        status = client.result("cl-mcpd/status")
    assert status["version"].startswith("0.1.")
    assert status["pid"] == runtime.daemon_pid()
    assert status["uptimeMs"] >= 0 and status["clients"] >= 1
    assert status["zygote"]["state"] == "ready" and status["zygote"]["pid"] > 1
    mine = next(entry for entry in status["sessions"] if entry["id"] == session)
    assert mine["pid"] > 1 and mine["directory"] == str(runtime.directory)


def test_shutdown_ends_daemon_zygote_and_workers(own_runtime):
    client = own_runtime.client().open()
    client.evaluate('(ext:system "sleep 100 &")')
    client.start_evaluation("(loop)", request_id="runs on")
    client.result("ping")
    client.terminate()
    client.wait(5)
    done = own_runtime.control("shutdown")
    assert done.returncode == 0, done.stderr
    wait_until(lambda: not own_runtime.processes(), "everything has ended")
    client.finish()


def test_shutdown_without_a_daemon_starts_none(own_runtime):
    own_runtime.control("shutdown")
    assert not own_runtime.processes() and not own_runtime.daemons()


# Leaving


def test_the_end_of_input_delivers_all_answers(runtime):
    with runtime.client() as client:
        client.open()
        client.start_evaluation("(progn (sleep 0.3) :late)", request_id="a")
        client.start_evaluation("(+ 1 2)", request_id="b")
        client.start("tools/list", request_id="c")
        client.end_of_input()
        assert client.wait(10) == 0
        assert client.evaluation("a").text == "=> :LATE" and client.evaluation("b").text == "=> 3"
        assert client.answer("c")["result"]["tools"]


def test_a_whole_conversation_may_be_piped_in(own_runtime):
    lines = ('{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},'
             '"clientInfo":{"name":"printf","version":"1"}}}\n{"jsonrpc":"2.0","method":"notifications/initialized"}\n'
             '{"jsonrpc":"2.0","id":1,"method":"tools/call",'
             '"params":{"name":"evaluate-lisp","arguments":{"code":"(+ 1 2)"}}}\n')
    done = subprocess.run([BUILD_DIR / "cl-mcp-shim"], input=lines.encode(), env=own_runtime.environment, timeout=30,
                          cwd=own_runtime.directory, capture_output=True, check=True)
    assert done.stdout.count(b"\n") == 2 and b'"=> 3"' in done.stdout


def test_the_end_of_input_without_requests_ends_the_shim_at_once(runtime):
    with runtime.client() as client:
        client.open()
        began = time.monotonic()
        client.end_of_input()
        assert client.wait(5) == 0
        assert time.monotonic() - began < 1


def session_of(client):
    return client.evaluate("(defparameter *done* nil)").structured["session"]


@pytest.mark.slow
def test_a_running_evaluation_is_waited_for_5_seconds_and_then_goes_on(runtime):
    with runtime.client() as client:
        client.open()
        session = session_of(client)
        client.start_evaluation("(progn (sleep 6.5) (setf *done* :finished))", token="t")  # ticks prolong nothing
        began = time.monotonic()
        client.end_of_input()
        assert client.wait(10) == 0
        assert 4 < time.monotonic() - began < 6.4
    with runtime.client("--session", session) as next_client:
        next_client.open()
        assert next_client.evaluate("*done*").text == "=> :FINISHED"


@pytest.mark.slow
def test_wait_waits_as_long_as_it_takes(runtime):
    with runtime.client("--wait") as client:
        client.open()
        request = client.start_evaluation("(progn (sleep 6) :finished)")
        client.end_of_input()
        assert client.wait(20) == 0
        assert client.evaluation(request).text == "=> :FINISHED"


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT", "SIGHUP"])
def test_a_signal_ends_the_shim_at_once(runtime, name):
    with runtime.client() as client:
        client.open()
        session = session_of(client)
        client.start_evaluation("(progn (sleep 0.7) (setf *done* :finished))")
        client.result("ping")
        began = time.monotonic()
        client.process.send_signal(getattr(signal, name))
        assert client.wait(5) == 0
        assert time.monotonic() - began < 0.5
    with runtime.client("--session", session) as next_client:
        next_client.open()
        assert next_client.evaluate("*done*").text == "=> :FINISHED"


def test_a_client_whose_output_is_closed_does_not_hang(runtime):
    with runtime.client(reading=False) as client:
        client.start("ping")
        client.process.stdout.read(1)
        client.process.stdout.close()
        for _ in range(3):
            try:
                client.start("ping")
            except BrokenPipeError:
                break
        client.process.stdin.close()
        client.process.wait(10)
        client.abandon()


def test_a_session_outlives_its_client(runtime):
    with runtime.client() as first:
        first.open()
        first.evaluate("(defun square (x) (* x x))")
        session = first.evaluate("(in-package :cl-user)").structured["session"]
    with runtime.client("--session", session) as second:
        second.open("2025-03-26")
        assert second.evaluate("(square 12)").text == "=> 144"


def test_a_killed_client_leaves_its_session_unharmed(runtime):
    with runtime.client() as first:
        first.open()
        session = session_of(first)
        first.start_evaluation("(progn (sleep 0.5) (setf *done* :finished))")
        first.result("ping")
        first.process.kill()
        first.wait(5)
    with runtime.client("--session", session) as second:
        second.open()
        assert second.evaluate("*done*").text == "=> :FINISHED"


def test_a_session_argument_reaches_another_session(connect):
    one, two = connect().open(), connect().open(STATELESS)
    session = one.evaluate("(defparameter *here* 7)").structured["session"]
    evaluation = two.evaluate("*here*", session=session)
    assert evaluation.text == "=> 7" and evaluation.structured["session"] == session


def test_an_unknown_session_is_a_tool_error(lisp):
    evaluation = lisp.evaluate("(+ 1 2)", session="session-20200101-000000-0000")
    assert evaluation.is_error and evaluation.text.startswith("[ERROR] SESSION-NOT-FOUND\n")


def test_probing_creates_no_session(own_runtime):
    client = own_runtime.client().open(STATELESS)
    client.result("server/discover")
    client.result("tools/list")
    other = own_runtime.client().open(NEWEST_HANDSHAKE)
    other.result("ping")
    own_runtime.ready()
    assert other.result("cl-mcpd/status")["sessions"] == []


# What it costs


def test_descriptors_return_to_the_baseline(own_runtime):
    own_runtime.ready()
    with own_runtime.client() as keeper:
        keeper.open().evaluate("1")
        status = keeper.result("cl-mcpd/status")
        daemon, zygote = status["pid"], status["zygote"]["pid"]
        baseline = (open_files(daemon), open_files(zygote))
        kept = {entry["id"] for entry in status["sessions"]}
        for number in range(50):
            with own_runtime.client() as client:
                client.open(STATELESS if number % 2 else NEWEST_HANDSHAKE)
                assert client.evaluate(f"(+ 1 {number})").text == f"=> {number + 1}"
        sessions = keeper.result("cl-mcpd/status")["sessions"]
        assert len(sessions) == 51
        for entry in sessions:
            if entry["id"] not in kept:
                kill_for_good(entry["pid"])
        wait_until(lambda: (open_files(daemon), open_files(zygote)) == baseline,
                   f"descriptors of daemon and zygote are back to {baseline}", 10)
        assert keeper.evaluate("(+ 1 2)").text == "=> 3"
    left = [entry for entry in own_runtime.directory.iterdir() if entry.name.startswith("session-")]
    assert len(left) == 2, left  # the keeper's socket and lock


def test_ten_idle_sessions_are_cheap(own_runtime):
    clients = [own_runtime.client().open() for _ in range(10)]
    for client in clients:
        client.evaluate("(defun square (x) (* x x))")
    status = clients[0].result("cl-mcpd/status")
    workers = [entry["pid"] for entry in status["sessions"]]
    assert len(workers) == 10
    wait_until(lambda: all(copies_of(pid) for pid in workers), "each has a copy")
    each = [kilobytes(pid, "Pss") for worker in workers for pid in [worker, *copies_of(worker)]]
    print(f"ten idle sessions: {sum(each)} kB PSS together, zygote {kilobytes(status['zygote']['pid'], 'Pss')} kB, "
          f"daemon {kilobytes(status['pid'], 'Pss')} kB, shim {kilobytes(clients[0].process.pid, 'Pss')} kB, "
          f"zygote boot {status['zygote']['bootMs']} ms")
    assert sum(each) < 60_000


def test_the_shim_links_nothing_but_libc():
    listing = subprocess.run(["readelf", "-d", BUILD_DIR / "cl-mcp-shim"], capture_output=True, text=True, check=True)
    needed = {line.partition("[")[2].rstrip("]") for line in listing.stdout.splitlines() if "(NEEDED)" in line}
    assert {name for name in needed if not name.startswith(("libasan", "libubsan"))} == {"libc.so.6"}
