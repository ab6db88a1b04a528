#!/usr/bin/python3
"""
Kills everything, at any time, and sees whether the promises are kept.

Clients evaluate in sessions of their own, each with a model of what its session contains (model.py), while daemon, workers,
zygote and shims are killed, stopped and cut off, and the disk is full (mischief.py). Every answer is checked when it comes, and at
the end every definition, every row of the transcripts, and that nothing is left over: processes, descriptors, sockets.

A seed decides what is done, to whom and when; what comes of that also depends on the machine, so a seed that failed may need to be
tried more than once. Exit status 0 if all promises were kept.
"""

import argparse
import contextlib
import os
import pathlib
import random
import sys
import threading
import time
import traceback

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from harness import FAULTS, PATIENCE, Disk, Runtime, check_database, fate, open_files, wait_until  # noqa: E402
from mischief import Mischief, name_of  # noqa: E402
from model import Broken, Session, check, describe, rows_of  # noqa: E402

# What is done besides killing daemons and workers, for each hundred of them.
OTHERS = {"session_kill": 3, "both_kill": 10, "zygote_kill": 5, "shim_kill": 5, "daemon_stop": 4, "worker_stop": 4, "long_stop": 1,
          "zygote_stop": 2, "shim_stop": 3, "cut": 10, "full_disk": 3}
# That a session may have: see lisp/shelf.h.
COPIES_MAX = 6
BATCHES = (1, 1, 2, 5, 10, 20)
RESTS = (0,) * 8 + (0.005, 0.03)


class Actor(threading.Thread):
    """A client and its session."""

    patience = PATIENCE

    def __init__(self, runtime, number, seed, ended):
        super().__init__(name=f"client {number}", daemon=True)
        self.runtime, self.ended = runtime, ended
        self.chance = random.Random(f"{seed} {number}")
        self.session = Session(f"session {number}")
        self.answers = 0
        self.longest = 0.0
        self.problem = None
        self.has_lost = threading.Event()
        self.mischief = None
        self.client = runtime.client().open()

    def begin(self):
        self.ask([self.session.prelude()])
        self.ask([self.session.mark()])
        self.session.id = self.client.tool("session-info").structured["id"]

    def run(self):
        try:
            while not self.ended.is_set():
                self._turn()
        except BaseException as problem:  # whatever it is ends all
            self.problem = problem
            self.trace = traceback.format_exc()
            self.ended.set()

    def _turn(self):
        if self.session.is_gone:
            self.ask([self.session.prelude()])
        elif self.chance.random() < 0.03:
            self.ask([self.session.audit()])
        else:
            self.ask([self.session.mark(self.chance.choice(RESTS), self.chance.random() < 0.05)
                      for _ in range(self.chance.choice(BATCHES))])
        if self.chance.random() < 0.2:
            self.ended.wait(self.chance.random() * 0.03)

    def ask(self, steps):
        """Sends them all at once, and checks the answers."""
        answers = self._converse(steps)
        if answers is None or any("error" in answer for answer in answers):
            self.session.lose_client(steps)
            self._find_out(steps)
            return
        for step, answer in zip(steps, answers):
            self.session.take(step, answer)

    def _converse(self, steps):
        """None if the client was killed meanwhile."""
        messages = [self.client.message("tools/call", {"name": "evaluate-lisp", "arguments": {
            "code": step.code, **({"protect": True} if step.protect else {})}}) for step in steps]
        began = time.monotonic()
        try:
            self.client.send_all(messages)
            answers = [self.client.answer(message["id"]) for message in messages]
        except (AssertionError, OSError):
            if not self.has_lost.is_set():
                raise
            self._come_back()
            return None
        self.longest = max(self.longest, time.monotonic() - began)
        self.answers += len(answers)
        return answers

    def lose_client(self):
        """For whoever kills."""
        self.has_lost.set()
        self.client.process.kill()

    def _come_back(self):
        old = self.client
        old.process.wait()
        old._reader.join(PATIENCE)
        if (old._problem or "").startswith("stdout ended inside a line"):
            old._problem = None
        old.process.stdout.close()
        with contextlib.suppress(OSError):
            old.process.stdin.close()
        old.abandon()
        old.verify()
        self.has_lost.clear()

        def open_another():
            if self.mischief.full_until:
                return None  # what is agreed on could not be stored, and a daemon that dies then takes it along
            client = self.runtime.client("--session", self.session.id)
            with contextlib.suppress(AssertionError):  # while the disk is full nobody is told what a session is
                return client.open()
            client.process.kill()
            client.process.wait()
            client.abandon()
            return None

        self.client = wait_until(open_another, "another client can be served")

    def _find_out(self, unknown):
        """What became of steps whose answers are lost."""
        said = None
        for _ in range(1000):
            step = self.session.audit()
            answers = self._converse([step])
            if answers and "result" in answers[0]:
                text = answers[0]["result"]["content"][0]["text"]
                if not text.startswith(("[ERROR] WORKER-DIED\n", "[ERROR] STORAGE-FAILED\n")):
                    self.session.reconcile(unknown, text, step)
                    return
            step.fate = "unknown"
            said = answers
            time.sleep(0.01)
        raise Broken(f"{self.session.name} does not tell what it has: {said}")


