"""Remembers what a repair needs of a conversation, matched by the content of its requests.

Takes the parsed body of a request, gives the memory of the conversation it continues, an empty one where it begins one.
Breakpoints, and dates in the system text, do not distinguish conversations. Bounded: the conversation that was idle
longest is dropped.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b

from contextkit.canonical import Json, canonical

_MONTH = (
    rb"(?:Jan(?:uary)?|Feb(?:ruary)?|Mar(?:ch)?|Apr(?:il)?|May|June?|July?|"
    rb"Aug(?:ust)?|Sept?(?:ember)?|Oct(?:ober)?|Nov(?:ember)?|Dec(?:ember)?)"
)
_DAY = rb"(?:(?:Mon|Tues?|Wed(?:nes)?|Thu(?:rs)?|Fri|Sat(?:ur)?|Sun)(?:day)?)"
_TIME = rb"\d{1,2}:\d{2}(?::\d{2}(?:[.,]\d+)?)?(?: ?[AaPp]\.?[Mm]\.?)?(?: ?(?:Z|UTC|GMT)\b|[+-]\d{2}:?\d{2})?"
_DATE = rb"\d{4}-\d{2}-\d{2}|\d{1,2}[./]\d{1,2}[./]\d{2,4}|\d{4}/\d{2}/\d{2}|" + (
    _MONTH + rb"\.? \d{1,2}(?:st|nd|rd|th)?(?:,? \d{4})?|\d{1,2}(?:st|nd|rd|th|\.)? " + _MONTH + rb"\.?(?:,? \d{4})?"
)
_STAMP = rb"1[5-9]\d{8}(?:\d{3})?"
_MOMENT = rb"(?:" + _DAY + rb",? )?(?:" + _DATE + rb")(?:(?:T|,? (?:at )?)" + _TIME + rb")?"
DATES = re.compile(rb"(?:(?<![\w./-])|(?<=\\[nrt]))(?:" + _MOMENT + rb"|" + _TIME + rb"|" + _STAMP + rb")(?![\w/])")
"""A date, a clock, both, or a time stamp in seconds or milliseconds; in JSON text, where `\\n` may stand before it."""


MOST = 20_000
"""Places in conversations that are remembered: two a request."""
_HEAD = 400
_ARRAYS = {
    "anthropic_messages": "messages",
    "openai_chat": "messages",
    "openai_responses": "input",
    "gemini": "contents",
}
_SYSTEMS = ("system", "instructions", "systemInstruction", "system_instruction")
_MARKERS = ("cache_control", "prompt_cache_breakpoint")


@dataclass(slots=True)
class Memory:
    """One conversation."""

    tools: list[str] = field(default_factory=list)
    """Names of its tools in the order they are sent."""
    masked: bytes | None = None
    """Its system text without dates, None before it was seen."""
    dates: tuple[bytes, ...] = ()
    """The dates that stood there first."""
    n_segments: int = 0
    """Segments of the request before."""


class Memories:
    """All of them."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: OrderedDict[bytes, Memory] = OrderedDict()

    def of(self, wire: str, fields: Mapping[str, Json]) -> Memory:
        """The memory of the conversation that `fields` goes on from.

        The next request will find it by what this one says.
        """
        said = fields.get(_ARRAYS[wire])
        places = list(_places(_kind(wire, fields), said if isinstance(said, list) else [said]))
        # A lone first message begins a conversation, also where the same was said in another one.
        found = (
            next((self._known[place] for place in reversed(places) if place in self._known), None)
            if len(places) > 1
            else None
        )
        memory = found or Memory()
        for place in (*places[:1], *places[-1:]):
            self._known[place] = memory
            self._known.move_to_end(place)
        while len(self._known) > MOST:
            self._known.popitem(last=False)
        return memory


def _kind(wire: str, fields: Mapping[str, Json]) -> bytes:
    """What sets an agent apart from another that was asked the same: its model, whether it has tools, how its system
    text begins.
    """
    system = next((fields[name] for name in _SYSTEMS if fields.get(name)), "")
    head = DATES.sub(b"", canonical(system)[:_HEAD])[: _HEAD // 2]
    return canonical([wire, fields.get("model"), bool(fields.get("tools"))]) + head


def _places(kind: bytes, said: list[Json]) -> Iterator[bytes]:
    """A digest of everything up to each message; system messages, which may hold a clock, are left out."""
    digest = blake2b(kind, digest_size=16)
    for message in said:
        if isinstance(message, dict) and message.get("role") in ("system", "developer"):
            continue
        digest.update(canonical(_plain(message)))
        yield digest.copy().digest()


def _plain(message: Json) -> Json:
    """A message without markers, a lone text as the block it stands for."""
    content = message.get("content") if isinstance(message, dict) else None
    if isinstance(content, str):
        return {**message, "content": [{"type": "text", "text": content}]}
    if not isinstance(content, list):
        return message
    return {**message, "content": [_unmarked(block) if isinstance(block, dict) else block for block in content]}


def _unmarked(block: Mapping[str, Json]) -> Json:
    return {key: value for key, value in block.items() if key not in _MARKERS}
