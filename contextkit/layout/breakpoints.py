"""Where explicit breakpoints go: the head, a bridge, and the tail.

The cache looks back a limited number of positions from a mark, so a turn that adds many needs a bridge at the place the request
before it ended; the head gets a mark of its own because other conversations share it. Takes a track, gives breakpoints in wire order.
"""

from __future__ import annotations

from dataclasses import dataclass

from contextkit.cache.prompt import Breakpoint
from contextkit.layout.track import Track

LOOKBACK = 20
"""Positions a lookup visits, the mark's own being the first (Anthropic prompt-caching docs, "How automatic prefix checking works")."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What one provider lets us mark."""

    has_head: bool = True
    """Mark the end of the system prompt (or of the tools, without one)."""
    has_tail: bool = True
    """Mark the end of the conversation, and bridge to the end before it."""
    head_ttl_seconds: int = 300
    """Lifetime of the head; must not be shorter than the tail's, longer lifetimes come first."""
    tail_ttl_seconds: int = 300
    """Lifetime of bridge and tail."""
    min_tokens: int = 0
    """Shorter prefixes cannot be cached: a mark on them is left out."""
    lookback: int = LOOKBACK
    """Positions each mark reads back over."""


def plan(track: Track, n: int, previous: int, rules: Plan, shared: int = 0) -> tuple[Breakpoint, ...]:
    """Marks for the first `n` segments, when the request before held the first `previous` of them.

    `shared`: how many segments other conversations send too, which branched off there. Costs the unmarkable segments it steps over, not
    the conversation.
    """
    head = _markable(track, min(track.level_ends[1], n)) if rules.has_head else None
    branch = _markable(track, min(shared, n)) if rules.has_head and shared > track.level_ends[1] else None
    tail = _markable(track, n) if rules.has_tail else None
    bridge = _bridge(track, previous, tail, rules.lookback) if tail is not None else None
    wanted = [(head, rules.head_ttl_seconds), (branch, rules.tail_ttl_seconds), (bridge, rules.tail_ttl_seconds), (tail, rules.tail_ttl_seconds)]
    marks: dict[int, Breakpoint] = {}
    for place, ttl in wanted:
        if place is not None and place not in marks and track.ends_tokens[place] >= rules.min_tokens:
            marks[place] = Breakpoint(place, ttl, rules.lookback)
    return tuple(marks[place] for place in sorted(marks))


def _bridge(track: Track, previous: int, tail: int, lookback: int) -> int | None:
    """The last mark of the request before, when the tail no longer reaches it."""
    place = _markable(track, previous)
    if place is None or track.positions[tail] - track.positions[place] < lookback:
        return None
    return place


def _markable(track: Track, n: int) -> int | None:
    """The last segment before `n` that can carry a mark."""
    return next((i for i in range(n - 1, -1, -1) if track.marks[i] >= 0 and i not in track.silent), None)
