"""Somebody deletes the daemon's socket, its lock, its directory, while all runs: it comes back, and there is never a second one."""

import os
import pathlib
import shutil
import signal

import pytest

from harness import PATIENCE, alive, wait_until


@pytest.fixture
def place(own_runtime):
    """A runtime whose directory for sockets holds nothing else, with a client that has a session."""
    own_runtime.place = own_runtime.directory / "place"
    own_runtime.environment["CL_MCPD_SOCKET"] = str(own_runtime.place / "socket")
    own_runtime.worked = own_runtime.client("--session", "work").open()
    own_runtime.worked.evaluate("(defvar *n* 41)", protect=True)
    return own_runtime


def status(runtime):
    return runtime.worked.result("cl-mcpd/status")


def is_whole(runtime):
    """Everything that runs can be found by the next daemon."""
    names = {path.name for path in runtime.place.glob("*")}
    now = status(runtime)
    wanted = {"socket", "lock", *(session["id"] for session in now["sessions"])}
    return wanted <= names and now["zygote"]["state"] == "ready" and "zygote" in names


def survives(runtime):
    """One daemon, as before; old and new clients; the session is what it was, also when the daemon dies now."""
    wait_until(lambda: is_whole(runtime), "all is in its place")
    with runtime.client("--session", "work") as other:
        assert "=> 42" in other.open().evaluate("(incf *n*)").text
    assert runtime.daemons() == [runtime.daemon]
    os.kill(runtime.daemon, signal.SIGKILL)
    assert runtime.worked.evaluate("*n*").text == "=> 42"
    wait_until(lambda: len(runtime.daemons()) == 1, "there is one daemon")


def remove_socket(place):
    (place / "socket").unlink()


def remove_all_in_it(place):
    for path in place.iterdir():
        path.unlink()


def remove_directory(place):
    shutil.rmtree(place)


def move_directory(place):
    place.rename(place.parent / "elsewhere")


REMOVALS = (remove_socket, remove_all_in_it, move_directory)


@pytest.mark.parametrize("remove", REMOVALS, ids=lambda remove: remove.__name__)
def test_what_somebody_has_removed_is_made_anew_and_the_session_goes_on(place, remove):
    place.daemon = status(place)["pid"]
    place.ready()
    remove(place.place)
    assert place.worked.result("ping") == {}
    survives(place)


def test_a_client_that_comes_at_once_starts_no_second_daemon(place):
    place.daemon = status(place)["pid"]
    place.ready()
    remove_directory(place.place)
    with place.client("--session", "work") as other:
        assert "=> 41" in other.open().evaluate("*n*").text
    survives(place)


def test_an_evaluation_that_runs_meanwhile_is_answered(place):
    place.ready()
    request = place.worked.start_evaluation("(progn (sleep 1.5) (incf *n*))", token="t")
    wait_until(lambda: status(place)["sessions"][0]["state"] == "running", "it runs")
    remove_directory(place.place)
    assert "=> 42" in place.worked.evaluation(request).text
    wait_until(lambda: is_whole(place), "all is in its place")
    assert "=> 42" in place.worked.evaluate("*n*").text


def test_a_daemon_at_another_place_does_not_serve_the_same_sessions(place):
    holder = status(place)["pid"]
    place.environment["CL_MCPD_SOCKET"] = str(place.directory / "other" / "socket")
    refused = place.run("cl-mcpd")
    place.environment["CL_MCPD_SOCKET"] = str(place.place / "socket")
    assert refused.returncode == 75
    assert f"another daemon, process {holder}, which does not serve ".encode() in refused.stderr
    assert str(place.database.parent).encode() in refused.stderr
    assert place.worked.evaluate("*n*").text == "=> 41" and not (place.directory / "other" / "socket").exists()


def test_where_there_can_be_no_place_any_more_clients_are_served_and_the_last_one_takes_the_daemon_with_it(place):
    daemon = status(place)["pid"]
    place.ready()
    remove_directory(place.place)
    place.place.write_text("no directory\n")
    wait_until(lambda: "no new client can come" in log_of(place), "it is noticed")
    assert place.worked.evaluate("(incf *n*)").text == "=> 42"
    place.worked.finish()
    wait_until(lambda: not alive(daemon) and not place.processes(), "it has left, with all sessions in their files", PATIENCE)
    place.place.unlink()
    with place.client("--session", "work") as client:
        assert "=> 42" in client.open().evaluate("*n*").text


def log_of(runtime):
    """Where its standard error goes."""
    with open(f"/proc/{runtime.daemons()[0]}/fd/2", "rb") as log:
        return log.read().decode()


def test_a_lock_that_nobody_holds_and_the_pid_of_somebody_else_in_it_do_not_matter(place):
    place.worked.finish()
    place.control("shutdown")
    bystander = os.getpid()
    for lock in (place.place / "lock", place.database.parent / "lock"):
        lock.write_text(f"{bystander}\n")
    with place.client("--session", "work") as client:
        assert "=> 41" in client.open().evaluate("*n*").text
        assert pathlib.Path(place.place / "lock").read_text() == f"{client.result('cl-mcpd/status')['pid']}\n"
