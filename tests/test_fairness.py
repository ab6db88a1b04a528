"""One client that asks for more than can be done slows down itself, and the others hardly."""

import json
import subprocess
import threading

from harness import wait_until
from mcpschema import NEWEST_HANDSHAKE

FLOOD = 600
SESSIONS = 100  # so many are listed each time


class Flood:
    """A client that has asked for thousands of lists, and reads every answer at once."""

    def __init__(self, runtime):
        self.answers = 0
        self.process = subprocess.Popen([runtime.programs / "cl-mcp-shim"], env=runtime.environment, cwd=runtime.directory,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.threads = [threading.Thread(target=work) for work in (self._write, self._read)]
        for thread in self.threads:
            thread.start()

    def _write(self):
        hello = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
            "protocolVersion": NEWEST_HANDSHAKE, "capabilities": {}, "clientInfo": {"name": "flood", "version": "1"}}}
        asks = [{"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": {
            "name": "list-sessions", "arguments": {"limit": SESSIONS}}} for number in range(1, FLOOD + 1)]
        with self.process.stdin as stdin:
            stdin.write("".join(json.dumps(message) + "\n" for message in [hello, *asks]).encode())

    def _read(self):
        for _ in self.process.stdout:
            self.answers += 1

    def end(self):
        for thread in self.threads:
            thread.join()
        assert self.process.wait() == 0 and self.answers == FLOOD + 1


def test_who_asks_for_thousands_of_lists_is_not_served_before_those_who_ask_for_little(own_runtime):
    other = own_runtime.client().open()
    for _ in range(SESSIONS):
        other.tool("create-session")
    other.evaluate("(defvar *n* 0)")
    flood = Flood(own_runtime)
    wait_until(lambda: flood.answers > 5, "it is served")
    with own_runtime.client() as newcomer:
        newcomer.open().tool("create-session")
    for _ in range(3):
        other.result("ping")
        other.tool("list-sessions")
        other.evaluate("(incf *n*)")
        assert not other.tool("add-message", role="user", content="x").is_error
    served = flood.answers
    flood.end()
    print(f"{served} of {FLOOD} before")
    assert served < FLOOD / 2
