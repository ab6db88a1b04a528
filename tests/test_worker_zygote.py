"""The zygote: boot, forks, what it tells daemons, how it lives and leaves."""
import os
import resource
import signal
import socket
import subprocess
import sys
import tempfile

import pytest

from worker_driver import (BUILD_DIR, PROGRAM, Link, Zygote, descendants, descriptors, encode, is_alive, new_session_id, threads,
                           wait_for, worker, zygote)  # noqa: F401

RECIPES = ["interrupt", "fault-handler", "stack-limits", "heap-limit", "float-traps", "backtrace-arguments",
           "debugger-hook", "exit-replacement", "output-stream", "package-lock", "lint"]


def run(*arguments):
    return subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, timeout=60)


def test_self_test_finds_every_recipe_working():
    done = run("--self-test")
    assert done.returncode == 0
    if "ECL 21.2.1" in subprocess.run(["ecl", "--version"], capture_output=True, text=True).stdout:
        assert done.stdout.splitlines() == [f"ok {name}" for name in RECIPES]
    else:
        assert len(done.stdout.splitlines()) == len(RECIPES)


def test_ready_names_no_fallback_on_the_reference_version(zygote):
    assert zygote.ready.version == 1
    assert zygote.ready.pid == zygote.pid
    assert zygote.ready.lisp.startswith("ECL ")
    if zygote.ready.lisp == "ECL 21.2.1":
        assert zygote.ready.fallback == []


def test_help_version_and_misuse():
    assert "RUNTIME_DIRECTORY" in run("--help").stdout
    assert run("--version").stdout.startswith("cl-mcp-worker ")
    for wrong in ([], ["a", "b"], ["--nonsense"], ["--without", "nonsense", "/tmp"]):
        assert run(*wrong).returncode == 64


def test_has_one_thread_after_boot(zygote):
    assert threads(zygote.pid) == 1


def test_preloads_compiler_and_asdf(worker):
    assert worker.value("(not (or (null (find-package :asdf)) (null (find-package :c))))") == "T"


