"""
A daemon that does as it is told: it speaks common/link.h over a Unix socket, so that the tests of cl-mcp-shim can show
it daemons that are silent, confused, refusing, dying, or started twice.

Daemon is the listening side, held by a test. Its Peer is one connection, driven frame by frame. Shim runs the program
under test. As a program (see install_daemon) this file stands in for cl-mcpd when a shim has to start one.
"""

import contextlib
import fcntl
import io
import json
import os
import pathlib
import queue
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time

sys.dont_write_bytecode = True

HERE = pathlib.Path(__file__).resolve().parent
BUILD_DIR = pathlib.Path(os.environ.get("BUILD_DIR", HERE.parent / "build")).resolve()
PATIENCE = 30.0 * float(os.environ.get("TEST_PATIENCE", "1"))

# common/link.h
VERSION = 1
HELLO, LINE, OVERSIZE, END, PING = "HLOEP"
WELCOME, ANSWER, SETTLED, PONG, REFUSED = "WASpX"
TAGS = {"version": 1, "nonce": 2, "lines_read": 3, "lines_settled": 4, "directory": 5, "session": 6, "line": 7,
        "text": 8, "pid": 9, "resume": 10}
NAMES = {number: name for name, number in TAGS.items()}
NUMBERS = {"version", "lines_read", "lines_settled", "line", "pid", "resume"}


def frame(kind, **fields):
    """The bytes of a frame."""
    body = kind.encode()
    for name, value in fields.items():
        if isinstance(value, int):
            value = struct.pack("<Q", value)
        data = value if isinstance(value, bytes) else value.encode()
        body += struct.pack("<BI", TAGS[name], len(data)) + data
    return struct.pack("<I", len(body)) + body


class Frame:
    """A frame that came from a shim; its fields are attributes."""

    def __init__(self, body):
        self.kind = chr(body[0])
        self.fields = {}
        position = 1
        while position < len(body):
            tag, length = struct.unpack_from("<BI", body, position)
            data = body[position + 5:position + 5 + length]
            assert len(data) == length, "a field overruns its frame"
            position += 5 + length
            name = NAMES[tag]
            self.fields[name] = struct.unpack("<Q", data)[0] if name in NUMBERS else data

    def __getattr__(self, name):
        try:
            return self.fields[name]
        except KeyError:
            raise AttributeError(name) from None

    def __repr__(self):
        return f"Frame({self.kind!r}, {str(self.fields)[:300]})"


class Peer:
    """One connection of a shim."""

    def __init__(self, connection):
        self.connection = connection
        self.buffer = bytearray()

    def receive(self, timeout=PATIENCE):
        """The next frame, or None when the shim has closed the connection. TimeoutError if neither comes."""
        self.connection.settimeout(timeout)
        while True:
            if len(self.buffer) >= 4:
                length = struct.unpack_from("<I", self.buffer)[0]
                if len(self.buffer) >= 4 + length:
                    body = bytes(self.buffer[4:4 + length])
                    del self.buffer[:4 + length]
                    return Frame(body)
            try:
                chunk = self.connection.recv(1 << 20)
            except ConnectionResetError:
                return None
            if not chunk:
                return None
            self.buffer += chunk

    def expect(self, kind, timeout=PATIENCE):
        received = self.receive(timeout)
        assert received is not None, f"the shim closed the connection instead of sending {kind!r}"
        assert received.kind == kind, f"{received} instead of {kind!r}"
        return received

    def send(self, kind, **fields):
        self.send_bytes(frame(kind, **fields))

    def send_bytes(self, data):
        self.connection.settimeout(PATIENCE)
        self.connection.sendall(data)

    def welcome(self):
        """The handshake; returns the hello."""
        hello = self.expect(HELLO)
        self.send(WELCOME, version=VERSION, pid=os.getpid())
        return hello

    def answer(self, line, text=None):
        """Answers a LINE frame, by default with its own text."""
        self.send(ANSWER, line=line.line, text=line.text if text is None else text)

    def close(self):
        self.connection.close()


