"""What clients hear of changes: by subscribing in the handshake revisions, by listening since then."""

import itertools
import json
import os
import signal
import sqlite3
import urllib.parse

import pytest

from harness import META, NOTHING, alive, wait_until
from mcpschema import ALL_REVISIONS, HANDSHAKE_REVISIONS, NEWEST_HANDSHAKE, STATELESS

NOBODY_S = "session-20260120-143022-A4F2"
PARTS = ("", "/transcript", "/definitions", "/last-error")
LIST_CHANGED = "notifications/resources/list_changed"
UPDATED = "notifications/resources/updated"
ACKNOWLEDGED = "notifications/subscriptions/acknowledged"


def made(client, **arguments):
    return client.tool("create-session", **arguments).structured["id"]


def uri_of(session, part=""):
    return f"lisp://session/{urllib.parse.quote(session, safe='')}{part}"


def told(client, method, uri=None, stream=NOTHING):
    """The notifications that have come, of a URI, on a stream."""
    messages = [arrival.message for arrival in list(client.arrivals) if isinstance(arrival.message, dict)]
    return [message for message in messages if message.get("method") == method
            and (uri is None or message["params"]["uri"] == uri)
            and (stream is NOTHING or message["params"].get("_meta", {}).get(META + "subscriptionId") == stream)]


def wait_told(client, method, uri=None, count=1):
    wait_until(lambda: len(told(client, method, uri)) >= count, f"{count} of {method} for {uri}")


class Listener:
    """A client that hears of changes of some URIs in either way."""

    def __init__(self, client, uris=(), wants_list=True):
        self.client = client
        if client.revision == STATELESS:
            listen(client, uris, wants_list)
        else:
            assert client.result("ping") == {}  # the daemon knows that it is initialized
            for uri in uris:
                client.result("resources/subscribe", {"uri": uri})

    def forget(self):
        with self.client._changed:
            self.client.arrivals[:] = [a for a in self.client.arrivals if a.message.get("method") not in (UPDATED, LIST_CHANGED)]


def listen(client, uris=(), wants_list=True, request_id=NOTHING, **more):
    """Opens a stream and returns its id."""
    wishes = {"resourcesListChanged": wants_list, "resourceSubscriptions": list(uris), **more}
    request = client.start("subscriptions/listen", {"notifications": wishes}, request_id)
    wait_until(lambda: told(client, ACKNOWLEDGED, stream=request), "it is acknowledged")
    return request


def rows(runtime, uri="%"):
    with sqlite3.connect(runtime.database) as database:
        return database.execute("SELECT count(*) FROM subscriptions WHERE uri LIKE ?", (uri,)).fetchone()[0]


@pytest.fixture
def actor(connect):
    """The other client, which changes things."""
    return connect().open()


@pytest.fixture
def mark(actor):
    """Something that is changed last: whoever has heard of it has heard of all that came before."""
    session = made(actor)
    yield session
    actor.tool("delete-session", session=session)


# ---- the list

@pytest.mark.parametrize("revision", ALL_REVISIONS)
def test_another_client_s_creating_renaming_and_deleting_changes_the_list(client, actor, revision):
    Listener(client.open(revision))
    session = made(actor)
    wait_told(client, LIST_CHANGED)
    assert session in str(client.result("resources/list"))
    for count, act in ((2, lambda: actor.tool("rename-session", session=session, name=f"For {revision}")),
                       (3, lambda: actor.tool("delete-session", session=session))):
        act()
        wait_told(client, LIST_CHANGED, count=count)
    assert session not in str(client.result("resources/list"))
    assert not told(client, UPDATED)


def test_a_session_that_comes_with_the_first_evaluation_or_an_import_changes_the_list(lisp, actor):
    Listener(lisp)
    actor.evaluate("1")
    wait_told(lisp, LIST_CHANGED)
    document = actor.tool("export-session").structured
    actor.tool("delete-session", session=document["id"])
    wait_told(lisp, LIST_CHANGED, count=2)
    assert not actor.tool("import-session", document=document).is_error
    wait_told(lisp, LIST_CHANGED, count=3)


