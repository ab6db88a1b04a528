"""The operations that load systems: what they answer, where they look, what they leave behind."""
import os
import pathlib
import re
import time
from unittest import mock

import pytest

from test_worker_snapshot import die, protect
from worker_driver import Zygote, wait_for

SYSTEMS = pathlib.Path("/usr/share/common-lisp/source")


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="module")
def zygote(home):
    """One whose sessions have a home of their own, and an environment that says nothing else."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("XDG_", "CL_", "LC_", "LANG"))}
    with mock.patch.dict(os.environ, {**kept, "HOME": str(home), "LANG": "C"}, clear=True):
        made = Zygote()
    with made:
        yield made


@pytest.fixture
def place(tmp_path):
    """The session's directory."""
    return tmp_path


@pytest.fixture
def worker(zygote, place):
    with zygote.spawn(str(place)) as made:
        yield made


def define(place, name, *files, **options):
    """A system in that directory. Each file is its Lisp text; they depend on each other in that order."""
    given = "".join(f" :{key.replace('_', '-')} {value}" for key, value in options.items())
    components = " ".join(f'(:file "{name}-{i}")' for i in range(len(files)))
    place.mkdir(parents=True, exist_ok=True)
    for i, text in enumerate(files):
        (place / f"{name}-{i}.lisp").write_text(text)
    (place / f"{name}.asd").write_text(f'(defsystem "{name}"{given} :serial t :components ({components}))')


def touch_later(path):
    """A file that is changed within a second of its compilation looks old."""
    later = time.time() + 5
    os.utime(path, (later, later))


def load(worker, name, **arguments):
    return worker.evaluate(name, operation="load-system", **arguments)


def answer(worker, name):
    result = load(worker, name)
    assert result.outcome_name == "DONE" and result.stdout is None and result.stderr is None, result
    assert result.warning == []
    return result.value[0]


def failure(worker, name):
    result = load(worker, name)
    assert result.outcome_name == "ERROR" and result.frame == [] and result.value == [], result
    assert result.stdout is None and result.warning == []
    return result.error_type, result.error_message


def version(path):
    return re.search(r':version "([^"]*)"', path.read_text())[1]


def loaded(worker):
    return [line.partition("\t")[0] for line in worker.value("", operation="loaded-systems").split("\n") if line]


# ---- what is loaded


@pytest.mark.parametrize("name, directory, form, value", [
    ("alexandria", "alexandria", "(alexandria:flatten '(1 (2 (3))))", "(1 2 3)"),
    ("cl-ppcre", "cl-ppcre", '(cl-ppcre:regex-replace-all "[aeiou]" "quick" "_")', '"q__ck"'),
    ("split-sequence", "cl-split-sequence", "(split-sequence:split-sequence 1 '(0 1 2))", "((0) (2))"),
    ("flexi-streams", "cl-flexi-streams", "(flexi-streams:octets-to-string #(65 66) :external-format :utf-8)", '"AB"'),
])
def test_debians_systems_work(worker, name, directory, form, value):
    shown = version(SYSTEMS / directory / f"{name}.asd") if name != "split-sequence" else None
    text = answer(worker, name)
    assert text.startswith(f"Loading system: {name}\nLoaded: {name} (version ")
    assert shown is None or text.endswith(f"(version {shown})")
    assert worker.evaluate(form).value[0] == value


def test_a_system_without_a_version_is_loaded_without_parenthesis(worker, place):
    define(place, "plain", "(print 'loading) (defvar *here* 1)")
    assert answer(worker, "plain") == "Loading system: plain\nLoaded: plain"
    assert worker.value("*here*") == "1"


@pytest.mark.parametrize("typed", ["mine", " mine\n", "MINE", ":mine", "#:mine"])
def test_a_name_can_be_typed_as_lisp_does(worker, place, typed):
    define(place, "mine", "")
    assert answer(worker, typed) == "Loading system: mine\nLoaded: mine"


def test_lambda_lists_of_what_was_loaded_are_known_also_if_they_are_empty(worker, place):
    define(place, "mine", "(defun none () 1) (defun two (a &key b) (list a b))")
    answer(worker, "mine")
    assert worker.value("functions", operation="list-definitions") == "[Functions]\n- NONE ()\n- TWO (A &KEY B)"
    assert worker.evaluate("(none 1)").error_message == (
        "Too many arguments passed to function NONE.\nArgument list: (1)\nIts lambda list is ().")


