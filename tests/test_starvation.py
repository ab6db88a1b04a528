"""
Every call of the daemon that can fail fails once: those to the kernel, and those for memory.

tests/calls.c stands between the daemon and libc and knows the places from which it is called. A story is told once to find them
all, and then once for each that is tried: STARVATIONS is how many, STARVATION_SEED chooses which, and what they say. What is
answered with an error may be asked again; what was answered holds, no evaluation is done twice, and nothing is left behind.
"""

import collections
import contextlib
import errno
import functools
import mmap
import os
import random
import re
import shutil
import signal
import struct

import pytest

from harness import BUILD_DIR, Runtime, check_database, open_files, wait_until

CALLS = BUILD_DIR / "tests" / "calls.so"
POINTS = int(os.environ.get("STARVATIONS", "3"))
SEED = int(os.environ.get("STARVATION_SEED", "1"))

MEMORY = {name: ("ENOMEM",) for name in ("malloc", "calloc", "realloc")}
# What the kernel may say. Not EINTR where the manual page rules it out; not what only a wrong argument causes.
NO_DESCRIPTOR = ("EMFILE", "ENFILE")
KERNEL = {
    "accept4": (*NO_DESCRIPTOR, "ENOMEM", "ECONNABORTED"),
    "bind": ("ENOSPC", "EROFS"),
    "close": ("EIO", "EINTR"),
    "close_range": ("ENOMEM",),
    "connect": ("EAGAIN", "ECONNREFUSED", "ENOMEM"),
    "dup2": ("EBUSY",),
    "epoll_create1": (*NO_DESCRIPTOR, "ENOMEM"),
    "epoll_ctl": ("ENOMEM", "ENOSPC"),
    "epoll_wait": ("EINTR",),
    "eventfd": (*NO_DESCRIPTOR, "ENOMEM"),
    "fopen": (*NO_DESCRIPTOR, "ENOMEM"),
    "flock": ("ENOLCK", "EINTR"),
    "fork": ("EAGAIN", "ENOMEM"),
    "fstat": ("ENOMEM",),
    "fsync": ("EIO", "ENOSPC"),
    "ftruncate": ("EIO",),
    "getsockopt": ("ENOMEM",),
    "kill": ("EPERM", "ESRCH"),
    "link": ("ENOSPC", "EIO"),
    "linkat": ("ENOSPC", "EIO"),
    "listen": ("EADDRINUSE",),
    "lstat": ("EIO", "ENOMEM"),
    "mkdir": ("ENOSPC", "EROFS"),
    "mkostemp": (*NO_DESCRIPTOR, "ENOSPC"),
    "open": (*NO_DESCRIPTOR, "ENOSPC", "EIO"),
    "opendir": (*NO_DESCRIPTOR, "ENOMEM"),
    "pipe2": NO_DESCRIPTOR,
    "pthread_create": ("EAGAIN",),
    "read": ("EIO", "EINTR"),
    "readlink": ("EIO",),
    "readv": ("ECONNRESET", "ENOMEM"),
    "recv": ("ECONNRESET", "ENOMEM", "EINTR"),
    "rename": ("ENOSPC", "EIO"),
    "send": ("ENOBUFS", "ENOMEM", "ECONNRESET", "EAGAIN", "EINTR"),
    "socket": (*NO_DESCRIPTOR, "ENOBUFS", "ENOMEM"),
    "socketpair": NO_DESCRIPTOR,
    "stat": ("EIO", "ENOMEM"),
    "unlink": ("EIO", "EROFS"),
    "waitpid": ("EINTR",),
    "write": ("EIO", "ENOSPC", "EINTR"),
    "writev": ("ENOBUFS", "ECONNRESET"),
}

Place = collections.namedtuple("Place", "hash name count")


class Calls:
    """What tests/calls.c is told, and what it tells."""

    HEAD, PLACE, PLACES = struct.Struct("=QQqQ"), struct.Struct("=QQ16s"), 16384

    def __init__(self, directory):
        self.path = str(directory / "calls")
        size = self.HEAD.size + self.PLACES * self.PLACE.size
        with open(self.path, "w+b") as file:
            file.truncate(size)
            self.memory = mmap.mmap(file.fileno(), size)

    def arm(self, place, turn, error):
        """That call fails, counted from now on; none if the place is None."""
        self.memory[:] = bytes(len(self.memory))
        if place:
            self.HEAD.pack_into(self.memory, 0, place.hash, turn, error, 0)

    def disarm(self):
        self.HEAD.pack_into(self.memory, 0, 0, 0, 0, self.fired)

    @property
    def fired(self):
        return self.HEAD.unpack_from(self.memory)[3]

    def places(self):
        """All that were passed, in an order that is the same each time."""
        every = (Place(number, name.rstrip(b"\0").decode(), count)
                 for number, count, name in self.PLACE.iter_unpack(self.memory[self.HEAD.size:]))
        return sorted((place for place in every if place.hash), key=lambda place: (place.name, place.hash))


