"""
What the black-box tests are written with: a Runtime is a directory with a daemon of its own, a Client is an MCP client
that talks to it through the real cl-mcp-shim.

Nothing here sleeps to synchronise: everything waits for a condition with a deadline. A Client checks what holds for
every conversation by itself (see Client.verify), so that each test only says what is special about it.
"""

import collections
import contextlib
import errno
import json
import mmap
import os
import pathlib
import select
import shutil
import signal
import socket
import sqlite3
import struct
import subprocess
import tempfile
import threading
import time

import mcpschema

BUILD_DIR = pathlib.Path(os.environ.get("BUILD_DIR", pathlib.Path(__file__).parent.parent / "build")).resolve()
PROGRAMS = ("cl-mcp-shim", "cl-mcpd", "cl-mcpctl", "cl-mcp-worker")

# For LD_PRELOAD: a disk that fails, or a clock that is wrong; see tests/faults.c.
FAULTS = BUILD_DIR / "tests" / "faults.so"

# How long anything may take that should be quick; a loaded or instrumented machine may ask for more.
PATIENCE = 30.0 * float(os.environ.get("TEST_PATIENCE", "1"))
NO_DAEMON = 3  # how cl-mcpctl ends then
LINE_MAX = 16 << 20
ANSWER_MAX = 8 << 20
MESSAGES_VALIDATED = 300

# One of each kind, and the extremes of it: for what must be refused in words wherever it stands.
ANY_VALUES = (None, True, -1, 1.5, 2**64, 10**30, "", "a\0b", [None], {"a": None})

META = "io.modelcontextprotocol/"


class Nothing:
    """What is left out where None is a value."""

    def __repr__(self):
        return "nothing"


NOTHING = Nothing()


def wait_until(condition, what, timeout=PATIENCE):
    """Polls until condition() is true and returns its value."""
    deadline = time.monotonic() + timeout
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {timeout} s: {what}")
        time.sleep(0.005)


def stateless_meta(version=mcpschema.STATELESS, capabilities=NOTHING, **more):
    """The `_meta` of a 2026-07-28 request; None leaves a field out."""
    fields = {
        "protocolVersion": version,
        "clientCapabilities": {} if capabilities is NOTHING else capabilities,
        "clientInfo": {"name": "tests", "version": "1"},
    }
    fields.update(more)
    return {META + name: value for name, value in fields.items() if value is not None}


def id_key(value):
    """1 and "1" are different ids, and so are 1 and True."""
    return (type(value).__name__, json.dumps(value))


# Processes


