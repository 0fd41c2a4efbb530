"""Chooses the lifetime a conversation's entries should be written with, and whether to keep them alive with pings.

Takes the turns of one conversation as numbers, or what is expected of them, a model's row and its price; gives each
option with its bill, the cheapest first. A longer lifetime costs more for each token written and saves the writes after
gaps that exceed the shorter one; a ping costs a read, also where no call follows any more.

`Coverage` computes how much of a prompt is worth the long lifetime, call by call. Where a breakpoint reads entries of
any lifetime (the rule `mixed_lifetimes` of `facts/rules.toml`), only what a call adds is billed at the long rate when its
end is written for long: the entry covers everything before it. So a call that adds little can cover everything cheaply,
and one that adds much may leave its share to a later one. What is not covered is written again after a gap that exceeds
the short lifetime.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass

from contextkit.cache.usage import Usage
from contextkit.economics.bill import Price, call_usage
from contextkit.economics.keep_alive import MARGIN_SECONDS, interval_seconds, most_pings, ping_usage
from contextkit.economics.rhythm import Growths, Rhythm
from contextkit.errors import UsageError
from contextkit.models import Model


@dataclass(frozen=True, slots=True)
class Rates:
    """Dollars for one token."""

    fresh: float
    """Uncached input."""
    read: float
    """Read from the cache."""
    short: float
    """Written with the short lifetime."""
    long: float
    """Written with the long one."""

    def written(self, *, is_long: bool) -> float:
        """Return dollars for a token written with that lifetime."""
        return self.long if is_long else self.short


def rates_at(n_tokens: int, price: Price) -> Rates | None:
    """Compute what a token costs in a prompt of that size; None where the model has no price.

    >>> from contextkit.prices import cost_usd
    >>> rates = rates_at(10_000, lambda usage: cost_usd("anthropic", "claude-opus-4-5", usage))
    >>> [round(1e6 * rate, 2) for rate in (rates.fresh, rates.read, rates.short, rates.long)]
    [5.0, 0.5, 6.25, 10.0]
    """
    n = max(n_tokens, 1)
    usages = (Usage(n, 0, 0, 0, 0), Usage(0, n, 0, 0, 0), Usage(0, 0, n, 0, 0), Usage(0, 0, 0, n, 0))
    fresh, read, short, long = (None if bill is None else bill / n for bill in map(price, usages))
    return None if fresh is None or read is None or short is None or long is None else Rates(fresh, read, short, long)


_SIZES = (0.0, *(100.0 * 1.5**step for step in range(23)))
"""Uncovered tokens the table holds: 0 to a million."""
_SWEEPS = 80
"""Calls it looks ahead; where one of them covers everything nothing before it matters any more."""


@dataclass(frozen=True, slots=True)
class Chances:
    """Probabilities of when the next call finds an entry written now; they add up to 1 with that of no next call."""

    warm: float
    """The next call comes before the short lifetime ends."""
    lapsed: float
    """It comes after that, before the long one ends."""
    dead: float
    """It comes after both."""

    def within(self, *, is_long: bool) -> float:
        """Return the probability that a call comes in time to read an entry of that lifetime."""
        return self.warm + self.lapsed if is_long else self.warm


def chances(rhythm: Rhythm, short_seconds: float, long_seconds: float, calls_to_come: float | None = None) -> Chances:
    """Compute them from the rhythm of a session; `calls_to_come` where it is known how many calls follow.

    >>> known = chances(Rhythm(), 300, 3600, calls_to_come=0)
    >>> known.warm, chances(Rhythm(), 300, 3600).warm > 0.9
    (0.0, True)
    """
    remaining = rhythm.remaining_turns if calls_to_come is None else calls_to_come
    goes_on = remaining / (1 + remaining) if calls_to_come is None else min(1.0, remaining)
    short, long = rhythm.longer_than(short_seconds), rhythm.longer_than(long_seconds)
    return Chances(goes_on * (1 - short), goes_on * (short - long), goes_on * long)


def pays(within: float, rates: Rates, *, is_long: bool = False) -> bool:
    """Whether writing an entry is worth its premium: its cost above uncached input now, against what reading it saves.

    >>> opus = Rates(5.0, 0.5, 6.25, 10.0)
    >>> pays(0.21, opus), pays(0.22, opus)
    (False, True)
    """
    written = rates.written(is_long=is_long)
    return written <= rates.fresh or within * (written - rates.read) > written - rates.fresh


class Coverage:
    """Expected cost of leaving tokens to the short lifetime, with every later call free to cover them.

    >>> table = Coverage(Rhythm().growths, chances(Rhythm(), 300, 3600), Rates(5e-6, 5e-7, 6.25e-6, 1e-5))
    >>> table.loss(0), round(table.loss(50_000), 4) > round(table.loss(5_000), 4)
    (0.0, True)
    """

    __slots__ = ("_losses",)

    def __init__(self, growths: Growths, likely: Chances, rates: Rates, *, can_cover_warm: bool = True) -> None:
        """Solves the table, once for what is known of a session.

        `can_cover_warm`: whether a call that finds the cache warm can cover everything for the premium of what it adds;
        False where such calls mostly end in blocks that carry no breakpoint (tool outputs at OpenAI).
        """
        premium, rewrite = rates.long - rates.short, rates.short - rates.read
        rows = [[(share, added, *_between(size + added)) for share, added in growths] for size in _SIZES]
        losses = [0.0] * len(_SIZES)
        for _ in range(_SWEEPS):
            losses = [
                _expected(size, row, losses, likely, (premium, rewrite), can_cover_warm)
                for size, row in zip(_SIZES, rows, strict=True)
            ]
            losses = [loss - losses[0] for loss in losses]
        self._losses = losses

    def loss(self, uncovered: float) -> float:
        """Return dollars above those of a prompt that is covered to its end."""
        return _at(self._losses, *_between(uncovered))


_Row = list[tuple[float, float, int, float]]


def _expected(
    size: float, row: _Row, losses: list[float], likely: Chances, extra: tuple[float, float], can_cover_warm: bool
) -> float:
    """Expected loss over what the next call adds, which then covers everything or nothing."""
    premium, rewrite = extra
    total = likely.lapsed * rewrite * size
    for share, added, low, part in row:
        later = _at(losses, low, part)
        warm = min(later, premium * added) if can_cover_warm else later
        lapsed = min(later, premium * (size + added))
        total += share * (likely.warm * warm + likely.lapsed * lapsed)
    return total


def _between(size: float) -> tuple[int, float]:
    low = min(bisect_right(_SIZES, size) - 1, len(_SIZES) - 2)
    return low, (size - _SIZES[low]) / (_SIZES[low + 1] - _SIZES[low])


def _at(losses: list[float], low: int, part: float) -> float:
    return losses[low] + part * (losses[low + 1] - losses[low])


@dataclass(frozen=True, slots=True)
class Turn:
    """One call of a conversation."""

    gap_seconds: float
    """From the start of the call before to its own start; infinite for the first."""
    prefix_tokens: int
    """Size of the entry that the calls before wrote, if it is still alive."""
    new_tokens: int
    """What it adds to that."""


@dataclass(frozen=True, slots=True)
class Lifetime:
    """One lifetime that can be asked for."""

    ttl_seconds: int
    """How long an entry lives after it was written or read."""
    cost_usd: float | None
    """The bill of the turns' input; None where the model has no price."""
    n_expired: int
    """Turns whose prefix had expired."""


