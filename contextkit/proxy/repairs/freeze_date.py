"""`freeze-date`: a date or a clock in the system text stays what it was when the conversation began.

Takes a body and the memory of its conversation, gives the body with the first values. Only where the text is the same
but for them: a system text that says something else is a new one, and its dates are the first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from contextkit.canonical import Json
from contextkit.proxy.repairs.memory import DATES, Memory
from contextkit.proxy.repairs.splices import Rope, Span, elements, members

_SYSTEM = ("system", "developer")
_Places = Callable[[bytes, Mapping[str, Json]], Iterator[Span]]


def freeze_date(rope: Rope, wire: str, fields: Mapping[str, Json], memory: Memory) -> Rope | None:
    """The body with the conversation's first dates, None where they stand there."""
    body = bytes(rope)
    places = sorted(_PLACES[wire](body, fields))
    found = [(match.start(), match.end()) for span in places for match in DATES.finditer(body, *span)]
    masked = _masked(body, places, found)
    if masked != memory.masked:
        memory.masked, memory.dates = masked, tuple(body[start:end] for start, end in found)
        return None
    changes = [
        (*span, Rope.new(date)) for span, date in zip(found, memory.dates, strict=True) if body[slice(*span)] != date
    ]
    return rope.replaced(changes) if changes else None


def _masked(body: bytes, places: list[Span], found: list[Span]) -> bytes:
    """The system text with a sign in place of each date."""
    parts = []
    for start, end in places:
        at = start
        for first, last in found:
            if start <= first < end:
                parts.append(body[at:first])
                at = last
        parts.append(body[at:end])
    return b"\0".join(parts)


def _field(name: str) -> _Places:
    def places(body: bytes, fields: Mapping[str, Json]) -> Iterator[Span]:
        if fields.get(name):
            yield members(body)[name.encode()]

    return places


def _messages(name: str) -> _Places:
    def places(body: bytes, fields: Mapping[str, Json]) -> Iterator[Span]:
        said = fields.get(name)
        if isinstance(said, list) and any(_is_system(message) for message in said):
            spans = elements(body, members(body)[name.encode()][0])
            yield from (span for span, message in zip(spans, said, strict=True) if _is_system(message))

    return places


def _is_system(message: Json) -> bool:
    return isinstance(message, dict) and message.get("role") in _SYSTEM


def _responses(body: bytes, fields: Mapping[str, Json]) -> Iterator[Span]:
    yield from _field("instructions")(body, fields)
    yield from _messages("input")(body, fields)


def _gemini(body: bytes, fields: Mapping[str, Json]) -> Iterator[Span]:
    yield from _field("systemInstruction")(body, fields)
    yield from _field("system_instruction")(body, fields)


_PLACES: Mapping[str, _Places] = {
    "anthropic_messages": _field("system"),
    "openai_chat": _messages("messages"),
    "openai_responses": _responses,
    "gemini": _gemini,
}
"""Wire → where its system text stands."""
