"""Laws 1, 7 and 8 on conversations that people had: a coding session of 484 replies, and 200 customer-service runs."""

from __future__ import annotations

import gzip
import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from contextkit import AnthropicMessages, Context, OpenAIChat
from contextkit.canonical import parse
from contextkit.importers.pi import read_pi
from contextkit.importers.recording import (
    AssistantTurn,
    Call,
    Compacted,
    Image,
    Recording,
    Text,
    Thinking,
    ToolResultTurn,
    UserTurn,
)
from contextkit.prompt.diff import divergence
from contextkit.providers.endpoints import PARSERS
from tests.laws.wires import Server, answer, atoms, common

Json = Any


class Driven:
    """A recording said again through a context, request by request."""

    def __init__(self, recording: Recording, most: int | None) -> None:
        self.now, self.server, self.entries = 0.0, Server(), dict[int, Any]()
        provider = AnthropicMessages("claude-opus-4-5", max_tokens=8192)
        self.context = Context(
            provider, system="You are a coding agent. " * 800, tools=self.tools(recording), clock=lambda: self.now
        )
        self.sent: list[Any] = []
        for index, event in enumerate(recording.events[:most]):
            self.say(index, event)

    @staticmethod
    def tools(recording: Recording) -> list[Json]:
        names = {
            part.name
            for event in recording.events
            if isinstance(event, AssistantTurn)
            for part in event.parts
            if isinstance(part, Call)
        }
        return [
            {"name": name, "description": name, "parameters": {"type": "object", "properties": {}}}
            for name in sorted(names)
        ]

    def say(self, index: int, event: Any) -> None:
        if isinstance(event, UserTurn):
            self.entries[index] = self.context.user([neutral(part) for part in event.parts])
        elif isinstance(event, ToolResultTurn) and event.call_id in {call.id for call in self.context.calls}:
            self.context.result(event.call_id, [neutral(part) for part in event.parts], is_error=event.is_error)
        elif isinstance(event, Compacted):
            self.context.interrupt("nobody answered")
            kept = [
                entry
                for place, entry in self.entries.items()
                if event.keep_from is not None and place >= event.keep_from
            ]
            self.context.compact(event.summary, kept[0] if kept else None)
        elif isinstance(event, AssistantTurn):
            self.ask(index, event)

    def ask(self, index: int, event: AssistantTurn) -> None:
        self.context.interrupt("nobody answered")
        self.now = max(self.now, event.started_at)
        request = self.context.request()
        if event.stop in ("aborted", "error"):
            self.context.failed(event.stop, request)
            return
        billed = self.server.bill(request.wire, request.body, self.now)
        n = request.layout.n
        self.sent.append(
            (
                request,
                len(self.sent) % 40 == 0 and request.body,
                bytes(request.layout.columns.wire[: request.layout.n_bytes]),
                n,
                billed,
            )
        )
        said = [scripted(part) for part in event.parts if not (isinstance(part, Text) and not part.text)]
        self.entries[index] = self.context.receive(answer(request.wire, f"r{index}", said, billed), request)


def neutral(part: Any) -> Json:
    if isinstance(part, Image):
        return {"type": "image", "media_type": part.media_type, "data": part.data}
    return {"type": "text", "text": part.text or "(nothing)"}


def scripted(part: Any) -> Json:
    if isinstance(part, Thinking):
        return ("thinking", part.text, part.signature or "c2ln")
    return ("call", part.id, part.name, part.arguments) if isinstance(part, Call) else ("text", part.text)


@pytest.fixture(scope="module")
def driven(shared: Path, request: pytest.FixtureRequest) -> Driven:
    """Its first 330 events, a compaction among them when `--full` asks for all 1,002."""
    most = None if request.config.getoption("--full") else 330
    return Driven(read_pi(shared / "data" / "pi" / "before-compaction.jsonl"), most)


def test_every_request_of_a_real_session_is_the_one_before_and_a_tail(driven: Driven) -> None:
    assert len(driven.sent) > 100
    for (one, _, older, *_), (other, _, newer, *_) in pairwise(driven.sent):
        assert one.epoch != other.epoch or newer.startswith(older)


def test_a_real_session_is_billed_as_predicted_and_reads_all_it_sent_before(driven: Driven) -> None:
    hits = 0
    for (one, *_), (other, *_, billed) in pairwise(driven.sent):
        assert (other.predicted.fresh, other.predicted.read, other.predicted.write_5m) == (
            billed.fresh,
            billed.read,
            billed.write_5m,
        )
        is_warm = (
            one.epoch == other.epoch and other.at - one.at < 300 and one.prompt.namespaces == other.prompt.namespaces
        )
        hits += is_warm
        assert not is_warm or billed.read >= one.prompt.ends_tokens[one.prompt.breakpoints[-1].segment]
    assert hits > 0.8 * len(driven.sent)


def test_a_real_session_is_read_back_as_it_was_rendered(driven: Driven) -> None:
    bodies = [(request, body, n) for request, body, _, n, _ in driven.sent if body]
    for request, body, n in bodies:
        parsed = PARSERS[request.wire](parse(body))
        assert (
            parsed.prompt.digests == request.prompt.digests[:n]
            and parsed.prompt.breakpoints == request.prompt.breakpoints
        )
    for (one, first, _), (other, second, _) in pairwise(bodies):
        if one.epoch == other.epoch:
            older, newer = atoms(one.wire, first), atoms(one.wire, second)
            assert common(older, newer) == len(older)


def test_a_real_session_is_adopted_as_it_is(driven: Driven) -> None:
    body = next(body for _, body, *_ in reversed(driven.sent) if body)
    other = Context.from_messages(AnthropicMessages("claude-opus-4-5", max_tokens=8192), parse(body))
    assert divergence(PARSERS["anthropic_messages"](parse(body)).layout, other.request().layout) is None
    assert atoms("anthropic_messages", other.request().body) == atoms("anthropic_messages", body)


def test_real_chat_messages_are_adopted_and_grow(shared: Path) -> None:
    """Every run as its loop had it before each reply: adopted, the request extends the one adopted a reply earlier."""
    with gzip.open(shared / "data" / "tau-bench" / "gpt-4o-airline.json.gz", "rt", encoding="utf-8") as file:
        runs = json.load(file)
    n_messages = 0
    for run in runs[::10]:
        messages = run["traj"]
        asked = [index for index, message in enumerate(messages) if message["role"] == "assistant" and index]
        older = None
        for index in (asked[len(asked) // 2], asked[-1]):
            body = {"model": "gpt-4o", "messages": messages[:index]}
            provider = OpenAIChat("gpt-4o", system_role="system")
            context = Context.from_messages(provider, body)
            request = context.request()
            ours, theirs = PARSERS["openai_chat"](parse(request.body)), PARSERS["openai_chat"](body)
            assert (
                ours.prompt.digests == theirs.prompt.digests and ours.layout.columns.wire == theirs.layout.columns.wire
            )
            assert older is None or divergence(older, request.layout) is None
            older = request.layout
            n_messages += index
    assert n_messages > 300
