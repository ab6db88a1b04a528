"""configure-limits and read-output: what an evaluation may take, and where the rest of a long output is."""

import os
import signal

import pytest

from harness import wait_until

DEFAULTS = ("timeout: 300 seconds (default)\nload-timeout: 1800 seconds (default)\nmax-heap: 1024 megabytes (default)\n"
            "max-output: 100000 characters (default)\nmax-value: 100000 characters (default)\nmax-nesting: 10000 levels (default)")


def test_reading_the_limits_makes_no_session(own_runtime):
    client = own_runtime.client().open()
    assert client.tool("configure-limits").text == DEFAULTS
    assert own_runtime.client().open().result("cl-mcpd/status")["sessions"] == []


def test_what_is_set_is_shown_and_belongs_to_the_session_alone(connect):
    one, other = connect().open(), connect().open()
    text = one.tool("configure-limits", timeout=1.5, max_heap=2048).text
    assert text.startswith("timeout: 1.5 seconds\nload-timeout: 1800 seconds (default)\nmax-heap: 2048 megabytes\n")
    assert one.tool("configure-limits").text == text
    assert other.tool("configure-limits").text == DEFAULTS
    assert one.tool("configure-limits", timeout=0).text.startswith("timeout: none\n")


@pytest.mark.parametrize("limit, value, words", [
    ("timeout", -1, "at least 0"), ("timeout", 1e10, "from 0 to 1000000000, 0 for no limit"),
    ("max_heap", 1, "max-heap must be a number of megabytes from 64 to 1048576"),
    ("max_output", 10, "max-output must be a number of characters from 100 to 1000000"),
    ("max_value", "many", "must be a number"), ("max_nothing", 3, "Unknown argument: max-nothing"),
])
def test_a_limit_that_cannot_be_is_refused_with_what_can(lisp, limit, value, words):
    answer = lisp.tool("configure-limits", **{limit: value})
    assert answer.is_error and answer.text.startswith("[ERROR] INVALID-ARGUMENTS\n") and words in answer.text
    assert lisp.tool("configure-limits").text == DEFAULTS


def test_the_sessions_timeout_counts_where_a_call_sets_none(lisp):
    lisp.tool("configure-limits", timeout=0.2)
    lisp.evaluate("(defvar *kept* 1)")
    answer = lisp.evaluate("(loop)")
    assert answer.text.startswith("[ERROR] TIMEOUT\n") and "configure-limits" in answer.text and "`timeout`" in answer.text
    assert lisp.tool("evaluate-lisp", code="(progn (sleep 0.4) *kept*)", timeout=60).text == "=> 1"
    assert lisp.evaluate("*kept*").text == "=> 1"


def test_loading_has_a_time_limit_of_its_own(own_runtime):
    (own_runtime.directory / "slow.asd").write_text('(defsystem "slow" :components ((:file "slow")))')
    (own_runtime.directory / "slow.lisp").write_text("(sleep *nap*)")
    with start_with(own_runtime, "--ceiling", "load-timeout=60"):
        client = own_runtime.client(directory=own_runtime.directory).open()
        client.evaluate("(defvar *nap* 0.3)")
        assert "load-timeout: 60 seconds (default), at most 60" in client.tool("configure-limits", timeout=0.1).text
        assert client.tool("load-system", system="slow").text == "Loading system: slow\nLoaded: slow"
        client.evaluate("(setf *nap* 1000)")
        client.tool("configure-limits", timeout=300, load_timeout=0.3)
        (own_runtime.directory / "slow.asd").rename(own_runtime.directory / "slower.asd")
        (own_runtime.directory / "slower.asd").write_text('(defsystem "slower" :components ((:file "slow")))')
        answer = client.tool("load-system", system="slower")
        assert answer.text.startswith("[ERROR] TIMEOUT\n") and "load-timeout" in answer.text
        assert "load-timeout can be 60 seconds at most" in client.tool("load-system", system="slower", timeout=61).text
        assert client.evaluate("*nap*").text == "=> 1000"


def test_a_loop_whose_client_is_gone_ends_at_its_time_limit(own_runtime):
    with own_runtime.client("--session", "work") as watching:
        watching.open().evaluate("(defvar *count* 0)")
        leaving = own_runtime.client("--session", "work").open()
        leaving.start_evaluation("(loop (incf *count*))", timeout=0.5)
        wait_until(lambda: own_runtime.status()["sessions"][0]["state"] == "running", "it runs")
        leaving.process.kill()
        leaving.abandon()
        assert watching.evaluate("(plusp *count*)", timeout=10).text == "=> T"


