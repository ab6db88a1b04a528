"""
A disk that fails one call: what was answered is there afterwards, and the rest of the service never notices.

The calls are counted by tests/faults.c, which stands between SQLite and the kernel. FAULTS is how many of them are tried, each
in a scenario of its own; FAULTS_SEED chooses which. What the disk refuses may be answered with STORAGE-FAILED: then nothing has
changed, and the same call can be made again.
"""

import contextlib
import errno
import itertools
import json
import os
import random
import shutil
import signal

import pytest

from harness import FAULTS, Disk, alive, check_database, wait_until

POINTS = int(os.environ.get("FAULTS", "12"))
SEED = int(os.environ.get("FAULTS_SEED", "1"))
ERRORS = (errno.EIO, errno.ENOSPC)


class Story:
    """What a client does and is answered, and what must be found in the database because of that."""

    def __init__(self, runtime, name):
        self.runtime, self.name = runtime, name
        self.client = runtime.client().open()
        self.contents = []  # of the session's messages
        self.refused = 0

    def call(self, tool, **arguments):
        """Repeats what the disk refuses, as the answer says."""
        def attempt():
            answer = self.client.tool(tool, **arguments)
            if not (answer.is_error and answer.text.startswith("[ERROR] STORAGE-FAILED\n")):
                return answer
            assert "sessions.db" in answer.text or "mended" in answer.text or "Try again" in answer.text, answer.text
            self.refused += 1
            return None
        return wait_until(attempt, f"{tool} is served")

    def evaluate(self, code):
        answer = self.call("evaluate-lisp", session=self.id, code=code)
        self.contents += [code, answer.text]
        return answer

    def done(self, tool, **arguments):
        answer = self.call(tool, **arguments)
        assert not answer.is_error, answer.text
        return answer

    def survive_a_kill(self):
        """The daemon dies while an evaluation runs; its successor finds out what there is, from the same disk."""
        code = '(setf *name* (concatenate (quote string) *name* "!"))'
        request = self.client.start_evaluation(code, session=self.id)
        daemon = self.runtime.daemon_pid()
        os.kill(daemon, signal.SIGKILL)
        answer = self.client.evaluation(request)
        wait_until(lambda: not alive(daemon), "the daemon is dead")
        if answer.is_error:
            assert answer.text.startswith("[ERROR] STORAGE-FAILED\nNothing is evaluated "), answer.text
            self.refused += 1
        else:
            self.contents += [code, answer.text]
        marks = 0 if answer.is_error else 1
        assert self.evaluate("*name*").text == f'=> "{self.name}{marks * "!"}"'

    def play(self):
        name = self.name
        self.id = self.done("create-session", name=name, model="m").structured["id"]
        assert self.evaluate(f'(defvar *name* "{name}")').text == "=> *NAME*"
        self.done("add-message", session=name, role="user", content=f"added {name}")
        self.contents.append(f"added {name}")
        self.done("rename-session", session=name, name=f"{name} renamed")
        assert self.evaluate("*name*").text == f'=> "{name}"'
        assert self.evaluate("(car 1)").is_error
        self.done("set-session-metadata", session=self.id, set={"key": name}, input_tokens=3)
        self.done("configure-limits", session=self.id, timeout=77, max_output=1000)
        self.survive_a_kill()
        assert not self.evaluate("(dotimes (i 10000) (princ i))").is_error
        hits = self.done("search-sessions", query="added", session=self.id).structured["hits"]
        assert [hit["session"] for hit in hits] == [self.id]
        assert self.done("list-sessions").structured["sessions"][0]["id"] == self.id
        file = str(self.runtime.directory / f"{name}.json")
        self.done("export-session", session=self.id, file=file)
        self.copy = self.done("import-session", file=file, new_id=True, name=f"{name} copy").structured["id"]
        self.exported = json.loads(open(file, encoding="utf-8").read())["conversation"]["messages"]
        gone = self.done("create-session", name=f"{name} gone").structured["id"]
        self.done("evaluate-lisp", session=gone, code="(+ 1 2)")
        self.done("delete-session", session=gone)
        self.gone = gone
        assert self.done("read-output", session=self.id).text.startswith("[stdout of evaluation ")

    def is_settled(self):
        return self.client.tool("session-info", session=self.id).structured["messages"] == len(self.contents)

    def verify(self):
        """On the file, with no daemon at work."""
        with contextlib.closing(check_database(self.runtime.database)) as database:
            row = database.execute("SELECT name, model, metadata, limits FROM sessions WHERE id = ?", [self.id]).fetchone()
            assert row[:2] == (f"{self.name} renamed", "m") and json.loads(row[2]) == {"key": self.name, "total_input_tokens": 3}
            assert row[3] == "timeout=77 max-output=1000"
            of_session = "SELECT content FROM messages WHERE session = ? ORDER BY number"
            assert [content for content, in database.execute(of_session, [self.id])] == self.contents
            assert [content for content, in database.execute(of_session, [self.copy])] == [
                message["content"] for message in self.exported]
            for table, column in (("sessions", "id"), ("messages", "session"), ("outputs", "session")):
                assert database.execute(f"SELECT count(*) FROM {table} WHERE {column} = ?", [self.gone]).fetchone() == (0,)
            assert database.execute("SELECT length(text) FROM outputs WHERE session = ?", [self.id]).fetchone() == (38890,)


