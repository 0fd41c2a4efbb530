"""Prices the lifetimes that a conversation's entries can be written with, and contents that are stored by the hour.

A longer lifetime costs more for each token written and saves the writes after gaps that exceed the shorter one.

`Coverage` computes how much of a prompt is worth the long lifetime, call by call. Where a breakpoint reads entries of
any lifetime (the rule `mixed_lifetimes` of `facts/rules.toml`), only what a call adds is billed at the long rate when its
end is written for long: the entry covers everything before it. So a call that adds little can cover everything cheaply,
and one that adds much may leave its share to a later one. What is not covered is written again after a gap that exceeds
the short lifetime.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass

from contextkit.cache.usage import Usage
from contextkit.economics.bill import Price
from contextkit.economics.rhythm import Growths, Rhythm


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