def test_the_heap_limit_is_the_sessions_and_can_be_changed(lisp):
    fill = "(length (make-array 20000000))"  # 160 MB
    lisp.tool("configure-limits", max_heap=100)
    lisp.evaluate("(defvar *kept* 1)")
    answer = lisp.evaluate(fill)
    assert answer.is_error and "heap" in answer.text and "max-heap" in answer.text
    lisp.tool("configure-limits", max_heap=1024)
    assert lisp.evaluate(fill).text == "=> 20000000"
    assert lisp.evaluate("*kept*").text == "=> 1"


def test_limits_outlive_the_daemon_and_a_shutdown(own_runtime):
    client = own_runtime.client("--session", "work").open()
    client.evaluate("1")
    set_to = client.tool("configure-limits", timeout=77, max_output=500).text
    os.kill(own_runtime.daemon_pid(), signal.SIGKILL)
    assert client.tool("configure-limits").text == set_to
    client.evaluate("1")
    own_runtime.control("shutdown")
    client.evaluate("1")
    assert client.tool("configure-limits").text == set_to


def test_limits_may_be_set_before_anything_is_evaluated(own_runtime):
    client = own_runtime.client("--session", "work").open()
    set_to = client.tool("configure-limits", timeout=77).text
    client.evaluate("1")
    own_runtime.control("shutdown")
    client.evaluate("1")
    assert client.tool("configure-limits").text == set_to


LINES = '(dotimes (i 1000) (format t "line ~d~%" i))'
WHOLE = "\n".join(f"line {i}" for i in range(1000))


def test_long_output_is_cut_and_the_answer_says_how_to_read_on(lisp):
    lisp.tool("configure-limits", max_output=1000)
    lisp.evaluate("1")
    answer = lisp.evaluate(LINES)
    assert answer.text == (
        f"[stdout]\n{WHOLE[:1000]}\n[stdout: cut here after 1000 of {len(WHOLE)} characters; read-output with evaluation 2 "
        "and offset 1000 shows what follows, configure-limits with max-output shows more at once]\n\n=> NIL")
    assert answer.structured["stdout"] == WHOLE[:1000] and answer.structured["truncated"] == ["stdout"]
    assert answer.structured["evaluation"] == 2


def read_whole(client, **arguments):
    """Everything that is kept, piece by piece."""
    text, offset = "", 0
    while True:
        head, _, piece = client.tool("read-output", offset=offset, **arguments).text.partition("\n")
        if "[offset " not in piece:
            return text + piece
        piece, _, note = piece.rpartition("\n")
        assert note == f"[offset {offset + len(piece)} goes on]"
        assert f"characters {offset} to {offset + len(piece)} of " in head
        text, offset = text + piece, offset + len(piece)


def test_read_output_gives_all_of_it_in_pieces(lisp):
    lisp.tool("configure-limits", max_output=1000)
    lisp.evaluate(LINES)
    lisp.evaluate("1")
    assert read_whole(lisp) == WHOLE
    assert read_whole(lisp, length=4096) == WHOLE
    assert read_whole(lisp, evaluation=1) == WHOLE


def test_pieces_are_counted_in_characters(lisp):
    lisp.tool("configure-limits", max_output=100)
    lisp.evaluate("(dotimes (i 300) (write-char (code-char (+ #x4e00 i))) (write-char (code-char #x1f600)))")
    assert read_whole(lisp, length=7) == "".join(chr(0x4e00 + i) + "\U0001f600" for i in range(300))


def test_stderr_is_kept_for_itself(lisp):
    lisp.tool("configure-limits", max_output=100)
    answer = lisp.evaluate("(format *error-output* \"~300,,,'ea~%\" 1)")
    assert "read-output with evaluation 1, stream stderr and offset 100" in answer.text
    assert read_whole(lisp, stream="stderr") == "1" + "e" * 299
    missing = lisp.tool("read-output")
    assert missing.is_error and missing.text.startswith("[ERROR] OUTPUT-NOT-FOUND\nNo stdout of any evaluation")


def test_sixteen_mebibytes_are_kept_and_the_rest_is_said_to_be_lost(lisp):
    answer = lisp.evaluate('(dotimes (i 2000000) (write-string "0123456789"))')
    assert f"after 100000 of {16 << 20} characters that are kept, although more was written" in answer.text
    piece = lisp.tool("read-output", offset=(16 << 20) - 5).text
    assert piece.endswith("]\n12345") and "that are kept; more was written]" in piece


def test_kept_output_outlives_the_daemon(own_runtime):
    client = own_runtime.client().open()
    client.tool("configure-limits", max_output=1000)
    client.evaluate(LINES)
    os.kill(own_runtime.daemon_pid(), signal.SIGKILL)
    assert read_whole(client) == WHOLE


def test_the_output_of_the_last_sixteen_evaluations_is_kept(lisp):
    lisp.tool("configure-limits", max_output=100)
    for _ in range(20):
        lisp.evaluate(LINES)
    assert lisp.tool("read-output", evaluation=4).is_error
    assert read_whole(lisp, evaluation=5, length=100000) == WHOLE


