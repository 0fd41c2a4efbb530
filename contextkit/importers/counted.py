"""A bill out of counts that a gateway or a tracer wrote down, whose prompt may hold the cached tokens or leave them
out.

Takes counts and what the format says of them, gives a `Usage`, or None with a fault where they contradict each other.
Knows no format.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from contextkit.cache.usage import Usage
from contextkit.importers.source import Source

Reading = Literal["inclusive", "exclusive", "unsaid"]
"""Whether the prompt's count holds what was read and written, leaves it out, or nobody says."""
IMPOSSIBLE = "more read and written than was sent; its bill is unknown"
UNTOLD = "nothing tells whether its input holds the cached tokens or leaves them out; what was neither is unknown"


@dataclass(frozen=True, slots=True)
class Counts:
    """Tokens of one call as they were written down; None where nobody says."""

    prompt: int | None = None
    """Input, with or without what was cached."""
    read: int | None = None
    """Read from the cache."""
    write: int | None = None
    """Written to it, whatever the lifetime."""
    output: int | None = None
    """Generated."""
    total: int | None = None
    """All of it."""
    write_5m: int | None = None
    """Of what was written, with the short lifetime."""
    write_1h: int | None = None
    """Of what was written, with the long lifetime."""

    @property
    def cached(self) -> int:
        """Tokens read and written, as far as they are known."""
        return (self.read or 0) + (self.write or 0)


def told_by_total(counts: Counts) -> Reading:
    """Which reading the total bears out; `unsaid` where both or neither do.

    >>> told_by_total(Counts(100, 90, 0, 5, total=105)), told_by_total(Counts(10, 90, 0, 5, total=105)), told_by_total(Counts(10, 90, 0, 5))
    ('inclusive', 'exclusive', 'unsaid')
    """
    if counts.total is None or counts.prompt is None or not counts.cached:
        return "unsaid"
    rest = counts.total - (counts.output or 0) - counts.prompt
    readings: dict[int, Reading] = {0: "inclusive", counts.cached: "exclusive"}
    return readings.get(rest, "unsaid")


def counted_usage(source: Source, line: int, counts: Counts, reading: Reading) -> Usage | None:
    """What a call was billed.

    None where nothing is known, where all is 0, as no call costs nothing, and where it contradicts itself.
    """
    counts = _split(source, line, counts)
    if counts.prompt is None or (counts.read is None and counts.write is None):
        known = Usage(None, counts.read, counts.write_5m, counts.write_1h, counts.output)
        return known if counts.cached or counts.output else None
    if reading == "unsaid":
        reading = "exclusive" if counts.cached > counts.prompt or not counts.cached else _untold(source, line)
    if reading == "inclusive" and counts.cached > counts.prompt:
        source.fault(line, IMPOSSIBLE)
        return None
    fresh = {"inclusive": counts.prompt - counts.cached, "exclusive": counts.prompt, "unsaid": None}[reading]
    usage = Usage(fresh, counts.read, counts.write_5m, counts.write_1h, counts.output)
    return usage if fresh is None or fresh or counts.cached or counts.output else None


def _untold(source: Source, line: int) -> Reading:
    source.fault(line, UNTOLD)
    return "unsaid"


def _split(source: Source, line: int, counts: Counts) -> Counts:
    """With the two lifetimes of what was written: the short one where nobody says, as it is what is asked for by
    default.
    """
    short, long = counts.write_5m, counts.write_1h
    if short is None and long is None:
        none_long = None if counts.write is None else 0
        return Counts(counts.prompt, counts.read, counts.write, counts.output, counts.total, counts.write, none_long)
    both = (short or 0) + (long or 0)
    if counts.write is not None and counts.write != both:
        if not both:
            return replace(counts, write_5m=counts.write, write_1h=0)
        source.fault(line, "the writes of both lifetimes are not their sum; the lifetimes stand")
    return replace(counts, write=both, write_5m=short or 0, write_1h=long or 0)
