"""Whatever the Lisp code prints, the client reads clean JSON of bounded size, and is told what was cut."""

import re

import pytest

from harness import ANSWER_MAX, kilobytes
from mcpschema import ALL_REVISIONS

CUT = re.compile(r"truncated|cut|omitted|dropped", re.IGNORECASE)


# The Client itself checks that every line is valid UTF-8 JSON without lone surrogates.


@pytest.mark.parametrize("code,expected", [
    ('(progn (format t "~c[31mred~c[0m" (code-char 27) (code-char 27)) 1)', "\x1b[31mred\x1b[0m"),
    ('(progn (format t "a~cb" (code-char 0)) 1)', "a\x00b"),
    ('(progn (format t "a~cb~cc" (code-char 127) (code-char 159)) 1)', "a\x7fb\x9fc"),
    ('(progn (format t "bell~c" (code-char 7)) 1)', "bell\x07"),
    ('(progn (format t "a~c~cb" #\\Return #\\Newline) 1)', "a\r\nb"),
    ('(progn (format t "line~cparagraph~c." (code-char #x2028) (code-char #x2029)) 1)', "line\u2028paragraph\u2029."),
    ('(progn (format t "~c" (code-char #x10FFFF)) 1)', "\U0010ffff"),
], ids=["escape", "nul", "delete", "bell", "carriage return", "separators", "last character"])
def test_control_characters_come_through_escaped(lisp, code, expected):
    assert lisp.evaluate(code).text == f"[stdout]\n{expected}\n\n=> 1"


@pytest.mark.parametrize("revision", ALL_REVISIONS)
@pytest.mark.parametrize("code", [
    "(princ (code-char #xD800))", "(string (code-char #xDFFF))", "(error (string (code-char #xDBFF)))",
    '(warn (string (code-char #xD83D)))', "(intern (string (code-char #xD800)))", "(foo (string (code-char #xD800)))",
    '(format t "~c~c" (code-char #xD83D) (code-char #xDE00))',
], ids=["printed", "value", "error", "warning", "symbol", "backtrace", "pair"])
def test_lone_surrogates_never_reach_the_client(client, revision, code):
    client.open(revision)
    assert client.evaluate(code).text


def test_raw_binary_of_a_child_stays_valid(lisp):
    evaluation = lisp.evaluate('(ext:system "head -c 1000000 /dev/urandom")')
    assert evaluation.text.startswith("[stdout]\n")
    assert len(evaluation.structured["stdout"]) > 100000 or evaluation.structured["truncated"]


@pytest.mark.parametrize("bytes_", ["\\377\\376", "\\303", "\\355\\240\\200", "\\360\\237\\230", "\\300\\200",
                                    "ok\\200ok"])
def test_broken_utf_8_of_a_child_is_replaced(lisp, bytes_):
    evaluation = lisp.evaluate(f"(ext:system \"printf 'begin {bytes_.replace(chr(92), chr(92) * 2)} end'\")")
    assert re.match(r"\[stdout\]\nbegin .*�.* end\n", evaluation.text), evaluation


def test_children_write_into_the_captured_streams(lisp):
    evaluation = lisp.evaluate('(progn (ext:system "echo to stdout; echo to stderr >&2") 1)')
    assert evaluation.text == "[stdout]\nto stdout\n\n[stderr]\nto stderr\n\n=> 1"


def test_a_child_that_imitates_the_protocol_is_captured(lisp):
    fake = '{\\"jsonrpc\\":\\"2.0\\",\\"id\\":1,\\"result\\":{}}'
    evaluation = lisp.evaluate(f"(ext:system \"printf '%s\\\\n' '{fake}'\")")
    assert evaluation.text.startswith('[stdout]\n{"jsonrpc":"2.0","id":1,"result":{}}')


def test_lisp_and_child_output_keep_their_order(lisp):
    evaluation = lisp.evaluate('(progn (format t "one~%") (ext:system "echo two") (format t "three~%") 1)')
    assert evaluation.text == "[stdout]\none\ntwo\nthree\n\n=> 1"