@pytest.mark.parametrize("arguments, words", [
    ({"evaluation": 0}, "at least 1"), ({"evaluation": 1.5}, "must be an integer"), ({"offset": -1}, "at least 0"),
    ({"length": 2000000}, "from 0 to 1000000"), ({"stream": "stdin"}, "must be one of: stdout, stderr"),
])
def test_wrong_arguments_of_read_output_are_refused(lisp, arguments, words):
    answer = lisp.tool("read-output", **arguments)
    assert answer.is_error and answer.text.startswith("[ERROR] INVALID-ARGUMENTS\n") and words in answer.text


def test_an_offset_behind_the_end_is_an_error_that_says_the_length(lisp):
    lisp.tool("configure-limits", max_output=100)
    lisp.evaluate(LINES)
    assert lisp.tool("read-output", offset=10 ** 9).text == (
        f"[ERROR] OUTPUT-NOT-FOUND\nThe offset lies behind the end: {len(WHOLE)} characters are kept.")


def test_a_long_value_is_cut_and_the_answer_names_the_limit(lisp):
    answer = lisp.evaluate("(make-string 200000 :initial-element #\\a)")
    assert answer.text == '=> "' + "a" * 99999 + ("\n[values: cut here, 100002 more bytes; configure-limits with max-value "
                                                 "shows more]")
    lisp.tool("configure-limits", max_value=1000000)
    assert lisp.evaluate("(make-string 200000 :initial-element #\\a)").text == '=> "' + "a" * 200000 + '"'


def test_code_that_is_nested_too_deep_is_refused_before_it_is_read(lisp):
    lisp.evaluate("(defvar *kept* 1)")
    deep = "(list " * 20000 + ")" * 20000
    assert lisp.evaluate("(incf *kept*) " + deep).text == (
        "[ERROR] NESTING-LIMIT\nThe code is nested 20000 levels deep, and this session reads 10000. Nothing was evaluated. "
        "configure-limits with max-nesting allows more.")
    assert lisp.evaluate("*kept*").text == "=> 1"
    lisp.tool("configure-limits", max_nesting=100)
    assert lisp.evaluate("'" + "(" * 100 + "1" + ")" * 100).text.startswith("=> ((((")
    assert lisp.evaluate("'" + "(" * 101 + "1" + ")" * 101).text.startswith("[ERROR] NESTING-LIMIT\n")
    lisp.tool("configure-limits", max_nesting=1000000)
    assert not lisp.evaluate(deep).text.startswith("[ERROR] NESTING-LIMIT\n")
    assert lisp.evaluate("*kept*").text == "=> 1"


def start_with(runtime, *options):
    """Replaces the runtime's daemon by one with these options."""
    runtime.control("shutdown")
    return runtime.daemon(*options)


def test_the_administrator_sets_defaults_and_ceilings(own_runtime):
    with start_with(own_runtime, "--limit", "max-output=2000", "--ceiling", "timeout=5", "--ceiling", "max-heap=512"):
        client = own_runtime.client().open()
        assert client.tool("configure-limits").text == (
            "timeout: 5 seconds (default), at most 5\nload-timeout: 1800 seconds (default)\n"
            "max-heap: 512 megabytes (default), at most 512\nmax-output: 2000 characters (default)\n"
            "max-value: 100000 characters (default)\nmax-nesting: 10000 levels (default)")
        for answer in client.tool("configure-limits", timeout=6), client.tool("evaluate-lisp", code="1", timeout=6):
            assert "timeout can be 5 seconds at most, which is the administrator's ceiling" in answer.text
        for answer in client.tool("configure-limits", timeout=0), client.tool("evaluate-lisp", code="1", timeout=0):
            assert "timeout cannot be switched off here: the administrator allows 5 seconds at most" in answer.text
        assert "max-heap can be 512 megabytes at most" in client.tool("configure-limits", max_heap=1024).text
        assert client.tool("evaluate-lisp", code="1", timeout=4).text == "=> 1"


@pytest.mark.parametrize("option, words", [
    (["--limit", "foo=1"], "timeout, load-timeout, max-heap, max-output, max-value, max-nesting"), (["--limit", "timeout"], "NAME=NUMBER"),
    (["--limit", "timeout=soon"], "number"), (["--ceiling", "max-heap=0"], "ceiling"),
    (["--limit", "max-output=1"], "from 100 to 1000000"),
])
def test_a_setting_that_makes_no_sense_ends_the_daemon_with_a_word_on_it(own_runtime, option, words):
    done = own_runtime.run("cl-mcpd", *option)
    assert done.returncode == 2 and words.encode() in done.stderr and option[1].encode() in done.stderr