def play_with(runtime, disk, turn, point, error):
    """Two lives of a daemon, from the making of the database to its closing, in which that call fails."""
    disk.fail(point, point, error)
    story = Story(runtime, f"story {turn}")
    story.play()
    daemon = runtime.daemon_pid()
    wait_until(story.is_settled, "all is stored")
    story.client.finish()
    assert runtime.daemon_pid() == daemon
    runtime.end_daemon(signal.SIGTERM if turn % 2 else signal.SIGKILL)
    assert not list(runtime.database.parent.glob("*damaged*")) and "Sanitizer" not in runtime.log_tail()
    story.verify()
    return story


def points(total):
    """(number of the call, errno) to try."""
    every = list(itertools.product(range(1, total + 1), ERRORS))
    return every if POINTS >= len(every) else random.Random(SEED).sample(every, POINTS)


def test_what_was_answered_survives_a_call_to_the_disk_that_fails_at_any_moment(own_runtime):
    if not FAULTS.is_file():
        pytest.skip(f"{FAULTS} is not there: make unit-tests builds it")
    disk = Disk(own_runtime.directory)
    own_runtime.use_faults(FAULTS=disk.path)
    zygote = own_runtime.ready()["zygote"]["pid"]

    def play(turn, point, error):
        own_runtime.end_all_but(zygote)
        shutil.rmtree(own_runtime.database.parent)
        return play_with(own_runtime, disk, turn, point, error).refused

    assert play(1, 0, 0) == 0
    total, refused, reached = disk.count, 0, 0
    for turn, (point, error) in enumerate(points(total), 2):
        try:
            refused += play(turn, point, error)
            reached += disk.failed != ""
        except BaseException:
            print(f"FAULTS_SEED={SEED}: call {point} of {total}, {disk.failed or 'which was not reached'}, {errno.errorcode[error]}")
            raise
        finally:
            own_runtime.ready()  # for whoever ends it all
    print(f"{reached} of {total} calls failed, {refused} requests were refused")
    assert reached >= POINTS / 3 or reached >= total


@pytest.fixture
def disk(own_runtime):
    """That of every daemon."""
    if not FAULTS.is_file():
        pytest.skip(f"{FAULTS} is not there: make unit-tests builds it")
    disk = Disk(own_runtime.directory)
    own_runtime.use_faults(FAULTS=disk.path)
    return disk


ADVICE = {errno.EROFS: "see whether the disk can be written", errno.ENOSPC: "free some space",
          errno.EIO: "what the system's log says of it"}


@pytest.mark.parametrize("error", ADVICE, ids=errno.errorcode.get)
def test_a_disk_that_cannot_be_written_refuses_calls_loses_nothing_and_is_forgotten_when_it_is_well(own_runtime, disk, error):
    client = own_runtime.client("--session", "work").open()
    client.evaluate("(defvar *n* 1)")
    running = client.start_evaluation("(progn (sleep 0.2) (incf *n*))", token="t")
    wait_until(lambda: own_runtime.status()["sessions"][0]["state"] == "running", "it runs")
    disk.break_down(error)
    refused = client.tool("add-message", role="user", content="not now")
    assert refused.is_error and refused.text.startswith("[ERROR] STORAGE-FAILED\nNothing was changed: ")
    assert ADVICE[error] in refused.text and str(own_runtime.database) in refused.text
    assert client.evaluation(running).text == "=> 2"
    refused = client.evaluate("(incf *n*)")
    assert refused.text.startswith("[ERROR] STORAGE-FAILED\nNothing is evaluated while ") and ADVICE[error] in refused.text
    assert ADVICE[error] in own_runtime.control("status").stdout.decode()
    assert client.result("ping") == {}
    # The answer that could not be stored is the worker's to keep, whatever becomes of the daemon.
    own_runtime.end_daemon()
    with own_runtime.client() as other:
        assert other.open().evaluate("1").text.startswith("[ERROR] STORAGE-FAILED\n")
    disk.heal()
    wait_until(lambda: client.evaluate("*n*").text == "=> 2", "evaluation works again")
    wait_until(lambda: client.tool("session-info").structured["messages"] == 6, "all is stored")
    contents = [message["content"] for message in client.tool("session-history", limit=100).structured["messages"]]
    assert contents == ["(defvar *n* 1)", "=> *N*", "(progn (sleep 0.2) (incf *n*))", "=> 2", "*n*", "=> 2"]


def test_a_busy_event_loop_never_waits_for_the_disk(own_runtime, disk):
    client = own_runtime.client().open()
    client.tool("create-session")
    before = disk.syncs
    for _ in range(20):
        client.tool("create-session")
    assert disk.syncs - before < 10, "a commit waits for the disk: synchronous is not NORMAL"
    wait_until(lambda: b"session-20" in own_runtime.database.read_bytes(), "the log is moved into the file when nothing happens")
    assert disk.syncs > before
    assert disk.calls_of_main_thread == 0 and disk.count > 100
