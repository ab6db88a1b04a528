"""Plays the daemon towards the real cl-mcp-worker, in the frames of common/frame.h and words of common/worklink.h."""
import contextlib
import os
import pathlib
import random
import select
import signal
import socket
import struct
import subprocess
import tempfile
import time

import pytest

BUILD_DIR = pathlib.Path(os.environ.get("BUILD_DIR") or pathlib.Path(__file__).parent.parent / "build").resolve()
PROGRAM = BUILD_DIR / "cl-mcp-worker"
PATIENCE = 30

# Starts a subprocess; its value is the pid.
SLEEPER = "(ext:external-process-pid (nth-value 2 (ext:run-program \"/bin/sleep\" '(\"1000\") :wait nil)))"

OUTCOMES = ["DONE", "ERROR", "CANCELLED", "TIMEOUT", "OVERFLOW", "EXIT", "ABORTED"]

# name: (tag, kind), as in enum worker_tag; a repeated one is always a list.
TAGS = {
    "version": (1, "number"), "session": (2, "text"), "directory": (3, "text"), "pid": (4, "number"),
    "status": (5, "number"), "text": (6, "text"), "boot_ms": (7, "number"), "lisp": (8, "text"),
    "fallback": (9, "texts"), "incarnation": (10, "number"), "seq": (11, "number"), "running": (12, "number"),
    "origin": (13, "bytes"), "time_limit": (14, "number"), "package": (15, "text"), "code": (16, "text"),
    "outcome": (17, "number"), "elapsed": (18, "number"), "forms": (19, "number"), "stdout": (20, "bytes"),
    "stderr": (21, "bytes"), "stdout_total": (22, "number"), "stderr_total": (23, "number"),
    "warning": (24, "texts"), "value": (25, "texts"), "cut": (26, "texts"), "error_type": (27, "text"),
    "error_message": (28, "text"), "frame": (29, "texts"), "exit_code": (30, "number"), "lines": (31, "number"),
    "last_line": (32, "bytes"), "kept": (33, "number"), "heir": (34, "number"), "restored": (35, "number"),
    "undone": (36, "texts"), "interrupted": (37, "number"), "interrupted_origin": (38, "bytes"),
    "protected": (39, "number"), "protect": (40, "number"), "operation": (41, "text"),
    "heap_limit": (42, "number"), "undone_seq": (50, "number"), "inherited": (51, "number"), "told": (52, "number"),
}
NAMES = {tag: (name, kind) for name, (tag, kind) in TAGS.items()}


def encode(kind, **fields):
    body = kind.encode()
    for name, value in fields.items():
        if value is None:
            continue
        if isinstance(value, int):
            value = struct.pack("<Q", value)
        elif isinstance(value, str):
            value = value.encode()
        body += struct.pack("<BI", TAGS[name][0], len(value)) + value
    return struct.pack("<I", len(body)) + body


class Message:
    """A frame that arrived: its type, and its fields as attributes."""

    def __init__(self, body):
        self.kind = chr(body[0])
        self.fields = {name: [] for name, (_, kind) in TAGS.items() if kind == "texts"}
        at = 1
        while at < len(body):
            tag, length = struct.unpack_from("<BI", body, at)
            data = body[at + 5:at + 5 + length]
            assert len(data) == length
            at += 5 + length
            if tag not in NAMES:
                continue
            name, kind = NAMES[tag]
            if kind == "number":
                self.fields[name], = struct.unpack("<Q", data)
            elif kind == "text":
                self.fields[name] = data.decode()
            elif kind == "texts":
                self.fields[name].append(data.decode())
            else:
                self.fields[name] = data

    def __getattr__(self, name):
        if name in TAGS:
            return self.fields.get(name)
        raise AttributeError(name)

    @property
    def outcome_name(self):
        return OUTCOMES[self.outcome]

    def __repr__(self):
        shown = {name: value for name, value in self.fields.items() if value not in ([], None)}
        return f"<{self.kind} {str(shown)[:1500]}>"


