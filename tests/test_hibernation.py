"""A session gives up its process and comes back as it was: by request, when idle, for memory, at a shutdown."""

import contextlib
import os
import random
import signal
import sqlite3
import time

import pytest

from harness import FAULTS, alive, wait_until

RESTORED = "SESSION-RESTORED: The session was hibernated. It goes on in a new process, with what was defined before."


def states(runtime):
    """The files that hibernated sessions are in; beside them are what others were when they rested last."""
    return sorted(path.name for path in (runtime.directory / "state" / "cl-mcpd" / "states").glob("*") if path.suffix != ".saved")


def state_of(client, session):
    return client.tool("session-info", session=session).structured["state"]


def hibernate(runtime, session):
    """As cl-mcpctl does it; the processes, sockets and locks of the session are gone then."""
    result = runtime.control("hibernate", session)
    assert result.returncode == 0, result.stderr
    assert states(runtime) == [session + ".lisp"]
    assert not list(runtime.directory.glob("session-*"))


def kill_daemon(runtime):
    """There may be none just now, or one that has not written its lock yet."""
    with contextlib.suppress(OSError, IndexError, ValueError):
        os.kill(runtime.daemon_pid(), signal.SIGKILL)


def begun(runtime, code="(defun f (x) (* 2 x)) (defvar *x* (list 1 2))", name="work"):
    """A session that has something, and its client."""
    client = runtime.client("--session", name).open()
    return client, client.evaluate(code).structured["session"]


def test_a_hibernated_session_has_no_process_and_the_next_call_brings_it_back(own_runtime):
    client, session = begun(own_runtime)
    worker = own_runtime.status()["sessions"][0]["pid"]
    number = client.evaluate("(f 1)").structured["evaluation"]
    hibernate(own_runtime, session)
    hibernate(own_runtime, session)  # twice is no error
    assert not alive(worker) and own_runtime.status()["sessions"] == []
    assert state_of(client, session) == "hibernated"
    assert f'{session} "work": hibernated' in client.tool("list-sessions").text
    back = client.evaluate("(list (f 4) *x*)")
    assert back.structured["values"] == ["(8 (1 2))"] and RESTORED in back.text and "Not kept" not in back.text
    assert back.structured["session"] == session and back.structured["evaluation"] > number
    assert client.evaluate("(f 5)").text == "=> 10"
    assert states(own_runtime) == [] and state_of(client, session) == "idle"


def test_what_could_not_be_kept_is_named_once_and_stays_in_the_transcript(own_runtime):
    client, session = begun(own_runtime, "(defvar *s* (make-string-output-stream)) (block b (let ((z 1)) (defun next () (return-from b z))))")
    hibernate(own_runtime, session)
    assert f"{RESTORED} Not kept: *S*: a stream; NEXT: a closure over Z\n" in client.evaluate("(boundp '*s*)").text
    assert client.evaluate("1").text == "=> 1"
    assert "NEXT: a closure" in client.tool("session-history").text


def test_package_limits_and_directory_come_back(own_runtime):
    client, session = begun(own_runtime, "(defpackage :mine (:use :cl)) (in-package :mine) (defun f () 1)")
    limits = client.tool("configure-limits", timeout=9, max_heap=200).text
    hibernate(own_runtime, session)
    back = client.evaluate("(list (f) (package-name *package*) (namestring (ext:getcwd)))")
    assert back.structured["values"] == [f'(1 "MINE" "{own_runtime.directory}/")']
    assert client.tool("configure-limits").text == limits


def test_a_session_that_is_at_work_or_runs_threads_stays_and_says_why(own_runtime):
    client, session = begun(own_runtime, "(defvar *stop* nil)")
    running = client.start_evaluation("(loop until (probe-file \"go\") do (sleep 0.01))")
    wait_until(lambda: state_of(client, session) == "running", "it runs")
    refused = own_runtime.control("hibernate", "work")
    assert refused.returncode == 1 and "It is at work" in refused.stderr.decode()
    (own_runtime.directory / "go").touch()
    assert client.evaluation(running).text == "=> NIL"
    client.evaluate("(mp:process-run-function 'w (lambda () (loop until *stop* do (sleep 0.01))))")
    refused = own_runtime.control("hibernate", session)
    assert refused.returncode == 1 and "It runs one Lisp thread." in refused.stderr.decode()
    assert "not hibernated: It runs one Lisp thread." in client.tool("session-info").text and states(own_runtime) == []
    assert client.evaluate("(setf *stop* t)").text == "=> T"
    assert "not hibernated" not in client.tool("session-info").text
    hibernate(own_runtime, wait_until(lambda: client.evaluate("(length (mp:all-processes))").text == "=> 1" and session, "it ends"))


def test_what_cannot_be_hibernated_is_an_error(own_runtime):
    own_runtime.client().open().tool("create-session", name="stored")
    for arguments, status, words in [
            (["nobody"], 1, "There is none of that name"), (["session-20200101-000000-0000"], 1, "There is none"),
            ([], 2, "this command needs a session"), (["a", "b"], 2, "unexpected argument"), (["stored"], 1, "It has no process")]:
        result = own_runtime.control("hibernate", *arguments)
        assert result.returncode == status and words in result.stderr.decode()