def state_of(pid):
    """The letter of proc(5); X if there is no such process."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return "X"


def alive(pid):
    return state_of(pid) not in "ZX"


def processes_of(directory):
    """{pid: command line} of every process that has the directory in its environment, command line or as its place."""
    needle = os.fsencode(str(directory))
    found = {}
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            command = (entry / "cmdline").read_bytes()
            traces = [command, (entry / "environ").read_bytes(), os.fsencode(os.readlink(entry / "cwd"))]
        except OSError:
            continue
        if any(needle in trace for trace in traces) and alive(entry.name):
            found[int(entry.name)] = command.replace(b"\0", b" ").decode(errors="replace").strip()
    return found


def fate(pid):
    """What a process that should have ended does instead: its state, where it waits, its threads, its parent."""
    with contextlib.suppress(OSError):
        status = pathlib.Path(f"/proc/{pid}/status").read_text().splitlines()
        yield from (line for line in status if line.startswith(("State:", "PPid:", "Threads:", "SigPnd:", "ShdPnd:")))
        yield pathlib.Path(f"/proc/{pid}/wchan").read_text()


def kilobytes(pid, field, file="smaps_rollup"):
    """A figure such as Pss (smaps_rollup) or VmRSS (status) of a process."""
    for line in pathlib.Path(f"/proc/{pid}/{file}").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1])
    raise KeyError(field)


def open_files(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))


def _children_of(pid, names):
    def is_one(child):
        with contextlib.suppress(OSError):  # it may end at any moment
            return alive(child) and pathlib.Path(f"/proc/{child}/comm").read_text().strip() in names

    children = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [int(child) for child in children if is_one(child)]


def copies_of(pid):
    """The sleeping copies of a worker."""
    return _children_of(pid, ("cl-mcp-snapshot",))


def kill_for_good(pid):
    """Kills a worker and its copies, so that nobody takes over."""
    os.kill(pid, signal.SIGSTOP)
    wait_until(lambda: state_of(pid) in "TZX", "it has stopped")
    for copy in _children_of(pid, ("cl-mcp-snapshot", "cl-mcp-worker")):  # one that has just been made has no name of its own yet
        os.kill(copy, signal.SIGKILL)
    os.kill(pid, signal.SIGKILL)


def check_database(path):
    """All that must hold for it whatever has happened; returns it, open."""
    database = sqlite3.connect(path, timeout=PATIENCE)
    assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    assert database.execute("PRAGMA foreign_key_check").fetchall() == []
    with database:
        for words in ("message_words", "name_words"):
            database.execute(f"INSERT INTO {words} ({words}) VALUES ('integrity-check')")
    wrong = database.execute("""
        SELECT id, message_count, stored_bytes, messages, bytes FROM (SELECT id, message_count, stored_bytes,
          (SELECT count(*) FROM messages WHERE session = sessions.id) AS messages,
          ifnull((SELECT sum(length(CAST(content AS BLOB))) FROM messages WHERE session = sessions.id), 0) +
          ifnull((SELECT sum(length(CAST(text AS BLOB))) FROM outputs WHERE session = sessions.id), 0) AS bytes FROM sessions)
        WHERE message_count <> messages OR stored_bytes <> bytes""").fetchall()
    assert wrong == []
    assert database.execute("SELECT owner, stored_bytes FROM owners WHERE stored_bytes > 0 ORDER BY owner").fetchall() == \
        database.execute("SELECT owner, sum(stored_bytes) AS bytes FROM sessions GROUP BY owner HAVING bytes > 0 ORDER BY owner").fetchall()
    return database


class Disk:
    """What tests/faults.c is told, and what it tells."""

    LAYOUT = struct.Struct("=QQQQq64sQQ")

    def __init__(self, directory):
        self.path = str(directory / "disk")
        with open(self.path, "w+b") as file:
            file.truncate(mmap.PAGESIZE)
            self.memory = mmap.mmap(file.fileno(), mmap.PAGESIZE)

    def _field(self, number):
        return self.LAYOUT.unpack_from(self.memory)[number]

    @property
    def count(self):
        return self._field(0)

    @property
    def failed(self):
        """The last call that failed; '' if none did."""
        return self._field(5).rstrip(b"\0").decode()

    @property
    def calls_of_main_thread(self):
        return self._field(6)

    @property
    def syncs(self):
        return self._field(7)

    def fail(self, first, last, error, reading=True):
        """The calls of these numbers fail, counted from now on; perhaps only those that write."""
        self.LAYOUT.pack_into(self.memory, 0, 0, first, last, not reading, error, b"", 0, 0)

    def break_down(self, error):
        """Nothing can be written any more."""
        self.fail(1, 1 << 60, error, reading=False)

    def heal(self):
        self.fail(0, 0, 0)


class Runtime:
    """A runtime directory and whatever runs in it. Close it, or use it as a context manager."""

    living = []

    def __init__(self, programs=BUILD_DIR):
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="clmcp-", dir="/tmp"))
        self.programs = pathlib.Path(programs)
        self.clients = []
        self.environment = {
            "HOME": str(self.directory),
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "CL_MCPD_SOCKET": str(self.directory / "socket"),
            "XDG_STATE_HOME": str(self.directory / "state"),
        }
        for name in ("ASAN_OPTIONS", "UBSAN_OPTIONS"):
            if name in os.environ:
                self.environment[name] = os.environ[name]
        self.database = self.directory / "state" / "cl-mcpd" / "sessions.db"
        Runtime.living.append(self)

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.close()

    def client(self, *arguments, **options):
        client = Client(self, arguments, **options)
        self.clients.append(client)
        return client

    def run(self, program, *arguments, timeout=PATIENCE):
        return subprocess.run([self.programs / program, *arguments], env=self.environment, cwd=self.directory,
                              stdin=subprocess.DEVNULL, capture_output=True, timeout=timeout, check=False)

    def control(self, *arguments, timeout=PATIENCE):
        return self.run("cl-mcpctl", *arguments, timeout=timeout)

    def use_faults(self, **faults):
        """Every daemon from now on gets what tests/faults.c understands."""
        # The sanitizers want to come first; they need not.
        sanitizers = os.environ.get("ASAN_OPTIONS", "") + ":verify_asan_link_order=0"
        self.environment.update(LD_PRELOAD=str(FAULTS), ASAN_OPTIONS=sanitizers, **faults)

    def start_daemon(self, *options):
        """Starts a daemon by hand; whoever calls ends it."""
        with open(self.directory / "log", "ab") as log:
            process = subprocess.Popen([self.programs / "cl-mcpd", *options], env=self.environment, cwd=self.directory,
                                       stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        lock = self.directory / "lock"
        wait_until(lock.exists, "it takes the lock")
        wait_until(lambda: lock.read_text().split()[:1] == [str(process.pid)] and (self.directory / "socket").exists(), "it listens")
        return process

    @contextlib.contextmanager
    def daemon(self, *options):
        """A daemon that is started by hand, for as long as the context lasts."""
        process = self.start_daemon(*options)
        try:
            yield process
        finally:
            self.control("shutdown")
            process.wait(PATIENCE)

    def end_daemon(self, number=signal.SIGKILL):
        """Ends it by a signal, to its last thread. Nobody may be about to start the next one."""
        def nobody_listens():
            with socket.socket(socket.AF_UNIX) as link:
                return link.connect_ex(self.environment["CL_MCPD_SOCKET"]) in (errno.ECONNREFUSED, errno.ENOENT)

        os.kill(self.daemon_pid(), number)
        wait_until(nobody_listens, "it has ended")

    def end_all_but(self, *spared):
        """Kills what runs here, and what takes over from that, but for these."""
        def are_gone():
            others = [pid for pid in self.processes() if pid not in spared]
            for pid in others:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            return not others

        wait_until(are_gone, "they have ended")

    def start_over(self):
        """Leaves no client, no daemon, no session and nothing stored; only the zygote, which spares the next daemon a boot."""
        for client in list(self.clients):
            client.finish()
        self.end_all_but(self.ready()["zygote"]["pid"])
        shutil.rmtree(self.database.parent, ignore_errors=True)

    def status(self):
        with self.client() as client:
            return client.result("cl-mcpd/status")

    def ready(self):
        """Waits until the zygote has booted; returns the status."""
        return wait_until(lambda: (lambda status: status["zygote"]["state"] == "ready" and status)(self.status()),
                          "the zygote is ready")

    def daemon_pid(self):
        return int((self.directory / "lock").read_text().split()[0])

    def daemons(self):
        return [pid for pid, command in self.processes().items()
                if pathlib.Path(command.split(" ")[0]).name == "cl-mcpd"]

    def processes(self):
        return processes_of(self.directory)

    def log_tail(self, size=6000):
        with contextlib.suppress(OSError):
            return (self.directory / "log").read_bytes()[-size:].decode(errors="replace")
        return ""

    def close(self):
        """Ends everything that runs here. AssertionError if a client misbehaved or if a process was left over."""
        problems = []
        for client in list(self.clients):
            try:
                client.finish()
            except AssertionError as problem:
                problems.append(str(problem))
        if self.processes() and not self._shut_down() and self._wait_for_end():  # what a test has ended may need a moment
            problems.append("cl-mcpctl shutdown failed")
            self._signal_daemon_and_zygote()
        left = self._wait_for_end()
        if left:
            problems.append(f"processes left over: { {pid: [left[pid], *fate(pid)] for pid in left} }")
            for pid in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        Runtime.living.remove(self)
        shutil.rmtree(self.directory, ignore_errors=True)
        assert not problems, "\n".join(problems)

    def _shut_down(self):
        """Where the daemon was killed last, the next one finds what it has left and ends it with itself."""
        try:
            status = self.control("shutdown").returncode
            if status == NO_DAEMON and self._wait_for_end(0.5):
                self.start_daemon()
                status = self.control("shutdown").returncode
            return status == 0
        except (AssertionError, OSError, subprocess.TimeoutExpired):
            return False

    def _signal_daemon_and_zygote(self):
        names = ("cl-mcpd", "cl-mcp-worker")
        for pid, command in self.processes().items():
            if pathlib.Path(command.split(" ")[0]).name in names:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGTERM)

    def _wait_for_end(self, timeout=5.0):
        deadline = time.monotonic() + timeout
        while (left := self.processes()) and time.monotonic() < deadline:
            time.sleep(0.01)
        return left


# Clients

Arrival = collections.namedtuple("Arrival", "time message raw size revision")
Sent = collections.namedtuple("Sent", "method revision token")


class Evaluation:
    """A tool's result."""

    def __init__(self, result):
        self.result = result
        self.is_error = result.get("isError", False)
        self.structured = result.get("structuredContent")
        assert [block["type"] for block in result["content"]] == ["text"] * len(result["content"]), result
        self.text = "\n".join(block["text"] for block in result["content"])

    def __repr__(self):
        return f"Evaluation({'error ' if self.is_error else ''}{self.text[:2000]!r})"


