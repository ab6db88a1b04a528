"""Everything that an evaluation writes, from wherever it is written."""
import os
import signal
import time

import pytest

from worker_driver import memory, wait_for, worker, zygote  # noqa: F401

MIB = 1 << 20


def test_streams_of_lisp_are_captured_where_they_belong(worker):
    result = worker.evaluate('(progn (format t "out~%") (format *error-output* "err~%")'
                             ' (format *trace-output* "trace~%") (format *debug-io* "gone") (format *query-io* "gone")'
                             ' (format *terminal-io* "gone") 42)')
    assert (result.stdout, result.stderr, result.value) == (b"out\n", b"err\ntrace\n", ["42"])


def test_trace_goes_to_standard_error(worker):
    worker.value("(defun traced (x) x)")
    worker.evaluate("(trace traced)")
    result = worker.evaluate("(traced 5)")
    assert b"(TRACED 5)" in result.stderr and result.stdout is None


@pytest.mark.parametrize("stream", ["*standard-input*", "*query-io*", "*debug-io*", "*terminal-io*"])
def test_input_is_at_its_end(worker, stream):
    assert worker.value(f"(values (read-line {stream} nil :eof))") == ":EOF"
    assert worker.evaluate(f"(read {stream})").error_type == "END-OF-FILE"
    assert worker.evaluate("(y-or-n-p)").error_type == "END-OF-FILE"


def test_text_is_encoded_as_utf8(worker):
    result = worker.evaluate('(progn (write-string "é😀") (write-char (code-char 233)) "é😀\u4e2d")')
    assert result.stdout.decode() == "é😀é"
    assert result.value == ['"é😀\u4e2d"']


def test_lone_surrogates_and_nul_arrive_as_valid_text(worker):
    result = worker.evaluate("(progn (write-char (code-char #xD800)) (write-char (code-char 0))"
                             " (string (code-char #xDFFF)))")
    assert result.stdout.decode() == "\ufffd\0"
    assert result.value == ['"\ufffd"']
    result = worker.evaluate("(values (string (code-char 0)) 2)")
    assert result.value == ['"\0"', "2"]


def test_descriptors_one_and_two_are_captured(worker):
    result = worker.evaluate('(ext:system "echo out; echo err 1>&2")')
    assert (result.stdout, result.stderr) == (b"out\n", b"err\n")
    result = worker.evaluate('(ext:run-program "/bin/echo" \'("hello") :output t :wait t)')
    assert result.stdout == b"hello\n"


def test_binary_output_arrives_as_it_is(worker):
    result = worker.evaluate(r'''(ext:system "printf '\\377\\000\\033\\200'")''')
    assert result.stdout == b"\xff\x00\x1b\x80"


def test_lisp_and_subprocesses_are_shown_in_order(worker):
    for _ in range(10):
        result = worker.evaluate('(progn (princ "a") (ext:system "echo b") (princ "c") (ext:system "echo d")'
                                 ' (princ "e"))')
        assert result.stdout == b"ab\ncd\ne"


def test_twenty_megabytes_are_counted_and_the_first_sixteen_mebibytes_kept(worker):
    result = worker.evaluate("(dotimes (i 200000) (write-string \"" + "x" * 99 + "\") (terpri))")
    assert result.stdout_total == 20_000_000
    assert len(result.stdout) == 16 * MIB and result.stdout.startswith(b"x" * 99 + b"\n")
    result = worker.evaluate('(ext:system "head -c 10000000 /dev/zero; head -c 10000000 /dev/zero >&2")')
    assert (result.stdout_total, result.stderr_total) == (10_000_000, 10_000_000)
    assert (len(result.stdout), len(result.stderr)) == (10_000_000, 16 * MIB - 10_000_000)
    assert worker.evaluate("(princ 1)").stdout == b"1"


def test_millions_of_lines_cost_no_memory(worker):
    worker.value("1")
    before = memory(worker.pid)["Private_Dirty"]
    result = worker.evaluate("(dotimes (i 4000000) (write-line \"line\"))")
    assert result.stdout_total == 20_000_000
    # What is kept of them goes once the answer is on its way.
    wait_for(lambda: memory(worker.pid)["Private_Dirty"] < before + 10 * 1024)


def test_big_values_are_cut_at_a_character(worker):
    result = worker.evaluate("(values 1 (make-string 2000000 :initial-element (code-char #x4e2d)) 3)")
    assert result.outcome_name == "DONE" and result.cut == ["values"]
    assert result.value[0] == "1" and len(result.value) == 2
    assert MIB - 8 < len("".join(result.value).encode()) <= MIB
    assert set(result.value[1]) == {'"', "\u4e2d"}


