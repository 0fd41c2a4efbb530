"""A prompt as a prefix cache sees it: running digests, sizes and marks; no text.

`digests[i]` stands for everything up to and including segment `i`, so two prompts agree on their first `i + 1` segments
exactly when their `digests[i]` are equal and their `namespaces` for that level are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Breakpoint:
    """A place up to which a prefix may be written, and from which a lookup starts."""

    segment: int
    """Index of the last segment the prefix includes."""
    ttl_seconds: int
    """Lifetime of the entry written here."""
    lookback: int = 20
    """Positions a lookup visits from here, this one being the first."""
    is_written: bool = True
    """Whether an entry is written here; otherwise it is only looked up."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """The first `n` segments of a conversation, borrowed from the arrays of whoever grows it (they only ever grow past
    `n`).
    """

    namespaces: tuple[bytes, bytes, bytes]
    """What besides the segments must be equal for reuse (model, tool choice, …) at tools, system, messages; each covers
    the one before."""
    level_ends: tuple[int, int]
    """Number of segments in tools; in tools and system together."""
    digests: Sequence[bytes]
    """Running digest after each segment."""
    ends_tokens: Sequence[int]
    """Tokens up to and including each segment."""
    positions: Sequence[int]
    """Lookback position of each segment, never falling; the last segment of a position closes it."""
    breakpoints: tuple[Breakpoint, ...]
    """In rising order of segment."""
    n: int
    """How many segments count; the arrays may be longer."""

    def key(self, segment: int) -> tuple[bytes, bytes]:
        """Return the key under which a cache stores the prefix that ends with `segment`."""
        level = (segment >= self.level_ends[0]) + (segment >= self.level_ends[1])
        return self.namespaces[level], self.digests[segment]

    @property
    def n_tokens(self) -> int:
        """Tokens of the whole prompt."""
        return self.ends_tokens[self.n - 1] if self.n else 0


def common(one: Prompt, other: Prompt) -> int:
    """Count the leading segments that two prompts share, namespaces included; O(log n), since digests run.

    >>> p = Prompt((b"", b"", b""), (0, 0), [b"a", b"b"], [1, 2], [0, 1], (), 2)
    >>> common(p, Prompt((b"", b"", b""), (0, 0), [b"a", b"c"], [1, 2], [0, 1], (), 2))
    1
    """
    low, high = 0, min(one.n, other.n)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if one.key(middle - 1) == other.key(middle - 1) else (low, middle - 1)
    return low
