"""A database that makes no sense, or that a newer version has written: what clients see, and what is kept of both."""

import os
import signal
import sqlite3

import pytest

from harness import wait_until

PAGE = 4096


def set_aside(runtime):
    """The files that a damaged database has become, by the end of their names."""
    found = {}
    for path in runtime.database.parent.glob("sessions.db.damaged-*"):
        tail = path.name.rpartition("-")[2]
        found[tail if tail in ("wal", "shm") else ""] = path
    return found


def log_into_file(runtime):
    """Leaves everything in the file itself. No daemon may run, or it must be stopped."""
    with sqlite3.connect(runtime.database) as database:
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    database.close()


def overwrite(path, start, end=None):
    with open(path, "r+b") as file:
        size = file.seek(0, os.SEEK_END)
        end = size if end is None else end
        file.seek(start)
        file.write(os.urandom(end - start))


def cut(path):
    os.truncate(path, path.stat().st_size // 2)


def garble_version(path):
    with open(path, "r+b") as file:
        file.seek(60)  # user_version
        file.write(b"\x80\0\0\0")


DAMAGES = {
    "header": lambda path: overwrite(path, 0, 100),
    "first page": lambda path: overwrite(path, 100, PAGE),
    "page in the middle": lambda path: overwrite(path, 5 * PAGE, 6 * PAGE),
    "all but the first page": lambda path: overwrite(path, PAGE),
    "cut off": cut,
    "version": garble_version,
    "text": lambda path: path.write_text("This is no database.\n" * 100),
}


@pytest.fixture
def place(runtime):
    """A runtime in which nothing has been yet."""
    runtime.start_over()
    return runtime


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_database_is_set_aside_whole_and_live_sessions_are_stored_again(place, damage):
    client = place.client("--session", "work").open()
    session = client.evaluate("(defvar *mine* 1)").structured["session"]
    card = client.tool("session-info").structured
    other = client.tool("create-session", name="quiet", history=False).structured["id"]
    client.evaluate("(defvar *other* 2)", session="quiet")
    client.tool("create-session", **{"from": "work"}, name="clone")
    client.evaluate("(defvar *third* 3)", session="clone")
    client.tool("configure-limits", timeout=77)
    client.tool("rename-session", session="work", name="renamed")
    client.evaluate("1")  # its process has heard of both
    client.finish()
    place.end_daemon()
    log_into_file(place)
    DAMAGES[damage](place.database)
    remains = place.database.read_bytes()

    client = place.client("--session", "renamed").open()
    answer = client.evaluate("*mine*")
    assert answer.structured["session"] == session and answer.text == "=> 1"
    assert client.evaluate("*other*", session="quiet").structured["session"] == other
    again = client.tool("session-info").structured
    assert {key: again[key] for key in ("name", "directory", "created_at")} == {
        "name": "renamed", "directory": card["directory"], "created_at": card["created_at"]}
    assert again["evaluations"] == 3 and not client.tool("session-info", session="quiet").structured["history"]
    assert "77" in client.tool("configure-limits").text
    assert client.tool("search-sessions", query="mine").structured["hits"]
    assert client.evaluate("*mine*", session="clone").text == "=> 1"
    assert client.tool("list-sessions").structured["total"] == 3

    assert set_aside(place)[""].read_bytes() == remains
    said = place.control("status").stdout.decode()
    assert "the database was damaged" in said and str(set_aside(place)[""]) in said
    assert "the database was damaged" in place.log_tail()


def test_damage_that_is_met_while_the_daemon_runs_costs_an_error_and_service_goes_on(place):
    client = place.client("--session", "work").open()
    session = client.evaluate("(defvar *mine* 1)").structured["session"]
    client.tool("add-message", role="user", content="x" * 100_000)
    daemon = place.daemon_pid()
    os.kill(daemon, signal.SIGSTOP)
    with sqlite3.connect(place.database) as database:  # so that the daemon reads its pages anew
        database.execute("UPDATE sessions SET model = 'm'")
    database.close()
    log_into_file(place)
    overwrite(place.database, PAGE)
    os.kill(daemon, signal.SIGCONT)
    refused = client.tool("session-history")
    assert refused.is_error and refused.text.startswith("[ERROR] STORAGE-FAILED\n") and "it is set aside now, and a new one made" in refused.text
    wait_until(lambda: not client.evaluate("(incf *mine*)").is_error, "evaluation works again")
    assert client.evaluate("*mine*").structured["session"] == session
    assert client.tool("session-info").structured["name"] == "work"
    assert client.tool("search-sessions", query="incf").structured["hits"]
    assert place.daemon_pid() == daemon and "" in set_aside(place)
    with place.client("--resume") as other:
        assert other.open().evaluate("*mine*").structured["session"] == session


def test_a_damaged_index_of_words_is_made_again_and_costs_no_message(place):
    client = place.client().open()
    for number in range(5):
        client.evaluate(f'"walrus {number}"')
    wait_until(lambda: client.tool("session-info").structured["messages"] == 10, "all is stored")
    with sqlite3.connect(place.database, timeout=30) as database:
        database.execute("UPDATE message_words_data SET block = randomblob(length(block)) WHERE id > 100")
    database.close()
    refused = client.tool("search-sessions", query="walrus")
    assert refused.is_error and refused.text.startswith("[ERROR] STORAGE-FAILED\n")
    wait_until(lambda: not client.tool("search-sessions", query="walrus").is_error, "searching works again")
    assert len(client.tool("search-sessions", query="walrus", limit=100).structured["hits"]) == 10
    assert client.tool("session-info").structured["messages"] == 10 and not set_aside(place)
    assert "the index of words was damaged" in place.log_tail()


def test_a_copy_that_took_over_still_knows_its_session_s_name(place):
    client = place.client("--session", "work").open()
    client.evaluate("(defvar *mine* 1)")
    client.tool("rename-session", session="work", name="renamed")
    client.evaluate("1")
    state = wait_until(lambda: (lambda session: session["protected"] == session["evaluations"] and session)(
        place.status()["sessions"][0]), "there is a copy")
    os.kill(state["pid"], signal.SIGKILL)
    wait_until(lambda: place.status()["sessions"][0]["pid"] not in (0, state["pid"]), "the copy has taken over")
    client.finish()
    place.end_daemon()
    for path in place.database.parent.glob("sessions.db*"):
        path.unlink()
    with place.client("--session", "renamed") as client:
        assert client.open().evaluate("*mine*").text.endswith("=> 1")
        assert client.tool("list-sessions").structured["total"] == 1


def test_a_session_that_is_being_deleted_is_not_stored_again(place):
    client = place.client().open()
    kept = client.evaluate("1").structured["session"]
    gone = client.tool("create-session", name="gone").structured["id"]
    client.evaluate("1", session="gone")
    client.tool("delete-session", session=gone)
    place.end_daemon()
    place.database.write_bytes(b"x" * 5000)
    assert [card["id"] for card in client.tool("list-sessions").structured["sessions"]] == [kept]


# A newer version


def newer(directory, mode):
    """Makes a database that a later version may have written; returns its files."""
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    database = sqlite3.connect(directory / "sessions.db")
    database.executescript(f"PRAGMA journal_mode = {mode}; CREATE TABLE future (x); PRAGMA user_version = 4711;")
    if mode == "WAL":
        database.execute("PRAGMA wal_autocheckpoint = 0")
        database.execute("INSERT INTO future VALUES (1)")
        database.commit()
    files = {path.name: path.read_bytes() for path in directory.glob("sessions.db*") if not path.name.endswith("-shm")}
    database.close()  # moves the log into the file: what is wanted is a file whose daemon was killed
    for path in directory.glob("sessions.db*"):
        path.unlink()
    for name, content in files.items():
        (directory / name).write_bytes(content)
    return files


@pytest.mark.parametrize("mode", ["DELETE", "WAL"])
def test_a_database_of_a_newer_version_is_refused_untouched_until_it_is_moved_away(place, mode):
    directory = place.database.parent
    files = newer(directory, mode)
    client = place.client().open()
    for answer in (client.evaluate("1"), client.tool("list-sessions"), client.tool("create-session", name="x"),
                   client.tool("add-message", role="user", content="x"), client.evaluate("1", session="x")):
        assert answer.is_error and answer.text.startswith("[ERROR] STORAGE-FAILED\n")
        assert "newer version (4711, " in answer.text and "upgrade cl-mcp-server, or move the file away" in answer.text
    assert "upgrade cl-mcp-server" in place.control("status").stdout.decode()
    assert client.result("ping") == {} and len(client.result("tools/list")["tools"]) > 5
    place.control("shutdown")
    if mode == "WAL":  # the next daemon cannot know who this is, and says why after a while
        told = client.error("tools/call", {"name": "list-sessions"})["message"]
        assert "newer version (4711, " in told and "upgrade cl-mcp-server" in told
    client.finish()
    assert {name: (directory / name).read_bytes() for name in files} == files
    assert not set_aside(place)
    client = place.client().open()
    assert "newer version" in client.evaluate("1").text
    for path in directory.glob("sessions.db*"):
        path.rename(directory / ("newer" + path.name))
    wait_until(lambda: client.evaluate("(+ 1 2)").text == "=> 3", "evaluation works")
    assert b"store" not in place.control("status").stdout


def test_an_upgrade_that_is_taken_back_leaves_running_sessions_as_they_are(place):
    client = place.client().open()
    client.evaluate("(defvar *mine* 1)")
    place.end_daemon()
    with sqlite3.connect(place.database) as database:
        version = database.execute("PRAGMA user_version").fetchone()[0]
        database.execute("PRAGMA user_version = 4711")
    database.close()
    with place.client() as other:
        refused = other.open().evaluate("1")
        assert refused.is_error and "newer version" in refused.text
        assert other.result("cl-mcpd/status")["sessions"][0]["state"] == "idle"
    with sqlite3.connect(place.database) as database:
        database.execute(f"PRAGMA user_version = {version}")
    database.close()
    wait_until(lambda: client.evaluate("*mine*").text == "=> 1", "it goes on")