def test_changes_since_the_last_time_are_loaded(worker, place):
    define(place, "mine", "(defvar *n* 1)", "(defun f () :old)")
    answer(worker, "mine")
    (place / "mine-1.lisp").write_text("(defun f () :new)")
    touch_later(place / "mine-1.lisp")
    answer(worker, "mine")
    assert worker.value("(f)") == ":NEW"


@pytest.mark.parametrize("where", ["common-lisp/deep/down", ".local/share/common-lisp/here"])
def test_systems_of_the_user_are_found_also_when_they_are_new(worker, home, place, where):
    define(place, "first", "")
    answer(worker, "first")  # ASDF has looked around by now
    name = "home-" + where.rpartition("/")[2]
    define(home / where, name, "")
    assert answer(worker, name) == f"Loading system: {name}\nLoaded: {name}"


def test_debians_systems_are_found_also_where_the_environment_names_other_places(place):
    with mock.patch.dict(os.environ, {"XDG_DATA_DIRS": "/nonexistent", "HOME": str(place)}):
        made = Zygote()
    with made, made.spawn() as worker:
        assert answer(worker, "split-sequence").startswith("Loading system: split-sequence\nLoaded: ")


def test_the_users_eclrc_is_not_loaded(zygote, home, place):
    (home / ".eclrc").write_text("(defvar cl-user::*from-eclrc* 1)")
    define(place, "mine", "")
    with zygote.spawn(str(place)) as worker:
        answer(worker, "mine")
        assert worker.value("(boundp '*from-eclrc*)") == "NIL"


def test_sources_are_utf_8_whatever_the_user_prefers(worker, place):
    define(place, "mine", '(defvar *word* "grüße λ")')
    for _ in range(2):  # compiled, then from the cache
        with worker.zygote.spawn(str(place)) as one:
            one.value("(setf ext:*default-external-format* :latin-1)")
            answer(one, "mine")
            assert one.value("(map 'list #'char-code *word*)") == "(103 114 252 223 101 32 955)"


@pytest.mark.parametrize("literal, test", [
    ("#.(let ((table (make-hash-table))) (setf (gethash 1 table) 2) table)", "(values (gethash 1 *it*))"),
    ("#.(lambda () 2)", "(funcall *it*)"),
    ("'#1=(2 . #1#)", "(second *it*)"),
    ("'(" + "2 " * 200000 + ")", "(first *it*)"),
])
def test_unusual_literals_survive_compilation(worker, place, literal, test):
    define(place, "mine", f"(defvar *it* {literal})")
    for _ in range(2):
        with worker.zygote.spawn(str(place)) as one:
            answer(one, "mine")
            assert one.value(test) == "2"


def test_what_is_for_compile_time_is_evaluated_then(worker, place):
    define(place, "mine", "(defvar *when* nil) (eval-when (:compile-toplevel) (setf *when* :compiled))"
                          "(defmacro now () *when*) (defvar *macro* (now))")
    worker.value("(defvar *when* nil)")
    answer(worker, "mine")
    assert worker.value("*macro*") == ":COMPILED"


def test_settings_of_the_user_do_not_change_how_systems_are_read(worker, place):
    define(place, "mine", "(defvar *n* 10) (defun Mixed () 'Ok)")
    worker.evaluate("(setf *read-base* 2 *print-base* 3 *print-length* 1) (setf (readtable-case *readtable*) :preserve)")
    assert answer(worker, "mine") == "Loading system: mine\nLoaded: mine"
    worker.evaluate("(SETF *READ-BASE* 10. *PRINT-BASE* 10. *READTABLE* (COPY-READTABLE NIL))")
    assert worker.value("(list *n* (mixed))") == "(10 OK)"


def test_the_prompt_does_not_notice(worker, place):
    define(place, "mine", "(in-package :keyword) (print 1)")
    worker.evaluate("(defpackage :here (:use :cl)) (in-package :here) (+ 1 2)")
    assert load(worker, "mine").package == "HERE"
    assert worker.value("(list * + (package-name *package*) *print-pretty*)") == '(3 (+ 1 2) "HERE" T)'


