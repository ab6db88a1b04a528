"""What the README shows is what happens."""

import pathlib
import re
import subprocess

from harness import BUILD_DIR, PATIENCE

README = pathlib.Path(__file__).parent.parent / "README.md"


def blocks_after(marker):
    """The code blocks behind the line that contains the marker."""
    return re.findall(r"```\w*\n(.*?)```", README.read_text().split(marker, 1)[1], re.DOTALL)


def test_the_command_to_see_it_work_gives_the_output_that_is_shown(own_runtime):
    command, shown = blocks_after("a test runs this command")[:2]
    ran = subprocess.run(["sh", "-c", command.replace("build/", f"{BUILD_DIR}/")], env=own_runtime.environment,
                         cwd=own_runtime.directory, capture_output=True, text=True, timeout=PATIENCE, check=True)
    pattern = re.escape(shown).replace(re.escape("..."), ".*")
    assert re.fullmatch(pattern, ran.stdout), ran.stdout


def test_every_file_that_the_readme_links_to_exists():
    links = re.findall(r"\]\((?!https?:)([^)#]+)\)", README.read_text())
    assert links
    for link in links:
        assert (README.parent / link).exists(), link
