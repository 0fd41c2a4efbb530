"""Law 2: an entry is serialised once.

Whoever reads it again sends the same bytes. Law 3: same inputs, same bytes, on every machine.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contextkit import Context
from contextkit.log.entry import Entry
from tests.laws.conversations import BREAKING, SAYING, Conversation, operations
from tests.laws.wires import PROVIDERS, TRIED, body_of

laws = settings.get_profile("laws")
every_wire = pytest.mark.parametrize("name", TRIED)
ROOT = Path(__file__).resolve().parents[2]
CALLS = [
    ("thinking", "hm", "c2ln"),
    ("text", "I look."),
    ("call", "search", {"query": "é", "a": 10**20, "b": 1e-7}),
    ("call", "add", {"b": 1, "a": 2}),
]


@every_wire
@given(st.data())
@laws
def test_entries_never_change_and_are_all_a_request_needs(name: str, data: st.DataObject) -> None:
    conversation = Conversation(PROVIDERS[name]())
    frozen: list[Entry] = []
    for operation in data.draw(operations(*SAYING, *BREAKING)):
        conversation.run([operation])
        entries = list(conversation.context.log)
        assert entries[: len(frozen)] == frozen
        frozen = entries
    again = Context(PROVIDERS[name](), log=conversation.context.log)
    assert again.request().body == conversation.context.request().body


@every_wire
@given(st.data())
@laws
def test_time_and_who_looked_before_do_not_enter_bytes(name: str, data: st.DataObject) -> None:
    """The same things said at other times, with no look taken at requests in between."""
    given_operations = data.draw(operations(*SAYING))
    quiet = [
        (*operation[:3], False) if operation[0] == "turn" else operation
        for operation in given_operations
        if operation[0] != "preview"
    ]
    one = Conversation(PROVIDERS[name]()).run(given_operations)
    other = Conversation(PROVIDERS[name](), clock_at=5.0).run(quiet)
    assert [sent.body for sent in one.sent] == [sent.body for sent in other.sent]


@every_wire
@given(st.data())
@laws
def test_a_request_is_pure(name: str, data: st.DataObject) -> None:
    conversation = Conversation(PROVIDERS[name]()).run(data.draw(operations(*SAYING)))
    n = len(conversation.context.log)
    first, second = conversation.context.request(), conversation.context.request()
    assert first.body == second.body == first.body and len(conversation.context.log) == n
    assert body_of(first.wire, dict(first)) == json.loads(first.body)


READER = """
import sys
from contextkit import Context
from tests.laws.wires import PROVIDERS
for name in sys.argv[2:]:
    context = Context.open(sys.argv[1] + "/" + name, PROVIDERS[name]())
    print(context.request().body.hex())
"""


def test_another_process_sends_the_same_bytes(tmp_path: Path) -> None:
    names = ("anthropic", "chat", "responses")
    expected = [sent_from(tmp_path / name, name).hex() for name in names]
    environment = {**os.environ, "PYTHONHASHSEED": "4242", "PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "latin-1"}
    read = subprocess.run(
        [sys.executable, "-c", READER, str(tmp_path), *names],
        capture_output=True,
        env=environment,
        cwd=ROOT,
        check=True,
    )
    assert read.stdout.decode().split() == expected


def sent_from(folder: Path, name: str) -> bytes:
    """The request of a conversation with all kinds of entries, kept in a folder."""
    conversation = Conversation(PROVIDERS[name](), folder=folder)
    said = {"set": {"b", "a", "c", "ü"}, "none": None}
    conversation.run(
        [
            ("user", ["Grüße 👩‍👩‍👧", {"type": "image", "media_type": "image/png", "data": "iVBORw0KGgo="}]),
            ("turn", CALLS, ["late"], False),
        ]
    )
    conversation._turn(CALLS, [], False)
    for call in conversation.context.calls:
        conversation.context.result(call, said)
    conversation.context.compact(
        "So far: nothing.", [entry for entry in conversation.context.log if entry.kind == "assistant"][-1]
    )
    body = conversation.context.request().body
    conversation.context.close()
    return body


@every_wire
def test_what_the_caller_changes_afterwards_changes_nothing(name: str) -> None:
    conversation = Conversation(PROVIDERS[name]())
    part = {"type": "text", "text": "as it was"}
    content = [part]
    conversation.context.user(content)
    before = conversation.context.request().body
    part["text"] = "changed"
    content.append("more")  # type: ignore[arg-type]
    assert conversation.context.request().body == before
