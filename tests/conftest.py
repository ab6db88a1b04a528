"""Fixtures of the black-box tests: see harness.py for what they hand out."""

import sys

import pytest

sys.dont_write_bytecode = True  # the source tree may be read-only

from harness import BUILD_DIR, PROGRAMS, Runtime  # noqa: E402


def pytest_configure(config):
    config.addinivalue_line("markers", "slow: takes several seconds by its nature, such as waiting for a time limit")
    config.addinivalue_line("markers", "worker: speaks to cl-mcp-worker alone, without a daemon (all of test_worker_*.py)")


def pytest_collection_modifyitems(items):
    for item in items:
        if item.path.name.startswith("test_worker_"):
            item.add_marker("worker")


def pytest_sessionstart(session):
    missing = [name for name in PROGRAMS if not (BUILD_DIR / name).is_file()]
    if missing and not session.config.option.collectonly:
        raise pytest.UsageError(f"{', '.join(missing)} not found in {BUILD_DIR}: build first, or set BUILD_DIR")


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    """A failure shows what the daemons that were running have logged."""
    outcome = yield
    report = outcome.get_result()
    if report.failed:
        for runtime in Runtime.living:
            report.sections.append((f"log of {runtime.directory}", runtime.log_tail()))


@pytest.fixture(scope="module")
def runtime():
    """One daemon for the tests of a file; each client has a session of its own, of which there may be any number."""
    with Runtime() as shared, shared.daemon("--quota", "sessions=0"):
        yield shared


@pytest.fixture
def connect(runtime):
    """Starts clients of the shared daemon that leave when the test ends."""
    clients = []

    def start(*arguments, **options):
        clients.append(runtime.client(*arguments, **options))
        return clients[-1]

    yield start
    for client in clients:
        client.finish()


@pytest.fixture
def client(connect):
    """One client, not initialized."""
    return connect()


@pytest.fixture
def lisp(connect):
    """One client of the newest handshake revision, ready to evaluate."""
    return connect().open()


@pytest.fixture
def own_runtime():
    """A daemon for this test alone, which may be hurt."""
    with Runtime() as mine:
        yield mine