# ---- what cannot be loaded


def test_a_system_that_nobody_has_is_told_as_the_contract_says(worker):
    assert failure(worker, "nonexistent") == ("ASDF:MISSING-COMPONENT", 'Component "nonexistent" not found')


def test_a_missing_dependency_names_who_needs_it(worker, place):
    define(place, "mine", "", depends_on='("nonexistent")')
    define(place, "early", "", defsystem_depends_on='("nonexistent")')
    define(place, "strict", "", depends_on='((:version "alexandria" "99"))')
    assert failure(worker, "mine") == ("ASDF:MISSING-DEPENDENCY",
                                       'Component "nonexistent" not found, required by "mine"')
    assert failure(worker, "early") == ("ASDF:MISSING-DEPENDENCY",
                                        'Component "nonexistent" not found, required by "early"')
    assert failure(worker, "strict") == ("ASDF:MISSING-DEPENDENCY-OF-VERSION",
                                         'Component "alexandria" does not match version 99, required by "strict"')


def test_a_circle_is_named(worker, place):
    define(place, "one", "", depends_on='("two")')
    define(place, "two", "", depends_on='("one")')
    kind, message = failure(worker, "one")
    assert kind == "ASDF:CIRCULAR-DEPENDENCY"
    assert message in ('Circular dependency: "one" needs "two" needs "one"',
                       'Circular dependency: "two" needs "one" needs "two"')


def test_a_definition_that_is_wrong_is_told_with_its_file(worker, place):
    (place / "mine.asd").write_text('(defsystem "mine" :components ((:nonsense "x")))')
    (place / "open.asd").write_text('(defsystem "open"')
    kind, message = failure(worker, "mine")
    assert kind == "ASDF:LOAD-SYSTEM-DEFINITION-ERROR"
    assert message == (f'The definition of system "mine" cannot be loaded from {place}/mine.asd:\n'
                       "don't recognize component type :NONSENSE")
    kind, message = failure(worker, "open")
    assert kind == "ASDF:LOAD-SYSTEM-DEFINITION-ERROR" and "END-OF-FILE" in message


def test_a_form_that_does_not_compile_is_told_with_its_place_and_the_chatter(worker, place):
    define(place, "mine", "(write-line \"chatter before\")",
           "(in-package :cl-user)\n; a comment (\n(defmacro boom () (error \"no ~A\" 'more))\n\n"
           "(defun caller (x)\n  (list x (boom)))\n(defun after () 1)\n")
    assert failure(worker, "mine") == (
        "ASDF:COMPILE-ERROR",
        f"SIMPLE-ERROR: no MORE\nwhile compiling {place}/mine-1.lisp, line 5:\n"
        "(defun caller (x)\n  (list x (boom)))\n\nchatter before")


@pytest.mark.parametrize("text, line, form", [
    ("(defun f ()\n 1)\n(defun g (", 3, "(defun g ("),
    ("(list 1)\n\n(list nowhere:symbol)", 3, "(list nowhere:"),
    ('(list "never\nclosed)', 1, '(list "never\nclosed)'),
])
def test_a_form_that_cannot_be_read_is_told_with_its_place(worker, place, text, line, form):
    define(place, "mine", text)
    kind, message = failure(worker, "mine")
    assert kind == "ASDF:COMPILE-ERROR"
    assert f"\nwhile compiling {place}/mine-0.lisp, line {line}:\n{form}" in message


def test_an_error_while_loading_is_told_with_its_file_and_what_was_printed(worker, place):
    define(place, "mine", '(write-line "chatter") (warn "odd ~A" 1) (/ 1 0)')
    assert failure(worker, "mine") == (
        "DIVISION-BY-ZERO",
        "arithmetic error DIVISION-BY-ZERO signalled\nOperation was (/ 1 0).\n"
        f"while loading {place}/mine-0.lisp\n\nchatter\n; WARNING: odd 1")


def test_a_conflict_of_packages_is_a_package_error(worker, place):
    define(place, "mine", "(defpackage :mine (:use :cl) (:export #:clash)) (use-package :mine :cl-user)")
    worker.evaluate("(defvar clash 1)")
    kind, message = failure(worker, "mine")
    assert kind == "PACKAGE-ERROR" and "a name conflict" in message
    assert message.endswith(f"\nwhile loading {place}/mine-0.lisp")


