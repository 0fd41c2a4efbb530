"""What the local provider accepted on an assumption: fields that no table knows, models without rules of their own,
retired models.

Each notice stands in the header `x-contextkit-warning` of every answer it concerns, and once in the log, in `GET
/_contextkit/findings` and in `LocalServer.findings`. Takes texts; knows no request and no socket.

Thinking is bound to what stood before it: which signatures were issued after which conversation.

Takes layouts, gives the first thinking segment whose past has changed. Markers, deferred tools and the order of keys do
not count, and thinking may be left out oldest first
(https://platform.claude.com/docs/en/build-with-claude/extended-thinking). Signatures this server did not issue pass.

Refusals, and the checks that yield them.

Takes received and parsed requests, gives the first refusal; knows no provider.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import lru_cache
from hashlib import blake2b
from itertools import chain
from typing import NamedTuple
from urllib.parse import quote

from contextkit.canonical import Json, canonical, parse
from contextkit.models import Model, assumption
from contextkit.prompt.normal_form import normal
from contextkit.prompt.prompt import PromptLayout
from contextkit.providers.provider import Parsed
from contextkit.terminal import sanitize

HEADER = "x-contextkit-warning"
"""Header that holds the text of one notice; given once for each."""
_MAX_NOTICES, _MAX_CHARACTERS = 1000, 200
"""Notices of one server, and characters of a name in one: names come from whoever sends requests."""
_PRINTABLE = "".join(map(chr, range(0x20, 0x7F)))


@dataclass(frozen=True, slots=True)
class Notice:
    """One thing that was accepted on an assumption."""

    kind: str
    """`unknown_field`, `unknown_beta`, `assumed_model` or `retired_model`."""
    endpoint: str
    """The wire it was sent on: `openai_responses`."""
    name: str
    """The field, or the model."""
    text: str
    """What it is, what was done, and what to do; ASCII."""

    def json(self) -> Json:
        """As `GET /_contextkit/findings` shows it."""
        return {"kind": self.kind, "endpoint": self.endpoint, "name": self.name, "text": self.text}


class Notices:
    """The notices of one server, each once."""

    def __init__(self) -> None:
        self._given: dict[Notice, None] = {}

    def give(self, notices: Iterable[Notice]) -> None:
        """Log those that were not given before."""
        for notice in notices:
            if notice not in self._given and len(self._given) < _MAX_NOTICES:
                self._given[notice] = None
                logging.getLogger("contextkit.server").warning(
                    "%s: %s", sanitize(notice.endpoint), sanitize(notice.text)
                )

    def all(self) -> list[Notice]:
        """In the order they were given."""
        return list(self._given)


def is_retired(model: Model, now: float) -> bool:
    """Whether the provider no longer serves a model at `now`, seconds since 1970."""
    return bool(model.retired_on) and datetime.fromisoformat(model.retired_on).replace(tzinfo=UTC).timestamp() <= now


def of_model(endpoint: str, model: Model, now: float) -> tuple[Notice, ...]:
    """What is assumed of a model at `now`, seconds since 1970."""
    name = printable(model.name)
    if is_retired(model, now):
        text = f"model {name!r} was retired on {model.retired_on}: the provider refuses it, this server answers unless it is strict"
        return (Notice("retired_model", endpoint, name, text),)
    if model.is_assumed:
        return (Notice("assumed_model", endpoint, name, assumption(replace(model, name=name))),)
    return ()


def printable(name: str) -> str:
    """A name that may be printed and put into a header: short, escaped ASCII.

    >>> printable("a\\r\\nb: c")
    'a%0D%0Ab: c'
    """
    return quote(name[:_MAX_CHARACTERS], safe=_PRINTABLE, errors="replace")


_THINKING = (b'{"type":"thinking"', b'{"type":"redacted_thinking"', b'{"reasoningContent"')
"""How a block in normal form begins that a client may leave out."""
_SUMMARY = b'{"type":"compaction"'
"""How a block begins that the API writes on the way: it is none of what thinking was made from."""
_SPEAKER = "assistant"


@dataclass(frozen=True, slots=True)
class _Origin:
    """Where a signature comes from."""

    past: bytes
    """Digest of everything before its block, thinking aside."""
    before: str | None
    """Signature of the thinking before it, None for the first."""


class Place(NamedTuple):
    """A thinking segment, or the end of the request, in a layout."""

    past: bytes
    """Digest of everything before it, thinking aside."""
    signature: str | None
    """Of the thinking; None at the end."""


class Signatures:
    """What was issued."""

    def __init__(self) -> None:
        self._issued: dict[str, _Origin] = {}

    def issue(self, request: Sequence[Place], blocks: Iterable[Json]) -> None:
        """Remember the thinking among `blocks`, the reply to a request with these places."""
        *places, end = request
        past, before = (
            end.past,
            next((place.signature for place in reversed(places) if place.signature in self._issued), None),
        )
        for block in map(normal, blocks):
            signature = _signature(block)
            if signature is not None:
                self._issued[signature] = _Origin(past, before)
                before = signature
            else:
                past = _grown(past, "messages", _SPEAKER, canonical(block))

    def moved(self, request: Sequence[Place]) -> int | None:
        """Which thinking block (0 for the first) stands behind another past than the one it was made from."""
        before: str | None = None
        for ordinal, place in enumerate(request):
            origin = self._issued.get(place.signature or "")
            if origin is None:
                continue
            if origin.past != place.past or (before is not None and origin.before != before):
                return ordinal
            before = place.signature
        return None

    def failing(self, request: Sequence[Place]) -> tuple[int, ...]:
        """All thinking that `moved` finds, once what it found before is left out."""
        left = list(enumerate(request))
        found: list[int] = []
        while (ordinal := self.moved([place for _, place in left])) is not None:
            found.append(left.pop(ordinal)[0])
        return tuple(sorted(found))


def places_in(layout: PromptLayout) -> Iterator[Place]:
    """Each thinking segment, then the end of the request."""
    columns, past, speaker = layout.columns, b"", ""
    first_message = columns.level_ends[1]
    for index in range(layout.n):
        speaker = (columns.roles[index] or speaker) if index >= first_message else ""
        body = columns.body(index)
        if body.startswith(_THINKING):
            yield Place(past, _signature(parse(body)))
        elif index not in columns.silent and not body.startswith(_SUMMARY):
            past = _grown(past, "messages" if index >= first_message else "head", speaker, body)
    yield Place(past, None)


def _signature(block: Mapping[str, Json]) -> str | None:
    """Of thinking, as Anthropic or Bedrock spells it; None for every other block, and for thinking that shows none."""
    inside = (block.get("reasoningContent") or {}).get("reasoningText") or {}
    found: str | None = inside.get("signature", block.get("signature"))
    return found


def _grown(past: bytes, level: str, speaker: str, body: bytes) -> bytes:
    return blake2b(
        b"%b%b\x00%b\x00%b" % (past, level.encode(), speaker.encode(), _essence(body)), digest_size=16
    ).digest()


@lru_cache(maxsize=1 << 16)
def _essence(body: bytes) -> bytes:
    """A block without the differences the check overlooks: order of keys, fields that are null."""
    block = {key: value for key, value in parse(body).items() if value is not None}
    return blake2b(canonical(block, sort=True), digest_size=16).digest()


@dataclass(frozen=True, slots=True)
class Refusal:
    """One error a provider would answer with."""

    status: int
    """HTTP status: it decides which exception the SDK raises."""
    type: str
    """The provider's word for the kind of error."""
    message: str
    """The provider's words; no prompt text."""
    param: str | None = None
    """The field that is wrong, where the provider names it apart."""
    code: str | None = None
    """A finer word than `type`, where the provider has one."""
    retry_after: float | None = None
    """Seconds the client is asked to wait."""


