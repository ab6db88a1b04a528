"""Which session a client gets: by option, by the environment, the one it used last, or a new one."""

import os
import random
import signal
import time

import pytest

from harness import wait_until
from link_driver import Daemon, Shim, runtime_directory
from mcpschema import ALL_REVISIONS, NEWEST_HANDSHAKE, STATELESS
from test_repl_session import at_terminal, repl
from test_tool_sessions import present

KILLS = int(os.environ.get("RESUME_KILLS", "20"))
SEED = int(os.environ.get("RESUME_SEED", str(random.randrange(1 << 32))))


def speak(client, name, revision=NEWEST_HANDSHAKE):
    """Begins as a client of that name."""
    if revision == STATELESS:
        plain = client._meta
        client.revision = revision
        client._meta = lambda params, token: {**(made := plain(params, token)), "_meta": {
            **made["_meta"], "io.modelcontextprotocol/clientInfo": {"name": name, "version": "1"}}}
        return client
    client.revision = revision
    client.result("initialize", {"protocolVersion": revision, "capabilities": {},
                                 "clientInfo": {"name": name, "version": "1"}})
    client.notify("notifications/initialized")
    return client


def session_of(client):
    return client.tool("session-info").structured["id"]


def left(runtime, code="(defvar *left* 7)", name="tests", **options):
    """The session that a client has used and left."""
    with runtime.client(**options) as client:
        speak(client, name).evaluate(code)
        return session_of(client)


def resumed(runtime, name="tests", arguments=("--resume",), **options):
    """The session that a client gets that asks for the last one."""
    with runtime.client(*arguments, **options) as client:
        speak(client, name).evaluate("1")
        return session_of(client)


def elsewhere(runtime):
    directory = runtime.directory / "elsewhere"
    directory.mkdir(exist_ok=True)
    return directory


def session_of_listed(client):
    """The only one."""
    (card,) = client.tool("list-sessions").structured["sessions"] if client.revision >= "2025-06-18" else \
        [{"id": client.tool("list-sessions").text.split("\n")[1].split(":")[0].split(" ")[0]}]
    return card["id"]


# ---- --resume

@pytest.mark.parametrize("revision", ALL_REVISIONS)
def test_a_client_goes_on_where_it_was(own_runtime, revision):
    with own_runtime.client() as client:
        speak(client, "mine", revision).evaluate("(defun f (x) (* x x)) (defpackage :p (:use :cl)) (in-package :p)")
        session = session_of_listed(client)
    with own_runtime.client("--resume") as client:
        answer = speak(client, "mine", revision).evaluate("(cl-user::f 12)")
        assert answer.text == "=> 144"
        assert session_of_listed(client) == session


def test_a_client_of_another_directory_or_name_gets_a_new_one(own_runtime):
    session = left(own_runtime)
    assert resumed(own_runtime, directory=elsewhere(own_runtime)) != session
    assert resumed(own_runtime, name="somebody else") != session
    assert resumed(own_runtime) == session


def test_without_the_wish_a_client_gets_a_new_one(own_runtime):
    session = left(own_runtime)
    assert resumed(own_runtime, arguments=()) != session


def test_a_client_that_tells_no_name_goes_on_with_its_own(own_runtime):
    named = left(own_runtime)
    seen = []
    for _ in range(2):
        with own_runtime.client("--resume") as client:
            client.revision = NEWEST_HANDSHAKE
            client.result("initialize", {"protocolVersion": NEWEST_HANDSHAKE, "capabilities": {}})
            client.evaluate("1")
            seen.append(session_of(client))
    assert seen[0] == seen[1] != named


def test_the_last_one_is_the_one_in_which_something_was_done_last(own_runtime):
    """Within one second, in which no clock that the store keeps can tell them apart."""
    clients = [own_runtime.client().open() for _ in range(4)]
    sessions = []
    for client in clients:
        client.evaluate("1")
        sessions.append(session_of(client))
    for position in (2, 0, 3, 1, 0, 0, 2):
        clients[position].evaluate("2")
        assert resumed(own_runtime) == sessions[position]


def test_what_another_client_does_in_a_session_does_not_count(own_runtime):
    first, second = left(own_runtime), left(own_runtime)
    with own_runtime.client("--session", first) as other:
        speak(other, "somebody else").evaluate("1")
    assert resumed(own_runtime) == second