def test_nothing_is_told_before_the_client_is_initialized(client, actor):
    client.revision = NEWEST_HANDSHAKE
    client.result("initialize", {"protocolVersion": NEWEST_HANDSHAKE, "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}})
    heard = Listener(actor)
    made(actor)
    wait_told(heard.client, LIST_CHANGED)
    assert client.result("ping") == {} and len(client.arrivals) == 2
    client.notify("notifications/initialized")
    Listener(client)
    made(actor)
    wait_told(client, LIST_CHANGED)


def test_an_initialized_notification_is_nothing_without_a_handshake(client, actor):
    client.open(STATELESS)
    client.notify("notifications/initialized")
    request = listen(client)
    made(actor)
    wait_told(client, LIST_CHANGED)
    assert told(client, LIST_CHANGED) == told(client, LIST_CHANGED, stream=request)


def test_what_is_evaluated_does_not_change_the_list(lisp, actor, mark):
    listener = Listener(lisp, [uri_of(mark)])
    actor.evaluate("1")
    wait_told(lisp, LIST_CHANGED)
    listener.forget()
    actor.evaluate("2")
    actor.tool("add-message", session=mark, role="user", content="last")
    wait_told(lisp, UPDATED, uri_of(mark))
    assert not told(lisp, LIST_CHANGED)


# ---- updates

EVENTS = {
    "evaluate": (lambda actor, session: actor.evaluate("(defvar *x* 1)", session=session),
                 {"", "/transcript", "/definitions"}),
    "fail": (lambda actor, session: actor.evaluate("(car 1)", session=session), set(PARTS)),
    "reset": (lambda actor, session: actor.tool("reset-session", session=session), {"", "/transcript", "/definitions"}),
    "list definitions": (lambda actor, session: actor.tool("list-definitions", session=session), {"", "/transcript"}),
    "add a message": (lambda actor, session: actor.tool("add-message", session=session, role="user", content="x"),
                      {"", "/transcript"}),
    "set metadata": (lambda actor, session: actor.tool("set-session-metadata", session=session, set={"a": 1}), {""}),
    "rename": (lambda actor, session: actor.tool("rename-session", session=session, name=f"Renamed {session}"), {""}),
    "resume": (lambda actor, session: actor.tool("resume-session", session=session), {""}),
    "delete": (lambda actor, session: actor.tool("delete-session", session=session), set(PARTS)),
}


@pytest.mark.parametrize("revision", [NEWEST_HANDSHAKE, STATELESS])
@pytest.mark.parametrize("event", EVENTS)
def test_an_update_is_told_of_what_has_changed_and_of_nothing_else(connect, actor, mark, event, revision):
    act, changed = EVENTS[event]
    session, other = made(actor), made(actor)
    actor.evaluate("1", session=session)
    wait_until(lambda: actor.tool("session-info", session=session).structured["messages"] == 2, "it is stored")
    client = connect().open(revision)
    Listener(client, [uri_of(each, part) for each in (session, other) for part in PARTS] + ["lisp://sessions", uri_of(mark)])
    assert not act(actor, session).is_error or event == "fail"
    for uri in (*(uri_of(session, part) for part in changed), "lisp://sessions"):
        wait_told(client, UPDATED, uri)
    actor.tool("add-message", session=mark, role="user", content="last")
    wait_told(client, UPDATED, uri_of(mark))
    assert {m["params"]["uri"] for m in told(client, UPDATED)} == \
        {uri_of(session, part) for part in changed} | {"lisp://sessions", uri_of(mark)}


@pytest.mark.parametrize("revision", HANDSHAKE_REVISIONS)
def test_subscribing_and_unsubscribing_work_in_every_handshake_revision(client, actor, mark, revision):
    client.open(revision)
    session = made(actor, name=f"of {revision}/1")
    by_name, by_id = uri_of(f"of {revision}/1"), uri_of(session, "/transcript")
    for uri in (by_name, by_id, by_name, uri_of(mark)):
        assert client.result("resources/subscribe", {"uri": uri}) == {}
    actor.tool("add-message", session=session, role="user", content="1")
    wait_told(client, UPDATED, by_name)
    wait_told(client, UPDATED, by_id)
    for uri in (by_name, by_name, uri_of(NOBODY_S)):
        assert client.result("resources/unsubscribe", {"uri": uri}) == {}
    actor.tool("add-message", session=session, role="user", content="2")
    actor.tool("add-message", session=mark, role="user", content="last")
    wait_told(client, UPDATED, uri_of(mark))
    assert (len(told(client, UPDATED, by_name)), len(told(client, UPDATED, by_id))) == (1, 2)


def test_a_session_that_runs_and_one_that_rests_are_told(lisp, actor):
    session = actor.evaluate("1").structured["session"]
    wait_until(lambda: actor.tool("session-info").structured["messages"] == 2, "it is stored")
    lisp.result("resources/subscribe", {"uri": uri_of(session)})
    loop = actor.start_evaluation("(loop)")
    wait_told(lisp, UPDATED)

    def state():
        return json.loads(lisp.result("resources/read", {"uri": uri_of(session)})["contents"][0]["text"])["state"]

    assert state() == "running"
    actor.cancel(loop)
    wait_told(lisp, UPDATED, count=2)
    wait_until(lambda: state() == "idle", "it rests")


def test_reading_definitions_changes_none(lisp, actor, mark):
    """Else a client that reads what it is told of would never come to rest."""
    session = lisp.evaluate("1").structured["session"]
    wait_until(lambda: lisp.tool("session-info").structured["messages"] == 2, "it is stored")
    for uri in (uri_of(session, "/definitions"), uri_of(session, "/transcript"), uri_of(mark)):
        lisp.result("resources/subscribe", {"uri": uri})
    lisp.result("resources/read", {"uri": uri_of(session, "/definitions")})
    actor.tool("add-message", session=mark, role="user", content="last")
    wait_told(lisp, UPDATED, uri_of(mark))
    assert len(told(lisp, UPDATED)) == 1


# ---- what is refused

@pytest.mark.parametrize("uri", [uri_of(NOBODY_S), uri_of("no such name", "/transcript"), "lisp://session/", "file:///etc/passwd", ""])
def test_subscribing_to_what_is_not_there_is_refused(lisp, uri):
    error = lisp.error("resources/subscribe", {"uri": uri})
    assert (error["code"], error["data"]) == (-32002, {"uri": uri})


@pytest.mark.parametrize("params", [None, {}, {"uri": 7}, {"uri": None}])
def test_subscribing_without_a_uri_is_refused(lisp, params):
    assert lisp.error("resources/subscribe", params)["code"] == -32602
    assert lisp.error("resources/unsubscribe", params)["code"] == -32602


def test_a_foreign_session_cannot_be_heard_and_answers_as_one_that_is_not_there(lisp, actor, connect, runtime, mark):
    session = made(actor)
    with sqlite3.connect(runtime.database) as database:
        database.execute("UPDATE sessions SET owner = owner + 1 WHERE id = ?", (session,))
    foreign, unknown = (lisp.error("resources/subscribe", {"uri": uri_of(each)}) for each in (session, NOBODY_S))
    assert json.dumps(foreign).replace(session, NOBODY_S) == json.dumps(unknown)
    stateless = connect().open(STATELESS)
    request = listen(stateless, [uri_of(session), uri_of(NOBODY_S), "nonsense", uri_of(mark)], wants_list=False)
    acknowledgement, = told(stateless, ACKNOWLEDGED, stream=request)
    assert acknowledgement["params"]["notifications"] == {"resourceSubscriptions": [uri_of(mark)]}


def test_no_more_than_1024_subscriptions_are_served(own_runtime):
    client, stateless = own_runtime.client().open(), own_runtime.client().open(STATELESS)
    session = made(client, name="aaaaaaaaaaa")
    spellings = ["lisp://session/" + "".join(letters) for letters in itertools.product(("a", "%61"), repeat=11)][:1025]
    requests = [client.start("resources/subscribe", {"uri": uri}) for uri in spellings]
    answers = [client.answer(request) for request in requests]
    assert all(answer["result"] == {} for answer in answers[:1024]) and answers[1024]["error"]["code"] == -32602
    assert rows(own_runtime) == 1024
    assert client.result("resources/subscribe", {"uri": spellings[0]}) == {}  # it has that one already
    request = listen(stateless, spellings)
    acknowledgement, = told(stateless, ACKNOWLEDGED, stream=request)
    assert len(acknowledgement["params"]["notifications"]["resourceSubscriptions"]) == 1024
    client.tool("delete-session", session=session)
    wait_told(client, UPDATED, spellings[7])
    assert rows(own_runtime) == 0
    made(client, name="aaaaaaaaaaa")
    assert client.result("resources/subscribe", {"uri": spellings[1024]}) == {}


# ---- listening

@pytest.mark.parametrize("request_id", [0, -1, "", "7", 7, 2**53 - 1, 2**70, "ä\"\\\u2028"], ids=repr)
def test_a_stream_is_acknowledged_first_and_all_that_it_tells_names_it(client, actor, mark, request_id):
    client.open(STATELESS)
    listen(client, [uri_of(mark)], request_id=request_id, toolsListChanged=True, promptsListChanged=True)
    made(actor)
    actor.tool("add-message", session=mark, role="user", content="x")
    wait_told(client, LIST_CHANGED)
    wait_told(client, UPDATED, uri_of(mark))
    names = [arrival.message["params"]["_meta"][META + "subscriptionId"] for arrival in client.arrivals]
    assert client.arrivals[0].message["method"] == ACKNOWLEDGED and set(map(repr, names)) == {repr(request_id)}
    assert client.arrivals[0].message["params"]["notifications"] == \
        {"resourcesListChanged": True, "resourceSubscriptions": [uri_of(mark)]}
    client.cancel(request_id)


def test_nothing_is_told_that_was_not_asked_for(client, actor, mark):
    client.open(STATELESS)
    request = client.start("subscriptions/listen", {"notifications": {}})
    other = listen(client, [uri_of(mark)], wants_list=False)
    made(actor)
    actor.tool("add-message", session=mark, role="user", content="x")
    wait_told(client, UPDATED, uri_of(mark))
    assert [m["params"]["notifications"] for m in told(client, ACKNOWLEDGED, stream=request)] == [{}]
    assert not told(client, LIST_CHANGED) and not told(client, UPDATED, stream=request)
    assert len(told(client, UPDATED, stream=other)) == 1


def test_a_stream_that_is_cancelled_is_silent_and_others_go_on(client, actor, mark):
    client.open(STATELESS)
    streams = [listen(client, [uri_of(mark)], request_id=f"s{number}") for number in range(3)]
    client.cancel(streams[1])
    assert client.result("resources/list")  # the cancellation has been read
    before = len(told(client, UPDATED, stream=streams[1]))
    actor.tool("add-message", session=mark, role="user", content="x")
    wait_until(lambda: all(told(client, UPDATED, stream=streams[n]) for n in (0, 2)), "the others hear of it")
    assert len(told(client, UPDATED, stream=streams[1])) == before
    assert listen(client, request_id="s1b")


def test_a_stream_can_be_cancelled_before_it_is_open(client):
    client.open(STATELESS)
    for number in range(50):
        client.send({**client.message("subscriptions/listen", {"notifications": {"resourcesListChanged": True}}, f"n{number}")})
        client.cancel(f"n{number}")
    assert client.result("resources/list")


@pytest.mark.parametrize("notifications", [
    NOTHING, None, [], "all", 7, {"resourcesListChanged": "yes"}, {"toolsListChanged": 1}, {"promptsListChanged": None},
    {"resourceSubscriptions": "lisp://sessions"}, {"resourceSubscriptions": [7]}, {"resourceSubscriptions": None}], ids=repr)
def test_a_filter_of_the_wrong_shape_is_refused(client, notifications):
    params = {} if notifications is NOTHING else {"notifications": notifications}
    assert client.open(STATELESS).error("subscriptions/listen", params)["code"] == -32602


@pytest.mark.parametrize("revision", HANDSHAKE_REVISIONS)
def test_handshake_revisions_do_not_listen(client, revision):
    assert client.open(revision).error("subscriptions/listen", {"notifications": {}})["code"] == -32601


def test_listening_in_a_batch_is_refused(client):
    client.open("2025-03-26")
    stateless = {"jsonrpc": "2.0", "id": "b1", "method": "subscriptions/listen", "params": {
        "notifications": {}, "_meta": {META + "protocolVersion": STATELESS, META + "clientCapabilities": {}}}}
    client.send_line(json.dumps([stateless, client.message("ping", request_id="b2")]))
    answers = {each["id"]: each for each in client.wait_for(lambda message: isinstance(message, list), "the batch")}
    assert answers["b1"]["error"]["code"] == -32600 and answers["b2"]["result"] == {}


def test_at_the_end_of_input_streams_are_answered_and_the_shim_leaves(runtime):
    client = runtime.client().open(STATELESS)
    requests = [listen(client, ["lisp://sessions"]) for _ in range(3)]
    client.end_of_input()
    assert client.wait() == 0
    for request in requests:
        result = client.answer(request)["result"]
        assert result["_meta"][META + "subscriptionId"] == request and result["resultType"] == "complete"
    client.finish()


def test_a_shutdown_answers_streams_and_no_daemon_comes_back_for_them(own_runtime):
    client = own_runtime.client().open(STATELESS)
    request = listen(client)
    assert own_runtime.control("shutdown").returncode == 0
    assert client.answer(request)["result"]["resultType"] == "complete"
    wait_until(lambda: list(own_runtime.processes()) == [client.process.pid], "all others end")


# ---- daemons that die, clients that vanish

@pytest.mark.parametrize("revision, number", [
    (NEWEST_HANDSHAKE, signal.SIGKILL), (STATELESS, signal.SIGKILL), (STATELESS, signal.SIGTERM)])
def test_subscriptions_outlive_the_daemon(own_runtime, revision, number):
    actor, client = own_runtime.client().open(), own_runtime.client().open(revision)
    session, other, gone = made(actor, name="a name"), made(actor), made(actor)
    listener = Listener(client, [uri_of("a name"), uri_of(session, "/transcript"), uri_of(other), uri_of(gone), "lisp://sessions"])
    if revision != STATELESS:
        client.result("resources/unsubscribe", {"uri": uri_of(other)})
    pid = own_runtime.daemon_pid()
    os.kill(pid, number)
    wait_until(lambda: not alive(pid), "it ends")
    assert actor.result("ping") == {}  # without a request that waits, no shim starts a daemon
    # Something may have happened meanwhile.
    wait_told(client, LIST_CHANGED)
    for uri in (uri_of("a name"), uri_of(session, "/transcript"), uri_of(gone), "lisp://sessions"):
        wait_told(client, UPDATED, uri)
    listener.forget()
    actor.tool("add-message", session=session, role="user", content="x")
    for uri in (uri_of("a name"), uri_of(session, "/transcript"), "lisp://sessions"):
        wait_told(client, UPDATED, uri)
    actor.tool("delete-session", session=gone)
    wait_told(client, UPDATED, uri_of(gone))
    wait_told(client, LIST_CHANGED)
    if revision != STATELESS:
        assert not told(client, UPDATED, uri_of(other))


def test_what_happens_while_the_daemon_dies_is_told_by_the_next(own_runtime):
    actor, client = own_runtime.client().open(), own_runtime.client().open()
    session = actor.evaluate("1").structured["session"]
    wait_until(lambda: actor.tool("session-info").structured["messages"] == 2, "it is stored")
    listener = Listener(client, [uri_of(session, "/transcript")])
    for turn in range(3):
        listener.forget()
        request = actor.start_evaluation(f"(list {turn})")
        os.kill(own_runtime.daemon_pid(), signal.SIGKILL)
        assert actor.evaluation(request).text == f"=> ({turn})"
        wait_until(lambda t=turn: actor.tool("session-info").structured["messages"] == 2 * t + 4, "it is stored")
        wait_told(client, UPDATED)


def test_subscriptions_outlive_a_damaged_database(own_runtime):
    actor, client = own_runtime.client().open(), own_runtime.client().open()
    session = actor.evaluate("1").structured["session"]
    listener = Listener(client, [uri_of(session, "/transcript"), "lisp://sessions"])
    daemon = own_runtime.daemon_pid()
    os.kill(daemon, signal.SIGSTOP)
    with sqlite3.connect(own_runtime.database) as database:
        database.execute("UPDATE sessions SET model = 'm'")  # so that the daemon reads its pages anew
        database.commit()
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    database.close()
    with open(own_runtime.database, "r+b") as file:
        file.seek(4096)
        file.write(os.urandom(own_runtime.database.stat().st_size - 4096))
    os.kill(daemon, signal.SIGCONT)
    wait_until(lambda: not actor.tool("add-message", role="user", content="x").is_error, "a new one is made")
    wait_until(lambda: rows(own_runtime) == 2, "they are stored again")
    os.kill(daemon, signal.SIGKILL)
    assert actor.evaluate("2").text == "=> 2"
    wait_told(client, LIST_CHANGED)
    listener.forget()
    actor.tool("add-message", role="user", content="y")
    for uri in (uri_of(session, "/transcript"), "lisp://sessions"):
        wait_told(client, UPDATED, uri)


def test_a_client_that_leaves_takes_its_subscriptions_along(lisp, runtime, mark):
    lisp.result("resources/subscribe", {"uri": uri_of(mark)})
    assert rows(runtime, uri_of(mark)) == 1
    lisp.finish()
    wait_until(lambda: rows(runtime, uri_of(mark)) == 0, "they are forgotten")


def test_a_client_that_does_not_read_is_told_once_of_what_has_changed_often(own_runtime):
    actor, deaf = own_runtime.client().open(), own_runtime.client(reading=False)
    session = made(actor)
    with sqlite3.connect(own_runtime.database) as database:
        database.executemany(
            "INSERT INTO messages (session, number, role, content, created_at) VALUES (?, ?, 'user', ?, 3978000000)",
            [(session, number, "x" * 8000) for number in range(1, 501)])
    deaf.revision = NEWEST_HANDSHAKE
    deaf.start("initialize", {"protocolVersion": NEWEST_HANDSHAKE, "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}})
    deaf.notify("notifications/initialized")
    quiet = made(actor)
    deaf.start("resources/subscribe", {"uri": uri_of(quiet)})
    wait_until(lambda: rows(own_runtime) == 1, "it is subscribed")
    # Far more than pipes and buffers hold.
    requests = [deaf.start("resources/read", {"uri": uri_of(session, "/transcript")}) for _ in range(4)]
    witness = own_runtime.client().open()
    Listener(witness, [uri_of(quiet)])
    for turn in range(10):
        actor.tool("add-message", session=quiet, role="user", content=str(turn))
        wait_told(witness, UPDATED, count=turn + 1)  # it has been told to those who listen
    deaf.start_reading()
    for request in requests:
        assert len(deaf.answer(request)["result"]["contents"][0]["text"]) > 3_000_000
    wait_told(deaf, UPDATED, uri_of(quiet))
    made(actor)
    wait_told(deaf, LIST_CHANGED)
    assert len(told(deaf, UPDATED)) < 5
