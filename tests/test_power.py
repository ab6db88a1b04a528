"""A machine that loses its power: all processes are gone at once, and what was in memory; the sessions come back."""

import contextlib
import os
import random
import signal
import time

from harness import kill_for_good, wait_until

BACK = "SESSION-RESTORED: The session's Lisp process had ended. It goes on in a new process, "
FROM_TRANSCRIPT = BACK + "with the definitions of its transcript. Nothing else was evaluated again."


def cut_power(runtime):
    """Nobody writes anything any more, and the runtime directory does not survive the boot that follows."""
    for client in list(runtime.clients):
        client.abandon()
    runtime.end_all_but()
    for entry in runtime.directory.iterdir():
        if entry.is_socket() or entry.name in ("lock", "zygote", "cradle") or entry.name.startswith("session-"):
            entry.unlink()


def begun(runtime, *codes, name="work"):
    """A session in which that was evaluated; all of it is in the transcript."""
    client = runtime.client("--session", name).open()
    answers = [client.evaluate(code) for code in codes]
    last = answers[-1].structured
    wait_until(lambda: client.tool("session-info").structured["evaluations"] >= last["evaluation"], "it is stored")
    return client, last["session"]


def lose_process(runtime):
    """The one session's process is killed with its copy; one that is just being made may escape the first time."""
    def is_lost():
        status = runtime.status()["sessions"][0]
        if status["state"] == "idle":
            with contextlib.suppress(OSError):
                kill_for_good(status["pid"])
        return status["state"] == "empty"

    wait_until(is_lost, "nobody takes over")


def back(runtime, code, name="work"):
    """What a new client gets."""
    return runtime.client("--session", name).open().evaluate(code)


def saved(runtime, session):
    """What the file of a session that goes on was written after; 0 if there is none."""
    with contextlib.suppress(FileNotFoundError):
        text = (runtime.directory / "state" / "cl-mcpd" / "states" / f"{session}.saved").read_text()
        return int(text.split("\n")[0].rpartition(" ")[2])
    return 0


def test_after_a_power_cut_what_was_defined_is_there_again_and_what_is_lost_is_named(own_runtime):
    log = own_runtime.directory / "log-of-code"
    _, session = begun(own_runtime, "(defpackage :mine (:use :cl)) (in-package :mine)", "(defun f (x) (* 2 x)) (defvar *x* '(1 2))",
                       f'(with-open-file (s "{log}" :direction :output) (print 1 s)) (defclass c () ((n :initform 3 :reader n)))',
                       "(setf *x* 5)")
    log.unlink()
    cut_power(own_runtime)
    answer = back(own_runtime, "(list (f 4) *x* (n (make-instance 'c)) (package-name *package*))")
    assert answer.structured["values"] == ['(8 (1 2) 3 "MINE")'] and answer.structured["session"] == session
    assert (f"{FROM_TRANSCRIPT} Not kept: evaluation 3: (with-open-file (s \"{log}\" :direction :output)"[:190] in answer.text and
            "; evaluation 4: (setf *x* 5)\n" in answer.text)
    assert not log.exists() and own_runtime.client("--session", "work").open().evaluate("(f 1)").text == "=> 2"


def test_what_a_session_had_when_it_rested_comes_back_with_what_was_defined_since(own_runtime):
    with own_runtime.daemon("--save-after", "0.2"):
        client, session = begun(own_runtime, "(defvar *x* (list 1 2)) (defun next () (push 0 *x*))", "(next)")
        first = wait_until(lambda: saved(own_runtime, session), "its state is written")
        client.evaluate("(next)")
        wait_until(lambda: saved(own_runtime, session) > first, "its state is written again")
    # A shutdown has hibernated it; what was saved before is not what counts, but what follows is.
    with own_runtime.daemon("--save-after", "0"):
        client, _ = begun(own_runtime, "(next)", "(defun f () :new) (next)")
        cut_power(own_runtime)
    answer = back(own_runtime, "(list *x* (f))")
    assert answer.structured["values"] == ["((0 0 1 2) :NEW)"]
    assert BACK + "as it was after evaluation " in answer.text and answer.text.count("(next)") == 2


def test_a_session_that_has_not_changed_is_not_written_again(own_runtime):
    with own_runtime.daemon("--save-after", "0.1"):
        client, session = begun(own_runtime, "(defvar *x* 1)")
        number = wait_until(lambda: saved(own_runtime, session), "its state is written")
        other, another = begun(own_runtime, "(defvar *y* 1)", name="other")
        wait_until(lambda: saved(own_runtime, another), "the next one is written")
        client.result("resources/read", {"uri": f"lisp://session/{session}/definitions"})
        other.evaluate("(defvar *z* 1)")
        wait_until(lambda: saved(own_runtime, another) > 2, "and written again")
        assert saved(own_runtime, session) == number


