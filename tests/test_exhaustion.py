"""Descriptors and processes run out, or everything stands still: new work is refused in words, and what there is goes on."""

import contextlib
import os
import pathlib
import resource
import signal
import socket
import struct
import time

import pytest

from harness import FAULTS, PATIENCE, alive, open_files, wait_until
from test_tool_sessions import failure, info, made


@contextlib.contextmanager
def descriptors(pid, count):
    """So many, and no more, may the process have open."""
    before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (count, before[1]))
    try:
        yield
    finally:
        resource.prlimit(pid, resource.RLIMIT_NOFILE, before)


@pytest.fixture
def served(own_runtime):
    """A runtime with a client that has a session."""
    own_runtime.served = own_runtime.client().open()
    own_runtime.served.evaluate("(defvar *n* 41)")
    own_runtime.ready()
    return own_runtime


def goes_on(runtime):
    return runtime.served.evaluate("*n*").text == "=> 41" and runtime.served.result("ping") == {}


def processor_seconds(pid):
    threads = pathlib.Path(f"/proc/{pid}/task").iterdir()
    return sum(int((thread / "schedstat").read_text().split()[0]) for thread in threads) / 1e9


def test_clients_beyond_the_limit_of_open_files_are_told_so_and_those_before_them_are_served(served):
    daemon = served.daemon_pid()
    with descriptors(daemon, open_files(daemon) + 40):
        clients, refused = [], None
        while not refused:
            client = served.client()
            clients.append(client)
            answer = client.request("ping")
            refused = answer.get("error")
        assert "open files" in refused["message"] and "ulimit -n" in refused["message"]
        assert 5 < len(clients) < 40
        assert goes_on(served) and served.served.tool("add-message", role="user", content="x").text
        clients[0].finish()
        wait_until(lambda: "result" in clients[-1].request("ping"), "there is room for the one that was refused")
    for client in clients[1:]:
        client.finish()
    assert goes_on(served)


def test_connections_that_say_nothing_and_take_all_descriptors_neither_stop_nor_heat_the_daemon(served):
    daemon = served.daemon_pid()
    with descriptors(daemon, open_files(daemon) + 10), contextlib.ExitStack() as stack:
        for _ in range(20):
            link = stack.enter_context(socket.socket(socket.AF_UNIX))
            link.connect(served.environment["CL_MCPD_SOCKET"])
        wait_until(lambda: "no more clients can be taken" in served.log_tail(), "they are used up")
        began, before = time.monotonic(), processor_seconds(daemon)
        wait_until(lambda: time.monotonic() - began > 1, "a second is over")
        assert processor_seconds(daemon) - before < 0.2
        assert goes_on(served)
        assert served.log_tail().count("no more clients can be taken") == 1
    with served.client() as client:
        assert client.open().evaluate("(+ 1 2)").text == "=> 3"


def test_sessions_beyond_the_limit_of_open_files_are_refused_and_those_before_them_go_on(served):
    daemon = served.daemon_pid()
    sessions = [made(served.served) for _ in range(40)]
    with descriptors(daemon, open_files(daemon) + 24):
        answers = [served.served.evaluate("(defvar *m* 1)", session=session) for session in sessions]
        refused = [answer for answer in answers if answer.is_error]
        assert 0 < len(refused) < 40
        assert all(failure(answer) == "QUOTA-EXCEEDED" and "open files" in answer.text for answer in refused)
        assert goes_on(served)
        good = [session for session, answer in zip(sessions, answers) if not answer.is_error]
        assert all(served.served.evaluate("*m*", session=session).text == "=> 1" for session in good)
        assert not served.served.tool("delete-session", session=good[0]).is_error
        last = next(session for session, answer in zip(sessions, answers) if answer.is_error)
        wait_until(lambda: not served.served.evaluate("1", session=last).is_error, "its place is another one's")


def test_a_session_that_cannot_get_a_process_says_why_and_gets_it_when_there_is_room(served):
    zygote = served.ready()["zygote"]["pid"]
    other = served.client().open()
    with descriptors(zygote, open_files(zygote)):
        answer = other.evaluate("(+ 1 2)")
        assert failure(answer) == "SESSION-UNAVAILABLE" and "Too many open files" in answer.text
        assert goes_on(served)
    assert other.evaluate("(+ 1 2)").text == "=> 3"


def test_all_may_be_stopped_for_seconds_and_nothing_is_lost(served):
    request = served.served.start_evaluation("(progn (sleep 0.5) (incf *n* 0))", token="t")
    wait_until(lambda: served.status()["sessions"][0]["state"] == "running", "it runs")
    everybody = served.processes()
    for pid in everybody:
        os.kill(pid, signal.SIGSTOP)
    began = time.monotonic()
    wait_until(lambda: time.monotonic() - began > 2, "two seconds are over")
    for pid in everybody:
        os.kill(pid, signal.SIGCONT)
    assert served.served.evaluation(request).text == "=> 41"
    assert goes_on(served)
    assert all(alive(pid) for pid in everybody)


