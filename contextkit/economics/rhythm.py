"""How a session goes: its gaps, how much a turn adds, how long it may go on.

Learned turn by turn, starting from what sessions are like.

Takes seconds and tokens, gives estimates; a turn costs the same few steps however many went before. Knows nothing of
prompts or prices.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from itertools import accumulate
from math import exp, log

Survival = tuple[tuple[float, float], ...]
"""(seconds, share of gaps longer than that), by seconds."""

SEEN_GAPS: Survival = (
    (0.0, 1.0),
    (10.0, 0.778),
    (30.0, 0.297),
    (60.0, 0.172),
    (120.0, 0.109),
    (300.0, 0.0554),
    (600.0, 0.0331),
    (1800.0, 0.0146),
    (3600.0, 0.0062),
    (7200.0, 0.0043),
    (43_200.0, 0.0004),
    (86_400.0, 0.0001),
)
"""Start to start, over 11,850 gaps of 200 recorded Claude Code sessions (github.com/callanjfox/kv-cache-tester, block
traces)."""

Growths = tuple[tuple[float, float], ...]
"""(share of turns, tokens they add on average), small ones first: few turns add a large file, and those are most of
what is added."""

SIZES = (0.0, 1_000.0, 4_000.0, 16_000.0, 64_000.0)
"""Where one kind of growth ends and the next begins."""
SEEN_GROWTHS: Growths = ((0.6579, 445.0), (0.2594, 1_896.0), (0.0692, 6_903.0), (0.0112, 24_651.0), (0.0023, 142_945.0))
"""Of the same calls; what a prompt shrank by counts as no growth."""


@dataclass(frozen=True, slots=True)
class Prior:
    """What sessions are like before anything is known of this one.

    The defaults are those of the sessions behind `SEEN_GAPS`.
    """

    gaps: Survival = SEEN_GAPS
    """How long gaps are."""
    growths: Growths = SEEN_GROWTHS
    """What a turn adds: reply, results and the next question; one kind for each of `SIZES`."""
    remaining_turns: float = 58.0
    """How many calls follow a first one; a session that has lasted is expected to last a little longer
    (`turns_weight`)."""
    weight: float = 8.0
    """How many turns of a session's own count as much as the prior, for gaps and growth."""
    turns_weight: float = 8.0
    """After t turns (`remaining_turns` · this + t) / this are expected to follow; measured: 58 at first, 68 after 80.
    """


class Rhythm:
    """A session's habits as far as they are known.

    >>> rhythm = Rhythm()
    >>> round(rhythm.longer_than(300), 4)
    0.0554
    >>> for _ in range(8):
    ...     rhythm.see(gap_seconds=400, growth_tokens=500)
    >>> round(rhythm.longer_than(300), 3), round(rhythm.growth_tokens), rhythm.remaining_turns
    (0.528, 1184, 59.0)
    """

    __slots__ = ("_added", "_bins", "_edges", "_kinds", "prior", "turns")

    def __init__(self, prior: Prior | None = None) -> None:
        """A session of which nothing was seen yet."""
        self.prior = prior or Prior()
        """What it starts from."""
        self.turns = 0
        """How many gaps and growths were seen."""
        self._edges = [seconds for seconds, _ in self.prior.gaps]
        self._bins = [0] * len(self._edges)
        self._kinds = [0] * len(SIZES)
        self._added = [0.0] * len(SIZES)

    def see(self, gap_seconds: float, growth_tokens: float) -> None:
        """One more call: seconds since the one before it began, tokens it carried more.

        What a rewrite removed is no growth.
        """
        self._bins[max(0, bisect_right(self._edges, gap_seconds) - 1)] += 1
        kind = _kind(growth_tokens)
        self._kinds[kind] += 1
        self._added[kind] += max(0.0, growth_tokens)
        self.turns += 1

    def longer_than(self, seconds: float) -> float:
        """Share of gaps longer than that.

        Between two known lengths it falls by the same factor for each factor of time.
        """
        seen = list(accumulate(reversed(self._bins)))[::-1]  # own gaps that reached each known length
        weight = self.prior.weight
        share = [
            (weight * known + own) / (weight + self.turns)
            for (_, known), own in zip(self.prior.gaps, seen, strict=True)
        ]
        return _between(self._edges, share, seconds)

    @property
    def growths(self) -> Growths:
        """What a turn adds."""
        weight, total = self.prior.weight, self.prior.weight + self.turns
        seen = zip(self.prior.growths, self._kinds, self._added, strict=True)
        return tuple(_pooled(weight * share, tokens, n, added, total) for (share, tokens), n, added in seen)

    @property
    def growth_tokens(self) -> float:
        """What a turn adds on average."""
        return sum(share * tokens for share, tokens in self.growths)

    @property
    def remaining_turns(self) -> float:
        """How many calls are still to come."""
        return self.prior.remaining_turns + self.turns / self.prior.turns_weight


def _kind(tokens: float) -> int:
    return max(0, bisect_right(SIZES, tokens) - 1)


def _pooled(prior: float, tokens: float, n: int, added: float, total: float) -> tuple[float, float]:
    weight = prior + n
    return weight / total, (prior * tokens + added) / weight if weight else tokens


def _between(edges: list[float], share: list[float], seconds: float) -> float:
    at = bisect_right(edges, seconds) - 1
    if at < 0 or at + 1 >= len(edges):
        return share[0] if at < 0 else share[-1]
    low, high = max(edges[at], 1.0), edges[at + 1]
    part = log(max(seconds, low) / low) / log(high / low)
    return share[at] * exp(part * log(share[at + 1] / share[at])) if share[at + 1] > 0 else share[at] * (1 - part)