def test_a_call_that_comes_while_it_is_hibernated_is_answered(own_runtime):
    client, session = begun(own_runtime, "(defvar *n* 0) (defvar *x* (loop for i below 200000 collect i))")
    for number in range(1, 6):
        asked = client.start("cl-mcpd/hibernate", {"session": session})
        evaluation = client.start_evaluation("(list (incf *n*) (length *x*))")
        assert client.evaluation(evaluation).structured["values"] == [f"({number} 200000)"]
        answer = client.answer(asked)
        assert answer.get("result") == {"state": "hibernated"} or "used meanwhile" in answer["error"]["data"]


def test_sessions_come_back_after_a_shutdown(own_runtime):
    with own_runtime.client() as client:
        client.open()
        for number in range(10):
            client.evaluate(f"(defun f () {number})", session=client.tool("create-session", name=f"s{number}").structured["id"])
    assert own_runtime.control("shutdown").returncode == 0
    assert len(states(own_runtime)) == 10
    client = own_runtime.client().open()
    for number in range(10):
        assert client.evaluate("(f)", session=f"s{number}").structured["values"] == [str(number)]
    assert states(own_runtime) == []


def test_a_shutdown_does_not_wait_for_what_does_not_answer(own_runtime):
    client, session = begun(own_runtime)
    busy = own_runtime.client("--session", "busy").open()
    busy.evaluate("(defvar *kept* 1)")
    busy.start_evaluation("(mp:without-interrupts (loop))")
    wait_until(lambda: "busy\": running" in client.tool("list-sessions").text, "it runs")
    assert own_runtime.control("shutdown").returncode == 0
    assert "could not be hibernated in time" not in own_runtime.log_tail() and states(own_runtime) == [session + ".lisp"]
    busy.process.kill()
    busy.abandon()


def test_what_is_too_big_keeps_a_session_awake_but_not_from_a_shutdown(own_runtime):
    client, session = begun(own_runtime, "(defvar *big* (make-array 2000000 :element-type 'bit)) (setf *big* (list *big* *big*))"
                            "(defvar *vast* (make-array 1500000)) (defun f (x) x)")
    refused = own_runtime.control("hibernate", session)
    assert refused.returncode == 1 and "*VAST* is too big to be written." in refused.stderr.decode()
    assert states(own_runtime) == []
    own_runtime.control("shutdown")
    back = client.evaluate("(list (boundp '*vast*) (length (second *big*)) (f 1))")
    assert back.structured["values"] == ["(NIL 2000000 1)"] and "Not kept: *VAST*: too big to be written" in back.text


def test_an_idle_session_is_hibernated_after_the_configured_time(own_runtime):
    with own_runtime.daemon("--hibernate-after", "0.5"):
        client, session = begun(own_runtime, "(defvar *n* 1)")
        wait_until(lambda: states(own_runtime) == [session + ".lisp"] and state_of(client, session) == "hibernated", "it sleeps")
        assert client.evaluate("*n*").structured["values"] == ["1"]


def test_while_memory_is_short_the_session_used_longest_ago_goes_first(own_runtime):
    with own_runtime.daemon("--keep-free", "1000000000"):
        first, one = begun(own_runtime, name="first")
        second, two = begun(own_runtime, name="second")
        first.evaluate("(f 1)")
        wait_until(lambda: states(own_runtime) == sorted([f"{one}.lisp", f"{two}.lisp"]), "both sleep")
        directory = own_runtime.directory / "state" / "cl-mcpd" / "states"
        assert (directory / f"{two}.lisp").stat().st_mtime < (directory / f"{one}.lisp").stat().st_mtime


@pytest.mark.slow
def test_while_the_want_of_memory_holds_up_everything_sessions_go_however_much_is_available(own_runtime):
    if not FAULTS.is_file():
        pytest.skip(f"{FAULTS} is not there: make unit-tests builds it")
    pressure = own_runtime.directory / "pressure"

    def press(percentage):
        (own_runtime.directory / "pressure.new").write_text(
            f"some avg10=99.00 avg60=0.00 avg300=0.00 total=1\nfull avg10={percentage:.2f} avg60=0.00 avg300=0.00 total=1\n")
        (own_runtime.directory / "pressure.new").rename(pressure)

    press(9.5)
    own_runtime.use_faults(PRESSURE=str(pressure))
    with own_runtime.daemon("--keep-free", "1"):
        client, session = begun(own_runtime)
        began = time.monotonic()
        wait_until(lambda: time.monotonic() - began > 4, "it has been idle long enough")
        assert state_of(client, session) == "idle" and states(own_runtime) == []
        press(12)
        wait_until(lambda: states(own_runtime) == [session + ".lisp"], "it sleeps")
        client.finish()


@pytest.mark.parametrize("option", ["--hibernate-after", "--keep-free", "--save-after"])
def test_an_option_that_is_no_number_is_refused(own_runtime, option):
    result = own_runtime.run("cl-mcpd", option, "soon")
    assert result.returncode == 2 and f"{option} needs a number" in result.stderr.decode()