def test_a_call_that_comes_while_the_state_is_written_is_answered_and_nothing_is_lost(own_runtime):
    with own_runtime.daemon("--save-after", "0.05"):
        client, session = begun(own_runtime, "(defvar *n* 0) (defvar *x* (loop for i below 100000 collect i))")
        for number in range(1, 15):
            assert client.evaluate("(list (incf *n*) (length *x*))").structured["values"] == [f"({number} 100000)"]
            wait_until(lambda: own_runtime.status()["sessions"][0]["state"] == "running" or saved(own_runtime, session) > number,
                       "its state is being written")
        assert own_runtime.control("hibernate", session).returncode == 0


def test_nothing_is_written_unless_wanted(own_runtime):
    with own_runtime.daemon("--save-after", "0", "--hibernate-after", "1.5"):
        client, session = begun(own_runtime, "(defvar *x* 1)")
        wait_until(lambda: client.tool("session-info").structured["state"] == "hibernated", "it is hibernated")
        assert saved(own_runtime, session) == 0


def test_a_hibernated_session_that_was_used_again_comes_back_as_it_was_hibernated(own_runtime):
    client, session = begun(own_runtime, "(defvar *x* (list 1))", "(push 2 *x*)")
    assert own_runtime.control("hibernate", session).returncode == 0
    client.evaluate("(defun f () 3)")
    client.evaluate("(push 4 *x*)")
    wait_until(lambda: client.tool("session-info").structured["evaluations"] >= 6, "it is stored")
    cut_power(own_runtime)
    answer = back(own_runtime, "(list *x* (f))")
    assert answer.structured["values"] == ["((2 1) 3)"] and answer.text.count("(push") == 1


def test_what_was_reset_does_not_come_back(own_runtime):
    with own_runtime.daemon("--save-after", "0.1"):
        client, session = begun(own_runtime, "(defun f () 1)")
        wait_until(lambda: saved(own_runtime, session), "its state is written")
    with own_runtime.daemon("--save-after", "0"):
        client, _ = begun(own_runtime, "(defun g () 1)")
        client.tool("reset-session")
        begun(own_runtime, "(defun h () 1)")
        cut_power(own_runtime)
    answer = back(own_runtime, "(list (fboundp 'f) (fboundp 'g) (h))")
    assert answer.structured["values"] == ["(NIL NIL 1)"] and "Not kept" not in answer.text


def test_what_was_rolled_back_does_not_come_back(own_runtime):
    with own_runtime.daemon("--save-after", "0.1"):
        client, session = begun(own_runtime, "(defun f () 1)")
        client.tool("checkpoint-session", name="here")
        client.evaluate("(defun g () 1) (defun f () 2)")
        number = client.evaluate("(defvar *x* 1)").structured["evaluation"]
        wait_until(lambda: saved(own_runtime, session) > number, "its state is written")
    with own_runtime.daemon("--save-after", "0"):  # the shutdown has ended the checkpoint, but not the transcript
        client, _ = begun(own_runtime, "(defun h () 3)")
        client.tool("checkpoint-session", name="there")
        client.evaluate("(defun h () 4)")
        assert not client.tool("rollback-session", to="there").is_error
        begun(own_runtime, "(defun i () 5)")
        cut_power(own_runtime)
    assert back(own_runtime, "(list (f) (h) (i))").structured["values"] == ["(2 3 5)"]


def test_a_state_that_was_rolled_back_is_none(own_runtime):
    with own_runtime.daemon("--save-after", "0.1"):
        client, session = begun(own_runtime, "(defun f () 1)")
        client.tool("checkpoint-session", name="here")
        number = client.evaluate("(defun f () 2)").structured["evaluation"]
        wait_until(lambda: saved(own_runtime, session) > number, "its state is written")
        own_runtime.end_daemon()
    process = own_runtime.start_daemon("--save-after", "0")
    client, _ = begun(own_runtime, "(defun g () 1)")
    assert not client.tool("rollback-session", to="here").is_error
    begun(own_runtime, "(defun h () 3)")
    cut_power(own_runtime)
    process.wait()
    assert back(own_runtime, "(list (f) (fboundp 'g) (h))").structured["values"] == ["(1 NIL 3)"]


