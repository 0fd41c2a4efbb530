"""Neutral conversations, made by hypothesis, for the tests of adapters.

Gives log entries as `log/entry.py` describes them: whatever a user, a program, a tool or a model of another wire may
say."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from contextkit.canonical import canonical
from contextkit.log.entry import Entry, Kind

TEXT = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=12) | st.sampled_from(
    ["Error: no", "hello world", "data:x"]
)
NAME = st.sampled_from(["search", "write_file", "add"])
MEDIA = {"media_type": "image/png", "data": "iVBORw0KGgo="}
PARTS = st.one_of(
    TEXT.map(lambda text: {"type": "text", "text": text}),
    st.just({"type": "image", **MEDIA}),
    st.just({"type": "image", "url": "https://example.com/cat.png"}),
    st.just({"type": "document", "media_type": "application/pdf", "data": "JVBERi0="}),
    st.just({"type": "document", "media_type": "application/pdf", "data": "JVBERi0=", "title": "report.pdf"}),
    st.just({"type": "document", "media_type": "text/plain", "data": "plain words"}),
    st.just({"type": "document", "url": "https://example.com/report.pdf"}),
    st.just(
        {
            "type": "native",
            "wire": "anthropic_messages",
            "block": {"type": "search_result", "content": [{"type": "text", "text": "found"}]},
        }
    ),
)
LEAVES = st.none() | st.booleans() | st.integers(-9, 9) | TEXT
ARGUMENTS = st.dictionaries(
    st.sampled_from(["q", "path", "b", "a"]), LEAVES | st.lists(LEAVES, max_size=2), max_size=3
) | st.just("{torn")
DEFINITIONS = st.lists(NAME, unique=True, max_size=3).map(
    lambda names: [
        {
            "name": name,
            "description": f"Does {name}.",
            "parameters": {"type": "object", "properties": {"q": {"type": "string"}, "a": {}}},
        }
        for name in names
    ]
)


@dataclass(frozen=True)
class Speech:
    """A head and what was said after it."""

    system: list[Any]
    tools: list[Any]
    turns: list[tuple[Kind, Any]]

    def entries(self) -> list[Entry]:
        """The turns as log entries, numbered from 1."""
        return [Entry(n, kind, canonical(body), float(n), b"") for n, (kind, body) in enumerate(self.turns, 1)]


def entry(kind: Kind, body: Any, sequence: int = 1) -> Entry:
    """One log entry."""
    return Entry(sequence, kind, canonical(body), 0.0, b"")


@st.composite
def speeches(draw: st.DrawFn) -> Speech:
    """A conversation: a head, then users, programs, models and their tools in a possible order."""
    texts = st.lists(TEXT.map(lambda text: {"type": "text", "text": text}), max_size=2)
    turns: list[tuple[Kind, Any]] = []
    for number in range(draw(st.integers(1, 4))):
        turns.append(draw(st.sampled_from([_user, _notice, _epoch]))(draw))
        if draw(st.booleans()):
            turns += _exchange(draw, number)
    return Speech(draw(texts), draw(DEFINITIONS), turns)


def _user(draw: st.DrawFn) -> tuple[Kind, Any]:
    return "user", {"content": draw(st.lists(PARTS, min_size=1, max_size=3))}


def _notice(draw: st.DrawFn) -> tuple[Kind, Any]:
    return "notice", {"text": draw(TEXT)}


def _epoch(draw: st.DrawFn) -> tuple[Kind, Any]:
    return "epoch", {
        "reason": "compaction",
        "summary": draw(st.lists(PARTS, min_size=1, max_size=2)),
        "keep_from": None,
        "templates": {},
    }


def _exchange(draw: st.DrawFn, number: int) -> list[tuple[Kind, Any]]:
    """A reply of another wire's model, and what its tools gave."""
    n_calls = draw(st.integers(0, 3))
    calls = [
        {"id": f"toolu_{number}_{index}", "name": draw(NAME), "arguments": draw(ARGUMENTS)} for index in range(n_calls)
    ]
    text = draw(TEXT if not calls else TEXT | st.just(""))
    native = {
        "wire": "anthropic_messages",
        "model": "claude-sonnet-5-5",
        "body": [{"type": "thinking", "thinking": "hm", "signature": "s"}],
    }
    said: list[tuple[Kind, Any]] = [
        ("assistant", {"after": 0, "native": native, "text": text, "calls": calls, "stop": "calls"})
    ]
    for call in calls:
        content = draw(st.lists(PARTS, max_size=2))
        said.append(
            (
                "result",
                {"call_id": call["id"], "name": call["name"], "content": content, "is_error": draw(st.booleans())},
            )
        )
    return said
