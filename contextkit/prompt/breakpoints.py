"""Where explicit breakpoints go: the head, a bridge, and the tail.

The cache looks back a limited number of positions from a mark, so a turn that adds many needs a bridge at the place the
request before it ended; the head gets a mark of its own because other conversations share it. Takes a columns, gives
breakpoints in wire order.
"""

from __future__ import annotations

from dataclasses import dataclass

from contextkit.cache.prompt import Breakpoint
from contextkit.prompt.prompt import PromptColumns

LOOKBACK = 20
"""Positions a lookup visits, the mark's own being the first (Anthropic prompt-caching docs, "How automatic prefix
checking works")."""


MOST = 4
"""Marks a request may carry, the automatic one included."""


AUTO_TTL = "auto"
"""The `ttl` of a provider adapter that lets the planner choose each breakpoint's lifetime among those of the model."""


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
    long_ttl_seconds: int = 0
    """A longer lifetime that may be chosen place by place where it is expected to pay; 0 where lifetimes are given."""
    most: int = MOST
    """Marks that may be set."""
    implicit_lookback: int = 0
    """Positions the provider's own mark at the end reads back over, where it sets one; 0 where it sets none."""


@dataclass(frozen=True, slots=True)
class Places:
    """Where marks could go in one request: segments, None where there is no such place."""

    head: int | None
    """End of the system prompt."""
    branch: int | None
    """End of what siblings send too."""
    bridge: int | None
    """End of the request before, where the tail does not reach it."""
    tail: int | None
    """End of the conversation, where it is ours to mark."""
    previous: int | None
    """End of the request before."""
    last: int | None
    """The last segment that can carry a mark."""

    @property
    def named(self) -> dict[str, int]:
        """What is there to mark, by name."""
        found = {"head": self.head, "branch": self.branch, "bridge": self.bridge, "tail": self.tail}
        return {name: place for name, place in found.items() if place is not None}


def plan(columns: PromptColumns, n: int, previous: int, rules: Plan, shared: int = 0) -> tuple[Breakpoint, ...]:
    """Marks for the first `n` segments, when the request before held the first `previous` of them.

    `shared`: how many segments other conversations send too, which branched off there. Costs the unmarkable segments it
    steps over, not the conversation.
    """
    marks: dict[int, Breakpoint] = {}
    for name, place in places(columns, n, previous, rules, shared).named.items():
        if place not in marks and columns.ends_tokens[place] >= rules.min_tokens:
            ttl = rules.head_ttl_seconds if name == "head" else rules.tail_ttl_seconds
            marks[place] = Breakpoint(place, ttl, rules.lookback)
    return tuple(marks[place] for place in sorted(marks))


def places(columns: PromptColumns, n: int, previous: int, rules: Plan, shared: int = 0) -> Places:
    """Where those marks could go, whatever their size."""
    sought = (
        0 if rules.has_tail else previous
    )  # where the provider marks the end itself, only what is new is looked through
    last = (
        last_breakpoint_place(columns, n, sought)
        if rules.has_tail or rules.long_ttl_seconds or rules.implicit_lookback
        else None
    )
    before = (
        last_breakpoint_place(columns, previous, 0 if rules.has_tail else previous - 1) if last is not None else None
    )
    head = last_breakpoint_place(columns, min(columns.level_ends[1], n)) if rules.has_head else None
    branch = (
        last_breakpoint_place(columns, min(shared, n)) if rules.has_head and shared > columns.level_ends[1] else None
    )
    reach, end = (rules.lookback, last) if rules.has_tail else (rules.implicit_lookback, n - 1)
    is_far = (
        bool(reach)
        and end is not None
        and before is not None
        and columns.positions[end] - columns.positions[before] >= reach
    )
    return Places(head, branch, before if is_far else None, last if rules.has_tail else None, before, last)


def last_breakpoint_place(columns: PromptColumns, n: int, above: int = 0) -> int | None:
    """The last of the first `n` segments that can carry a mark, from segment `above` on."""
    return next(
        (
            i
            for i in range(n - 1, max(above, 0) - 1, -1)
            if columns.breakpoint_offsets[i] >= 0 and i not in columns.silent
        ),
        None,
    )