def test_a_lot_of_chatter_is_told_by_its_end(worker, place):
    define(place, "mine", '(dotimes (i 100000) (print i)) (error "x")')
    kind, message = failure(worker, "mine")
    assert kind == "SIMPLE-ERROR" and message.endswith("99998 \n99999") and 3000 < len(message) < 9000


@pytest.mark.parametrize("broken", ["(error \"not yet\")", "(defun f (", "(defmacro m () (error \"no\")) (m)"])
def test_after_a_failure_the_mended_system_is_loaded(worker, place, broken):
    define(place, "mine", "(defvar *before* 1)", broken, "(defvar *after* 2)")
    failure(worker, "mine")
    (place / "mine-1.lisp").write_text("(defvar *mended* 3)")
    touch_later(place / "mine-1.lisp")
    answer(worker, "mine")
    assert worker.value("(list *before* *mended* *after*)") == "(1 3 2)"


@pytest.mark.parametrize("endless", ["(loop)", "(eval-when (:compile-toplevel) (loop))", "(sleep 1000)"])
def test_loading_has_a_deadline_and_can_be_cancelled_and_tried_again(worker, place, endless):
    define(place, "mine", "(defvar *before* 1)", endless)
    assert load(worker, "mine", time_limit=300).outcome_name == "TIMEOUT"
    worker.begin("mine", operation="load-system")
    worker.wait_until_running()
    worker.cancel()
    assert worker.result().outcome_name == "CANCELLED"
    (place / "mine-1.lisp").write_text("(defvar *done* 1)")
    touch_later(place / "mine-1.lisp")
    answer(worker, "mine")
    assert worker.value("*done*") == "1"


def test_progress_says_what_is_being_done(worker, place):
    gate = place / "gate"
    wait = f'(write-line "chatter") (loop until (probe-file "{gate}-~A") do (sleep 0.01))'
    define(place, "mine", f"(eval-when (:compile-toplevel) {wait.replace('~A', 'compile')}) {wait.replace('~A', 'load')}")
    worker.begin("mine", operation="load-system")
    wait_for(lambda: worker.peek().last_line == b"chatter")
    (place / "gate-compile").touch()
    wait_for(lambda: worker.peek().lines >= 4)  # "Compiling", "chatter", "Loading", "chatter"
    (place / "gate-load").touch()
    result = worker.result()
    assert result.value == ["Loading system: mine\nLoaded: mine"] and result.stdout is None


# ---- several sessions, one cache


def cached(home):
    return sorted(path.name for path in home.glob(".cache/cl-mcpd/**/*.fasc"))


def test_sessions_that_load_a_system_at_once_do_not_disturb_each_other(zygote, home, place):
    for round in range(3):
        name = f"crowd{round}"
        define(place, name, *[f"(defun f{i} () {i}) (defvar *v{i}* (make-list 10))" for i in range(20)])
        workers = [zygote.spawn(str(place)) for _ in range(4)]
        for worker in workers:
            worker.begin(name, operation="load-system")
        for worker in workers:
            result = worker.result()
            assert result.outcome_name == "DONE", result
            assert worker.value("(f19)") == "19"
        for worker in workers:
            worker.close()
        assert [file for file in cached(home) if file.startswith(name)] == sorted(f"{name}-{i}.fasc" for i in range(20))


def test_a_session_that_is_killed_while_compiling_leaves_the_cache_usable(zygote, home, place):
    define(place, "mine", "(defvar *a* 1)", "(eval-when (:compile-toplevel) (sleep 1000))")
    worker = zygote.spawn(str(place))
    worker.begin("mine", operation="load-system")
    wait_for(lambda: b"mine-1" in (worker.peek().last_line or b""))
    worker.kill()
    zygote.expect("D", worker.session)
    (place / "mine-1.lisp").write_text("(defvar *b* 2)")
    with zygote.spawn(str(place)) as other:
        answer(other, "mine")
        assert other.value("(list *a* *b*)") == "(1 2)"


