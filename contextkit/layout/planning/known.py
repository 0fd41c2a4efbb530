"""What is known of a session when its next request is marked: its habits, what it was billed at, what its last request
left behind.

Takes numbers, gives numbers. The moment is an argument, the time of the last entry, so a plan is the same however often
it is made.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from contextkit.cache.prompt import Breakpoint
from contextkit.economics.bill import Price
from contextkit.economics.lifetimes.coverage import Chances, Coverage, chances
from contextkit.economics.lifetimes.rates import Rates, rates_at
from contextkit.economics.rhythm import Rhythm


def _unpriced(_: object) -> None:
    return None


@dataclass(frozen=True, slots=True)
class Left:
    """What the last request of a lane left in the cache."""

    marks: tuple[Breakpoint, ...]
    """Where its entries end."""
    at: float
    """When it started."""
    epoch: int = 0
    """Declared breaks before it: after another one its places mean nothing any more."""

    def end(self, now: float, epoch: int, *, longer_than: float = 0) -> int:
        """Segments that its longest entry covers which is still alive, and lives longer than that by itself; 0 for
        none.
        """
        if epoch != self.epoch:
            return 0
        alive = (mark.segment + 1 for mark in self.marks if now - self.at < mark.ttl_seconds > longer_than)
        return max(alive, default=0)

    def within(self, n: int) -> Left:
        """What of it another conversation can read that shares the first `n` segments."""
        return Left(tuple(mark for mark in self.marks if mark.segment < n), self.at, self.epoch)


NOTHING = Left((), 0.0, -1)
"""No request was sent, or it is not known what one left."""


@dataclass(slots=True)
class Known:
    """One session, as far as it is known."""

    rhythm: Rhythm = field(default_factory=Rhythm)
    """Its gaps and growth."""
    price: Price = _unpriced
    """What a bill costs in dollars; None where the model has no price."""
    now: float = 0.0
    """When the next request starts, as near as the log says: the time of its last entry."""
    left: Left = NOTHING
    """What the lane's last request left."""
    epoch: int = 0
    """Declared breaks so far."""
    calls_to_come: float | None = None
    """Calls of this lane behind the next one, where that is known: 0 for a side call; None for what sessions are like.
    """
    head_reuse: float = 1.0
    """Share of cases in which another conversation reads tools and system while they live."""
    is_mixed: bool = True
    """Whether an entry of one lifetime may be read by a mark of another; False once a bill has shown that it was not.
    """
    _tables: dict[tuple[object, ...], object] = field(default_factory=dict)
    """What was worked out for this rhythm."""

    def rates(self, n_tokens: int) -> Rates | None:
        """What a token costs in a prompt of that size."""
        key = ("rates", n_tokens, self.now)
        if key not in self._tables:
            self._tables[key] = rates_at(n_tokens, self.price)
        return self._tables[key]  # type: ignore[return-value]  # what the key says

    def chances(self, short_seconds: float, long_seconds: float) -> Chances:
        """What becomes of what the next request writes."""
        key = ("chances", short_seconds, long_seconds)
        if key not in self._tables:
            self._tables[key] = chances(self.rhythm, short_seconds, long_seconds, self.calls_to_come)
        return self._tables[key]  # type: ignore[return-value]

    def coverage(self, short_seconds: float, long_seconds: float, rates: Rates) -> Coverage:
        """What leaving tokens to the short lifetime is expected to cost."""
        key = ("coverage", short_seconds, long_seconds, rates)
        if key not in self._tables:
            self._tables[key] = Coverage(self.rhythm.growths, self.chances(short_seconds, long_seconds), rates)
        return self._tables[key]  # type: ignore[return-value]