def test_output_of_a_child_that_lives_on_does_not_disturb_later_calls(lisp):
    lisp.evaluate('(ext:system "(sleep 0.3; echo late) >/dev/null 2>&1 &")')
    lisp.evaluate('(ext:system "(sleep 0.3; echo late) &")')
    lisp.evaluate("(sleep 0.5)")
    assert lisp.evaluate("(+ 1 2)").text.endswith("=> 3")


def assert_cut(client, code, what, timeout=60):
    request = client.start_evaluation(code)
    arrival = client.arrival(request, timeout)
    assert arrival.size < ANSWER_MAX
    evaluation = client.evaluation(request)
    assert CUT.search(evaluation.text), f"the text does not say what was cut: ...{evaluation.text[-300:]!r}"
    if evaluation.structured is not None:
        assert any(what in item for item in evaluation.structured["truncated"]), evaluation.structured["truncated"]
    assert client.evaluate("(+ 1 2)").text == "=> 3"
    return evaluation


@pytest.mark.parametrize("revision", ["2024-11-05", "2025-11-25", "2026-07-28"])
def test_ten_megabytes_of_output_are_cut_and_the_answer_says_so(client, revision):
    client.open(revision)
    evaluation = assert_cut(client, '(dotimes (i 1000000) (write-string "0123456789"))', "stdout")
    assert "[stdout]\n0123456789" in evaluation.text and "=> NIL" in evaluation.text


def test_ten_megabytes_on_stderr_are_cut_and_the_answer_says_so(lisp):
    assert_cut(lisp, '(dotimes (i 1000000) (write-string "0123456789" *error-output*))', "stderr")


def test_output_that_grows_sixfold_by_escaping_is_cut_and_the_answer_says_so(lisp):
    assert_cut(lisp, "(progn (write-string (make-string 5000000 :initial-element (code-char 0))) 1)", "stdout")


def test_a_huge_value_is_cut_and_the_answer_says_so(lisp):
    evaluation = assert_cut(lisp, "(make-string 20000000 :initial-element #\\a)", "values")
    assert evaluation.text.startswith('=> "aaaa')


def test_a_huge_value_of_control_characters_is_cut_and_the_answer_says_so(lisp):
    assert_cut(lisp, "(make-string 5000000 :initial-element (code-char 1))", "values")


def test_a_huge_error_message_is_cut_and_the_answer_says_so(lisp):
    evaluation = assert_cut(lisp, '(error "~a" (make-string 20000000 :initial-element #\\e))', "error")
    assert evaluation.is_error and evaluation.text.startswith("[ERROR] SIMPLE-ERROR\neeee")


def test_everything_huge_at_once_stays_one_answer(lisp):
    code = """(let ((s (make-string 6000000 :initial-element (code-char 1))))
                (write-string s) (write-string s *error-output*) (warn s) (values s s))"""
    assert lisp.arrival(lisp.start_evaluation(code), 60).size < ANSWER_MAX
    assert lisp.evaluate("(+ 1 2)").text == "=> 3"


def test_a_child_that_writes_without_end_costs_no_memory(lisp):
    session = lisp.evaluate("1").structured["session"]
    pid = next(s["pid"] for s in lisp.result("cl-mcpd/status")["sessions"] if s["id"] == session)
    assert_cut(lisp, '(ext:system "head -c 300000000 /dev/zero")', "stdout")
    assert kilobytes(pid, "VmHWM", "status") < 150_000


def test_a_megabyte_is_not_cut_where_that_is_allowed(lisp):
    lisp.tool("configure-limits", max_output=1000000)
    evaluation = lisp.evaluate('(dotimes (i 100000) (write-string "0123456789"))')
    assert evaluation.structured["truncated"] == []
    assert evaluation.structured["stdout"].strip() == "0123456789" * 100000