def test_socket_is_there_before_lisp_has_booted(tmp_path):
    with open(tmp_path / "log", "wb") as log:
        process = subprocess.Popen([PROGRAM, tmp_path], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    link = Link(tmp_path / "zygote")
    assert link.receive().kind == "R"
    process.terminate()
    assert process.wait(10) == 0
    assert not (tmp_path / "zygote").exists()


def test_forks_are_independent(zygote):
    with zygote.spawn() as one, zygote.spawn() as other:
        one.value("(defvar *mine* 1)")
        one.value("(defun only-here () 1)")
        assert other.evaluate("*mine*").error_type == "UNBOUND-VARIABLE"
        assert other.evaluate("(only-here)").error_type == "UNDEFINED-FUNCTION"
        assert one.value("(+ *mine* (only-here))") == "2"


def test_forks_draw_different_random_numbers(zygote):
    with zygote.spawn() as one, zygote.spawn() as other:
        assert one.value("(random (expt 10 40))") != other.value("(random (expt 10 40))")


def test_collector_threads_and_subprocesses_work_after_the_fork(worker):
    assert worker.value("(progn (dotimes (i 5) (loop repeat 10000 collect (make-array 10)) (ext:gc t)) :ok)") == ":OK"
    code = "(let ((x 0)) (mp:process-join (mp:process-run-function 'a (lambda () (setf x 42)))) x)"
    assert worker.value(code) == "42"
    assert worker.value('(values (read-line (ext:run-program "/bin/echo" \'("hi") :output :stream)))') == '"hi"'


def test_worker_runs_in_the_directory_asked_for(zygote, tmp_path):
    with zygote.spawn(str(tmp_path)) as worker:
        assert os.readlink(f"/proc/{worker.pid}/cwd") == str(tmp_path)
        assert worker.value("(probe-file \"./\")") == f'#P"{tmp_path}/"'


def test_worker_says_when_its_directory_cannot_be_entered(zygote):
    with zygote.spawn("/nonexistent/place") as worker:
        result = worker.evaluate("1")
        assert b"/nonexistent/place cannot be entered" in result.stderr
        assert worker.evaluate("1").stderr is None


def test_name_of_the_session_is_in_no_process_title(zygote, worker):
    for name in ("cmdline", "comm"):
        with open(f"/proc/{worker.pid}/{name}") as file:
            assert worker.session not in file.read()
    with open(f"/proc/{worker.pid}/comm") as comm:
        assert comm.read() == "cl-mcp-worker\n"


def test_newest_connection_wins_and_hears_of_live_workers(zygote, worker):
    old = zygote.link
    zygote.link = None
    zygote.connect()
    assert zygote.expect("P", worker.session).pid == worker.pid
    with pytest.raises(EOFError):
        while True:
            old.receive(5)


def test_spawning_a_session_twice_gives_the_same_worker(zygote, worker):
    zygote.link.send("S", session=worker.session, directory="/tmp")
    assert zygote.expect("P", worker.session).pid == worker.pid


def test_death_of_a_worker_is_reported_with_its_status(zygote):
    worker = zygote.spawn()
    worker.kill(signal.SIGKILL)
    died = zygote.expect("D", worker.session)
    assert died.pid == worker.pid and os.WTERMSIG(died.status) == signal.SIGKILL
    assert not (zygote.directory / worker.session).exists()


def test_quit_ends_a_worker(zygote):
    worker = zygote.spawn()
    worker.link.send("Q")
    assert os.WEXITSTATUS(zygote.expect("D", worker.session).status) == 0


def test_subprocesses_end_with_their_worker(zygote):
    worker = zygote.spawn()
    pid = worker.spawn_sleeper()
    assert is_alive(pid)
    worker.kill()
    zygote.expect("D", worker.session)
    wait_for(lambda: not is_alive(pid))


def test_untrusted_frames_close_the_connection_but_not_the_zygote(zygote):
    for broken in (b"\xff\xff\xff\xff", encode("S", session="../../etc/passwd"), encode("S", session="x" * 28 + "/")):
        link = Link(zygote.directory / "zygote")
        assert link.receive().kind == "R"
        link.socket.sendall(broken)
        with pytest.raises(EOFError):
            while True:
                link.receive(5)
    zygote.connect()
    zygote.spawn().close()


def test_second_zygote_leaves_the_first_alone(zygote):
    done = run(str(zygote.directory))
    assert done.returncode == 0
    assert "another zygote" in done.stderr
    zygote.spawn().close()


def test_socket_of_a_dead_zygote_is_replaced(tmp_path):
    dead = socket.socket(socket.AF_UNIX)
    dead.bind(str(tmp_path / "zygote"))
    dead.close()
    with Zygote(directory=tmp_path) as zygote:
        zygote.spawn().close()


def test_outlives_its_daemon_and_leaves_when_nobody_needs_it():
    with Zygote(["--linger", "1"]) as zygote:
        worker = zygote.spawn()
        zygote.link.close()
        with pytest.raises(subprocess.TimeoutExpired):
            zygote.process.wait(1.5)  # there is a worker
        assert worker.value("(+ 1 2)") == "3"
        worker.link.send("Q")
        assert zygote.process.wait(10) == 0
        assert not (zygote.directory / "zygote").exists()


def test_termination_ends_all_workers():
    with Zygote() as zygote:
        pids = [zygote.spawn().pid for _ in range(3)]
        zygote.process.terminate()
        assert zygote.process.wait(10) == 0
        assert not any(is_alive(pid) for pid in pids)


def test_a_daemon_that_does_not_read_is_still_heard_when_it_says_that_all_shall_leave():
    """As one does that ends a thousand sessions at once."""
    with Zygote() as zygote:
        pid = zygote.spawn(session="session-20260120-143022-A4F2").pid
        for _ in range(2000):  # each asks for a report
            zygote.link.send("S", session="session-20260120-143022-A4F2", directory="/tmp")
        zygote.link.send("Q")
        assert zygote.process.wait(10) == 0
        assert not is_alive(pid)


def test_crash_of_the_zygote_leaves_workers_alive():
    with Zygote() as zygote:
        worker = zygote.spawn()
        zygote.process.kill()
        zygote.process.wait()
        assert worker.value("(+ 1 2)") == "3"
        worker.link.send("Q")
        wait_for(lambda: not is_alive(worker.pid))


def run_as_nobody(test, file=__file__):
    """Runs a test as another user."""
    with tempfile.TemporaryDirectory(prefix="clmcp-") as directory:
        os.chown(directory, 65534, 65534)
        command = [sys.executable, "-B", "-m", "pytest", "-q", "--noconftest", "-p", "no:cacheprovider",
                   f"{file}::{test}"]
        done = subprocess.run(command, user=65534, group=65534, extra_groups=[], cwd=directory, capture_output=True,
                              text=True, env={**os.environ, "HOME": directory, "TMPDIR": directory,
                                             "BUILD_DIR": str(BUILD_DIR)})
    signs = "PermissionError", "Permission denied", "file or directory not found"
    if any(sign in done.stdout + done.stderr for sign in signs):
        pytest.skip("the user nobody cannot read the build directory")
    assert done.returncode == 0, done.stdout


def test_failing_fork_is_refused_with_the_reason():
    if os.getuid() == 0:  # root has no limit on processes to run into
        run_as_nobody("test_failing_fork_is_refused_with_the_reason")
        return
    with Zygote() as zygote:
        resource.prlimit(zygote.pid, resource.RLIMIT_NPROC, (1, 1))
        session = new_session_id()
        zygote.link.send("S", session=session, directory="/tmp")
        assert "Resource temporarily unavailable" in zygote.expect("X", session).text


def test_failing_pipe_is_refused_with_the_reason():
    with Zygote() as zygote:
        resource.prlimit(zygote.pid, resource.RLIMIT_NOFILE, (len(os.listdir(f"/proc/{zygote.pid}/fd")), 1024))
        session = new_session_id()
        zygote.link.send("S", session=session, directory="/tmp")
        assert "Too many open files" in zygote.expect("X", session).text


def test_no_descriptor_or_process_is_leaked(zygote):
    before = descriptors(zygote.pid)
    for _ in range(10):
        with zygote.spawn() as worker:
            worker.value("(+ 1 2)")
            in_worker = descriptors(worker.pid)
            assert not [name for name in in_worker if "zygote" in name or "log" in name]
    assert descriptors(zygote.pid) == before
    assert not descendants(zygote.pid)


@pytest.mark.parametrize("recipe", RECIPES)
def test_sessions_work_without_each_recipe(recipe):
    with Zygote(["--without", recipe]) as zygote:
        assert zygote.ready.fallback == [recipe]
        assert f"the recipe {recipe} is switched off" in zygote.log_text()
        with zygote.spawn() as worker:
            assert worker.value('(progn (format t "out~%") (+ 1 2))') == "3"
            assert worker.evaluate('(format t "out~%")').stdout == b"out\n"
            result = worker.evaluate("(defun f (a) (/ a 0)) (f 42)")
            assert (result.outcome_name, result.error_type) == ("ERROR", "DIVISION-BY-ZERO")
            assert any(frame.startswith("(F") for frame in result.frame)
            if recipe == "backtrace-arguments":
                assert result.frame == ["(/ 42 0)", "(F ...)"]
            assert worker.evaluate("(defun inf (x) (1+ (inf x))) (inf 1)").error_type == "STORAGE-CONDITION"
            if recipe == "interrupt":
                worker.begin("(loop)", time_limit=10)
                assert worker.result().kind == "f"
                zygote.expect("D", worker.session)
                zygote.link.send("S", session=worker.session, directory="/tmp")
                zygote.expect("P", worker.session)
            else:
                worker.begin("(loop)", time_limit=10)
                assert worker.result().outcome_name == "TIMEOUT"


def test_a_zygote_that_is_killed_while_it_tries_what_works_leaves_nobody(tmp_path):
    """Some of what it tries are endless loops."""
    zygote = subprocess.Popen([PROGRAM, tmp_path], stderr=subprocess.DEVNULL)
    tried = wait_for(lambda: descendants(zygote.pid))
    zygote.kill()
    zygote.wait()
    wait_for(lambda: not any(is_alive(pid) for pid in tried))
