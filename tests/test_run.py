"""
./run, on a small project of its own: what it builds does not matter, how it builds does.

The project has the same four programs, each of which prints its name, its arguments and what it reads.
"""

import os
import pathlib
import pty
import select
import shutil
import subprocess
import time

import pytest

from harness import PATIENCE

TOP = pathlib.Path(__file__).parent.parent
PROGRAMS = ("cl-mcp-shim", "cl-mcpd", "cl-mcpctl", "cl-mcp-worker")
CONFIGURE = """AC_INIT([small], [1])
AC_CONFIG_AUX_DIR([build-aux])
AM_INIT_AUTOMAKE([foreign subdir-objects])
AC_PROG_CC
AC_CONFIG_FILES([Makefile])
AC_OUTPUT
"""
SOURCE = """#include <stdio.h>
#include <string.h>
int main(int argc, char **argv)
{
	char line[100];

	fputs(strrchr(argv[0], '/') + 1, stdout);
	for (int i = 1; i < argc; i++)
		printf(" %s", argv[i]);
	puts("");
	while (fgets(line, sizeof(line), stdin))
		printf("read %s", line);
	return 0;
}
"""


pytestmark = pytest.mark.slow  # autoconf takes its time


@pytest.fixture
def project(tmp_path):
    missing = [tool for tool in ("autoreconf", "gcc", "make") if not shutil.which(tool)]
    if missing:
        pytest.skip(f"{', '.join(missing)} not installed")
    shutil.copy(TOP / "run", tmp_path)
    (tmp_path / "scripts").mkdir()
    shutil.copy(TOP / "scripts/packages.sh", tmp_path / "scripts")
    for folder in ("common", "daemon", "shim", "lisp", "sql"):
        (tmp_path / folder).mkdir()
    (tmp_path / "configure.ac").write_text(CONFIGURE)
    names = [name.replace("-", "_") for name in PROGRAMS]
    (tmp_path / "Makefile.am").write_text(
        f"bin_PROGRAMS = {' '.join(PROGRAMS)}\n" + "".join(f"{name}_SOURCES = shim/small.c\n" for name in names))
    (tmp_path / "shim/small.c").write_text(SOURCE)
    return tmp_path


def run(project, *arguments, text="", command=None, **options):
    return subprocess.run([command or project / "run", *arguments], input=text, capture_output=True, text=True,
                          timeout=PATIENCE * 4, check=False, **options)


def test_without_a_terminal_it_is_the_server_and_leaves_stdin_and_stdout_to_it(project):
    first = run(project, "--session", "x", text="one\ntwo\n", cwd="/")
    assert first.stdout == "cl-mcp-shim --session x\nread one\nread two\n"
    assert "building" in first.stderr
    link = project / "elsewhere"
    link.symlink_to(project / "run")
    begun = time.monotonic()
    second = run(project, text="three\n", command=link, cwd="/")
    assert time.monotonic() - begun < 1
    assert (second.stdout, second.stderr) == ("cl-mcp-shim\nread three\n", "")


def test_two_starts_at_once_build_once_and_both_serve(project):
    both = [subprocess.Popen([project / "run"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                             text=True) for _ in range(2)]
    results = [process.communicate(f"{number}\n", timeout=PATIENCE * 4) for number, process in enumerate(both)]
    assert [stdout for stdout, _ in results] == ["cl-mcp-shim\nread 0\n", "cl-mcp-shim\nread 1\n"]
    assert sum("run: configuring" in stderr for _, stderr in results) == 1


def test_a_failed_build_says_why_and_is_not_trusted_afterwards(project):
    source = project / "shim/small.c"
    assert run(project, "--build").returncode == 0
    source.write_text(SOURCE + "#error broken on purpose\n")
    for _ in range(2):
        failed = run(project, text="lost\n")
        assert failed.returncode != 0
        assert failed.stdout == ""
        assert "broken on purpose" in failed.stderr
        assert "run.log" in failed.stderr
    source.write_text(SOURCE)
    assert run(project, text="x\n").stdout == "cl-mcp-shim\nread x\n"


def test_a_build_that_was_killed_is_done_again_from_the_start(project):
    assert run(project, "--build").returncode == 0
    (project / "build/.built").unlink()  # as it is while a build is at work
    (project / "build/cl-mcp-shim").write_text("half a program")
    again = run(project, text="x\n")
    assert again.stdout == "cl-mcp-shim\nread x\n"
    assert "run: configuring" in again.stderr


def test_what_has_changed_is_built_before_the_next_start(project):
    assert run(project, "--build").returncode == 0
    (project / "shim/small.c").write_text(SOURCE.replace('"read %s"', '"saw %s"'))
    assert run(project, text="x\n").stdout == "cl-mcp-shim\nsaw x\n"


def test_no_install_says_what_is_missing_and_what_to_type(project, tmp_path_factory):
    tools = tmp_path_factory.mktemp("tools")
    (tools / "dpkg-query").write_text("#!/bin/sh\nexit 1\n")
    (tools / "dpkg-query").chmod(0o755)
    refused = run(project, "--no-install", text="x\n", env={**os.environ, "PATH": f"{tools}:{os.environ['PATH']}"})
    assert refused.returncode != 0
    assert refused.stdout == ""
    assert "these packages are missing: gcc" in refused.stderr
    assert "apt-get install -y --no-install-recommends gcc" in refused.stderr


def test_at_a_terminal_it_shows_the_snippet_and_opens_the_prompt(project):
    assert run(project, "--build").returncode == 0
    master, slave = pty.openpty()
    process = subprocess.Popen([project / "run"], stdin=slave, stdout=slave, stderr=slave, start_new_session=True)
    os.close(slave)
    shown = b""
    deadline = time.monotonic() + PATIENCE
    while b"cl-mcpctl repl" not in shown:
        assert time.monotonic() < deadline, shown
        if select.select([master], [], [], 0.1)[0]:
            shown += os.read(master, 4096)
    os.write(master, b"\x04")
    process.wait(timeout=PATIENCE)
    os.close(master)
    assert f'"lisp": {{ "command": "{project}/run" }}'.encode() in shown
    assert f"claude mcp add lisp -- {project}/run".encode() in shown
