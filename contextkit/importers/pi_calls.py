"""The calls of a pi session out of what happened in it: each with its bill and its prompt as a difference to the one
before.

Takes events one by one, gives exchanges. System prompt and tools are in no file of pi, so no segment stands for them.
Knows no file.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from hashlib import blake2b
from typing import Any

import orjson

from contextkit.cache.prompt import Prompt
from contextkit.canonical import Json, canonical
from contextkit.importers.recording import (
    AssistantSaid,
    Call,
    Compacted,
    EffortChanged,
    Event,
    Image,
    Part,
    ResultSaid,
    Text,
    Thinking,
    UserSaid,
)
from contextkit.ledger.calls import Exchange, Outline
from contextkit.ledger.prompts import outline
from contextkit.models import find_model

MAIN = "main"
"""The lane of a session that does not branch."""
BYTES_PER_TOKEN = 3.3
"""For models without a row; the sizes of segments are estimates, the bills are the provider's."""


class Calls:
    """The calls of a session, each with its prompt as a difference to the one before."""

    def __init__(self, session: str, effort: str, lane: str = MAIN) -> None:
        self.session, self.effort, self.lane = session, effort, lane
        self.epoch = self.n = 0
        self.sent = _Sent()
        self.before: Prompt | None = None

    def hear(self, event: Event) -> Exchange | None:
        """The next thing that happened; gives the call, if it was one."""
        exchange = None
        if isinstance(event, AssistantSaid):
            prompt = self.sent.prompt(event, self.effort)
            sent = outline(self.before, prompt, self.sent.entries, self.epoch)
            exchange = _exchange(self.session, self.lane, self.n, event, sent)
            self.before, self.n = prompt, self.n + 1
        self.pass_over(event)
        return exchange

    def pass_over(self, event: Event) -> None:
        """The next thing that happened, which is no call of this lane: a reply is what the branch before it was
        answered.
        """
        if isinstance(event, EffortChanged):
            self.effort = event.level
        elif isinstance(event, Compacted):
            self.epoch += 1
        self.sent.hear(event)


_ERROR_TYPE = re.compile(r'"type":\s*"(\w+_error)"')


def _exchange(session: str, lane: str, number: int, said: AssistantSaid, prompt: Outline) -> Exchange:
    """The row of one call; of an error only its kind, as its text may quote the prompt."""
    kind = _ERROR_TYPE.search(said.error or "")
    error = {"aborted": "aborted", "error": kind[1] if kind else "error"}.get(said.stop)
    return Exchange(
        id=f"{session}/{number}",
        session=session,
        lane=lane,
        at=said.started_at,
        first_byte_at=None,
        ended_at=said.ended_at,
        provider=said.provider,
        model=said.model,
        prompt=prompt,
        usage=said.usage,
        predicted=None,
        error=error,
    )


class _Sent:
    """The messages that the next request would carry, as running digests."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.answered: set[str] = set()
        self.late: list[int] = []
        """Events that no request has carried yet: calls among them may still be answered."""
        self.clear()

    def hear(self, event: Event) -> None:
        """The next thing that happened."""
        self.late.append(len(self.events))
        self.events.append(event)
        if isinstance(event, ResultSaid):
            self.answered.add(event.call_id)

    def clear(self) -> None:
        self.digests: list[bytes] = []
        self.ends_bytes: list[int] = []
        self.ends_tokens: list[int] = []
        self.per_token = 0.0
        self.entries: list[int] = []

    def add(self, index: int) -> None:
        """What the event at `index` does to the messages."""
        event = self.events[index]
        if isinstance(event, ResultSaid):
            self._put(index, [("result", event.call_id, event.is_error, _neutral(part)) for part in event.parts])
        elif isinstance(event, AssistantSaid):
            self._put(index, [("assistant", _neutral(part)) for part in event.parts if self._is_sent(part)])
        elif isinstance(event, UserSaid):
            self._put(index, [("user", _neutral(part)) for part in event.parts])
        elif isinstance(event, Compacted):
            self._start_again(index, event)

    def _start_again(self, index: int, compacted: Compacted) -> None:
        self.clear()
        self._put(index, [("user", _neutral(Text(compacted.summary)))])
        for kept in range(index if compacted.keep_from is None else compacted.keep_from, index):
            if not isinstance(self.events[kept], Compacted):
                self.add(kept)

    def _is_sent(self, part: Part) -> bool:
        return not isinstance(part, Call) or part.id in self.answered

    def _put(self, index: int, segments: list[Json]) -> None:
        digest, end = (self.digests[-1], self.ends_bytes[-1]) if self.digests else (b"", 0)
        for segment in segments:
            body = _spelled(segment)
            digest, end = blake2b(digest + body, digest_size=16).digest(), end + len(body)
            self.digests.append(digest)
            self.ends_bytes.append(end)
            self.entries.append(index)

    def prompt(self, said: AssistantSaid, effort: str) -> Prompt:
        """What was sent for `said`; the sizes, kept in bytes, become estimated tokens of its model."""
        for index in self.late:
            self.add(index)
        self.late.clear()
        row = find_model(said.model)
        per_token = row.bytes_per_token if row else BYTES_PER_TOKEN
        model, thinking = (_namespace(said.provider, said.model, *more) for more in ((), (effort,)))
        n = len(self.digests)
        if per_token != self.per_token:
            self.per_token, self.ends_tokens = per_token, []
        self.ends_tokens += [round(size / per_token) for size in self.ends_bytes[len(self.ends_tokens) :]]
        return Prompt(
            namespaces=(model, model, thinking),
            level_ends=(0, 0),
            digests=self.digests,
            ends_tokens=self.ends_tokens,
            positions=range(n),
            breakpoints=(),
            n=n,
        )


def _spelled(segment: Json) -> bytes:
    """As `canonical` spells it, in a third of the time where nothing is unusual."""
    try:
        return orjson.dumps(segment)
    except TypeError:
        return canonical(segment)


@lru_cache(maxsize=256)
def _namespace(*settings: str) -> bytes:
    return blake2b(canonical(settings), digest_size=16).digest()


def _neutral(part: Part) -> Json:
    return _NEUTRAL[type(part)](part)


_NEUTRAL: dict[type, Callable[[Any], Json]] = {
    Text: lambda part: {"type": "text", "text": part.text},
    Image: lambda part: {"type": "image", "media_type": part.media_type, "data": part.data},
    Thinking: lambda part: {"type": "thinking", "text": part.text, "signature": part.signature},
    Call: lambda part: {"type": "call", "id": part.id, "name": part.name, "arguments": part.arguments},
}
