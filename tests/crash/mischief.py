"""
What is done to the processes of a Runtime, at moments that a seed chooses: killed, stopped, cut off from each other, and
deprived of their disk. Whoever does something says so to the model before it can be noticed.
"""

import contextlib
import ctypes
import errno
import os
import pathlib
import random
import re
import signal
import socket
import time

from harness import alive, copies_of, wait_until

PIDFD_GETFD = 438  # on all architectures
PAUSES = (0, 0, 0.001, 0.005, 0.02, 0.05, 0.1)
STOPS = (0.01, 0.1, 0.3)
LONG_STOP = 2.5  # longer than an adoption waits


def name_of(pid):
    with contextlib.suppress(OSError):
        return pathlib.Path(f"/proc/{pid}/comm").read_text().strip()
    return ""


def borrow_socket(pid, descriptor):
    """A socket of another process."""
    libc = ctypes.CDLL(None, use_errno=True)
    process = os.pidfd_open(pid)
    try:
        borrowed = libc.syscall(PIDFD_GETFD, process, descriptor, 0)
    finally:
        os.close(process)
    if borrowed < 0:
        raise OSError(ctypes.get_errno(), "pidfd_getfd")
    return socket.socket(fileno=borrowed)


def connections_of(pid):
    """(socket, pid of the peer) of each connection; whoever asks closes them."""
    for descriptor in os.listdir(f"/proc/{pid}/fd"):
        with contextlib.suppress(FileNotFoundError):
            if not os.readlink(f"/proc/{pid}/fd/{descriptor}").startswith("socket:"):
                continue
            link = borrow_socket(pid, int(descriptor))
            if link.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN) or link.type != socket.SOCK_STREAM:
                link.close()
                continue
            peer = int.from_bytes(link.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)[:4], "little")
            yield link, peer


class Mischief:
    """
    actors have a session, a client, the number of answers that they had, and lose_client(). Everything happens in the thread that
    calls run().
    """

    def __init__(self, runtime, actors, disk, counts, seed):
        self.runtime, self.actors, self.disk = runtime, actors, disk
        self.chance = random.Random(seed)
        self.plan = [kind for kind, count in counts.items() for _ in range(count)]
        self.chance.shuffle(self.plan)
        self.done = dict.fromkeys(counts, 0)
        self.stopped = {}  # pid: when it goes on
        self.full_until = 0
        self.tell = lambda position, kind: None

    def run(self, ended):
        for position, kind in enumerate(self.plan):
            if ended.is_set():
                break
            self.tell(position, kind)
            if getattr(self, "_" + kind)():
                self.done[kind] += 1
            self._wait(self.chance.choice(PAUSES), ended)
            if self.chance.random() < 0.5:
                self._wait_for_an_answer(ended)
        self.relent()

    def relent(self):
        for pid in list(self.stopped):
            self._go_on(pid)
        self._heal()

    # Time

    def _attend(self):
        now = time.monotonic()
        for pid in [pid for pid, when in self.stopped.items() if when <= now]:
            self._go_on(pid)
        if self.full_until and self.full_until <= now:
            self._heal()

    def _wait(self, seconds, ended):
        until = time.monotonic() + seconds
        self._attend()
        while time.monotonic() < until and not ended.is_set():
            time.sleep(min(0.01, max(0, until - time.monotonic())))
            self._attend()

    def _wait_for_an_answer(self, ended):
        actor = self.chance.choice(self.actors)
        before = actor.answers

        def has_come():
            self._attend()
            return actor.answers > before or ended.is_set()

        wait_until(has_come, f"{actor.session.name} is answered", 4 * actor.patience)

    def _go_on(self, pid):
        del self.stopped[pid]
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)

    def _heal(self):
        self.full_until = 0
        if self.disk:
            self.disk.heal()

    # Who there is

    def _daemon(self):
        def living():
            self._attend()
            with contextlib.suppress(OSError, IndexError, ValueError):
                pid = self.runtime.daemon_pid()
                return alive(pid) and name_of(pid) == "cl-mcpd" and pid
            return 0

        return wait_until(living, "there is a daemon")

    def _zygote(self):
        found = re.findall(r"the zygote is ready: process (\d+)", self.runtime.log_tail(200000))
        return next((int(pid) for pid in reversed(found) if alive(pid) and name_of(pid) == "cl-mcp-worker"), 0)

    def _worker(self):
        """(session, pid) of one that has answered lately."""
        sessions = [actor.session for actor in self.actors]
        self.chance.shuffle(sessions)

        def living():
            self._attend()
            for session in sessions:
                pid = session.pid
                if pid and pid not in session.pids and alive(pid) and name_of(pid) == "cl-mcp-worker":
                    return session, pid
            return None

        return wait_until(living, "a session has a process")

    # What can be done

    def _kill(self, pid):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
            return True
        return False

    def _daemon_kill(self):
        return self._kill(self._daemon())

    def _worker_kill(self):
        session, pid = self._worker()
        session.note_death([pid])
        return self._kill(pid)

    def _session_kill(self):
        """The worker and its copies."""
        session, pid = self._worker()
        session.note_death([pid], may_be_gone=True)
        with contextlib.suppress(ProcessLookupError, FileNotFoundError):
            os.kill(pid, signal.SIGSTOP)
            for copy in copies_of(pid):
                self._kill(copy)
        return self._kill(pid)

    def _both_kill(self):
        """Daemon and worker, in either order."""
        daemon, (session, pid) = self._daemon(), self._worker()
        session.note_death([pid])
        killed = [self._kill(victim) for victim in self.chance.sample((daemon, pid), 2)]
        return all(killed)

    def _zygote_kill(self):
        pid = self._zygote()
        return bool(pid) and self._kill(pid)

    def _shim_kill(self):
        self.chance.choice(self.actors).lose_client()
        return True

    def _stop(self, pid, seconds):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGSTOP)
            self.stopped[pid] = time.monotonic() + seconds
            return True
        return False

    def _daemon_stop(self):
        return self._stop(self._daemon(), self.chance.choice(STOPS))

    def _worker_stop(self):
        return self._stop(self._worker()[1], self.chance.choice(STOPS))

    def _long_stop(self):
        """And the daemon is killed meanwhile."""
        return self._stop(self._worker()[1], LONG_STOP) and self._kill(self._daemon())

    def _zygote_stop(self):
        pid = self._zygote()
        return bool(pid) and self._stop(pid, self.chance.choice(STOPS))

    def _shim_stop(self):
        return self._stop(self.chance.choice(self.actors).client.process.pid, self.chance.choice(STOPS))

    def _cut(self):
        """One connection of the daemon's. A worker without one is of no use, and is killed by the daemon."""
        try:
            links = list(connections_of(self._daemon()))
        except OSError as problem:
            if problem.errno not in (errno.ENOENT, errno.ESRCH, errno.EBADF):
                raise
            return False
        sessions = {actor.session.pid: actor.session for actor in self.actors}
        shims = {actor.client.process.pid for actor in self.actors}
        peers = [peer for _, peer in links if peer in shims or peer in sessions or peer == self._zygote()]
        victim = self.chance.choice(peers) if peers else 0
        for link, peer in links:
            if peer == victim:
                if peer in sessions:
                    sessions[peer].note_death([peer])
                with contextlib.suppress(OSError):
                    link.shutdown(socket.SHUT_RDWR)
            link.close()
        return bool(victim)

    def _full_disk(self):
        if not self.disk:
            return False
        self.full_until = time.monotonic() + self.chance.choice((0.05, 0.3))
        self.disk.break_down(errno.ENOSPC)
        return True