def lifetimes(turns: Iterable[Turn], row: Model, price: Price) -> list[Lifetime]:
    """Compute the bill of these turns for every lifetime of the model, cheapest first (shortest first without a
    price).
    """
    all_turns = list(turns)
    rows = [_lifetime(all_turns, ttl, row, price) for ttl in row.ttls_seconds]
    return sorted(rows, key=lambda one: (one.cost_usd is not None and one.cost_usd, one.ttl_seconds))


def break_even_share(prefix_tokens: int, new_tokens: int, row: Model, price: Price) -> float | None:
    """Compute the share of gaps between the shortest and the longest lifetime above which the longest is cheaper.

    For turns that add `new_tokens` to a prefix of `prefix_tokens`; above 1 it never is. None where the model has one
    lifetime or no price.

    >>> from contextkit.models import model_named
    >>> from contextkit.prices import cost_usd
    >>> opus = lambda usage: cost_usd("anthropic", "claude-opus-4-5", usage)
    >>> round(break_even_share(100_000, 2_000, model_named("claude-opus-4-5"), opus), 4)
    0.013
    """
    if len(row.ttls_seconds) < 2:
        return None
    short, long = (_written(new_tokens, ttl) for ttl in (row.ttls_seconds[0], row.ttls_seconds[-1]))
    bills = [
        price(usage)
        for usage in (short, long, _written(prefix_tokens, row.ttls_seconds[0]), Usage(0, prefix_tokens, 0, 0, 0))
    ]
    cheap, dear, lost, read = (bill if bill is not None else float("nan") for bill in bills)
    return None if None in bills or lost <= read else (dear - cheap) / (lost - read)


@dataclass(frozen=True, slots=True)
class Storage:
    """Cost of a content that is made by a call of its own and stored by the hour (Gemini)."""

    n_tokens: int
    """Its size."""
    ttl_seconds: float
    """How long it is kept."""
    made_usd: float | None
    """Dollars for making it: uncached input; None where the model has no price."""
    kept_usd: float
    """Dollars for storing it, to the second."""
    reads_to_pay: float | None
    """Requests that must read it before it is cheaper than sending it each time; None where no price is known, or none
    ever is."""


