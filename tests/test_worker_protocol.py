"""The link between daemon and worker: hello, numbers, kept results, reconnection."""
import os
import struct
import time

import pytest

from worker_driver import Link, is_alive, threads, wait_for, worker, zygote  # noqa: F401


def test_hello_names_session_process_and_numbers(worker):
    assert worker.hello.version == 1
    assert worker.hello.session == worker.session
    assert worker.hello.pid == worker.pid
    assert (worker.hello.incarnation, worker.hello.seq, worker.hello.running) == (1, 0, None)
    assert threads(worker.pid) == 2


def test_hello_comes_while_an_evaluation_loops(worker):
    worker.begin("(loop)", origin=b"who asked")
    worker.wait_until_running()
    worker.connect()
    assert (worker.hello.seq, worker.hello.running, worker.hello.origin) == (1, 1, b"who asked")
    worker.cancel()
    result = worker.result()
    assert result.outcome_name == "CANCELLED" and result.origin == b"who asked"


def test_newest_connection_counts(worker):
    old = worker.link
    worker.link = None
    worker.connect()
    with pytest.raises(EOFError):
        old.receive(5)
    assert worker.value("(+ 1 2)") == "3"


def test_result_is_kept_until_it_is_forgotten(worker):
    for i in range(3):
        worker.begin(f"(* 10 {i})")
        worker.result(forget=False)
    worker.connect()
    assert worker.hello.kept == 3
    assert [worker.link.receive().value for _ in range(3)] == [["0"], ["10"], ["20"]]
    worker.forget(2)
    worker.connect()
    assert [worker.link.receive().seq for _ in range(worker.hello.kept)] == [3]
    worker.forget(3)
    worker.connect()
    assert worker.hello.kept == 0
    assert worker.value("(+ 1 2)") == "3"


def test_evaluation_goes_on_without_a_daemon_and_its_result_waits(worker):
    worker.begin("(progn (sleep 0.2) (defvar *done* 5) *done*)")
    worker.wait_until_running()
    worker.link.close()

    def is_over():
        worker.connect()
        return worker.hello.running is None
    wait_for(is_over)
    assert worker.result().value == ["5"]
    assert worker.value("*done*") == "5"


def test_only_the_next_number_runs(worker):
    worker.value("(defvar *runs* 0)")
    assert worker.value("(incf *runs*)") == "1"
    for seq in (1, 2, 4, 99, 2**63):
        worker.begin("(incf *runs*)", seq=seq)
    worker.link.send("E", incarnation=7, seq=3, origin=b"", code="(incf *runs*)")
    assert worker.value("(incf *runs*)") == "2"


def test_resending_what_was_begun_does_not_run_it_twice(worker):
    worker.value("(defvar *runs* 0)")
    seq = worker.begin("(progn (sleep 0.1) (incf *runs*))")
    worker.wait_until_running()
    worker.connect()
    worker.begin("(progn (sleep 0.1) (incf *runs*))", seq=seq)
    assert worker.result(seq).value == ["1"]
    assert worker.value("*runs*") == "1"


def test_requests_may_be_sent_ahead(worker):
    first = worker.seq + 1
    for i in range(50):
        worker.begin(str(i))
    assert [worker.result(first + i).value for i in range(50)] == [[str(i)] for i in range(50)]


def test_evaluations_wait_while_too_many_results_are_kept(worker):
    for i in range(256):
        worker.begin(str(i))
        worker.result(forget=False)
    for i in range(256, 280):
        worker.begin(str(i))
    with pytest.raises(TimeoutError):
        worker.link.receive(0.3)
    worker.forget(256)
    assert worker.result(257, forget=False).value == ["256"]


def test_large_requests_and_results_pass(worker):
    text = "x" * 15_000_000
    assert worker.value(f'(length "{text}")') == "15000000"
    worker.evaluate("(dotimes (i 2000000) (write-char #\\a) (write-char #\\b *error-output*))")
    assert worker.value("(+ 1 2)") == "3"


def test_daemon_that_does_not_read_blocks_only_itself(worker, tmp_path):
    code = "(dotimes (i 1000000) (write-char #\\a))"
    for _ in range(7):
        worker.begin(code)
    worker.begin(f'{code} (close (open "{tmp_path}/done" :direction :output))')
    wait_for((tmp_path / "done").exists)
    wait_for(lambda: worker.connect() or not worker.hello.running)
    kept = [worker.link.receive() for _ in range(worker.hello.kept)]
    assert [len(result.stdout) for result in kept] == [1_000_000] * 8


def is_busy(pid):
    """True if the process used processor time in the last tenth of a second."""
    def used():
        with open(f"/proc/{pid}/stat") as stat:
            return sum(map(int, stat.read().rpartition(")")[2].split()[11:13]))
    before = used()
    time.sleep(0.1)
    return used() != before


def test_broken_frames_close_the_connection_and_nothing_else(worker):
    worker.value("(defvar *kept* 42)")
    for broken in (b"\xff\xff\xff\xff", struct.pack("<I", 0), struct.pack("<IcBI", 10, b"E", 16, 1000) + b"abcd",
                   struct.pack("<Ic", 1, b"E")):
        link = Link(worker.zygote.directory / worker.session)
        assert link.receive().kind == "h"
        link.socket.sendall(broken)
        with pytest.raises(EOFError):
            while True:
                link.receive(5)
    worker.connect()
    assert worker.value("*kept*") == "42"


def test_unknown_frames_and_fields_are_skipped(worker):
    worker.link.socket.sendall(struct.pack("<IcBI", 9, b"?", 200, 3) + b"abc")
    assert worker.value("(+ 1 2)") == "3"


def test_peek_without_an_evaluation_is_not_answered(worker):
    worker.link.send("P")
    assert worker.evaluate("(+ 1 2)").value == ["3"]


def test_half_a_frame_and_then_silence_blocks_nobody_else(worker):
    worker.link.socket.sendall(struct.pack("<I", 1000) + b"E")
    worker.connect()
    assert worker.value("(+ 1 2)") == "3"


def test_elapsed_time_is_in_microseconds(worker):
    assert 20_000 <= worker.evaluate("(sleep 0.02)").elapsed < 2_000_000


def test_idle_worker_uses_no_processor_time(worker):
    worker.value("(+ 1 2)")
    assert is_alive(worker.pid) and os.path.exists(f"/proc/{worker.pid}")
    wait_for(lambda: not is_busy(worker.pid), 5)