def test_bytecode_is_kept_apart_from_native_code_and_used_again(worker, home, place):
    define(place, "mine", "(eval-when (:compile-toplevel) (with-open-file (s \"compiled\" :direction :output"
                          " :if-exists :append :if-does-not-exist :create) (write-line \"x\" s)))")
    answer(worker, "mine")
    with worker.zygote.spawn(str(place)) as other:
        answer(other, "mine")
    assert (place / "compiled").read_text() == "x\n"
    assert "mine-0.fasc" in cached(home)
    assert not (home / ".cache/common-lisp").exists()


def test_without_a_writable_home_bytecode_is_kept_in_a_directory_of_the_sessions_own(place):
    temporary = place / "tmp"
    temporary.mkdir()
    with mock.patch.dict(os.environ, {"HOME": "/proc", "TMPDIR": str(temporary)}):
        os.environ.pop("XDG_CACHE_HOME", None)
        made = Zygote()
    define(place / "here", "mine", "(defvar *v* 1)")
    with made, made.spawn(str(place / "here")) as worker:
        answer(worker, "mine")
        assert worker.value("*v*") == "1"
    directory, = temporary.iterdir()
    assert directory.stat().st_mode & 0o777 == 0o700 and list(directory.rglob("mine-0.fasc"))


def test_the_users_own_call_of_asdf_does_the_same_in_silence(worker, place):
    define(place, "mine", "(defpackage :mine (:use :cl)) (in-package :mine) (defun inside () 1)")
    result = worker.evaluate('(asdf:load-system "mine")')
    assert result.outcome_name == "DONE" and result.stdout is None and result.stderr is None, result
    assert worker.value("all", operation="list-definitions") == "[Loaded Systems]\n- MINE"


def test_alexandria_is_there_in_less_than_a_second(zygote, home):
    for path in home.glob(".cache/cl-mcpd/**/alexandria/**/*.fasc"):
        path.unlink()
    with zygote.spawn() as worker:
        before = int(worker.value("(get-internal-run-time)"))
        answer(worker, "alexandria")
        assert int(worker.value("(get-internal-run-time)")) - before < 1000  # milliseconds of the processor's


# ---- Quicklisp


STAND_IN = """
(defpackage :quicklisp-client (:nicknames :ql) (:use :cl) (:export #:quickload #:system-not-found))
(in-package :quicklisp-client)
(define-condition system-not-found (error) ((name :initarg :name :reader system-not-found-name))
  (:report (lambda (c s) (format s "System ~S not found" (system-not-found-name c)))))
(defun quickload (name &key verbose)
  (declare (ignore verbose))
  (write-line "To load something: chatter")
  (pushnew (merge-pathnames "quicklisp/software/" (user-homedir-pathname)) asdf:*central-registry* :test #'equal)
  (if (asdf:find-system name nil)
      (handler-case (asdf:load-system name)
        (asdf:missing-dependency (missing)
          (quickload (string-downcase (asdf/find-component:missing-requires missing)))
          (asdf:load-system name)))
      (error 'system-not-found :name name)))
"""


@pytest.fixture
def quicklisp(home):
    setup = home / "quicklisp" / "setup.lisp"
    setup.parent.mkdir()
    setup.write_text(STAND_IN)
    yield home / "quicklisp" / "software"
    setup.unlink()
    for path in (home / "quicklisp" / "software").glob("*"):
        path.unlink()
    (home / "quicklisp" / "software").rmdir()
    setup.parent.rmdir()


def test_quicklisp_loads_what_asdf_does_not_find(quicklisp, worker, place):
    define(quicklisp, "distant", "(defpackage :distant (:use :cl)) (defvar distant::*v* 1)", version='"2.5"')
    define(place, "near", "", depends_on='("distant")')
    assert answer(worker, "near") == "Loading system: near\nLoaded: near"
    assert answer(worker, "distant") == "Loading system: distant\nLoaded: distant (version 2.5)"
    assert worker.value("all", operation="list-definitions") == "[Loaded Systems]\n- DISTANT\n- NEAR"
    lines = loaded(worker)
    with worker.zygote.spawn(str(place)) as other:
        assert other.value("\n".join(lines), operation="reload-systems") == ""
        assert other.value("distant::*v*") == "1"


def test_what_quicklisp_does_not_find_either_is_told_as_the_contract_says(quicklisp, worker):
    quicklisp.mkdir()
    assert failure(worker, "nonexistent") == ("QUICKLISP-CLIENT:SYSTEM-NOT-FOUND",
                                              'System "nonexistent" not found in any known distribution.')