# What may be answered instead of what was asked for: it says what is wrong, and may be asked again.
EXCUSE = re.compile(r"\[ERROR\] (STORAGE-FAILED|SESSION-UNAVAILABLE|WORKER-DIED|SESSION-NOT-CLONED|FILE-ERROR)\n.{20}", re.DOTALL)


def pid_of_daemon(client):
    """Its lock may have no label."""
    return client.result("cl-mcpd/status")["pid"]


class Story:
    """What a client does from the making of the database to a shutdown, and what must be there because of its answers."""

    def __init__(self, runtime):
        self.runtime = runtime
        self.number = self.files = 0
        self.answered = []
        self.is_lost = False  # it could not be hibernated
        self.excuses = []
        self.client = runtime.client()

    def insist(self, attempt):
        """Its result, once it is no excuse."""
        for _ in range(20):
            answer = attempt()
            if not answer.is_error:
                return answer
            assert EXCUSE.match(answer.text), answer.text
            self.excuses.append(answer.text)
        raise AssertionError(f"refused again and again: {self.excuses}")

    def call(self, tool, **arguments):
        return self.insist(lambda: self.client.tool(tool, **arguments))

    def code(self):
        self.number += 1
        return f"(progn (push {self.number} *all*) {self.number})", self.number

    def note(self, answer, number):
        if not answer.is_error:
            assert answer.structured["values"] == [str(number)], answer.text
            self.answered.append(number)
        return answer

    def evaluate(self, **arguments):
        """Each try has a number of its own, so that one that was done twice is seen."""
        def attempt():
            code, number = self.code()
            return self.note(self.client.evaluate(code, session=self.id, protect=True, **arguments), number)
        return self.insist(attempt)

    def check(self, client):
        """What was answered is there, and nothing twice."""
        answer = self.insist(lambda: client.evaluate("(and (boundp '*all*) *all*)", session=self.id))
        if self.is_lost and "SESSION-RE" in answer.text:  # and that is told
            self.answered.clear()
            self.insist(lambda: client.evaluate("(setf *all* nil)", session=self.id))
            return
        done = answer.structured["values"][0]
        done = [int(number) for number in re.findall(r"\d+", done)]
        assert len(done) == len(set(done)), f"done twice: {done}"
        assert set(self.answered) <= set(done), f"lost: {set(self.answered) - set(done)}; {self.excuses}"

    def file(self, kind="db"):
        """A new one each time."""
        self.files += 1
        return str(self.runtime.directory / f"made-{self.files}.{kind}")

    def control(self, *arguments):
        """cl-mcpctl, as a person repeats it."""
        def succeeds():
            done = self.runtime.control(*(argument() if callable(argument) else argument for argument in arguments))
            if done.returncode != 0:
                self.excuses.append(done.stderr.decode())
                assert len(self.excuses[-1]) > 20
                self.runtime.ready()  # it starts no daemon by itself
            return done.returncode == 0
        wait_until(succeeds, f"cl-mcpctl {arguments[0]} is done")

    def worker(self):
        found = wait_until(lambda: [session["pid"] for session in self.runtime.status()["sessions"]
                                    if session["id"] == self.id and session["state"] == "idle"], "it is idle")
        return found[0]

    def begin(self):
        self.client.open()
        self.client.result("tools/list")
        self.id = self.call("create-session", name="one").structured["id"]
        self.insist(lambda: self.client.evaluate("(defvar *all* nil)", session=self.id, protect=True))
        self.evaluate(timeout=60)

    def use(self):
        self.client.result("resources/subscribe", {"uri": f"lisp://session/{self.id}"})
        self.call("add-message", session=self.id, role="user", content="noted")
        assert self.call("list-sessions").structured["total"] >= 1
        assert "noted" in str(self.client.result("resources/read", {"uri": f"lisp://session/{self.id}/transcript"}))
        assert self.call("search-sessions", query="noted").structured["hits"]
        self.insist(lambda: self.client.evaluate("(dotimes (i 20000) (princ i))", session=self.id, protect=True))
        self.call("list-definitions", session=self.id)
        requests = [(*self.code(),) for _ in range(5)]
        sent = [(self.client.start_evaluation(code, session=self.id, protect=True), number) for code, number in requests]
        for request, number in sent:
            answer = self.note(self.client.evaluation(request), number)
            assert not answer.is_error or EXCUSE.match(answer.text), answer.text

    def lose_daemon(self):
        code, number = self.code()
        request = self.client.start_evaluation(f"(progn (sleep 0.05) {code})", session=self.id, protect=True)
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid_of_daemon(self.client), signal.SIGKILL)
        answer = self.note(self.client.evaluation(request), number)
        assert not answer.is_error or EXCUSE.match(answer.text), answer.text
        self.evaluate()

    def lose_worker(self):
        for _ in range(2):  # while it is idle, and while it works
            os.kill(self.worker(), signal.SIGKILL)
            self.evaluate()
        self.check(self.client)

    def sleep_and_wake(self):
        self.control("hibernate", self.id)
        self.check(self.client)
        self.evaluate()

    def copy(self):
        self.insist(lambda: self.client.tool("export-session", session=self.id, file=self.file("json")))
        self.control("backup", self.file)
        for path in self.runtime.directory.glob("made-*.db"):
            check_database(path).close()
        other = self.call("create-session", **{"from": self.id}).structured["id"]
        self.insist(lambda: self.client.evaluate("(boundp '*all*)", session=other))
        self.remove(other)

    def remove(self, session):
        """It may be gone although that could not be said."""
        answer = self.client.tool("delete-session", session=session)
        while answer.is_error and "SESSION-NOT-FOUND" not in answer.text:
            assert EXCUSE.match(answer.text), answer.text
            self.excuses.append(answer.text)
            answer = self.client.tool("delete-session", session=session)

    def leave(self):
        self.evaluate()
        self.client.result("resources/unsubscribe", {"uri": f"lisp://session/{self.id}"})
        self.client.finish()

    def play(self):
        self.begin()
        self.use()
        self.lose_daemon()
        self.lose_worker()
        self.copy()
        self.sleep_and_wake()
        self.leave()


