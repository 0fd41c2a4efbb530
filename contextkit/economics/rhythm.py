"""How a session goes: its gaps, how much a turn adds, how long it may go on.

Learned turn by turn, starting from what sessions are like.

Takes seconds and tokens, gives estimates; a turn costs the same few steps however many went before. Knows nothing of
prompts or prices.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import exp, log

from contextkit.errors import UsageError

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

    @classmethod
    def of(cls, sessions: Iterable[Sequence[tuple[float, float]]]) -> Prior:
        """What past sessions were like, each as (gap, growth) of its calls after the first.

        Raises `UsageError` where they hold no such call.

        >>> Prior.of([[(20.0, 900.0)] * 30, [(400.0, 1_100.0)] * 10]).remaining_turns
        20.0
        """
        known = [list(turns) for turns in sessions]
        turns = [turn for session in known for turn in session]
        if not turns:
            raise UsageError(
                "no session has a second call: nothing can be learned of gaps and growth; use Prior() as it is"
            )
        gaps = tuple(
            (seconds, (sum(gap > seconds for gap, _ in turns) or 0.5) / len(turns)) for seconds, _ in SEEN_GAPS[1:]
        )
        return cls(((0.0, 1.0), *gaps), growths_of([growth for _, growth in turns]), len(turns) / len(known))


@dataclass(frozen=True, slots=True)
class Outlook:
    """What is expected of a session from here on; made by a `Rhythm`, or by whoever knows better."""

    remaining_turns: float
    """Calls that follow the next one, on average."""
    growths: Growths
    """What each adds to the context: sizes and their shares, which sum to 1."""
    cold: float
    """Share of gaps that outlive the cache: the next call finds nothing."""
    idle: float
    """Share of gaps that reach the moment `idle_seconds`, shortly before the cache lapses."""
    far: float
    """Share of gaps that outlive a cache renewed at that moment."""
    idle_seconds: float
    """How long nothing was sent when a rewrite still reads a warm prefix and the next call is likely to find a cold
    one."""

    @property
    def growth_tokens(self) -> float:
        """What a call adds on average."""
        return sum(share * tokens for share, tokens in self.growths)


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

    def see_all(self, turns: Iterable[tuple[float, float]]) -> Rhythm:
        """Several, as (gap, growth); the rhythm itself."""
        for gap, growth in turns:
            self.see(gap, growth)
        return self

    def longer_than(self, seconds: float) -> float:
        """Share of gaps longer than that.

        Between two known lengths it falls by the same factor for each factor of time.
        """
        seen = self._n_gaps_reaching()
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

    def outlook(self, ttl_seconds: float, margin_seconds: float = 30.0) -> Outlook:
        """What that means for a cache whose entries live `ttl_seconds` after they were last used."""
        idle = max(ttl_seconds - margin_seconds, ttl_seconds / 2)
        cold, reached, far = (self.longer_than(seconds) for seconds in (ttl_seconds, idle, idle + ttl_seconds))
        return Outlook(self.remaining_turns, self.growths, cold, reached, far, idle)

    def _n_gaps_reaching(self) -> list[int]:
        """How many own gaps reached each known length."""
        reached, above = [], 0
        for n in reversed(self._bins):
            above += n
            reached.append(above)
        return reached[::-1]


def growths_of(tokens: Sequence[float]) -> Growths:
    """What these turns added, by kind; a kind that none of them is of has no share."""
    kinds = [[max(0.0, one) for one in tokens if _kind(one) == kind] for kind in range(len(SIZES))]
    return tuple(
        (len(kind) / len(tokens), sum(kind) / len(kind) if kind else low)
        for kind, low in zip(kinds, SIZES, strict=True)
    )


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
