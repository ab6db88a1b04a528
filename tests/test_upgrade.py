"""A daemon of another version takes the sessions over: upgrading is what a restart is."""

import os
import shutil
import signal

from harness import BUILD_DIR, PROGRAMS, wait_until

OLD, NEW = b"0.1.0", b"9.9.9"


def newer_build(directory):
    """The programs with another version, which is the same but for the name that it goes by."""
    directory.mkdir()
    for name in PROGRAMS:
        data = (BUILD_DIR / name).read_bytes()
        assert name == "cl-mcp-worker" or OLD in data
        (directory / name).write_bytes(data.replace(OLD, NEW))
        shutil.copymode(BUILD_DIR / name, directory / name)
    return directory


def test_a_daemon_of_a_new_version_adopts_workers_of_the_old_one_and_serves_its_shims(own_runtime, tmp_path):
    client = own_runtime.client().open()
    client.evaluate("(defvar *n* 0)")
    before = own_runtime.status()
    assert before["version"] == OLD.decode()
    go = tmp_path / "go"
    running = client.start_evaluation(f'(loop until (probe-file "{go}") finally (return (incf *n*)))')
    wait_until(lambda: client.result("cl-mcpd/status")["sessions"][0]["state"] == "running", "it runs")
    client.process.send_signal(signal.SIGSTOP)  # or it would start the old one again
    os.kill(own_runtime.daemon_pid(), signal.SIGKILL)
    own_runtime.programs = newer_build(tmp_path / "new")
    daemon = own_runtime.start_daemon()
    client.process.send_signal(signal.SIGCONT)
    go.touch()
    assert client.evaluation(running).text == "=> 1"
    assert client.evaluate("(incf *n*)").text == "=> 2"
    after = client.result("cl-mcpd/status")
    assert (after["version"], after["pid"]) == (NEW.decode(), daemon.pid)
    assert after["sessions"][0]["pid"] == before["sessions"][0]["pid"]
    with own_runtime.client() as other:
        assert other.open().evaluate("(+ 1 2)").text == "=> 3"
    client.finish()
    own_runtime.control("shutdown")
    daemon.wait()
