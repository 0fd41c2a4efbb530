"""`freeze-date`: a date or a clock in the system text stays what it was when the conversation began.

Takes a body and the memory of its conversation, gives the body with the first values. Only where the text is the same
but for them: a system text that says something else is a new one, and its dates are the first.
"""

from __future__ import annotations

from collections.abc import Mapping

from contextkit.canonical import Json
from contextkit.providers.body_spans import SYSTEM_SPANS, Span
from contextkit.proxy.repairs.memory import DATES, Memory
from contextkit.proxy.repairs.splices import Rope


def freeze_date(rope: Rope, endpoint: str, fields: Mapping[str, Json], memory: Memory) -> Rope | None:
    """The body with the conversation's first dates, None where they stand there."""
    body = bytes(rope)
    places = sorted(SYSTEM_SPANS[endpoint](body, fields))
    dates = [(match.start(), match.end()) for span in places for match in DATES.finditer(body, *span)]
    masked = _masked(body, places, dates)
    if masked != memory.masked:
        memory.masked, memory.dates = masked, tuple(body[start:end] for start, end in dates)
        return None
    changes = [
        (*span, Rope.new(date)) for span, date in zip(dates, memory.dates, strict=True) if body[slice(*span)] != date
    ]
    return rope.replaced(changes) if changes else None


def _masked(body: bytes, places: list[Span], dates: list[Span]) -> bytes:
    """The system text with a sign in place of each date."""
    parts = []
    for start, end in places:
        at = start
        for first, last in dates:
            if start <= first < end:
                parts.append(body[at:first])
                at = last
        parts.append(body[at:end])
    return b"\0".join(parts)