class Play:
    """All of it, from an empty directory to an empty directory."""

    def __init__(self, options):
        self.options = options
        self.ended = threading.Event()
        self.runtime = Runtime()
        self.runtime.environment["CL_MCP_DAEMON_TIMEOUT"] = str(2 * PATIENCE)
        self.disk = None
        if FAULTS.is_file():
            self.disk = Disk(self.runtime.directory)
            self.runtime.use_faults(FAULTS=self.disk.path)
        else:
            print(f"no full disk: {FAULTS} is not there, make unit-tests builds it")
        self.actors = []

    def counts(self):
        options = self.options
        kills = options.daemon_kills + options.worker_kills
        counts = {kind: (share * kills + 50) // 200 for kind, share in OTHERS.items()}
        for kind in options.without:
            counts[kind] = 0
        both = min(counts["both_kill"], options.daemon_kills, options.worker_kills)
        counts["both_kill"] = both
        gone = min(counts["session_kill"], options.worker_kills - both)
        counts["session_kill"] = gone
        counts["daemon_kill"] = options.daemon_kills - both
        counts["worker_kill"] = options.worker_kills - both - gone
        return counts

    def play(self):
        for number in range(self.options.clients):
            self.actors.append(Actor(self.runtime, number, self.options.seed, self.ended))
            self.actors[-1].begin()
        mischief = Mischief(self.runtime, self.actors, self.disk, self.counts(), self.options.seed)
        mischief.tell = self._tell
        for actor in self.actors:
            actor.mischief = mischief
        self.began = time.monotonic()
        for actor in self.actors:
            actor.start()
        try:
            mischief.run(self.ended)
        finally:
            mischief.relent()
            self.ended.set()
            for actor in self.actors:
                actor.join(8 * PATIENCE)
        problems = [actor for actor in self.actors if actor.problem]
        for actor in problems:
            print(f"{actor.name}, {actor.session.id}:\n{actor.trace}\nBefore it:")
            for step in list(actor.session.steps.values())[-40:]:
                print(f"  {step.code[:80]!r}: {step.fate}, {step.text!r}")
        check(not problems, "a promise was not kept")
        check(not any(actor.is_alive() for actor in self.actors), "a client waits for ever")
        print(f"in {time.monotonic() - self.began:.1f} s: {mischief.done}; evaluations: {describe(self.sessions())}; "
              f"named again: {sum(session.repeated for session in self.sessions())}; "
              f"longest wait for a batch: {max(actor.longest for actor in self.actors):.2f} s", flush=True)

    def show_state(self):
        """Whatever helps to find out why."""
        log = [line for line in self.runtime.log_tail(200000).splitlines() if "another daemon serves" not in line]
        print("\n".join(log[-200:]))
        print("the lock names", *self.runtime.directory.joinpath("lock").read_text().split())
        for pid, command in self.runtime.processes().items():
            print(pid, name_of(pid), command, *(" ".join(line.split()) for line in fate(pid)))

    def sessions(self):
        return [actor.session for actor in self.actors]

    def _tell(self, position, kind):
        total = sum(self.counts().values())
        if self.options.verbose:
            print(f"{time.monotonic() - self.began:7.2f} {position} of {total}: {kind}", flush=True)
        elif position % 100 == 0:
            print(f"{time.monotonic() - self.began:7.1f} s: {position} of {total}; evaluations: {describe(self.sessions())}", flush=True)

    def verify(self):
        """When all is quiet again."""
        for actor in self.actors:
            if actor.session.is_gone:
                actor.ask([actor.session.prelude()])
            actor.ask([actor.session.audit()])
        for actor in self.actors:
            actor.client.finish()
        self._verify_transcripts()
        self._verify_nothing_is_left()

    def _verify_transcripts(self):
        def all_is_stored():
            with contextlib.closing(check_database(self.runtime.database)) as database:
                return all(rows_of(database, session.id)[-2:-1] == [("user", list(session.steps.values())[-1].code)]
                           for session in self.sessions())

        wait_until(all_is_stored, "the last evaluations are stored")
        with contextlib.closing(check_database(self.runtime.database)) as database:
            counts = [session.check_transcript(rows_of(database, session.id)) for session in self.sessions()]
        print(f"{sum(counts)} evaluations in the transcripts", flush=True)

    def _sockets(self):
        return {path.name for path in self.runtime.directory.iterdir() if path.name.startswith("session-")}

    def _named(self, name):
        return [pid for pid in self.runtime.processes() if name_of(pid) == name]

    def _verify_nothing_is_left(self):
        """Against a daemon and a session that are new."""
        runtime, ids = self.runtime, {session.id for session in self.sessions()}
        with runtime.client() as client:
            reference = client.open().tool("create-session").structured["id"]
            client.evaluate("1", session=reference)
        ids.add(reference)

        def are_there(sessions):
            """The copies that a rollback may ask for are made over again by each process that takes over."""
            names = [name_of(pid) for pid in runtime.processes()]
            copies = names.count("cl-mcp-snapshot")
            return (names.count("cl-mcpd") == 1 and names.count("cl-mcp-worker") == sessions + 1 and
                    sessions <= copies <= sessions * COPIES_MAX and len(names) == sessions + 2 + copies)

        try:
            wait_until(lambda: are_there(len(ids)), "each session has a process and copies, and nothing else runs")
        except AssertionError:
            print(f"{len(ids)} sessions: { {pid: name_of(pid) for pid in runtime.processes()} }")
            raise
        check(self._sockets() == ids | {f"{name}.lock" for name in ids}, f"these files: {sorted(self._sockets())} of {sorted(ids)}")
        status = runtime.status()
        workers = {one["id"]: one["pid"] for one in status["sessions"]}
        check(set(workers) == ids, f"the daemon has {sorted(workers)} instead of {sorted(ids)}")
        files = {name: open_files(pid) for name, pid in workers.items()}
        check(set(files.values()) == {files[reference]}, f"descriptors of workers, the last one new: {files}")
        copies = {copy: open_files(copy) for copy in self._named("cl-mcp-snapshot")}
        check(len(set(copies.values())) == 1, f"descriptors of copies: {copies}")
        before = open_files(runtime.daemon_pid())
        runtime.end_daemon()
        runtime.ready()
        wait_until(lambda: open_files(runtime.daemon_pid()) == before, f"a new daemon has {before} descriptors as well")
        with runtime.client() as client:
            client.open()
            for name in ids:
                answer = client.tool("delete-session", session=name)
                check(not answer.is_error, f"{name} cannot be deleted: {answer.text}")
        wait_until(lambda: are_there(0), "nothing but daemon and zygote runs")
        wait_until(lambda: not self._sockets(), "no session's socket is left")
        print(f"nothing is left over; a daemon has {before} descriptors, a worker {files[reference]}", flush=True)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.strip().split("\n", maxsplit=1)[0])
    parser.add_argument("--seed", type=int, default=int(os.environ.get("CRASH_SEED") or random.randrange(1 << 32)))
    parser.add_argument("--daemon-kills", type=int, default=200)
    parser.add_argument("--worker-kills", type=int, default=200)
    parser.add_argument("--clients", type=int, default=5)
    parser.add_argument("--without", action="append", default=[], choices=sorted(OTHERS), help="leave this out")
    parser.add_argument("--verbose", action="store_true", help="say everything that is done")
    return parser.parse_args()


def main():
    options = arguments()
    print(f"crash: seed {options.seed}", flush=True)
    play = Play(options)
    try:
        play.play()
        play.verify()
        play.runtime.close()
    except BaseException as problem:
        play.show_state()
        traceback.print_exc(file=sys.stdout)
        for session in play.sessions():
            print(f"{session.name} is {session.id}: deaths {session.deaths}, told {session.told}")
        print(f"crash: FAILED with --seed {options.seed} --daemon-kills {options.daemon_kills} --worker-kills {options.worker_kills} "
              f"--clients {options.clients}: {problem}", flush=True)
        with contextlib.suppress(AssertionError):
            play.runtime.close()
        return 1
    print(f"crash: all promises were kept, seed {options.seed}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
