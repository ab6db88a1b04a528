"""Every example of the contract's documents that binds, as whole texts: see contract/README for the files."""
import collections
import json
import pathlib

import pytest

DOCUMENTS = pathlib.Path(__file__).resolve().parent / "contract"
REVISION = "2025-03-26"  # that of the documents
WORDS = ("call", "answer", "error", "send", "receive")

Step = collections.namedtuple("Step", "word rest text")


def read_examples(path):
    """[(heading, steps)] of a file."""
    examples = []
    for line in path.read_text().splitlines():
        word, _, rest = line.partition(" ")
        if line.startswith("## "):
            examples.append((line[3:], []))
        elif line.startswith("# "):
            continue
        elif word in WORDS:
            examples[-1][1].append(Step(word, rest, []))
        elif line or (examples and examples[-1][1]):
            examples[-1][1][-1].text.append(line)
    return examples


def whole_text(step):
    return "\n".join(step.text).rstrip("\n")


def parameters():
    for path in sorted(DOCUMENTS.glob("*.txt")):
        for heading, steps in read_examples(path):
            yield pytest.param(steps, id=f"{path.stem}: {heading}")


def contains(whole, part):
    """True if everything in part is in whole."""
    if isinstance(part, dict):
        return isinstance(whole, dict) and all(key in whole and contains(whole[key], part[key]) for key in part)
    return whole == part


class Conversation:
    """Takes the steps of an example, one after the other."""

    def __init__(self, client):
        self.client = client
        self.answer = None
        self.sent = None
        self.errors = 0

    def take(self, step):
        getattr(self, "take_" + step.word)(step)

    def take_call(self, step):
        tool, _, arguments = step.rest.partition(" ")
        self.answer = self.client.result("tools/call", {"name": tool, "arguments": json.loads(arguments)})

    def expect_text(self, step, is_error):
        assert self.answer["content"] == [{"type": "text", "text": whole_text(step)}]
        assert self.answer["isError"] is is_error

    def take_answer(self, step):
        self.expect_text(step, False)

    def take_error(self, step):
        self.expect_text(step, True)

    def take_send(self, step):
        self.sent = json.loads(step.rest)
        if "id" in self.sent:
            self.client.expect_answer_to(self.sent["id"], self.sent.get("method", ""))
        self.client.send_line(step.rest)

    def take_receive(self, step):
        is_part = step.rest.startswith("more ")
        expected = json.loads(step.rest.removeprefix("more "))
        if "id" in self.sent:
            found = self.client.answer(self.sent["id"])
        else:
            self.errors += 1
            found = self.client.error_without_id(self.errors)
        assert contains(found, expected) if is_part else found == expected


def opens_itself(steps):
    first = json.loads(steps[0].rest) if steps[0].word == "send" else {}
    return first.get("method") == "initialize" and "id" in first


@pytest.mark.parametrize("steps", parameters())
def test_the_example_is_answered_word_for_word(connect, steps):
    conversation = Conversation(connect())
    if not opens_itself(steps):
        conversation.client.open(REVISION)
    for step in steps:
        conversation.take(step)