class Clock:
    """That of every daemon of a runtime, see tests/faults.c."""

    def __init__(self, runtime):
        path = runtime.directory / "clock"
        path.write_bytes(bytes(8))
        self.file = open(path, "r+b", buffering=0)
        runtime.use_faults(CLOCK_OFFSET=str(path))

    def set_forth(self, days):
        self.file.seek(0)
        self.file.write(struct.pack("q", days * 86400))


def test_a_clock_that_is_set_forth_and_back_neither_ends_nor_prolongs_anything(own_runtime):
    if not FAULTS.is_file():
        pytest.skip(f"{FAULTS} is not there: make unit-tests builds it")
    clock = Clock(own_runtime)
    with own_runtime.daemon("--hibernate-after", "3600"):
        client = own_runtime.client().open()
        session = client.evaluate("(defvar *n* 0)", timeout=60).structured["session"]
        worker = own_runtime.status()["sessions"][0]["pid"]
        for days in (4000, -4000):
            stopped = client.start_evaluation("(loop)", timeout=1)
            kept = client.start_evaluation("(progn (sleep 0.2) (incf *n*))", timeout=60)
            clock.set_forth(days)
            answer = client.evaluation(stopped)
            assert failure(answer) == "TIMEOUT" and 900 < answer.structured["elapsedMs"] < PATIENCE * 1000
            assert not client.evaluation(kept).is_error
        assert client.evaluate("*n*").text == "=> 2"
        assert own_runtime.status()["sessions"][0]["pid"] == worker
        wait_until(lambda: info(client, session)["messages"] == 12, "all is stored")
        numbers = [message["number"] for message in client.tool("session-history", limit=100).structured["messages"]]
        assert numbers == list(range(1, 13))
        assert client.tool("list-sessions").structured["sessions"][0]["id"] == session
        client.finish()


def test_a_clock_that_is_set_forth_by_years_does_not_make_sessions_too_old(own_runtime):
    if not FAULTS.is_file():
        pytest.skip(f"{FAULTS} is not there: make unit-tests builds it")
    clock = Clock(own_runtime)
    with own_runtime.client().open() as client:
        made(client, name="Young")
    own_runtime.end_daemon(signal.SIGTERM)

    def is_noticed():
        """By a daemon that looked for old ones after the clock was set; it looks when it is a second old."""
        clock.set_forth(0)
        with own_runtime.daemon("--retain-days", "30") as daemon, own_runtime.client().open() as client:
            clock.set_forth(4000)
            began = time.monotonic()
            wait_until(lambda: time.monotonic() - began > 1.5, "it has looked")
            assert [card["name"] for card in client.tool("list-sessions").structured["sessions"]] == ["Young"]
            client.finish()
        return f"cl-mcpd[{daemon.pid}]: the clock was set by 96000.0 hours" in own_runtime.log_tail()

    wait_until(is_noticed, "the clock is doubted")


def test_each_session_is_one_of_the_kernel_s_so_that_it_shares_out_the_processors_among_them(served):
    """Where it does so: see sched_autogroup in sched(7)."""
    clone = served.served.tool("create-session", **{"from": served.served.evaluate("1").structured["session"]}).structured["id"]
    other = made(served.served)
    served.served.evaluate("1", session=other)
    workers = [entry["pid"] for entry in served.status()["sessions"]]
    assert len(workers) == 3 and info(served.served, clone)["pid"] in workers
    assert len({os.getsid(pid) for pid in [*workers, served.daemon_pid(), served.ready()["zygote"]["pid"]]}) == 5
    os.kill(info(served.served, other)["pid"], signal.SIGKILL)
    wait_until(lambda: not served.served.evaluate("1", session=other).is_error, "it has a process again")
    assert len({os.getsid(entry["pid"]) for entry in served.status()["sessions"]}) == 3


def test_how_a_process_ended_that_no_zygote_watches_is_said_to_be_unknown(served):
    zygote = served.ready()["zygote"]["pid"]
    os.kill(zygote, signal.SIGKILL)
    wait_until(lambda: served.ready()["zygote"]["pid"] != zygote, "there is another one")
    served.served.evaluate("*n*", protect=True)
    worker = served.status()["sessions"][0]["pid"]
    request = served.served.start_evaluation("(sleep 1000)")
    wait_until(lambda: served.status()["sessions"][0]["state"] == "running", "it runs")
    os.kill(worker, signal.SIGKILL)
    answer = served.served.evaluation(request)
    assert failure(answer) == "WORKER-DIED" and "ended in an unknown way" in answer.text
    assert goes_on(served)
