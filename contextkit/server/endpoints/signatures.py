"""Thinking is bound to the conversation before it: which signatures were issued after which prompt.

Takes layouts, gives the first thinking block whose past has changed. Markers, deferred tools and the order of keys do
not count, and thinking may be left out oldest first
(https://platform.claude.com/docs/en/build-with-claude/extended-thinking). Signatures this server did not issue pass.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from typing import NamedTuple

from contextkit.canonical import Json, canonical, parse
from contextkit.prompt.normal_form import normal
from contextkit.prompt.prompt import PromptLayout

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
        """Find the thinking block (0 for the first) that stands behind another past than the one it was made from."""
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
