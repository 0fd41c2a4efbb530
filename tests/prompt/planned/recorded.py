"""Recorded sessions as skeletons, and what ways of marking cost them as they went."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from contextkit import AnthropicMessages
from contextkit.cache.breakpoint_cache import BreakpointCache
from contextkit.economics.rhythm import SIZES, Rhythm
from contextkit.importers.pi import read_pi
from contextkit.importers.recording import (
    AssistantTurn,
    Call,
    Compacted,
    Recording,
    Text,
    Thinking,
    ToolResultTurn,
    UserTurn,
)
from contextkit.models import model_named
from contextkit.prompt.breakpoints import Plan
from contextkit.prompt.planner import NO_ENTRIES, CachedEntries, PlanningState, choose
from tests.prompt.planned.cost import Policy, price_of
from tests.prompt.planned.sessions import LAWS, Law, Session, before_reply, shared_segments
from tests.prompt.planned.sessions import Call as Asked

Json = Any
_LAW = Law(0.02, tuple(zip(LAWS[0][0], (25.0, 900.0, 5_000.0), strict=True)), ((1.0, 1_000.0),))
"""Not used: what was recorded happened once. `pieces` puts the law its gaps show in its place."""
_HEAD = 16_000
_BYTES_PER_TOKEN = 3.28


class Skeleton:
    """Blocks numbered as they come."""

    def __init__(self) -> None:
        self.sizes: list[int] = []

    def number(self, text: str) -> str:
        self.sizes.append(max(1, round(len(text.encode()) / _BYTES_PER_TOKEN)))
        return f"#{len(self.sizes) - 1}#"

    def block(self, part: Any) -> Json:
        if isinstance(part, Thinking):
            return {"type": "thinking", "thinking": self.number(part.text), "signature": "c2ln"}
        if isinstance(part, Call):
            return {
                "type": "tool_use",
                "id": part.id,
                "name": "t0",
                "input": {"n": self.number(json.dumps(part.arguments))},
            }
        return {"type": "text", "text": self.number(part.text if isinstance(part, Text) else "image" * 800)}


def pi(path: Path) -> tuple[Session, list[float]]:
    """The coding session in skeleton: its calls up to the first compaction and after it, and when they began."""
    return _session("pi", "claude-opus-4-5", read_pi(path))


def _session(name: str, model: str, recording: Recording) -> tuple[Session, list[float]]:
    skeleton = Skeleton()
    tools = [{"name": "t0", "description": skeleton.number("x" * 6_000), "input_schema": {"type": "object"}}]
    head = {
        "model": model,
        "max_tokens": 64,
        "tools": tools,
        "system": [{"type": "text", "text": skeleton.number("x" * _HEAD * 3)}],
    }
    messages: list[Json] = []
    calls, times = list[Asked](), list[float]()
    for event in recording.events:
        if isinstance(event, AssistantTurn):
            if event.stop not in ("aborted", "error") and messages and messages[-1]["role"] == "user":
                calls.append(
                    _asked({**head, "messages": [dict(one, content=list(one["content"])) for one in messages]}, calls)
                )
                times.append(event.started_at)
                said = [skeleton.block(part) for part in event.parts] or [skeleton.block(Text(" "))]
                messages.append({"role": "assistant", "content": said})
        elif isinstance(event, ToolResultTurn):
            content = [
                {
                    "type": "text",
                    "text": skeleton.number("".join(getattr(part, "text", "x" * 4_000) for part in event.parts)),
                }
            ]
            _said(messages, {"type": "tool_result", "tool_use_id": event.call_id, "content": content})
        elif isinstance(event, UserTurn):
            for part in event.parts:
                _said(messages, skeleton.block(part))
        elif isinstance(event, Compacted):
            messages = [{"role": "user", "content": [skeleton.block(Text(str(event.summary)))]}]
    return Session(name, model_named(model), _LAW, tuple(skeleton.sizes), tuple(calls)), times


def _said(messages: list[Json], block: Json) -> None:
    if messages and messages[-1]["role"] == "user":
        messages[-1]["content"].append(block)
    else:
        messages.append({"role": "user", "content": [block]})


def _asked(body: Json, calls: list[Asked]) -> Asked:
    if not calls:
        return Asked(body, 0, 0, None, 0)
    return Asked(body, 0, before_reply(body), len(calls) - 1, shared_segments(calls[-1].body, body))


def agent_traces(folder: Path) -> Iterator[tuple[Session, list[float]]]:
    """Model calls of agents, each prompt as the text it was: cut where an earlier prompt of the file ended."""
    for path in sorted(folder.glob("*/*.jsonl.gz")):
        with gzip.open(path, "rt", encoding="utf-8") as file:
            rows = sorted((json.loads(line) for line in file), key=lambda row: row["timestamp"])
        skeleton, known = Skeleton(), dict[str, list[Json]]()
        calls, times = list[Asked](), list[float]()
        for row in rows:
            parent = max((one for one in known if row["input"].startswith(one)), key=len, default="")
            messages = [
                *known.get(parent, []),
                {"role": "user", "content": [skeleton.block(Text(row["input"][len(parent) :] or " "))]},
            ]
            known[row["input"]] = messages
            body = {"model": "claude-sonnet-5-5", "max_tokens": 64, "system": [], "messages": _merged(messages)}
            calls.append(_asked(body, calls))
            times.append(row["timestamp"] / 1e6)
        name = f"{path.parent.name}/{path.name[:8]}"
        yield Session(name, model_named("claude-sonnet-5-5"), _LAW, tuple(skeleton.sizes), tuple(calls)), times


def _merged(messages: list[Json]) -> list[Json]:
    return [{"role": "user", "content": [block for message in messages for block in message["content"]]}]


def pieces(session: Session, times: list[float], n_calls: int) -> Iterator[Session]:
    """The session in pieces of that many calls, each on its own, under the law that the gaps and the size of the whole
    show."""
    gaps = [max(after - before, 0.0) for before, after in pairwise(times)]
    kinds = [[gap for gap in gaps if low <= gap < high] for low, high in ((0, 300), (300, 3600), (3600, float("inf")))]
    shares = tuple((len(kind) / len(gaps), sorted(kind)[len(kind) // 2]) if kind else (0.0, 0.0) for kind in kinds)
    ends = [columns.ends_tokens[-1] for columns in session.prompts]
    growth = sum(max(after - before, 0) for before, after in pairwise(ends)) / len(gaps)
    law = Law(1 / len(times), shares, ((1.0, growth), *((0.0, float(size)) for size in SIZES[1:])))
    for start in range(0, len(session.calls) - 1, n_calls):
        calls = session.calls[start : start + n_calls]
        first = replace(calls[0], previous=0, parent=None, common=0)
        rest = tuple(replace(call, parent=None if call.parent is None else call.parent - start) for call in calls[1:])
        yield replace(session, name=f"{session.name}#{start}", law=law, calls=(first, *rest))


def paid(session: Session, times: list[float], policy: Policy) -> float:
    """Dollars, as it went."""
    cache, price, total = BreakpointCache(session.model.min_tokens), price_of(session), 0.0
    left: tuple[CachedEntries, ...] = ()
    for index, now in enumerate(times):
        marks = policy(session, index, now, left)
        lease = cache.begin(session.prompt(index, marks), now)
        cache.publish(lease, now)
        total += price(lease.usage) or 0.0
        left = (*left, CachedEntries(marks, now, 0))
    return total


class Learning:
    """The planner as a `Context` has it: one lane, habits learned call by call from what sessions are like, what its
    last request left."""

    def __init__(self, *, is_auto: bool) -> None:
        self.is_auto, self.rhythm = is_auto, Rhythm()

    def __call__(self, session: Session, index: int, now: float, left: tuple[CachedEntries, ...]) -> tuple[Any, ...]:
        columns, call = session.prompts[index], session.calls[index]
        if left:
            before = session.prompts[index - 1].ends_tokens[-1]
            self.rhythm.see(max(now - left[-1].at, 0.0), max(columns.ends_tokens[-1] - before, 0))
        last = left[-1].within(call.common) if left else NO_ENTRIES
        known = PlanningState(self.rhythm, price_of(session), now, last)
        rules = AnthropicMessages(session.model.name, max_tokens=64, ttl="auto" if self.is_auto else "5m").plan
        assert isinstance(rules, Plan)
        return choose(columns, len(columns), call.previous, rules, known).marks