def test_a_state_that_was_rolled_back_is_none_in_a_session_without_a_transcript_either(own_runtime):
    with own_runtime.daemon("--save-after", "0.1"):
        client = own_runtime.client().open()
        client.tool("create-session", name="quiet", history=False)
        client.evaluate("(defun f () 1)", session="quiet")
        client.tool("checkpoint-session", name="here", session="quiet")
        last = client.evaluate("(defun f () 2)", session="quiet").structured
        wait_until(lambda: saved(own_runtime, last["session"]) > last["evaluation"], "its state is written")
        own_runtime.end_daemon()
    process = own_runtime.start_daemon("--save-after", "0")
    client = own_runtime.client().open()
    assert not client.tool("rollback-session", to="here", session="quiet").is_error
    cut_power(own_runtime)
    process.wait()
    assert own_runtime.client().open().evaluate("(fboundp 'f)", session="quiet").structured["values"] == ["NIL"]


def test_a_call_is_read_in_the_package_that_it_named(own_runtime):
    client, _ = begun(own_runtime, "(defpackage :mine (:use :cl))")
    client.evaluate("(defun f () 1)", package="mine")
    begun(own_runtime, "(defun g () 2)")
    cut_power(own_runtime)
    assert back(own_runtime, "(list (mine::f) (g) (fboundp 'f))").structured["values"] == ["(1 2 NIL)"]


def test_a_clone_that_has_rested_comes_back_with_what_it_was_cloned_with(own_runtime):
    with own_runtime.daemon("--save-after", "0.1"):
        client, session = begun(own_runtime, "(defvar *x* (list 1 2)) (defun f () 3)")
        clone = client.tool("create-session", name="clone", **{"from": session}).structured["id"]
        wait_until(lambda: saved(own_runtime, clone), "its state is written")
        cut_power(own_runtime)
    answer = back(own_runtime, "(list *x* (f))", name="clone")
    assert answer.structured["values"] == ["((1 2) 3)"], answer.text


def test_a_state_that_the_store_has_not_heard_of_counts_and_what_is_defined_after_it_is_kept(own_runtime):
    """The state is in its file before the row says after which evaluation it was written."""
    _, session = begun(own_runtime, "(defun f () 3)", "(defvar *x* (list 1 2))")
    own_runtime.control("shutdown")
    states = own_runtime.directory / "state" / "cl-mcpd" / "states"
    assert back(own_runtime, "*x*").structured["values"] == ["(1 2)"]
    number = saved(own_runtime, session)
    cut_power(own_runtime)
    path = states / f"{session}.saved"
    path.write_text(path.read_text().replace(f" {number}\n", f" {number + 50}\n", 1))
    client = own_runtime.client("--session", "work").open()
    answer = client.evaluate("(defun g () (f))")
    assert f"after evaluation {number + 50} " in answer.text and answer.structured["evaluation"] > number + 50
    wait_until(lambda: client.tool("session-info").structured["evaluations"] > number + 50, "it is stored")
    cut_power(own_runtime)
    assert back(own_runtime, "(list *x* (g))").structured["values"] == ["((1 2) 3)"]


def test_code_that_kills_its_process_is_given_up(own_runtime):
    begun(own_runtime, "(setf *safe* t) (defmacro defbomb () (unless (boundp '*safe*) (ext:system \"kill -9 $PPID\")) nil)", "(defbomb)")
    cut_power(own_runtime)
    answer = back(own_runtime, "(+ 1 2)")
    assert answer.structured["values"] == ["3"] and "The process dies of it." in answer.text


def test_that_a_session_was_made_again_does_not_make_its_transcript_longer(own_runtime):
    client, session = begun(own_runtime, "(defun f () 1)")
    for _ in range(3):
        lose_process(own_runtime)
        assert client.evaluate("(f)").structured["values"] == ["1"]
    wait_until(lambda: client.tool("session-info").structured["evaluations"] >= 7, "all is stored")
    contents = [message["content"] for message in client.tool("session-history").structured["messages"]]
    assert [content for content in contents if content and "defun" in content] == ["(defun f () 1)"]


def test_a_daemon_killed_at_any_moment_of_it_loses_and_repeats_nothing(own_runtime):
    """The session is made again whole, once, whatever the daemon was doing when it died."""
    seed = int(os.environ.get("POWER_SEED", random.randrange(1 << 30)))
    draw = random.Random(seed)
    client, _ = begun(own_runtime, "(defvar *n* 0) (defun f () :f)", "(incf *n*)")
    for number in range(int(os.environ.get("POWER_KILLS", 12))):
        lose_process(own_runtime)
        asked = client.start_evaluation("(list *n* (f))")
        if draw.random() < 0.8:
            time.sleep(draw.random() * 0.04)
            with contextlib.suppress(OSError, IndexError, ValueError):
                os.kill(own_runtime.daemon_pid(), signal.SIGKILL)
        answer = client.evaluation(asked)
        if answer.is_error:  # it had been sent to the process that was dying
            answer = client.evaluate("(list *n* (f))")
        assert answer.structured["values"] == ["(0 :F)"], f"POWER_SEED={seed}, {number}: {answer}"