def test_a_session_that_a_call_names_counts_as_used(own_runtime):
    named = left(own_runtime, name="somebody else")
    with own_runtime.client() as client:
        client.open().evaluate("1")
        client.evaluate("2", session=named)
    assert resumed(own_runtime) == named


def test_a_session_with_a_name_that_nobody_had_counts_as_used(own_runtime):
    with own_runtime.client("--session", "fresh") as client:
        session = client.open().evaluate("1").structured["session"]
    assert resumed(own_runtime) == session


def test_a_session_that_was_resumed_by_the_tool_counts_as_used(own_runtime):
    first = left(own_runtime)
    left(own_runtime)
    with own_runtime.client() as client:
        assert not client.open().tool("resume-session", session=first).is_error
    assert resumed(own_runtime) == first


def test_looking_at_a_session_does_not_count_as_using_it(own_runtime):
    first, second = left(own_runtime), left(own_runtime)
    with own_runtime.client() as client:
        client.open().tool("session-info", session=first)
        client.tool("list-sessions")
    assert resumed(own_runtime) == second


def test_with_nothing_to_resume_there_is_a_new_one_and_none_before_it_is_needed(own_runtime):
    with own_runtime.client("--resume") as client:
        client.open()
        client.result("tools/list")
        answer = client.tool("session-info")
        assert answer.is_error and answer.text.startswith("[ERROR] SESSION-NOT-FOUND\n")
        assert "Nothing has been evaluated yet" in client.tool("read-output").text
        assert client.tool("list-sessions").structured["total"] == 0
        assert client.evaluate("(defvar *x* 1)").text == "=> *X*"
        assert client.evaluate("*x*").text == "=> 1"
        assert client.tool("list-sessions").structured["total"] == 1


def test_a_client_that_asks_and_probes_only_leaves_no_trace(own_runtime):
    session = left(own_runtime)
    own_runtime.control("shutdown")
    with own_runtime.client("--resume") as client:
        client.open()
        client.result("tools/list")
        assert own_runtime.status()["sessions"] == []
    assert resumed(own_runtime) == session


@pytest.mark.parametrize("tool, arguments", [("session-info", {}), ("list-definitions", {}), ("configure-limits", {}),
                                             ("configure-limits", {"timeout": 5}), ("rename-session", {"name": "n"}),
                                             ("read-output", {}), ("reset-session", {})])
def test_any_first_call_is_for_the_resumed_one(own_runtime, tool, arguments):
    session = left(own_runtime, '(defvar *left* 7) (dotimes (i 40000) (format t "long~%"))')
    with own_runtime.client("--resume") as client:
        answer = client.open().tool(tool, **arguments)
        assert answer.structured is None or answer.structured.get("id", session) == session
        assert not answer.is_error, answer.text
        assert session_of(client) == session
        assert client.tool("list-sessions").structured["total"] == 1


def test_a_call_that_names_a_session_does_not_ask_for_the_last_one(own_runtime):
    first, second = left(own_runtime, "(defvar *which* 1)"), left(own_runtime, "(defvar *which* 2)")
    with own_runtime.client("--resume") as client:
        assert client.open().evaluate("*which*", session=first).text == "=> 1"
        assert client.evaluate("*which*").text == "=> 1"  # it is the last one now
    with own_runtime.client("--resume") as client:
        client.open().tool("resume-session", session=second)
        assert client.evaluate("*which*").text == "=> 2"


def test_a_session_comes_back_after_a_shutdown(own_runtime):
    session = left(own_runtime)
    own_runtime.control("shutdown")
    with own_runtime.client("--resume") as client:
        answer = client.open().evaluate("(boundp '*left*)")
        assert answer.structured["session"] == session and answer.structured["values"] == ["T"]
        assert "SESSION-RESTORED" in answer.text


def test_calls_that_are_sent_at_once_run_in_order_in_the_resumed_one(own_runtime):
    session = left(own_runtime, "(defvar *seen* nil)")
    for before in (0, 10):
        if before:
            own_runtime.control("shutdown")
        with own_runtime.client("--resume") as client:
            client.open()
            code = "(progn (push {} *seen*) (length *seen*))"
            requests = [client.start_evaluation(code.format(number)) for number in range(10)]
            answers = [client.evaluation(request) for request in requests]
            assert [answer.structured["values"] for answer in answers] == [[str(before + n + 1)] for n in range(10)]
            assert {answer.structured["session"] for answer in answers} == {session}
            assert client.evaluate("(reverse (subseq *seen* 0 10))").text == "=> (0 1 2 3 4 5 6 7 8 9)"


