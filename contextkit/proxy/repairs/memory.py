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
from contextkit.providers.body_spans import agent_of, is_system_message, without_markers
from contextkit.providers.endpoints import BODIES

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
"""Bytes of a system text that identify an agent, before its dates are removed."""


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
    """The memories of all conversations."""

    __slots__ = ("_by_digest",)

    def __init__(self) -> None:
        self._by_digest: OrderedDict[bytes, Memory] = OrderedDict()

    def of(self, endpoint: str, fields: Mapping[str, Json]) -> Memory:
        """The memory of the conversation that `fields` continues; its next request will find it by these messages.

        Raises `UnreadableRequest` where the messages are no array.
        """
        digests = list(_digests(_agent(endpoint, fields), BODIES[endpoint].messages(fields)))
        memory = None
        if len(digests) > 1:  # a lone first message begins a conversation, also where another began with the same
            memory = next((self._by_digest[one] for one in reversed(digests) if one in self._by_digest), None)
        memory = memory or Memory()
        for digest in (*digests[:1], *digests[-1:]):
            self._by_digest[digest] = memory
            self._by_digest.move_to_end(digest)
        while len(self._by_digest) > MOST:
            self._by_digest.popitem(last=False)
        return memory


def _agent(endpoint: str, fields: Mapping[str, Json]) -> bytes:
    """Return what distinguishes an agent from another with the same messages: its model, whether it has tools, how its
    system text begins.
    """
    properties, system = agent_of(endpoint, fields)
    return canonical(properties) + DATES.sub(b"", canonical(system)[:_HEAD])[: _HEAD // 2]


def _digests(agent: bytes, messages: list[Json]) -> Iterator[bytes]:
    """A digest of everything up to each message; system messages, which may hold a clock, are left out."""
    digest = blake2b(agent, digest_size=16)
    for message in messages:
        if is_system_message(message):
            continue
        digest.update(canonical(without_markers(message)))
        yield digest.copy().digest()
