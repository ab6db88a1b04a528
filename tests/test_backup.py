"""cl-mcpctl backup and compact: while the database is used, whole or not at all, with words for what goes wrong."""

import os
import random
import shutil
import signal
import sqlite3
import stat
import subprocess
import time

import pytest

from harness import PATIENCE, Runtime, wait_until
from test_tool_sessions import info, listed, made


def control(runtime, *arguments):
    done = runtime.control(*arguments)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def check(path):
    """(sessions, messages) of a database that is sound."""
    with sqlite3.connect(path) as database:
        assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        database.execute("INSERT INTO message_words (message_words) VALUES ('integrity-check')")
        return tuple(database.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in ("sessions", "messages"))


def filled(runtime, messages, name="Big"):
    """A session of that many messages, 1 KB each."""
    with runtime.client().open() as client:
        session = made(client, name=name)
    with sqlite3.connect(runtime.database, timeout=PATIENCE) as database:
        database.executemany("INSERT INTO messages (session, number, role, content, created_at) VALUES (?, ?, 'user', ?, 3978000000)",
                             ((session, number, f"w{number} " * 150) for number in range(1, messages + 1)))
    return session


def test_a_backup_is_whole_private_and_can_take_the_database_s_place(own_runtime):
    client = own_runtime.client().open()
    session = made(client, name="Kept")
    client.evaluate("(+ 20 22)", session=session)
    file = own_runtime.directory / "copy.db"
    wait_until(lambda: info(client, session)["messages"] == 2, "it is stored")
    assert control(own_runtime, "backup", "copy.db") == (0, "The database is copied.\n", "")  # from where it runs
    assert stat.S_IMODE(file.stat().st_mode) == 0o600 and check(shutil.copy(file, own_runtime.directory / "checked")) == (1, 2)
    with Runtime() as other:
        other.database.parent.mkdir(parents=True, mode=0o700)
        shutil.copy(file, other.database)
        with other.client().open() as reader:
            assert "=> 42" in reader.tool("session-history", session="Kept").text
            assert reader.tool("search-sessions", query="42").structured["hits"]
    assert [path.name for path in own_runtime.directory.glob("copy.db*")] == ["copy.db"]


def test_evaluations_go_on_during_a_backup_and_it_is_sound(own_runtime):
    filled(own_runtime, 8000)
    client = own_runtime.client().open()
    client.evaluate("(defvar *n* 0)")
    path = own_runtime.directory / "copy.db"
    with subprocess.Popen([own_runtime.programs / "cl-mcpctl", "backup", path], env=own_runtime.environment) as backup:
        turns = 0
        while backup.poll() is None:
            turns += 1
            assert client.evaluate("(incf *n*)").text == f"=> {turns}"
        assert backup.returncode == 0 and turns > 0
    sessions, messages = check(path)
    assert sessions >= 1 and messages >= 8000


def test_a_backup_never_overwrites_and_what_goes_wrong_is_told(own_runtime):
    own_runtime.ready()
    existing = own_runtime.directory / "existing"
    existing.write_text("mine")
    status, _, words = control(own_runtime, "backup", str(existing))
    assert status == 1 and "existing is there already: choose another name" in words and existing.read_text() == "mine"
    link = own_runtime.directory / "link"
    link.symlink_to(own_runtime.directory / "target")
    status, _, words = control(own_runtime, "backup", str(link))
    assert status == 1 and "File exists" in words and link.is_symlink() and not (own_runtime.directory / "target").exists()
    status, _, words = control(own_runtime, "backup", "nowhere/copy.db")
    assert status == 1 and "nowhere/copy.db cannot be made: No such file or directory" in words
    assert control(own_runtime, "backup")[0] == 2 and control(own_runtime, "backup", "a", "b")[0] == 2
    assert control(own_runtime, "compact", "a")[0] == 2
    assert sorted(path.name for path in own_runtime.directory.glob("existing*")) == ["existing"]


def test_without_a_daemon_nothing_is_backed_up(own_runtime):
    assert control(own_runtime, "backup", "copy.db")[0] == control(own_runtime, "compact")[0] == 3


def test_one_at_a_time(own_runtime):
    filled(own_runtime, 4000)
    client = own_runtime.client()
    requests = [client.message("cl-mcpd/backup", {"file": str(own_runtime.directory / name)}) for name in ("one", "two")]
    client.send_all(requests)
    assert client.answer(requests[0]["id"])["result"] == {}
    assert "at work already" in client.answer(requests[1]["id"])["error"]["message"]
    wait_until(lambda: client.result("cl-mcpd/chore")["state"] == "done", "the first is over")
    said = client.result("cl-mcpd/chore")
    assert said["done"] == said["total"] == (own_runtime.directory / "one").stat().st_size
    assert not (own_runtime.directory / "two").exists()


@pytest.mark.parametrize("params", [None, {}, {"file": 1}, {"file": "relative"}, {"file": "/" + "x" * 5000}])
def test_a_file_that_makes_no_sense_is_refused(client, params):
    assert client.error("cl-mcpd/backup", params)["message"] == "file must be an absolute path"


def test_a_daemon_killed_during_a_backup_leaves_it_whole_or_absent(own_runtime):
    dice = random.Random(20261122)
    filled(own_runtime, 4000)
    for turn in range(8):
        path = own_runtime.directory / f"copy{turn}"
        backup = subprocess.Popen([own_runtime.programs / "cl-mcpctl", "backup", path], env=own_runtime.environment,
                                  stderr=subprocess.PIPE, stdout=subprocess.PIPE)
        time.sleep(dice.random() * 0.05)  # not to wait for anything: to die at any moment
        os.kill(own_runtime.daemon_pid(), signal.SIGKILL)
        words = backup.communicate(timeout=PATIENCE)[1].decode()
        assert backup.returncode == 0 or "try again" in words or "is there already" in words or "did not answer" in words \
            or "No daemon" in words or "cannot be reached" in words, words
        if path.exists():
            assert check(path) == (1, 4000)
        else:
            assert backup.returncode != 0
        own_runtime.ready()


def test_a_compact_database_is_smaller_and_holds_the_same(own_runtime):
    big = filled(own_runtime, 4000)
    small = filled(own_runtime, 500, name="Small")
    client = own_runtime.client().open()
    client.evaluate("(defvar *n* 0)")
    client.tool("delete-session", session=big)
    before = own_runtime.database.stat().st_size
    with subprocess.Popen([own_runtime.programs / "cl-mcpctl", "compact"], env=own_runtime.environment,
                          stdout=subprocess.PIPE) as compact:
        turns = 0
        while compact.poll() is None:
            turns += 1
            assert client.evaluate("(incf *n*)").text == f"=> {turns}"
        assert compact.returncode == 0 and compact.stdout.read() == b"The database is compact.\n"
    assert own_runtime.database.stat().st_size < before / 3
    hits = client.tool("search-sessions", query="w499", session=small).structured["hits"]
    assert [hit["number"] for hit in hits] == [499] and listed(client)["total"] == 2
    own_runtime.control("shutdown")
    assert check(own_runtime.database)[1] >= 500