def test_a_batch_at_the_start_is_served_in_the_resumed_one(own_runtime):
    left(own_runtime, "(defvar *n* 0)")
    with own_runtime.client("--resume") as client:
        speak(client, "tests", "2025-03-26")
        batch = [client.message("tools/call", {"name": "evaluate-lisp", "arguments": {"code": "(incf *n*)"}}, n)
                 for n in range(5)]
        client.send(batch)
        answers = client.wait_for(lambda message: isinstance(message, list), "the batch is answered")
        assert [answer["result"]["content"][0]["text"] for answer in sorted(answers, key=lambda one: one["id"])] == \
            [f"=> {n + 1}" for n in range(5)]


def test_a_call_that_is_cancelled_while_the_last_session_is_looked_up_is_not_answered(own_runtime):
    session = left(own_runtime)
    for _ in range(20):
        with own_runtime.client("--resume") as client:
            client.open()
            requests = [client.start_evaluation("(sleep 1000)") for _ in range(4)]
            for request in requests:
                client.cancel(request)
            assert client.evaluate("1").structured["session"] == session


# ---- what may happen meanwhile

def test_a_deleted_session_is_not_resumed_and_the_one_before_is(own_runtime):
    first, second = left(own_runtime), left(own_runtime)
    with own_runtime.client() as client:
        client.open().tool("delete-session", session=second)
    assert resumed(own_runtime) == first


def test_who_deletes_the_resumed_session_gets_a_new_one_also_after_a_kill(own_runtime):
    left(own_runtime)
    second = left(own_runtime)
    with own_runtime.client("--resume") as client:
        client.open().evaluate("1")
        assert session_of(client) == second
        client.tool("delete-session", session=second)
        os.kill(own_runtime.daemon_pid(), signal.SIGKILL)
        assert client.evaluate("(boundp '*left*)").text == "=> NIL"
        assert client.tool("list-sessions").structured["total"] == 2


def test_a_session_that_is_deleted_while_it_is_looked_up_is_followed_by_a_new_one(own_runtime):
    print(f"RESUME_SEED={SEED}")
    chance = random.Random(SEED + 2)
    other = own_runtime.client().open()
    daemon = own_runtime.daemon_pid()
    for _ in range(10 * KILLS):
        session = other.tool("create-session").structured["id"]
        with own_runtime.client() as client:
            client.open().tool("resume-session", session=session)
        with own_runtime.client("--resume") as client:
            client.open()
            request = client.start_evaluation("1")
            time.sleep(chance.uniform(0, 0.003))  # this is the moment, not a wait
            deletion = other.start("tools/call", {"name": "delete-session", "arguments": {"session": session}})
            assert not other.evaluation(deletion).is_error
            answer = client.evaluation(request)
            # It may have been there, and have waited in it or have been served before the end.
            assert answer.text == "=> 1" or answer.text.startswith("[ERROR] SESSION-DELETED\n"), answer.text
            mine = client.evaluate("2").structured["session"]
            assert mine != session
            other.tool("delete-session", session=mine)
    assert own_runtime.daemon_pid() == daemon


def test_a_session_whose_process_is_just_ending_to_be_deleted_is_not_resumed(own_runtime):
    session = left(own_runtime)
    other = own_runtime.client().open()
    zygote = own_runtime.ready()["zygote"]["pid"]
    os.kill(zygote, signal.SIGSTOP)  # it is the one that ends processes
    try:
        deletion = other.start("tools/call", {"name": "delete-session", "arguments": {"session": session}})
        wait_until(lambda: other.tool("session-info", session=session).structured["state"] == "ending", "it ends")
        client = own_runtime.client("--resume").open()
        request = client.start_evaluation("(boundp '*left*)")
        wait_until(lambda: len(own_runtime.status()["sessions"]) == 2, "there is a new one")
    finally:
        os.kill(zygote, signal.SIGCONT)
    assert not other.evaluation(deletion).is_error
    answer = client.evaluation(request)
    assert answer.text == "=> NIL" and answer.structured["session"] != session