def test_what_a_system_needs_and_nobody_has_is_told_with_who_needs_it(quicklisp, worker, place):
    quicklisp.mkdir()
    define(place, "mine", "", depends_on='("nonexistent")')
    assert failure(worker, "mine") == (
        "QUICKLISP-CLIENT:SYSTEM-NOT-FOUND",
        'System "nonexistent" not found in any known distribution.\nIt is required by "mine".')


def test_quicklisp_is_left_alone_by_what_asdf_finds(quicklisp, worker, place):
    quicklisp.mkdir()
    define(place, "mine", "")
    answer(worker, "mine")
    assert worker.value("(find-package :quicklisp-client)") == "NIL"


# ---- what is remembered


def test_systems_and_their_packages_are_not_the_users_definitions(worker, place):
    define(place, "mine", "(defpackage :mine (:use :cl)) (in-package :mine) (defun inside () 1)",
           depends_on='("split-sequence")')
    answer(worker, "mine")
    worker.evaluate("(require :sockets) (defun own () 1) (defpackage :own (:use :cl)) (defvar own::*v* 1)")
    text = worker.value("all", operation="list-definitions")
    assert text.startswith("[Functions]\n- OWN ()\n\n[Variables]\n- OWN::*V* = 1\n\n[Loaded Systems]\n- MINE\n")
    assert text.split("\n")[-3:] == ["- SB-BSD-SOCKETS", "- SOCKETS", "- SPLIT-SEQUENCE"]


def test_loaded_systems_come_in_order_and_can_be_loaded_by_a_fresh_process(worker, place):
    define(place, "base", "(defvar *order* '(base))")
    define(place, "above", "(push 'above *order*)", depends_on='("base")')
    assert loaded(worker) == []
    answer(worker, "above")
    worker.evaluate("(require :sockets)")
    lines = loaded(worker)
    assert lines[:2] == ["base", "above"] and "sockets" in lines
    with worker.zygote.spawn(str(place)) as other:
        assert other.value("\n".join(lines), operation="reload-systems") == ""
        assert other.value("*order*") == "(ABOVE BASE)"
        assert loaded(other) == lines
        assert other.value("all", operation="list-definitions").startswith("[Variables]\n- *ORDER* = (ABOVE BASE)\n")


def test_what_cannot_be_loaded_again_is_named_and_the_others_are(worker, place):
    define(place, "good", "(defvar *good* 1)")
    define(place, "bad", '(error "broken~%badly")')
    result = worker.evaluate("nonexistent\nbad\ngood", operation="reload-systems")
    assert result.outcome_name == "DONE", result
    assert result.value == ['nonexistent: Component "nonexistent" not found\nbad: broken badly']
    assert worker.value("*good*") == "1"


def test_systems_outlive_the_worker_in_its_copy(zygote, place):
    define(place, "mine", "(defun from-system () 7)")
    worker = zygote.spawn(str(place))
    answer(worker, "mine")
    protect(worker)
    die(worker)
    assert worker.value("(from-system)") == "7" and loaded(worker) == ["mine"]
    worker.close()


def test_a_system_that_the_session_itself_made_known_is_loaded_again_too(zygote, worker, tmp_path_factory):
    elsewhere = tmp_path_factory.mktemp("project")
    define(elsewhere, "mine-elsewhere", "(defun elsewhere () :here)")
    worker.evaluate(f'(push #p"{elsewhere}/" asdf:*central-registry*)')
    answer(worker, "mine-elsewhere")
    answer(worker, "alexandria")
    lines = worker.value("", operation="loaded-systems").split("\n")
    assert f"mine-elsewhere\t{elsewhere}/mine-elsewhere.asd" in lines and "alexandria" in lines
    with zygote.spawn() as other:
        assert other.value("\n".join(lines), operation="reload-systems") == ""
        assert other.value("(elsewhere)") == ":HERE"
    (elsewhere / "mine-elsewhere.asd").unlink()
    with zygote.spawn() as other:
        failed = other.value("\n".join(lines), operation="reload-systems")
        assert failed == 'mine-elsewhere: Component "mine-elsewhere" not found'
