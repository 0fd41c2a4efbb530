"""Law 6: what went to a file comes back byte for byte.

Laws 1, 2, 4 and 7 with a memory: nothing that it does moves what was said.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import count, pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contextkit import AnthropicMessages, Context, OpenAIChat
from contextkit.log.entry import (
    DateChanged,
    EffortChanged,
    FileChanged,
    FolderChanged,
    MemoryUpdated,
    ModeChanged,
    PermissionChanged,
)
from contextkit.log.variation import Variation
from contextkit.memory import FileMemory, Memory, Offload, Recitation
from contextkit.providers.provider import Provider
from contextkit.tools.render import answer as rendered
from tests.laws.conversations import BREAKING, SAYING, TOOLS, Conversation, Sent, operations
from tests.laws.test_mask import accepted, asks_for_an_answer
from tests.laws.wires import PROVIDERS, RULE_CLASSES
from tests.scale import cases

laws = settings.get_profile("laws")
REMINDED: dict[str, Callable[[], Provider]] = {
    "anthropic-reminder": lambda: AnthropicMessages("claude-sonnet-5", max_tokens=1024),
    "chat-elsewhere": lambda: OpenAIChat("deepseek-flash"),
}
REMEMBERING = {**PROVIDERS, **REMINDED}
NAMES = cases([*RULE_CLASSES, *REMINDED], REMEMBERING)
every_wire = pytest.mark.parametrize("name", NAMES)
CHANGES = [
    DateChanged("2026-11-21"),
    DateChanged("2026-11-22"),
    ModeChanged("review", "Change nothing."),
    EffortChanged("low"),
    FolderChanged("/src"),
    MemoryUpdated("notes.md"),
    PermissionChanged("You may push."),
    FileChanged("a.py", "9f"),
    FileChanged("a.py"),
]
NEWS = st.tuples(st.just("news"), st.sampled_from(CHANGES))
PLANNING = st.tuples(st.just("plan"), st.sampled_from(["add", "done"]), st.integers(1, 3))
LARGE = st.one_of(
    st.integers(150, 400).map(lambda n: "\n".join(f"row {i}: {i * i}" for i in range(n))),
    st.integers(100, 200).map(lambda n: {"rows": [{"id": i, "name": f"n{i}"} for i in range(n)]}),
    st.just([{"type": "text", "text": "small"}, {"type": "text", "text": "x" * 9_000}]),
    st.just(ValueError("deep\n" * 900)),
)
LARGE_RESULTS = st.tuples(st.just("results"), st.integers(0, 9), st.lists(LARGE, min_size=1, max_size=3), st.just([]))
SHRINKING = st.tuples(st.just("shrink"), st.integers(1, 3))
_numbers = count()


class Remembering(Conversation):
    """A conversation with a memory, that keeps what every tool returned."""

    recitation = Recitation(every_replies=3, every_calls=4, beyond_tokens=2_000)

    def __post_init__(self) -> None:
        super().__post_init__()
        files = FileMemory(f"memory://law-{next(_numbers)}")
        self.memory = Memory(files, offload=Offload(above_tokens=300, preview_tokens=50), recitation=self.recitation)
        self.returned: dict[int, Any] = {}
        given: dict[str, Any] = {
            "system": self.system,
            "tools": TOOLS,
            "clock": lambda: self.clock_at,
            "memory": self.memory,
        }
        self.context = Context(
            self.provider, variation=Variation(3, is_always=True, errors=True, introductions=True), **given
        )
        self.context.user("Find the three cheapest GPUs.")

    def _news(self, change: Any) -> None:
        self.context.notice(change)

    def _plan(self, action: str, number: int) -> None:
        todo = self.memory.todo
        assert todo is not None
        if action == "add" or number > len(todo.items):
            todo.add([f"step {number}"])
        else:
            todo.mark([number], "done")

    def _results(self, seed: int, values: list[Any], between: list[Any]) -> None:
        for index, call in enumerate(self.context.calls):
            value = values[(seed + index) % len(values)]
            self.returned[self.context.result(call, value).sequence] = rendered(value)["content"]

    def _shrink(self, n_kept: int) -> None:
        self._settle()
        replies = [entry.sequence for entry in self.context.log if entry.kind == "assistant"]
        self.context.compact_results(replies[-n_kept] if n_kept <= len(replies) else 0, above_tokens=20)


def firm(sent: Sent, context: Context) -> int:
    """Wire bytes before the events at the very end, which the next thing said may still come before."""
    layout, n = sent.request.layout, sent.request.layout.n
    while n and layout.columns.entries[n - 1] >= 0 and b'"event":' in context.log[layout.columns.entries[n - 1]].body:
        n -= 1
    return layout.columns.ends[n - 1]


@every_wire
@given(st.data())
@laws
def test_appending_moves_nothing_and_every_result_comes_back(name: str, data: st.DataObject) -> None:
    conversation = Remembering(REMEMBERING[name]())
    conversation.run(data.draw(operations(*SAYING, NEWS, PLANNING, LARGE_RESULTS, LARGE_RESULTS, *BREAKING, SHRINKING)))
    for one, other in pairwise(conversation.sent):
        if one.request.epoch == other.request.epoch:
            kept = firm(one, conversation.context)
            assert other.wire[:kept] == one.wire[:kept]
    for sequence, content in conversation.returned.items():
        assert json.loads(json.dumps(conversation.context.restore(sequence))) == json.loads(json.dumps(content))


@every_wire
@given(st.data())
@laws
def test_what_is_sent_is_accepted_billed_as_predicted_and_the_same_from_the_log(name: str, data: st.DataObject) -> None:
    conversation = Remembering(REMEMBERING[name]())
    conversation.run(data.draw(operations(*SAYING, NEWS, PLANNING, LARGE_RESULTS, SHRINKING)))
    for sent in conversation.sent:
        if asks_for_an_answer(sent) and name != "chat-elsewhere":
            outcome = accepted(sent)
            assert outcome.status == 200, outcome.chunks[0][:300]
        predicted = sent.request.predicted
        assert (predicted.read, predicted.prompt) == (sent.billed.read, sent.billed.prompt)
    again = Context(
        REMEMBERING[name](),
        log=conversation.context.log,
        memory=conversation.memory,
        variation=Variation(3, is_always=True, errors=True, introductions=True),
    )
    assert again.request().body == conversation.context.request().body


class Passing(Remembering):
    """The same, its plan said for one reply at a time."""

    recitation = Recitation(every_replies=1, stays=False)


@pytest.mark.parametrize("name", [name for name in NAMES if not REMEMBERING[name]().model.binds_thinking])
@given(st.data())
@laws
def test_a_plan_said_for_one_reply_leaves_everything_before_it_in_place(name: str, data: st.DataObject) -> None:
    conversation = Passing(REMEMBERING[name]()).run(data.draw(operations(*SAYING, NEWS, PLANNING, LARGE_RESULTS)))
    for one, other in pairwise(conversation.sent):
        layout = one.request.layout
        recited = [entry.sequence for entry in conversation.context.log if b'"until":"reply"' in entry.body]
        n_kept = next((place for place in range(layout.n) if layout.columns.entries[place] in recited), layout.n)
        kept = min(firm(one, conversation.context), layout.columns.ends[n_kept - 1])
        assert other.wire[:kept] == one.wire[:kept]
        assert all(mark.segment < n_kept for mark in layout.breakpoints)
        assert sum(entry in recited for entry in set(layout.columns.entries[: layout.n])) <= 1