class Daemon:
    """Listens in a runtime directory."""

    def __init__(self, directory, backlog=16):
        self.path = str(pathlib.Path(directory) / "socket")
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.path)
        self.listener.bind(self.path)
        self.listener.listen(backlog)
        self.peers = []

    def accept(self, timeout=PATIENCE):
        self.listener.settimeout(timeout)
        self.peers.append(Peer(self.listener.accept()[0]))
        return self.peers[-1]

    def welcome(self):
        """Shakes hands with the next shim that has not given up waiting for it."""
        while True:
            peer = self.accept()
            with contextlib.suppress(BrokenPipeError):
                peer.hello = peer.welcome()
                return peer

    def close(self):
        """Gone: nobody listens any more and all connections end."""
        self.listener.close()
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.path)
        for peer in self.peers:
            peer.close()

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.close()


def echo(peer):
    """A well-behaved daemon: answers each line with its own text until the shim leaves."""
    while (received := peer.receive(timeout=None)) is not None:
        if received.kind == LINE:
            peer.answer(received)
        elif received.kind == OVERSIZE:
            peer.send(ANSWER, line=received.line, text='{"oversize":true}')
        elif received.kind == PING:
            peer.send(PONG)


def serve(peer):
    peer.welcome()
    echo(peer)


def in_background(function, *arguments):
    """Runs it beside the test, until it ends or the test has closed what it works on."""

    def run():
        with contextlib.suppress(OSError, ValueError, AssertionError):
            function(*arguments)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread


@contextlib.contextmanager
def runtime_directory():
    """A private directory whose path is short enough for a socket."""
    directory = pathlib.Path(tempfile.mkdtemp(prefix="clmcp-", dir="/tmp"))
    try:
        yield directory
    finally:
        end_started(directory)
        shutil.rmtree(directory, ignore_errors=True)


def environment_of(directory, **more):
    return {"HOME": str(directory), "PATH": "/usr/bin:/bin", "CL_MCPD_SOCKET": str(directory / "socket"),
            "XDG_STATE_HOME": str(directory / "state"),
            **{name: os.environ[name] for name in ("ASAN_OPTIONS", "UBSAN_OPTIONS") if name in os.environ}, **more}


class Shim:
    """cl-mcp-shim with a client that reads its answers as lines."""

    def __init__(self, directory, *arguments, program=None, environment=None, reading=True, over_sockets=False, **more):
        self.environment = environment_of(directory, **more) if environment is None else environment
        streams = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        if over_sockets:  # as node starts its children
            ours_in, theirs_in = socket.socketpair()
            ours_out, theirs_out = socket.socketpair()
            streams = {"stdin": theirs_in.fileno(), "stdout": theirs_out.fileno()}
        self.process = subprocess.Popen([str(program or BUILD_DIR / "cl-mcp-shim"), *arguments], env=self.environment,
                                        cwd=directory, stderr=subprocess.PIPE, bufsize=0, **streams)
        if over_sockets:
            theirs_in.close()
            theirs_out.close()
            self.stdin, self.stdout = ours_in.makefile("wb", 0), ours_out.makefile("rb", 0)
            ours_in.close()
            ours_out.close()
        else:
            self.stdin, self.stdout = self.process.stdin, self.process.stdout
        self.instrumented = b"__asan_init" in pathlib.Path(program or BUILD_DIR / "cl-mcp-shim").read_bytes()
        self.lines = queue.Queue()
        self.errors = b""
        self._stderr = in_background(self._read_stderr)
        if reading:
            self.start_reading()

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        for stream in (self.stdin, self.stdout):
            with contextlib.suppress(OSError):
                stream.close()

    def _read_stderr(self):
        for line in self.process.stderr:
            self.errors += line

    def start_reading(self):
        in_background(self._read)

    def _read(self):
        with contextlib.suppress(OSError, ValueError):
            for line in io.BufferedReader(self.stdout, 1 << 20):
                self.lines.put(line)
        self.lines.put(None)

    def write(self, data):
        view = memoryview(data.encode() if isinstance(data, str) else data)
        while view:
            view = view[self.stdin.write(view):]

    def line(self, timeout=PATIENCE):
        """The next line on stdout without its LF, None at its end."""
        try:
            line = self.lines.get(timeout=timeout)
        except queue.Empty:
            raise AssertionError(f"no line on stdout within {timeout} s; stderr: {self.errors!r}") from None
        if line is None:
            return None
        assert line.endswith(b"\n"), f"half a line: {line[:200]!r}"
        return line[:-1]

    def message(self, timeout=PATIENCE):
        return json.loads(self.line(timeout))

    def silent(self, duration=0.2):
        """True if nothing more comes on stdout for that long."""
        try:
            return self.lines.get(timeout=duration) is None
        except queue.Empty:
            return True

    def end_of_input(self):
        self.stdin.close()

    def status(self, timeout=PATIENCE):
        status = self.process.wait(timeout)
        self._stderr.join(PATIENCE)
        return status

    def resident_below(self, kilobytes):
        """True if the shim takes less memory than that. With the sanitizers in it that cannot be known."""
        if self.instrumented:
            return True
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.split("VmRSS:")[1].split()[0]) < kilobytes


