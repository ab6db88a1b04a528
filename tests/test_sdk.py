"""The official SDK clients from npm drive the real shim: tests/sdk/ has the conversation, each step is a test."""

import functools
import pathlib
import shutil
import subprocess

import pytest

from harness import BUILD_DIR, PATIENCE, Runtime

SOURCES = pathlib.Path(__file__).parent / "sdk"
PLACE = BUILD_DIR / "sdk"
NEWEST_NEEDS_NODE = 20
CLIENTS = {
    "v1 handshake": ["v1.mjs"],
    "v2 handshake": ["v2.mjs", "legacy"],
    "v2 probing": ["v2.mjs", "auto"],
    "v2 stateless": ["v2.mjs", "2026-07-28"],
}
STEPS = ["connect", "list tools", "evaluate", "error", "unknown tool", "structured content", "text beyond ASCII",
         "resources", "updates", "progress", "cancel", "close", "no complaints"]


def node_major():
    version = subprocess.run(["node", "--version"], capture_output=True, text=True, check=True).stdout
    return int(version[1:].split(".")[0])


@functools.lru_cache(maxsize=None)
def installed():
    """Installs the SDKs beside the build, once for each lock file, and returns the node to run them with."""
    for program in ("node", "npm"):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed (Debian: nodejs, npm)")
    PLACE.mkdir(exist_ok=True)
    for source in SOURCES.iterdir():
        if source.is_file():
            shutil.copy(source, PLACE / source.name)
    own_node = node_major() < NEWEST_NEEDS_NODE
    stamp, wanted = PLACE / "installed", (SOURCES / "package-lock.json").read_text() + f"\nnode {own_node}\n"
    if not stamp.exists() or stamp.read_text() != wanted:
        stamp.unlink(missing_ok=True)
        done = subprocess.run(["npm", "ci", *([] if own_node else ["--omit=optional"])], cwd=PLACE, timeout=300,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              check=False)
        if done.returncode != 0:
            pytest.fail(f"npm ci failed:\n{done.stdout[-3000:]}", pytrace=False)
        stamp.write_text(wanted)
    return str(PLACE / "node_modules/node/bin/node") if own_node else "node"


@functools.lru_cache(maxsize=None)
def conversation(name):
    """Runs one client and returns {step: what is wrong with it, or None}, and all that it wrote."""
    script, *arguments = CLIENTS[name]
    # The v1 SDK promises to work with the node that Debian has.
    node = installed() if script != "v1.mjs" else installed() and "node"
    with Runtime() as runtime:
        runtime.ready()
        done = subprocess.run(
            [shutil.which(node) or node, str(PLACE / script), str(BUILD_DIR / "cl-mcp-shim"), *arguments], cwd=PLACE,
            env=runtime.environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True, timeout=4 * PATIENCE, check=False)
    steps = {}
    for line in done.stdout.splitlines():
        verdict, _, rest = line.partition("ok ")
        if verdict in ("", "not "):
            step, _, why = rest.partition(": ")
            steps[step] = (why or "failed") if verdict else None
    return steps, done.stdout


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("name", CLIENTS)
def test_sdk(name, step):
    steps, output = conversation(name)
    assert step in steps, f"did not come to this step: {output[-3000:]}"
    assert steps[step] is None, steps[step].replace(" | ", "\n")