def test_a_deleted_session_leaves_no_state_file(own_runtime):
    client, session = begun(own_runtime)
    hibernate(own_runtime, session)
    assert client.tool("delete-session", session=session).text.startswith("Deleted")
    assert states(own_runtime) == []
    assert "SESSION-NOT-FOUND" in own_runtime.client().open().evaluate("1", session=session).text


def test_one_that_the_administrator_does_not_keep_leaves_none_either(own_runtime):
    client, session = begun(own_runtime)
    hibernate(own_runtime, session)
    client.finish()
    own_runtime.control("shutdown")
    with sqlite3.connect(own_runtime.database) as database:
        database.execute("UPDATE sessions SET created_at = created_at - 40 * 86400, updated_at = updated_at - 40 * 86400")
    with own_runtime.daemon("--retain-days", "30"):
        wait_until(lambda: states(own_runtime) == [], "its file is gone")
        assert "SESSION-NOT-FOUND" in own_runtime.client().open().evaluate("1", session=session).text


def test_a_reset_forgets_what_was_hibernated(own_runtime):
    client, session = begun(own_runtime)
    hibernate(own_runtime, session)
    assert "Session reset." in client.tool("reset-session").text
    assert states(own_runtime) == [] and client.evaluate("(fboundp 'f)").text == "=> NIL"


def test_a_state_that_cannot_be_read_is_said_and_kept(own_runtime):
    client, session = begun(own_runtime)
    hibernate(own_runtime, session)
    file = own_runtime.directory / "state" / "cl-mcpd" / "states" / (session + ".lisp")
    file.write_text(file.read_text()[:100])
    back = client.evaluate("(fboundp 'f)")
    assert back.structured["values"] == ["NIL"] and "SESSION-RESTARTED: The session was hibernated and cannot be" in back.text
    assert str(file) in back.text and file.exists()
    assert client.evaluate("(+ 1 1)").text == "=> 2"
    client.tool("reset-session")
    assert not file.exists()
    hibernate(own_runtime, session)
    assert RESTORED in client.evaluate("1").text


def test_a_state_that_kills_its_process_is_given_up(own_runtime):
    client, session = begun(own_runtime, '(defvar *armed* nil) (defmacro m () (when *armed* (ext:system "kill -9 $PPID")) nil)'
                            "(defun f () (m)) (setf *armed* t)")
    hibernate(own_runtime, session)
    back = client.evaluate("(+ 1 2)")
    assert back.structured["values"] == ["3"] and "The process dies of it." in back.text
    assert client.evaluate("(+ 1 1)").text == "=> 2"


def test_a_full_disk_keeps_the_session_awake(own_runtime):
    client, session = begun(own_runtime)
    directory = own_runtime.directory / "state" / "cl-mcpd" / "states"
    directory.mkdir(mode=0o700)
    (directory / (session + ".new")).mkdir()  # nothing can be written there
    result = own_runtime.control("hibernate", session)
    assert result.returncode == 1 and "not hibernated" in result.stderr.decode()
    assert client.evaluate("(f 4)").text == "=> 8"


def test_a_row_that_names_a_file_decides_also_against_a_live_process(own_runtime):
    """As a daemon leaves it that was killed before it could end the process."""
    client, session = begun(own_runtime, "(defvar *n* 1)")
    hibernate(own_runtime, session)
    file = own_runtime.directory / "state" / "cl-mcpd" / "states" / (session + ".lisp")
    whole = file.read_bytes()
    client.evaluate("(setf *n* 2)")
    pid = own_runtime.status()["sessions"][0]["pid"]
    file.write_bytes(whole)
    with sqlite3.connect(own_runtime.database, timeout=30) as database:
        database.execute("UPDATE sessions SET state_file = ?", [f"states/{session}.lisp"])
    kill_daemon(own_runtime)
    assert client.evaluate("*n*").structured["values"] == ["1"] and not alive(pid)


def test_a_daemon_killed_at_any_moment_of_it_loses_and_repeats_nothing(own_runtime):
    """Each answered evaluation has had its effect once, whatever the daemon was doing when it died."""
    seed = int(os.environ.get("HIBERNATION_SEED", random.randrange(1 << 30)))
    draw = random.Random(seed)
    client, session = begun(own_runtime, "(defvar *n* 0) (defun next () (incf *n*))")
    for number in range(1, 1 + int(os.environ.get("HIBERNATION_KILLS", 12))):
        asked = client.start("cl-mcpd/hibernate", {"session": session})
        evaluation = None
        if draw.random() < 0.5:  # on the way back, else on the way there
            client.answer(asked)
            evaluation = client.start_evaluation("(next)")
        time.sleep(draw.random() * (0.1 if evaluation else 0.03))
        kill_daemon(own_runtime)
        evaluation = evaluation or client.start_evaluation("(next)")
        assert client.evaluation(evaluation).structured["values"] == [str(number)], f"HIBERNATION_SEED={seed}, {number}"
    hibernate(own_runtime, wait_until(lambda: state_of(client, session) == "idle" and session, "it rests"))
    assert client.evaluate("*n*").structured["values"] == [str(number)]