class Link:
    """A connection that speaks frames."""

    def __init__(self, path, patience=PATIENCE):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.buffer = bytearray()
        wait_for(lambda: self._connect(path), patience)

    def _connect(self, path):
        try:
            self.socket.connect(str(path))
            return True
        except (FileNotFoundError, ConnectionRefusedError):
            return False

    def send(self, kind, **fields):
        self.socket.sendall(encode(kind, **fields))

    def receive(self, patience=PATIENCE):
        """The next frame; EOFError when the peer is gone, TimeoutError when nothing comes."""
        deadline = time.monotonic() + patience
        while True:
            if len(self.buffer) >= 4:
                length, = struct.unpack_from("<I", self.buffer)
                if len(self.buffer) >= 4 + length:
                    body = bytes(self.buffer[4:4 + length])
                    del self.buffer[:4 + length]
                    if body[:1] != b"c":  # copies are made at any moment
                        return Message(body)
                    continue
            if not select.select([self.socket], [], [], max(0, deadline - time.monotonic()))[0]:
                raise TimeoutError("no frame came")
            try:
                data = self.socket.recv(1 << 20)
            except ConnectionResetError:
                data = b""
            if not data:
                raise EOFError("the peer is gone")
            self.buffer += data

    def close(self):
        self.socket.close()


def wait_for(condition, patience=PATIENCE):
    """Polls until the condition holds and returns its value."""
    deadline = time.monotonic() + patience
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise TimeoutError("the condition never held")
        time.sleep(0.002)


class Zygote:
    """A zygote in a runtime directory of its own, and the daemon's connection to it."""

    def __init__(self, arguments=(), directory=None):
        self.temporary = None
        if directory is None:
            self.temporary = tempfile.TemporaryDirectory(prefix="clmcp-")
            directory = self.temporary.name
        self.directory = pathlib.Path(directory)
        self.log = open(self.directory / "log", "ab")
        self.process = subprocess.Popen([PROGRAM, *arguments, self.directory], stdin=subprocess.DEVNULL,
                                        stdout=self.log, stderr=self.log, start_new_session=True)
        self.pid = self.process.pid
        self.link = None
        self.unseen = []
        self.connect()

    def connect(self):
        """A new daemon: returns the SPAWNED messages that come before anything else is asked."""
        if self.link:
            self.link.close()
        self.link = Link(self.directory / "zygote")
        self.ready = self.link.receive()
        assert self.ready.kind == "R"
        self.unseen = []

    def expect(self, kind, session=None, patience=PATIENCE):
        """The next report of that kind about that session; others are kept for later."""
        deadline = time.monotonic() + patience
        for message in self.unseen:
            if message.kind == kind and session in (None, message.session):
                self.unseen.remove(message)
                return message
        while True:
            message = self.link.receive(max(0, deadline - time.monotonic()))
            if message.kind == kind and session in (None, message.session):
                return message
            self.unseen.append(message)

    def spawn(self, directory="/tmp", session=None):
        return Worker(self, directory, session)

    def log_text(self):
        return (self.directory / "log").read_text()

    def close(self):
        if self.link:
            self.link.close()
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.log.close()
        if self.temporary:
            self.temporary.cleanup()

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.close()


def new_session_id():
    return time.strftime("session-%Y%m%d-%H%M%S-") + "%04X" % random.SystemRandom().randrange(1 << 16)