def storage(n_tokens: int, ttl_seconds: float, usd_per_mtok_hour: float, price: Price) -> Storage:
    """Compute tokens x hours x price, and how many reads pay for storing and making a content.

    Each read saves what uncached input costs above a read.

    >>> from contextkit.prices import cost_usd
    >>> kept = storage(50_000, 3600, 4.5, lambda usage: cost_usd("google", "gemini-2.5-pro", usage))
    >>> round(kept.made_usd, 4), round(kept.kept_usd, 4), round(kept.reads_to_pay, 2)
    (0.0625, 0.225, 5.11)
    """
    plain, read = price(Usage(n_tokens, 0, 0, 0, 0)), price(Usage(0, n_tokens, 0, 0, 0))
    stored = n_tokens / 1e6 * ttl_seconds / 3600 * usd_per_mtok_hour
    reads_to_pay = None
    if plain is not None and read is not None and plain > read:
        reads_to_pay = (plain + stored) / (plain - read)
    return Storage(n_tokens, ttl_seconds, plain, stored, reads_to_pay)


@dataclass(frozen=True, slots=True)
class Upkeep:
    """One way to keep the prefix in the cache until the next call, with its cost."""

    ttl_seconds: int
    """The lifetime that is asked for."""
    pings: int
    """How many are sent into a gap at most."""
    cost_usd: float
    """What the next call's input costs on average, with the pings before it."""
    kept_seconds: float
    """The longest gap after which the prefix is still cached."""
    alive: float
    """Share of gaps after which it is."""


def upkeeps(
    prefix_tokens: int, rhythm: Rhythm, row: Model, price: Price, margin_seconds: float = MARGIN_SECONDS
) -> list[Upkeep]:
    """Compute every lifetime without pings, and with the best number of them for this rhythm where one pays.

    Cheapest first.

    A session that is over pays for pings too, since nobody knows that it is. Raises `UsageError` where the
    model has no price.

    >>> from contextkit.models import model_named
    >>> from contextkit.prices import cost_usd
    >>> opus = lambda usage: cost_usd("anthropic", "claude-opus-4-5", usage)
    >>> for way in upkeeps(100_000, Rhythm(), model_named("claude-opus-4-5"), opus):
    ...     print(way.ttl_seconds, way.pings, f"{way.cost_usd:.4f}", f"{way.alive:.3f}")
    3600 2 0.0721 0.997
    3600 0 0.0733 0.994
    300 3 0.0810 0.979
    300 0 0.0919 0.945
    """
    ways = []
    for ttl in row.ttls_seconds:
        counts = range(most_pings(prefix_tokens, ttl, row, price) + 1)
        costs = [_upkeep(prefix_tokens, pings, ttl, rhythm, row, price, margin_seconds) for pings in counts]
        best = min(costs, key=lambda way: (way.cost_usd, way.pings))
        ways += [costs[0], best] if best.pings else [costs[0]]
    return sorted(ways, key=lambda way: (way.cost_usd, way.ttl_seconds))


def _upkeep(
    prefix_tokens: int, pings: int, ttl: int, rhythm: Rhythm, row: Model, price: Price, margin: float
) -> Upkeep:
    wait = interval_seconds(ttl, margin)
    goes_on = rhythm.remaining_turns / (1 + rhythm.remaining_turns)
    sent = sum(1 - goes_on + goes_on * rhythm.longer_than((number + 1) * wait) for number in range(pings))
    kept = pings * wait + ttl
    dead, new = rhythm.longer_than(kept), round(rhythm.growth_tokens)
    bills = [
        ping_usage(prefix_tokens),
        call_usage(prefix_tokens, new, row, ttl),
        call_usage(0, prefix_tokens + new, row, ttl),
    ]
    ping, warm, cold = (price(bill) for bill in bills)
    if ping is None or warm is None or cold is None:
        raise UsageError(
            f"no price for {row.name}: what keeping a prefix alive is worth is money, so pass a price, a function of Usage"
        )
    return Upkeep(ttl, pings, sent * ping + goes_on * ((1 - dead) * warm + dead * cold), kept, 1 - dead)


def _lifetime(turns: list[Turn], ttl: int, row: Model, price: Price) -> Lifetime:
    expired = [turn.gap_seconds >= ttl for turn in turns]
    bills = [price(_bill(turn, is_expired, ttl, row)) for turn, is_expired in zip(turns, expired, strict=True)]
    paid = [bill for bill in bills if bill is not None]
    return Lifetime(ttl, sum(paid) if len(paid) == len(bills) else None, sum(expired))


def _bill(turn: Turn, is_expired: bool, ttl: int, row: Model) -> Usage:
    read = 0 if is_expired else turn.prefix_tokens
    rest = turn.prefix_tokens + turn.new_tokens - read
    return call_usage(read, rest, row, ttl)


def _written(n_tokens: int, ttl: int) -> Usage:
    return Usage(0, 0, output=0, writes={ttl: n_tokens})