def told(runtime, calls, place=None, turn=1, error=0):
    """The story, with that call failing; then what a daemon finds that follows."""
    calls.arm(place, turn, error)
    story = Story(runtime)
    story.play()
    story.control("shutdown")
    story.is_lost = "not hibernated: Its process died" in runtime.log_tail()
    calls.disarm()
    client = runtime.client().open()
    story.check(client)
    story.client = client
    story.evaluate()
    story.check(client)
    files = open_files(pid_of_daemon(client))
    client.finish()
    assert "Sanitizer" not in runtime.log_tail()
    story.control("shutdown")
    wait_until(lambda: not runtime.processes(), "nobody is left")
    for path in runtime.directory.glob("made-*"):
        path.unlink()
    left = {path.name for path in runtime.directory.iterdir()}
    assert left <= {"calls", "lock", "log", "shim-stderr", "state"}, left
    check_database(runtime.database).close()
    shutil.rmtree(runtime.database.parent)
    return story, files


def chosen(places, errors):
    """(place, the how manieth time, errno), in the order in which they are tried."""
    draw = random.Random(SEED)
    every = [(place, draw.choice((1, draw.randint(1, place.count))), error) for place in places if place.name in errors
             for error in errors[place.name]]
    draw.shuffle(every)
    return every


@functools.cache
def undisturbed():
    """All places, and how many files a daemon has open when all is over."""
    with Runtime() as runtime:
        calls = Calls(runtime.directory)
        runtime.environment.update(LD_PRELOAD=str(CALLS), FAULTS=calls.path)
        story, files = told(runtime, calls)
        assert not story.excuses
        return calls.places(), files


@pytest.mark.slow
@pytest.mark.parametrize("errors", [KERNEL, MEMORY], ids=["kernel", "memory"])
def test_a_call_of_the_daemon_that_fails_at_any_moment_costs_at_most_an_error_and_a_pause(own_runtime, errors):
    if not CALLS.is_file():
        pytest.skip(f"{CALLS} is not there: make unit-tests builds it")
    places, files = undisturbed()
    calls = Calls(own_runtime.directory)
    own_runtime.environment.update(LD_PRELOAD=str(CALLS), FAULTS=calls.path)
    points, tried, reached = chosen(places, errors), 0, 0
    for place, turn, error in points[:2 * POINTS]:  # not every story passes each place as often as the first one
        if reached == POINTS:
            break
        try:
            _, files_now = told(own_runtime, calls, place, turn, getattr(errno, error))
            tried, reached = tried + 1, reached + calls.fired
            assert files_now == files
        except BaseException:
            print(f"STARVATION_SEED={SEED}: {place.name} ({place.hash:x}), time {turn} of {place.count}, {error}")
            raise
    print(f"STARVATION_SEED={SEED}: {reached} of {tried} calls failed, of {len(points)}")
    assert reached > 0
