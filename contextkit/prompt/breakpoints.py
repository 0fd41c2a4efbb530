"""Places the breakpoints of a request: at the end of the static prefix, at a bridge and at the tail.

A cache looks back a limited number of positions from a breakpoint, so a turn that adds many needs a bridge where the
request before ended; the static prefix gets a breakpoint of its own because other conversations share it. Takes the
columns of a prompt, gives breakpoints in wire order; `planner.py` weighs what this module places by rule.
"""

from __future__ import annotations

from dataclasses import dataclass

from contextkit.cache.prompt import Breakpoint
from contextkit.prompt.prompt import PromptColumns

LOOKBACK = 20
"""Positions a lookup visits, the breakpoint's own being the first (Anthropic prompt-caching docs, "How automatic prefix
checking works")."""


MAX_BREAKPOINTS = 4
"""Breakpoints a request may carry, the automatic one included."""


AUTO_TTL = "auto"
"""The `ttl` of a provider adapter that lets the planner choose each breakpoint's lifetime among those of the model."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The breakpoints that one provider allows, and their lifetimes."""

    has_head: bool = True
    """Whether the end of the system prompt (or of the tools, without one) gets a breakpoint."""
    has_tail: bool = True
    """Whether the end of the conversation gets one, with a bridge to the end before it."""
    head_ttl_seconds: int = 300
    """Lifetime of the static prefix; not shorter than the tail's, longer lifetimes come first."""
    tail_ttl_seconds: int = 300
    """Lifetime of bridge and tail."""
    min_tokens: int = 0
    """Shorter prefixes cannot be cached and get no breakpoint."""
    lookback: int = LOOKBACK
    """Positions that a lookup from each breakpoint visits."""
    long_ttl_seconds: int = 0
    """A longer lifetime that may be chosen place by place where it is expected to pay; 0 where lifetimes are given."""
    most: int = MAX_BREAKPOINTS
    """Breakpoints a request may carry."""
    implicit_lookback: int = 0
    """Positions that a lookup from the provider's implicit breakpoint visits; 0 where it sets none."""


@dataclass(frozen=True, slots=True)
class Places:
    """Where breakpoints could be placed in one request: indexes of blocks, None where there is no such place."""

    head: int | None
    """End of the system prompt."""
    branch: int | None
    """End of what siblings send too."""
    bridge: int | None
    """End of the request before, where the tail does not reach it."""
    tail: int | None
    """End of the conversation, where the request marks it."""
    previous: int | None
    """End of the request before."""
    last: int | None
    """The last block that can carry a breakpoint."""

    @property
    def named(self) -> dict[str, int]:
        """The places there are, by name."""
        named = {"head": self.head, "branch": self.branch, "bridge": self.bridge, "tail": self.tail}
        return {name: place for name, place in named.items() if place is not None}


def plan(columns: PromptColumns, n: int, previous: int, rules: Plan, shared: int = 0) -> tuple[Breakpoint, ...]:
    """Place breakpoints in the first `n` blocks, when the request before held the first `previous` of them.

    `shared`: how many blocks other conversations send too, which branched off there. Costs the blocks without a
    breakpoint that it steps over, not the conversation.
    """
    breakpoints: dict[int, Breakpoint] = {}
    for name, place in places(columns, n, previous, rules, shared).named.items():
        if place not in breakpoints and columns.ends_tokens[place] >= rules.min_tokens:
            ttl = rules.head_ttl_seconds if name == "head" else rules.tail_ttl_seconds
            breakpoints[place] = Breakpoint(place, ttl, rules.lookback)
    return tuple(breakpoints[place] for place in sorted(breakpoints))


def places(columns: PromptColumns, n: int, previous: int, rules: Plan, shared: int = 0) -> Places:
    """Find where those breakpoints could be placed, whatever the size of their prefixes."""
    # Where the provider marks the end itself, only what is new is looked through.
    above, above_previous = (0, 0) if rules.has_tail else (previous, previous - 1)
    last = before = head = branch = None
    if rules.has_tail or rules.long_ttl_seconds or rules.implicit_lookback:
        last = last_breakpoint_place(columns, n, above)
    if last is not None:
        before = last_breakpoint_place(columns, previous, above_previous)
    if rules.has_head:
        head = last_breakpoint_place(columns, min(columns.level_ends[1], n))
        if shared > columns.level_ends[1]:
            branch = last_breakpoint_place(columns, min(shared, n))
    lookback, end = (rules.lookback, last) if rules.has_tail else (rules.implicit_lookback, n - 1)
    is_far = False
    if lookback and end is not None and before is not None:
        is_far = columns.positions[end] - columns.positions[before] >= lookback
    return Places(head, branch, before if is_far else None, last if rules.has_tail else None, before, last)


def last_breakpoint_place(columns: PromptColumns, n: int, above: int = 0) -> int | None:
    """Find the last of the first `n` blocks that can carry a breakpoint, from block `above` on."""
    for index in range(n - 1, max(above, 0) - 1, -1):
        if columns.breakpoint_offsets[index] >= 0 and index not in columns.silent:
            return index
    return None
