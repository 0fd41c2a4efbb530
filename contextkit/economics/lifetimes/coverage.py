"""How much of a prompt deserves the long lifetime, call by call.

Only what a call adds is billed at the long rate when its end is written for long: the entry covers all that stands
before it. So a call that adds little can cover everything cheaply, and one that adds much may leave its share to a
later one. What is left uncovered is written again after a gap that the short lifetime does not outlive. Takes habits,
chances and rates, gives dollars; a table of a few hundred numbers, whatever the size of the conversation. Knows nothing
of prompts.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass

from contextkit.economics.lifetimes.rates import Rates
from contextkit.economics.rhythm import Growths, Rhythm

_SIZES = (0.0, *(100.0 * 1.5**step for step in range(23)))
"""Uncovered tokens the table holds: 0 to a million."""
_SWEEPS = 80
"""Calls it looks ahead; where one of them covers everything nothing before it matters any more."""


@dataclass(frozen=True, slots=True)
class Chances:
    """What becomes of an entry written now: shares that add up to 1 with that of no call coming at all."""

    warm: float
    """The next call comes before the short lifetime ends."""
    lapsed: float
    """It comes after that, and before the long one ends."""
    dead: float
    """It comes when nothing is left."""

    def within(self, *, is_long: bool) -> float:
        """A call comes in time to read the entry."""
        return self.warm + self.lapsed if is_long else self.warm


def chances(rhythm: Rhythm, short_seconds: float, long_seconds: float, calls_to_come: float | None = None) -> Chances:
    """By the rhythm of a session; `calls_to_come` where it is known better how many calls follow.

    >>> known = chances(Rhythm(), 300, 3600, calls_to_come=0)
    >>> known.warm, chances(Rhythm(), 300, 3600).warm > 0.9
    (0.0, True)
    """
    remaining = rhythm.remaining_turns if calls_to_come is None else calls_to_come
    goes_on = remaining / (1 + remaining) if calls_to_come is None else min(1.0, remaining)
    short, long = rhythm.longer_than(short_seconds), rhythm.longer_than(long_seconds)
    return Chances(goes_on * (1 - short), goes_on * (short - long), goes_on * long)


def pays(within: float, rates: Rates, *, is_long: bool = False) -> bool:
    """Whether writing an entry is worth its premium: what it costs above plain input now, against what reading it
    saves.

    >>> opus = Rates(5.0, 0.5, 6.25, 10.0)
    >>> pays(0.21, opus), pays(0.22, opus)
    (False, True)
    """
    written = rates.written(is_long=is_long)
    return written <= rates.fresh or within * (written - rates.read) > written - rates.fresh


class Coverage:
    """What leaving tokens to the short lifetime is expected to cost, with every later call free to cover them.

    >>> table = Coverage(Rhythm().growths, chances(Rhythm(), 300, 3600), Rates(5e-6, 5e-7, 6.25e-6, 1e-5))
    >>> table.loss(0), round(table.loss(50_000), 4) > round(table.loss(5_000), 4)
    (0.0, True)
    """

    __slots__ = ("_losses",)

    def __init__(self, growths: Growths, known: Chances, rates: Rates) -> None:
        """Solved here, once for what is known of a session."""
        premium, rewrite = rates.long - rates.short, rates.short - rates.read
        rows = [[(share, added, *_between(size + added)) for share, added in growths] for size in _SIZES]
        losses = [0.0] * len(_SIZES)
        for _ in range(_SWEEPS):
            losses = [
                _expected(size, row, losses, known, premium, rewrite) for size, row in zip(_SIZES, rows, strict=True)
            ]
            losses = [loss - losses[0] for loss in losses]
        self._losses = losses

    def loss(self, uncovered: float) -> float:
        """Dollars, more than if nothing were uncovered."""
        return _at(self._losses, *_between(uncovered))


_Row = list[tuple[float, float, int, float]]


def _expected(size: float, row: _Row, losses: list[float], known: Chances, premium: float, rewrite: float) -> float:
    """Over what the next call adds, which then covers everything or goes on without."""
    total = known.lapsed * rewrite * size
    for share, added, low, part in row:
        later = _at(losses, low, part)
        warm, lapsed = min(later, premium * added), min(later, premium * (size + added))
        total += share * (known.warm * warm + known.lapsed * lapsed)
    return total


def _between(size: float) -> tuple[int, float]:
    low = min(bisect_right(_SIZES, size) - 1, len(_SIZES) - 2)
    return low, (size - _SIZES[low]) / (_SIZES[low + 1] - _SIZES[low])


def _at(losses: list[float], low: int, part: float) -> float:
    return losses[low] + part * (losses[low + 1] - losses[low])