@dataclass(frozen=True, slots=True)
class ReceivedRequest:
    """A request before it is parsed."""

    headers: Mapping[str, str]
    """Lower-case names; never kept."""
    body: Mapping[str, Json]
    """The JSON object, what the server keeps of its conversation included."""
    body_as_sent: Mapping[str, Json] | None = None
    """The body as it came, where `body` holds more."""
    is_strict: bool = False
    """Whether the server refuses fields that the endpoint does not know."""


@dataclass(frozen=True, slots=True)
class ParsedRequest:
    """A request that was parsed."""

    received: ReceivedRequest
    """As it came."""
    parsed: Parsed
    """Its layout and the prompt that is cached."""
    model: Model
    """The row of the model asked."""
    places: tuple[Place, ...]
    """Where its thinking stands; empty for models that do not look."""
    continues: bool
    """Whether it ends with the words of a turn this server paused."""
    dropped: tuple[int, ...] = ()
    """Which of its thinking was left out, since it no longer holds."""
    notices: tuple[Notice, ...] = ()
    """What of it was accepted on an assumption."""


MOST_LEVELS = 254
"""Levels of nesting that are read; what a provider takes is less and not published."""


def is_nested_deeper(value: Json, levels: int) -> bool:
    """Whether objects and arrays stand in one another more than `levels` deep.

    >>> is_nested_deeper([[1]], 2), is_nested_deeper([[[]]], 2)
    (False, True)
    """
    layer = [value]
    for _ in range(levels):
        layer = [
            item
            for held in layer
            if isinstance(held, dict | list)
            for item in (held.values() if isinstance(held, dict) else held)
        ]
        if not layer:
            return False
    return any(isinstance(held, dict | list) for held in layer)


RequestCheck = Callable[[ReceivedRequest], Iterator[Refusal]]
"""A check that needs no understanding."""
PromptCheck = Callable[[ParsedRequest], Iterator[Refusal]]
"""A check of a request whose shape is known to be right."""


def first(found: Iterable[Iterator[Refusal]]) -> Refusal | None:
    """The first refusal of several checks, run one after another and only as far as needed."""
    return next(chain.from_iterable(found), None)