class Client:
    """
    An MCP client: it starts the shim, writes lines and keeps every message that comes back. request() and its kin speak
    the revision that open() chose.
    """

    def __init__(self, runtime, arguments=(), environment=None, directory=None, reading=True):
        self.runtime = runtime
        self.revision = None
        self.arrivals = []
        self.sent = {}
        self.repeatable = set()
        self.silenced = set()
        self.crossed = {}  # requests whose answer may have been on its way when they were cancelled, and what was sent by then
        self._answers = {}
        self._problem = None
        self._next_id = 1_000_000  # far from the ids that tests choose
        self._changed = threading.Condition()
        self._finished = False
        self.process = subprocess.Popen(
            [str(runtime.programs / "cl-mcp-shim"), *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=open(runtime.directory / "shim-stderr", "ab"), bufsize=0, cwd=directory or runtime.directory,
            env=runtime.environment if environment is None else environment)
        os.set_blocking(self.process.stdin.fileno(), False)
        self._reader = threading.Thread(target=self._read, daemon=True)
        if reading:
            self.start_reading()

    def __enter__(self):
        return self

    def __exit__(self, kind, *rest):
        if kind is None:
            self.finish()

    # Reading

    def start_reading(self):
        self._reader.start()

    def _read(self):
        buffer = bytearray()
        searched = 0
        descriptor = self.process.stdout.fileno()
        while chunk := os.read(descriptor, 1 << 20):
            buffer += chunk
            while (end := buffer.find(b"\n", searched)) >= 0:
                line = bytes(buffer[:end])
                del buffer[:end + 1]
                searched = 0
                self._take(line)
            searched = len(buffer)
            if searched > ANSWER_MAX:
                self._fail(f"a line of more than {ANSWER_MAX} bytes on stdout: {bytes(buffer[:200])!r}...")
        if buffer:
            self._fail(f"stdout ended inside a line: {bytes(buffer[:500])!r}")
        with self._changed:
            self._changed.notify_all()

    def _fail(self, problem):
        with self._changed:
            self._problem = self._problem or problem
            self._changed.notify_all()

    def _take(self, line):
        try:
            message = self._decode(line)
        except (ValueError, AssertionError) as problem:
            self._fail(f"bad line on stdout: {problem}: {line[:500]!r}")
            return
        with self._changed:
            raw = line if len(line) < 4096 else None
            self.arrivals.append(Arrival(time.monotonic(), message, raw, len(line), self.revision))
            if isinstance(message, dict) and "method" not in message:
                self._answers.setdefault(id_key(message.get("id")), []).append(self.arrivals[-1])
            self._changed.notify_all()

    @staticmethod
    def _decode(line):
        assert len(line) < ANSWER_MAX, f"a line of {len(line)} bytes"

        def refuse(constant):
            raise ValueError(f"{constant} is no JSON")

        message = json.loads(line.decode("utf-8"), parse_constant=refuse)
        assert isinstance(message, (dict, list)), "neither object nor array"
        if b"\\ud" in line or b"\\uD" in line:
            json.dumps(message, ensure_ascii=False).encode("utf-8")  # raises for a lone surrogate
        return message

    def wait_for(self, condition, what, timeout=PATIENCE):
        """Waits for a message that satisfies condition; returns the message."""
        return self.wait_for_arrivals(condition, 1, what, timeout)[0].message

    def wait_for_arrivals(self, condition, count, what, timeout=PATIENCE):
        deadline = time.monotonic() + timeout
        position, found = 0, []
        with self._changed:
            while True:
                for arrival in self.arrivals[position:]:
                    if condition(arrival.message):
                        found.append(arrival)
                position = len(self.arrivals)
                if len(found) >= count:
                    return found
                self._wait(deadline, what, timeout)

    def _wait(self, deadline, what, timeout):
        assert self._problem is None, self._problem
        assert self._reader.is_alive(), f"the shim ended (status {self.process.poll()}) before: {what}"
        if not self._changed.wait(max(0.0, min(1.0, deadline - time.monotonic()))):
            assert time.monotonic() < deadline, \
                f"not within {timeout} s: {what}; last: {[str(a.message)[:300] for a in self.arrivals[-3:]]}"

    def arrival(self, request_id, timeout=PATIENCE):
        """The answer to a request, with the time at which it came."""
        deadline = time.monotonic() + timeout
        key = id_key(request_id)
        with self._changed:
            while key not in self._answers:
                self._wait(deadline, f"the answer to {request_id!r}", timeout)
            return self._answers[key][0]

    def answer(self, request_id, timeout=PATIENCE):
        return self.arrival(request_id, timeout).message

    def answered(self, request_id):
        with self._changed:
            return id_key(request_id) in self._answers

    def error_without_id(self, nth=1, timeout=PATIENCE):
        """The nth error that names no request, in whichever of the two forms."""
        arrivals = self.wait_for_arrivals(
            lambda m: isinstance(m, dict) and "error" in m and m.get("id") is None, nth, "an error without id", timeout)
        return arrivals[nth - 1].message

    def progress(self, token):
        """The arrivals of progress for a token, so far."""
        with self._changed:
            return [a for a in self.arrivals if isinstance(a.message, dict)
                    and a.message.get("method") == "notifications/progress"
                    and id_key(a.message["params"]["progressToken"]) == id_key(token)]

    # Writing

    def write(self, data, timeout=PATIENCE):
        """Writes bytes to the shim; TimeoutError if it does not take them in time, with .written set."""
        deadline = time.monotonic() + timeout
        descriptor = self.process.stdin.fileno()
        view = memoryview(data)
        written = 0
        while written < len(data):
            try:
                written += os.write(descriptor, view[written:written + (1 << 20)])
            except BlockingIOError:
                left = deadline - time.monotonic()
                if left <= 0:
                    problem = TimeoutError(f"the shim took {written} of {len(data)} bytes in {timeout} s")
                    problem.written = written
                    raise problem from None
                select.select([], [descriptor], [], left)

    def send_line(self, text, timeout=PATIENCE):
        self.write((text if isinstance(text, bytes) else text.encode()) + b"\n", timeout)

    def send(self, message, timeout=PATIENCE):
        self._note(message)
        self.send_line(json.dumps(message, ensure_ascii=False), timeout)

    def send_all(self, messages, timeout=PATIENCE):
        """Many messages in few writes, as a pipelining client does."""
        for message in messages:
            self._note(message)
        self.write("".join(json.dumps(message) + "\n" for message in messages).encode(), timeout)

    def _note(self, message):
        if isinstance(message, dict) and "id" in message and "method" in message:
            params = message.get("params")
            meta = params.get("_meta", {}) if isinstance(params, dict) else {}
            meta = meta if isinstance(meta, dict) else {}
            revision = mcpschema.STATELESS if any(key.startswith(META) for key in meta) else self.revision
            self.sent[id_key(message["id"])] = Sent(message["method"], revision, meta.get("progressToken", NOTHING))

    def expect_answer_to(self, request_id, method=""):
        """Announces a request that the test writes by hand with send_line."""
        self.sent[id_key(request_id)] = Sent(method, self.revision, NOTHING)

    def _meta(self, params, token=NOTHING):
        meta = stateless_meta() if self.revision == mcpschema.STATELESS else {}
        if token is not NOTHING:
            meta["progressToken"] = token
        if meta:
            params = dict(params or {})
            params["_meta"] = {**meta, **params.get("_meta", {})}
        return params

    def message(self, method, params=None, request_id=NOTHING, token=NOTHING):
        """A request in the client's revision, ready to be sent."""
        if request_id is NOTHING:
            self._next_id += 1
            request_id = self._next_id
        message = {"jsonrpc": "2.0", "id": request_id, "method": method}
        params = self._meta(params, token)
        if params is not None:
            message["params"] = params
        return message

    def start(self, method, params=None, request_id=NOTHING, token=NOTHING):
        """Sends a request and returns its id."""
        message = self.message(method, params, request_id, token)
        self.send(message)
        return message["id"]

    def request(self, method, params=None, request_id=NOTHING, timeout=PATIENCE):
        return self.answer(self.start(method, params, request_id), timeout)

    def result(self, method, params=None, timeout=PATIENCE):
        answer = self.request(method, params, timeout=timeout)
        assert "result" in answer, answer
        return answer["result"]

    def error(self, method, params=None, timeout=PATIENCE):
        answer = self.request(method, params, timeout=timeout)
        assert "error" in answer, answer
        return answer["error"]

    def notify(self, method, params=None):
        message = {"jsonrpc": "2.0", "method": method}
        if params is not None:
            message["params"] = params
        self.send(message)

    # MCP

    def initialize(self, revision, timeout=PATIENCE):
        """The handshake; returns the result."""
        self.revision = revision
        result = self.result("initialize", {"protocolVersion": revision, "capabilities": {},
                                            "clientInfo": {"name": "tests", "version": "1"}}, timeout)
        self.notify("notifications/initialized")
        return result

    def open(self, revision=mcpschema.NEWEST_HANDSHAKE):
        """Begins to speak a revision, with the handshake where it has one. Returns the client."""
        if revision == mcpschema.STATELESS:
            self.revision = revision
        else:
            assert self.initialize(revision)["protocolVersion"] == revision
        return self

    def call(self, name, arguments=None, timeout=PATIENCE):
        params = {"name": name}
        if arguments is not None:
            params["arguments"] = arguments
        return self.request("tools/call", params, timeout=timeout)

    def tool(self, name, /, **arguments):
        """Calls any tool; underscores in the names of arguments are hyphens."""
        answer = self.call(name, {key.replace("_", "-"): value for key, value in arguments.items()})
        assert "result" in answer, answer
        return Evaluation(answer["result"])

    def start_evaluation(self, code, request_id=NOTHING, token=NOTHING, **arguments):
        return self.start("tools/call", {"name": "evaluate-lisp", "arguments": {"code": code, **arguments}},
                          request_id, token)

    def evaluation(self, request_id, timeout=PATIENCE):
        answer = self.answer(request_id, timeout)
        assert "result" in answer, answer
        return Evaluation(answer["result"])

    def evaluate(self, code, timeout=PATIENCE, **arguments):
        return self.evaluation(self.start_evaluation(code, **arguments), timeout)

    def cancel(self, request_id, may_cross=False):
        """
        Cancels, and holds the server to saying nothing more about the request. Where it may end at the same moment, its
        answer may cross the cancellation; what is answered behind an answer to something later was not on its way.
        """
        if may_cross:
            self.crossed[id_key(request_id)] = len(self.sent)
        else:
            self.silenced.add(id_key(request_id))
        self.notify("notifications/cancelled", {"requestId": request_id, "reason": "the test says so"})

    # The end

    def end_of_input(self):
        self.process.stdin.close()

    def wait(self, timeout=PATIENCE):
        """Waits for the shim's end and for the rest of its output; returns its status."""
        status = self.process.wait(timeout)
        if self._reader.ident:
            self._reader.join(timeout)
        return status

    def terminate(self):
        self.process.send_signal(signal.SIGTERM)

    def finish(self):
        """Takes leave as a client does: cancels what runs, closes its output, expects status 0. Then verify()."""
        if self._finished:
            return
        self._finished = True
        if self in self.runtime.clients:
            self.runtime.clients.remove(self)
        if not self._reader.ident:
            self.start_reading()
        try:
            if self.process.poll() is None:
                self._leave()
        finally:
            if self.process.poll() is None:
                self.process.kill()
            self.process.wait()
            self._reader.join(PATIENCE)
            self.process.stdout.close()
        self.verify()

    def abandon(self):
        """Forgets a client whose end the test has seen to in its own way."""
        self._finished = True
        self.runtime.clients.remove(self)

    def _leave(self):
        if not self.process.stdin.closed:
            with contextlib.suppress(BrokenPipeError, TimeoutError):
                for key, sent in list(self.sent.items()):
                    if sent.method == "tools/call" and key not in self._answers and key not in self.silenced:
                        self.notify("notifications/cancelled", {"requestId": json.loads(key[1])})
            self.end_of_input()
        try:
            status = self.process.wait(10)
        except subprocess.TimeoutExpired:
            raise AssertionError("the shim did not end within 10 s after its input did") from None
        assert status == 0, f"the shim ended with status {status}"

    def verify(self):
        """
        What holds for every conversation: clean lines; at most one answer to each request, and none to a cancelled
        one or to what was never asked; every message as its revision's schema has it; progress only for tokens that
        were given, strictly rising, and never behind the answer; on a stream nothing before it is acknowledged or behind its
        end.
        """
        assert self._problem is None, self._problem
        streams = set()
        tokens = {id_key(sent.token): key for key, sent in self.sent.items() if sent.token is not NOTHING}
        last, settled = {}, set()
        for index, arrival in enumerate(self.arrivals):
            message = arrival.message
            if isinstance(message, list):
                continue
            key = id_key(message.get("id")) if "method" not in message else None
            if key is not None and message.get("id") is not None:
                assert key in self.sent, f"an answer to what was never asked: {str(message)[:500]}"
                assert key not in settled or key in self.repeatable, f"answered twice: {str(message)[:500]}"
                assert key not in self.silenced, f"answered although cancelled: {str(message)[:500]}"
                late = key in self.crossed and settled.intersection(list(self.sent)[self.crossed[key]:])
                assert not late, f"answered after it was cancelled: {str(message)[:500]}"
                settled.add(key)
            elif message.get("method") == "notifications/progress":
                self._verify_progress(message["params"], tokens, settled, last)
            elif META + "subscriptionId" in message.get("params", {}).get("_meta", {}):
                self._verify_stream(message, streams, settled)
            if index < MESSAGES_VALIDATED:
                sent = self.sent.get(key)
                mcpschema.check_server_message(sent.revision if sent else arrival.revision, message,
                                               sent.method if sent else None)

    def _verify_stream(self, message, acknowledged, settled):
        key = id_key(message["params"]["_meta"][META + "subscriptionId"])
        assert self.sent[key].method == "subscriptions/listen", f"on a stream that was never asked for: {message}"
        assert key not in settled, f"on a stream that has ended: {message}"
        if message["method"] == "notifications/subscriptions/acknowledged":
            acknowledged.add(key)
        assert key in acknowledged, f"before the stream was acknowledged: {message}"

    @staticmethod
    def _verify_progress(params, tokens, settled, last):
        token = id_key(params["progressToken"])
        assert token in tokens, f"progress without a token: {params}"
        assert tokens[token] not in settled, f"progress behind the answer: {params}"
        assert params["progress"] > last.get(token, float("-inf")), f"progress does not rise: {params}"
        last[token] = params["progress"]