class Worker:
    """A session's process, and the daemon's connection to it."""

    def __init__(self, zygote, directory="/tmp", session=None):
        self.zygote = zygote
        self.session = session or new_session_id()
        zygote.link.send("S", session=self.session, directory=directory)
        self.pid = zygote.expect("P", self.session).pid
        self.link = None
        self.connect()

    def ask_for_clone(self, session=None):
        session = session or new_session_id()
        self.link.send("N", session=session)
        return session

    def clone_answer(self):
        """The CLONED message that comes next."""
        while True:
            message = self.link.receive()
            if message.kind == "n":
                return message

    def clone(self, session=None):
        """Another worker with all that this one has."""
        session = self.ask_for_clone(session)
        answer = self.clone_answer()
        assert answer.session == session and answer.text is None, answer
        assert self.zygote.expect("P", session).pid == answer.pid
        clone = Worker.__new__(Worker)
        clone.zygote, clone.session, clone.pid, clone.link = self.zygote, session, answer.pid, None
        clone.connect()
        return clone

    def connect(self):
        if self.link:
            self.link.close()
        self.link = Link(self.zygote.directory / self.session)
        self.hello = self.link.receive()
        assert self.hello.kind == "h"
        self.seq = self.hello.seq
        self.incarnation = self.hello.incarnation

    def begin(self, code, package=None, operation=None, time_limit=0, origin=b"test", seq=None, protect=None,
              heap_limit=None):
        if seq is None:
            self.seq += 1
            seq = self.seq
        self.link.send("E", incarnation=self.incarnation, seq=seq, origin=origin, time_limit=time_limit,
                       heap_limit=heap_limit, protect=protect, package=package, operation=operation, code=code)
        return seq

    def result(self, seq=None, patience=PATIENCE, forget=True):
        """The result of the evaluation, or the FATAL report in its place."""
        seq = seq or self.seq
        while True:
            message = self.link.receive(patience)
            if message.kind == "f" or (message.kind == "r" and message.seq == seq):
                if forget and message.kind == "r":
                    self.forget(seq)
                return message

    def evaluate(self, code, patience=PATIENCE, **arguments):
        return self.result(self.begin(code, **arguments), patience)

    def value(self, code, **arguments):
        """The one value that the code must have, printed."""
        result = self.evaluate(code, **arguments)
        assert result.kind == "r" and result.outcome_name == "DONE", result
        return result.value[0] if len(result.value) == 1 else result.value

    def cancel(self, seq=None):
        self.link.send("C", seq=seq or self.seq)

    def forget(self, seq, told=None):
        self.link.send("F", seq=seq, told=told)

    def peek(self):
        self.link.send("P")
        while True:
            message = self.link.receive()
            if message.kind == "p":
                return message

    def wait_until_running(self):
        """Returns once the evaluation has begun: only then is there progress to tell."""
        self.peek()

    def spawn_sleeper(self):
        """The pid of a subprocess that the session leaves running."""
        return int(self.value(f"(values {SLEEPER})"))

    def kill(self, number=signal.SIGKILL):
        os.kill(self.pid, number)

    def close(self):
        """Ends the session and waits until the zygote has seen it."""
        self.link.close()
        self.zygote.link.send("K", session=self.session)
        self.zygote.expect("D", self.session)

    def __enter__(self):
        return self

    def __exit__(self, kind, *unused):
        if kind is None:
            self.close()


# ---- looking at processes


def is_alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def descriptors(pid):
    return sorted(os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd"))


def threads(pid):
    return len(os.listdir(f"/proc/{pid}/task"))


def descendants(pid):
    children = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            with contextlib.suppress(OSError):
                with open(f"/proc/{entry}/stat") as stat:
                    children.setdefault(int(stat.read().rpartition(")")[2].split()[1]), []).append(int(entry))
    found, waiting = [], [pid]
    while waiting:
        for child in children.get(waiting.pop(), []):
            found.append(child)
            waiting.append(child)
    return found


def memory(pid):
    """Proportional and private memory in kilobytes."""
    sizes = {}
    with open(f"/proc/{pid}/smaps_rollup") as rollup:
        for line in rollup:
            words = line.split()
            if words[0] in ("Pss:", "Rss:", "Private_Dirty:"):
                sizes[words[0][:-1]] = int(words[1])
    return sizes


# ---- fixtures, to be imported by the tests


@pytest.fixture(scope="module")
def zygote():
    with Zygote() as made:
        yield made


@pytest.fixture
def worker(zygote):
    with zygote.spawn() as made:
        yield made
