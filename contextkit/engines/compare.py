"""One trace on several caches, side by side, in one pass over it.

Every request is read once, however many caches there are. Where an LRU is asked for at many capacities, or at all of
them, `reuse_distance` answers for all at once, with the same numbers.

Two rates, which are different numbers: `hit_rate` is blocks read over blocks asked for; `token_hit_rate` is tokens read
over all tokens of the prompts, the last block counted at its own size and what fills no block counted as not read.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec

from contextkit.engines.block_trace import BlockRequest
from contextkit.engines.reuse_distance import Curve, Distances
from contextkit.engines.trace_engines import Fleet, Setting

MANY = 8
"""Capacities of one LRU from which on they are read off its curve, where NumPy is installed: about what the curve
costs."""


@dataclass(frozen=True, slots=True)
class Counts:
    """What was asked for and what of it was there."""

    requests: int
    """How many."""
    blocks: int | None
    """Blocks asked for, None for a cache that has none."""
    hit_blocks: int | None
    """Blocks read."""
    tokens: int
    """Tokens of all prompts."""
    hit_tokens: int
    """Tokens read."""

    @property
    def hit_rate(self) -> float:
        """Blocks read over blocks asked for, or tokens where there are no blocks; 0 where nothing was asked for."""
        return (self.hit_blocks or 0) / self.blocks if self.blocks else self.token_hit_rate

    @property
    def token_hit_rate(self) -> float:
        """Tokens read over all tokens of the prompts; 0 where nothing was asked for."""
        return self.hit_tokens / self.tokens if self.tokens else 0.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one cache did with a trace."""

    setting: Setting
    """Which cache."""
    counts: Counts
    """All requests."""
    evictions: int | None
    """Blocks forgotten to make room, None where the cache does not count them."""
    cost_usd: float | None = None
    """Dollars at list prices, of a hosted cache with a known price."""
    cost_uncached_usd: float | None = None
    """What the same calls would have cost without any cache."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """What came of one pass."""

    outcomes: tuple[Outcome, ...]
    """One a setting, in their order."""
    curve: Curve | None
    """Hit rates of an LRU at every capacity, where asked for."""
    sizes: tuple[int, ...]
    """Tokens in a block, each size that occurred."""


class _Tally:
    """Counts under way."""

    __slots__ = ("blocks", "hit_blocks", "hit_tokens", "requests", "tokens")

    def __init__(self) -> None:
        self.requests = self.blocks = self.hit_blocks = self.tokens = self.hit_tokens = 0

    def add(self, request: BlockRequest, hit: int) -> None:
        self.requests += 1
        self.blocks += len(request.ids)
        self.hit_blocks += hit
        self.tokens += request.n_tokens
        self.hit_tokens += request.tokens_of(hit)

    def counts(self) -> Counts:
        return Counts(self.requests, self.blocks, self.hit_blocks, self.tokens, self.hit_tokens)


def compare(
    requests: Iterable[BlockRequest],
    settings: Sequence[Setting],
    routing: str = "round-robin",
    *,
    has_curve: bool = False,
) -> Comparison:
    """Replay `requests` on every one of `settings`; `routing` sends them to instances where there are several.

    `has_curve` gives every capacity of an LRU too, where one is among `settings`. Raises `UsageError` for a setting no
    cache has, `MissingExtra` for a curve without NumPy.

    >>> trace = [BlockRequest("s", "main", 0.0, 16, ids, 48) for ids in ([1, 2, 3], [1, 2, 9], [1, 2, 3])]
    >>> [outcome.counts.hit_blocks for outcome in compare(trace, [Setting(capacity=3), Setting()]).outcomes]
    [4, 5]
    """
    fleets = {setting: (Fleet(setting, routing), _Tally()) for setting in settings}
    is_curve_wanted = has_curve and any(map(is_lru, settings))
    if sum(map(is_lru, settings)) >= MANY and find_spec("numpy"):
        fleets = {setting: replay for setting, replay in fleets.items() if not is_lru(setting)}
    distances = Distances() if is_curve_wanted or len(fleets) < len(set(settings)) else None
    total, sizes = _Tally(), dict[int, None]()
    if distances:
        distances.curve()  # where NumPy is missing, say so before the work
    for request in requests:
        sizes[request.size] = None
        total.add(request, 0)
        for fleet, tally in fleets.values():
            tally.add(request, fleet.admit(request))
        if distances:
            distances.add(request)
    curve = distances.curve() if distances else None
    outcomes = []
    for setting in settings:
        if setting in fleets:
            fleet, tally = fleets[setting]
            outcomes.append(Outcome(setting, tally.counts(), fleet.n_evicted))
        elif curve:
            outcomes.append(_read_off(setting, total, curve))
    return Comparison(tuple(outcomes), curve if is_curve_wanted else None, tuple(sizes))


def is_lru(setting: Setting) -> bool:
    """Return whether a curve answers for a setting."""
    return (setting.cache, setting.policy, setting.instances) == ("vllm", "lru", 1)


def _read_off(setting: Setting, total: _Tally, curve: Curve) -> Outcome:
    capacity = setting.capacity
    counts = Counts(total.requests, total.blocks, curve.hit_blocks(capacity), total.tokens, curve.hit_tokens(capacity))
    return Outcome(setting, counts, curve.evictions(capacity))