def test_a_daemon_that_is_killed_at_any_moment_of_the_first_call_costs_a_pause(own_runtime):
    print(f"RESUME_SEED={SEED}")
    chance = random.Random(SEED)
    session = left(own_runtime, "(defvar *n* 0)")
    expected = 0
    for _ in range(KILLS):
        with own_runtime.client("--resume") as client:
            client.open()
            requests = [client.start_evaluation("(incf *n*)") for _ in range(3)]
            time.sleep(chance.uniform(0, 0.01))  # this is the moment, not a wait
            os.kill(own_runtime.daemon_pid(), signal.SIGKILL)
            requests.append(client.start_evaluation("(incf *n*)"))
            answers = [client.evaluation(request) for request in requests]
            assert [answer.structured["session"] for answer in answers] == [session] * 4
            assert [answer.text for answer in answers] == [f"=> {expected + n}" for n in range(1, 5)]
            expected += 4
            assert session_of(client) == session
            assert client.tool("list-sessions").structured["total"] == 1


def test_a_daemon_that_is_killed_at_any_moment_makes_one_new_session_at_most_and_goes_on_with_it(own_runtime):
    chance = random.Random(SEED + 1)
    print(f"RESUME_SEED={SEED}")
    for turn in range(KILLS):
        with own_runtime.client("--resume") as client:
            speak(client, f"client {turn}")
            requests = [client.start_evaluation("(progn (defvar *n* 0) (incf *n*))") for _ in range(3)]
            time.sleep(chance.uniform(0, 0.01))  # this is the moment, not a wait
            os.kill(own_runtime.daemon_pid(), signal.SIGKILL)
            answers = [client.evaluation(request) for request in requests]
            assert [answer.text for answer in answers] == ["=> 1", "=> 2", "=> 3"]
            (session,) = {answer.structured["session"] for answer in answers}
        assert resumed(own_runtime, name=f"client {turn}") == session


def test_what_was_resumed_stays_whatever_others_use_before_and_after_a_kill(own_runtime):
    session = left(own_runtime, "(defvar *mine* 1)")
    with own_runtime.client("--resume") as client:
        assert client.open().tool("session-info").structured["id"] == session
        later = left(own_runtime)
        os.kill(own_runtime.daemon_pid(), signal.SIGKILL)
        assert client.evaluate("*mine*").structured["session"] == session
    assert resumed(own_runtime) == session != later


def test_a_use_right_before_a_kill_is_not_forgotten(own_runtime):
    for turn in range(KILLS):
        with own_runtime.client() as client:
            session = speak(client, f"client {turn}").evaluate("1").structured["session"]
            os.kill(own_runtime.daemon_pid(), signal.SIGKILL)
        assert resumed(own_runtime, name=f"client {turn}") == session


def test_a_store_that_cannot_be_read_is_told_and_the_wish_stays(own_runtime):
    session = left(own_runtime)
    own_runtime.control("shutdown")
    own_runtime.database.parent.chmod(0o755)  # refused, because others could read it
    with own_runtime.client("--resume") as client:
        client.open()
        for tool in ("session-info", "list-definitions", "read-output", "session-info"):
            answer = client.tool(tool)
            assert answer.is_error and answer.text.startswith("[ERROR] STORAGE-FAILED\n"), answer.text
        own_runtime.database.parent.chmod(0o700)
        wait_until(lambda: not client.tool("session-info").is_error, "the store can be read again")
        assert session_of(client) == session


# ---- who is there

def test_after_a_kill_session_info_still_names_those_who_are_there(own_runtime):
    one, other = (speak(own_runtime.client("--session", "Shared"), name) for name in ("editor", "chat"))
    one.evaluate("1")
    other.evaluate("2")
    assert sorted(present(one)) == ["chat", "editor"]
    os.kill(own_runtime.daemon_pid(), signal.SIGKILL)
    wait_until(lambda: sorted(present(one)) == ["chat", "editor"], "both are back")