def test_endless_warnings_and_messages_are_bounded(worker):
    result = worker.evaluate('(dotimes (i 100000) (warn "again ~D" i))')
    assert result.outcome_name == "DONE" and result.cut == ["warnings"]
    assert result.warning[0] == "WARNING: again 0" and len("".join(result.warning)) <= 64 << 10
    result = worker.evaluate('(error "~A" (make-string 1000000 :initial-element #\\y))')
    assert result.error_type == "SIMPLE-ERROR" and len(result.error_message) <= 64 << 10
    assert result.cut == ["error"]


def test_output_of_a_subprocess_that_lives_on_comes_with_the_next_result(worker):
    worker.evaluate('(ext:system "(sleep 0.05; echo late) &")')
    wait_for(lambda: worker.evaluate("1").stdout in (b"late\n", b"; Written since the last evaluation:\nlate\n"))


def test_what_was_written_before_a_request_is_told_apart_even_if_the_worker_finds_both_at_once(worker, tmp_path):
    go, done = tmp_path / "go", tmp_path / "done"
    worker.evaluate(f"(ext:system \"(while ! [ -e '{go}' ]; do sleep 0.01; done; echo late; : >'{done}') &\")")
    os.kill(worker.pid, signal.SIGSTOP)
    go.touch()
    wait_for(done.exists)
    worker.begin("(princ 1)")
    os.kill(worker.pid, signal.SIGCONT)
    assert worker.result().stdout == b"; Written since the last evaluation:\nlate\n; Written by this evaluation:\n1"


def test_subprocess_that_never_stops_writing_blocks_nothing(worker):
    worker.value("(progn (ext:run-program \"/usr/bin/yes\" nil :output t :wait nil) 1)")
    started = time.monotonic()
    for _ in range(10):
        assert worker.value("(+ 1 2)") == "3"
    assert time.monotonic() - started < 10


def test_streams_survive_being_closed_and_replaced(worker):
    worker.evaluate("(close *standard-output*)")
    worker.evaluate("(setf *standard-output* nil)")
    worker.evaluate("(setf *standard-output* (make-broadcast-stream))")
    assert worker.evaluate('(princ "here")').stdout == b"here"


def test_fresh_line_and_pretty_printer_know_the_column(worker):
    assert worker.evaluate('(format t "a~&b~%~&c")').stdout == b"a\nb\nc"
    printed = worker.value("(let ((*print-pretty* t) (*print-length* 100)) (prin1-to-string (make-list 200)))")
    value = worker.value("(make-list 200)")
    assert printed == '"' + value + '"'


def test_threads_write_to_the_same_streams(worker):
    result = worker.evaluate('(mapc #\'mp:process-join (loop for i below 10 collect'
                             ' (mp:process-run-function \'w'
                             '  (lambda () (dotimes (k 100) (write-line "from thread"))))))')
    assert result.stdout_total == 10 * 100 * len("from thread\n")
    assert result.stdout.count(b"\n") == 1000


def test_progress_tells_lines_and_the_last_one(worker):
    worker.begin('(progn (format t "one~%two~%~%") (loop))')
    wait_for(lambda: worker.peek().lines == 3)
    progress = worker.peek()
    assert progress.last_line == b"two" and progress.seq == worker.seq and progress.elapsed > 0
    worker.cancel()
    worker.result()
    worker.begin("(progn (dotimes (i 300000) (write-line \"12345\")) (write-string \"" + "y" * 300 + "\") (loop))")
    wait_for(lambda: worker.peek().last_line == b"y" * 200)
    assert worker.peek().lines == 300000
    worker.cancel()
    assert worker.result().outcome_name == "CANCELLED"


def test_ten_megabytes_take_less_than_a_second_or_two(worker):
    started = time.monotonic()
    worker.evaluate("(let ((s (make-string 100 :initial-element #\\x))) (dotimes (i 100000) (write-string s)))")
    assert time.monotonic() - started < 2


def test_descriptors_stay_with_the_worker(worker):
    listed = worker.evaluate('(ext:system "ls -l /proc/self/fd")').stdout.decode()
    assert "pipe:" in listed and "socket:" not in listed and "eventfd" not in listed
    assert os.readlink(f"/proc/{worker.pid}/fd/0") == "/dev/null"


def test_a_broken_pipe_ends_subprocesses_and_is_an_error_in_lisp(worker):
    result = worker.evaluate('(ext:system "yes | head -1")')
    assert (result.stdout, result.stderr) == (b"y\n", None)  # where the signal is ignored, `yes` complains
    result = worker.evaluate('(let ((s (ext:run-program "/bin/true" nil :input :stream :output nil :wait nil)))'
                             ' (loop (write-line "x" s) (finish-output s)))')
    assert (result.outcome_name, result.error_type) == ("ERROR", "STREAM-ERROR")
    assert worker.value("(+ 1 2)") == "3"