# The stand-in for cl-mcpd


def install(directory, daemon=True):
    """Copies the shim into a directory, with this file as the cl-mcpd beside it. Returns the shim's path."""
    programs = pathlib.Path(directory) / "programs"
    programs.mkdir(mode=0o700)
    shutil.copy(BUILD_DIR / "cl-mcp-shim", programs)
    if daemon:
        program = programs / "cl-mcpd"
        program.write_text(f"#!/usr/bin/python3\nimport sys\nsys.path.insert(0, {str(HERE)!r})\n"
                           "import link_driver\nlink_driver.main()\n")
        program.chmod(0o755)
    return programs / "cl-mcp-shim"


def starts(directory):
    """What each stand-in found when it was started."""
    with contextlib.suppress(FileNotFoundError):
        return [json.loads(line) for line in (pathlib.Path(directory) / "starts").read_text().splitlines()]
    return []


def end_started(directory):
    for start in starts(directory):
        with contextlib.suppress(OSError):
            if str(directory) in pathlib.Path(f"/proc/{start['pid']}/cmdline").read_text():
                os.kill(start["pid"], signal.SIGKILL)


def _surroundings():
    """Everything that a daemon must not inherit."""
    status = dict(line.split(":\t", 1) for line in pathlib.Path("/proc/self/status").read_text().splitlines()
                  if ":\t" in line)
    descriptors = {}
    for number in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            descriptors[number] = os.readlink(f"/proc/self/fd/{number}")
    stat = pathlib.Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    return {"pid": os.getpid(), "parent": int(stat[1]), "session": int(stat[3]), "terminal": int(stat[4]),
            "directory": os.getcwd(), "descriptors": descriptors, "blocked": status["SigBlk"],
            "ignored": status["SigIgn"], "environment": dict(os.environ)}


def main():
    arguments = dict(zip(sys.argv[1::2], sys.argv[2::2]))
    found = _surroundings()
    path, ready = arguments["--socket"], int(arguments["--ready-fd"])
    directory = pathlib.Path(path).parent
    with open(directory / "starts", "a", encoding="utf-8") as record:
        record.write(json.dumps(found) + "\n")
    with contextlib.suppress(FileNotFoundError):
        os.write(ready, (directory / "start-error").read_bytes())
        sys.exit(1)
    lock = open(directory / "lock", "w", encoding="utf-8")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        sys.exit(75)
    print("started", flush=True)
    daemon = Daemon(directory)
    os.write(ready, b"ready\n")
    os.close(ready)
    deadline = time.monotonic() + 2 * PATIENCE  # a test that was killed must not leave us behind for ever
    while time.monotonic() < deadline:
        with contextlib.suppress(TimeoutError):
            in_background(serve, daemon.accept(timeout=1.0))
