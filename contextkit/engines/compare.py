"""One trace on several caches, side by side, in one pass over it.

Takes requests as block ids and `Setting`s, gives one `Outcome` a setting; every request is read once, however many
caches there are. Where an LRU is asked for at many capacities, or at all of them, `reuse_distance` answers for all at
once, with the same numbers. Knows nothing of files.

Two rates, which are different numbers: `hit_rate` is blocks read over blocks asked for; `token_hit_rate` is tokens read
over all tokens of the prompts, the last block counted at its own size and what fills no block counted as not read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from itertools import islice

from contextkit.engines.block_trace import BlockRequest
from contextkit.engines.fleet import Fleet
from contextkit.engines.reuse_distance import Curve, Distances
from contextkit.engines.trace_engines import Setting, build

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
    sessions: Mapping[str, Counts] = field(default_factory=dict)
    """Each session, where asked for."""
    cost_usd: float | None = None
    """Dollars at list prices, of a hosted cache with a known price."""
    cost_uncached_usd: float | None = None
    """What the same calls would have cost without any cache."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """What came of one pass."""

    outcomes: tuple[Outcome, ...]
    """One a setting, in their order."""
    curves: Mapping[str, Curve]
    """Order of use → hit rates of an LRU at every capacity, where asked for."""
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


class _Replay:
    """One setting under way."""

    __slots__ = ("fleet", "sessions", "setting", "total")

    def __init__(self, setting: Setting, routing: str) -> None:
        self.setting, self.fleet = setting, Fleet(build(setting), routing)
        self.total, self.sessions = _Tally(), dict[str, _Tally]()

    def add(self, request: BlockRequest, *, has_sessions: bool) -> None:
        hit = self.fleet.admit(request)
        self.total.add(request, hit)
        if has_sessions:
            self.sessions.setdefault(request.session, _Tally()).add(request, hit)

    def outcome(self) -> Outcome:
        sessions = {name: tally.counts() for name, tally in self.sessions.items()}
        return Outcome(self.setting, self.total.counts(), self.fleet.n_evicted, sessions)


def compare(
    requests: Iterable[BlockRequest],
    settings: Sequence[Setting],
    routing: str = "round-robin",
    *,
    has_sessions: bool = False,
    has_curve: bool = False,
) -> Comparison:
    """Replay `requests` on every one of `settings`; `routing` sends them to instances where there are several.

    `has_sessions` counts each session apart; `has_curve` gives every capacity of an LRU too, for the orders of use that
    `settings` name. Raises `UsageError` for a setting no cache has, `MissingExtra` for a curve without NumPy.

    >>> trace = [BlockRequest("s", "main", 0.0, 16, ids, 48) for ids in ([1, 2, 3], [1, 2, 9], [1, 2, 3])]
    >>> [outcome.counts.hit_blocks for outcome in compare(trace, [Setting(capacity=3), Setting()]).outcomes]
    [4, 5]
    """
    for setting in settings:
        Fleet(build(setting), routing)
    swept = _swept(settings, has_sessions=has_sessions)
    orders = dict.fromkeys(
        setting.order for setting in settings if _is_lru(setting) and (has_curve or setting in swept)
    )
    replays = {setting: _Replay(setting, routing) for setting in settings if setting not in swept}
    distances, total, sizes = Distances() if orders else None, _Tally(), dict[int, None]()
    if distances:
        distances.curve()  # where NumPy is missing, say so before the work
    for request in requests:
        sizes[request.size] = None
        total.add(request, 0)
        for replay in replays.values():
            replay.add(request, has_sessions=has_sessions)
        if distances:
            distances.add(request)
    curves = {order: distances.curve(order) for order in orders} if distances else {}
    outcomes = (
        replays[setting].outcome() if setting in replays else _read_off(setting, total, curves) for setting in settings
    )
    return Comparison(tuple(outcomes), curves if has_curve else {}, tuple(sizes))


def _is_lru(setting: Setting) -> bool:
    """Whether a curve answers for it."""
    return (setting.cache, setting.policy, setting.instances) == ("vllm", "lru", 1)


def _swept(settings: Sequence[Setting], *, has_sessions: bool) -> frozenset[Setting]:
    """Those that are read off a curve."""
    fitting = [setting for setting in settings if _is_lru(setting)]
    is_worth_it = not has_sessions and find_spec("numpy") and next(islice(fitting, MANY - 1, None), None)
    return frozenset(fitting if is_worth_it else ())


def _read_off(setting: Setting, total: _Tally, curves: Mapping[str, Curve]) -> Outcome:
    curve, capacity = curves[setting.order], setting.capacity
    counts = Counts(total.requests, total.blocks, curve.hit_blocks(capacity), total.tokens, curve.hit_tokens(capacity))
    return Outcome(setting, counts, curve.evictions(capacity))