def test_calls_of_two_clients_run_in_the_order_in_which_they_came(own_runtime):
    one, other = (own_runtime.client("--session", "Shared").open() for _ in range(2))
    gate = own_runtime.directory / "gate"
    one.evaluate("(defvar *order* nil)")
    running = other.start_evaluation(f'(loop until (probe-file "{gate}") do (sleep 0.01))')
    wait_until(lambda: one.tool("session-info").structured["state"] == "running", "it runs")
    requests = []
    for number, client in enumerate([one, one, other, one, other, other, one, other]):
        requests.append((client, client.start_evaluation(f"(push {number} *order*)")))
        wait_until(lambda: one.tool("session-info").structured["waiting"] == number + 1, "it waits")
    gate.touch()
    other.evaluation(running)
    for client, request in requests:
        client.evaluation(request)
    assert one.evaluate("(reverse *order*)").text == other.evaluate("(reverse *order*)").text == "=> (0 1 2 3 4 5 6 7)"


def test_two_clients_that_resume_at_once_share_the_session(own_runtime):
    session = left(own_runtime, "(defvar *n* 0)")
    clients = [own_runtime.client("--resume").open() for _ in range(2)]
    requests = [(client, client.start_evaluation("(incf *n*)")) for _ in range(10) for client in clients]
    answers = [client.evaluation(request) for client, request in requests]
    assert sorted(int(answer.text[3:]) for answer in answers) == list(range(1, 21))
    assert {answer.structured["session"] for answer in answers} == {session}
    assert present(clients[0]) == ["tests", "tests"]


# ---- the options and the environment

@pytest.mark.parametrize("arguments, environment, session, resume", [
    ([], {}, None, None),
    (["--session", "a"], {}, b"a", None),
    (["--resume"], {}, None, 1),
    ([], {"CL_MCP_SESSION": "a"}, b"a", None),
    ([], {"CL_MCP_RESUME": "1"}, None, 1),
    ([], {"CL_MCP_RESUME": "0"}, None, None),
    ([], {"CL_MCP_RESUME": ""}, None, None),
    ([], {"CL_MCP_SESSION": "", "CL_MCP_RESUME": "1"}, None, 1),
    ([], {"CL_MCP_SESSION": "a", "CL_MCP_RESUME": "1"}, b"a", None),
    (["--resume"], {"CL_MCP_SESSION": "a"}, None, 1),
    (["--session", "a"], {"CL_MCP_RESUME": "1", "CL_MCP_SESSION": "b"}, b"a", None),
    (["--session", ""], {"CL_MCP_RESUME": "1", "CL_MCP_SESSION": "b"}, None, None),
])
def test_options_come_before_the_environment_and_a_certain_session_before_the_last(arguments, environment, session, resume):
    with runtime_directory() as directory, Daemon(directory) as daemon, \
            Shim(directory, *arguments, **environment):
        hello = daemon.welcome().hello
        assert (hello.fields.get("session"), hello.fields.get("resume")) == (session, resume)


@pytest.mark.parametrize("program", ["cl-mcp-shim", "cl-mcpctl"])
def test_both_options_at_once_are_refused(own_runtime, program):
    command = ["repl"] if program == "cl-mcpctl" else []
    result = own_runtime.run(program, *command, "--resume", "--session", "a")
    assert result.returncode == 2 and b"--session, --resume" in result.stderr


def test_the_environment_resumes_for_a_client_that_cannot_pass_arguments(own_runtime):
    session = left(own_runtime)
    environment = {**own_runtime.environment, "CL_MCP_RESUME": "1"}
    assert resumed(own_runtime, arguments=(), environment=environment) == session


# ---- the prompt

def test_a_prompt_goes_on_with_the_last_one_of_its_own(own_runtime):
    left(own_runtime, "(defvar *x* 1)")
    assert "UNBOUND-VARIABLE" in repl(own_runtime, "*x*\n", "--resume").stdout
    assert repl(own_runtime, "(defvar *x* 2)\n").returncode == 0
    assert repl(own_runtime, "*x*\n", "--resume").stdout == "=> 2\n"


def test_a_prompt_at_a_terminal_tells_which_session_it_goes_on_with(own_runtime):
    with at_terminal(own_runtime, "--resume") as terminal:
        terminal.expect("a new session")
        terminal.expect("CL-USER> ")
        terminal.type("(defpackage :mine (:use :cl)) (in-package :mine)\n")
        terminal.expect("MINE> ")
        terminal.type("\x04")
        assert terminal.status() == 0
    with at_terminal(own_runtime, "--resume") as terminal:
        terminal.expect(", session session-")
        terminal.expect("MINE> ")
        terminal.type("\x04")
        assert terminal.status() == 0
