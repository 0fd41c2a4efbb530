"""One request's view of a track: how much of it is sent, and where the breakpoints stand.

Takes a track and a length, gives bytes and prompts. Making one costs nothing; its bytes are joined when they are asked
for.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from contextkit.cache.prompt import Breakpoint
from contextkit.layout.segment import LEVELS, Segment
from contextkit.layout.track import Track


@dataclass(frozen=True, slots=True)
class Layout:
    """The first `n` segments of a track, with marks."""

    track: Track
    """What it borrows from."""
    n: int
    """How many segments are sent."""
    breakpoints: tuple[Breakpoint, ...] = ()
    """Explicit marks, in rising order of segment."""

    @property
    def segments(self) -> tuple[Segment, ...]:
        """All segments as values; costs O(n), for tests and reports."""
        return tuple(map(self.track.segment, range(self.n)))

    @property
    def n_bytes(self) -> int:
        """Size of the segments on the wire, marks and closing brackets aside."""
        return self.track.ends[self.n - 1] if self.n else 0

    def slices(self, start: int = 0) -> Iterator[bytes | memoryview]:
        """The wire bytes from `start` to the last closing bracket: at most one slice more than there are marks."""
        if not self.n:
            return
        grammar = self.track.grammar
        with memoryview(self.track.wire) as wire:
            for mark in self.breakpoints:
                place = self.track.marks[mark.segment]
                yield wire[start:place]
                yield grammar.marker(mark.ttl_seconds)
                start = place
            yield wire[start : self.n_bytes]
        yield self.track.closers[self.n - 1] + grammar.bracket(LEVELS[self.track.levels[self.n - 1]])[1]

    def body(self, params: bytes) -> bytes:
        """The whole request body. `params` is the JSON object of everything that is not a segment."""
        opened = self.track.grammar.opened
        middle = b"," if self.n and len(params) > 2 else b""
        opening, start = opened(self.track, self.n, params) if opened else (params[:-1] + middle, 0)
        parts: list[bytes | memoryview] = [opening]
        parts.extend(self.slices(start))
        parts.append(b"}")
        try:
            return b"".join(parts)
        finally:
            for part in parts:
                if isinstance(part, memoryview):
                    part.release()
