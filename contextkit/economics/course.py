"""What a session costs from here on, whatever its context has grown to, if every later rewrite is made at its best
moment.

Takes a rewrite, an outlook, prices and a limit, gives the cost of making it now and of waiting, and the sizes from
which on it pays. Knows nothing of logs; draws nothing by lot.

Each turn adds one of a few sizes; each turn a gap is drawn that the cache outlives or not; after each turn the session
may be over. A rewrite brings the context back to `after_tokens` and everything begins again, so one number, the cost
from there, ties the ends together: sizes are gone through once from the limit down, and Newton's method finds that
number in a few rounds. Each round is `STEPS` sizes, however long the session and however large the window.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from contextkit.economics.rewrite import Bills, Rewrite
from contextkit.economics.rhythm import Outlook

STEPS = 64
"""Sizes that are looked at, closest together just above the rewritten size."""
_ROUNDS = 20
_Places = tuple[tuple[int, float], ...]
"""(index of a size, weight): where the context may stand a call later."""


@dataclass(frozen=True, slots=True)
class _Size:
    """One size of the context, with the bills of the next call and without what comes after it."""

    warm: tuple[float, float]
    """Before a call that finds the cache alive: leave the history, rewrite it."""
    cold: tuple[float, float]
    """Before a call that finds it dead."""
    idle: float
    """While nobody knows whether a call will come: the summary alone."""
    following: _Places
    """Where the context stands after that call if the history is left as it is."""
    forced: _Places
    """Where it stands after a turn that did not fit, and forced a rewrite."""


class Course:
    """The best course from every size, for one kind of rewrite under one outlook."""

    __slots__ = (
        "_after",
        "_afterwards",
        "_bills",
        "_fronts",
        "_growths",
        "_nodes",
        "_sizes",
        "_values",
        "limit",
        "outlook",
        "rewrite",
    )

    def __init__(self, rewrite: Rewrite, outlook: Outlook, bills: Bills, limit_tokens: int) -> None:
        """Solves it; `limit_tokens` is the largest prompt that may be sent: beyond it a rewrite is forced."""
        room = max(float(limit_tokens - rewrite.after_tokens), 2.0)
        self.rewrite, self.outlook, self._bills, self.limit = rewrite, outlook, bills, rewrite.after_tokens + room
        self._growths = [
            (share, round(min(max(tokens, 1.0), room - 1))) for share, tokens in outlook.growths if share > 0
        ]
        self._sizes = [rewrite.after_tokens + room * (step / STEPS) ** 2 for step in range(STEPS + 1)]
        self._fronts = tuple(self._mean(self._front(is_cold)) for is_cold in (False, True))
        self._afterwards = self._placed((share, rewrite.after_tokens + new) for share, new in self._growths)
        self._nodes = [self._size(size) for size in self._sizes]
        self._values = [0.0] * len(self._sizes)
        self._after = self._solve()

    # What can be asked
    # ----------------------------------------------------------------------------------------------------

    def is_full(self, context_tokens: float) -> bool:
        """Whether not even a small turn fits behind so much."""
        return context_tokens + min(new for _, new in self._growths) > self.limit

    def before_call(self, context_tokens: float, *, is_cold: bool) -> tuple[float, float]:
        """Cost from here on, in dollars, of rewriting before the next call, and of not doing so."""
        return self._calling(self._size(context_tokens), is_cold)

    def while_idle(self, context_tokens: float) -> tuple[float, float]:
        """The same at the moment `idle_seconds`, when the cache is about to lapse and perhaps no call will ever come."""
        return self._idling(self._size(context_tokens))

    def pays_from(self, moment: str) -> float | None:
        """The smallest context from which on a rewrite pays `warm`, `cold` or `idle`.

        None where it does not below the limit.
        """
        margins = [self._margin(node, moment) for node in self._nodes]
        first = next((i for i, margin in enumerate(margins) if margin >= 0 and not self.is_full(self._sizes[i])), None)
        if not first:
            return None if first is None else self._sizes[0]
        low, high = margins[first - 1], margins[first]
        return self._sizes[first - 1] + (self._sizes[first] - self._sizes[first - 1]) * low / (low - high)

    def _margin(self, size: _Size, moment: str) -> float:
        now, wait = self._idling(size) if moment == "idle" else self._calling(size, moment == "cold")
        return wait - now

    def _calling(self, size: _Size, is_cold: bool) -> tuple[float, float]:
        stay, rewrite = size.cold if is_cold else size.warm
        return rewrite + self._after, stay + self._then(size)

    def _idling(self, size: _Size) -> tuple[float, float]:
        reaches = max(1 - self._goes_on + self._goes_on * self.outlook.idle, 1e-12)
        waiting = self._waiting(size, self._then(size))
        return self._idle(size, self._after) / reaches, waiting / reaches

    def _then(self, size: _Size) -> float:
        return _mean_of(self._values, size.following) + _mean_of(self._values, size.forced)

    # The bills of one size
    # ------------------------------------------------------------------------------------------------

    def _size(self, size: float) -> _Size:
        rewrite, has_call = self.rewrite.at(size), self.rewrite.has_call
        summaries = [self._bills.summary(rewrite, is_cold=is_cold) for is_cold in (False, True)]
        is_front_cold = not self._bills.leaves_warm(rewrite, is_cold=True)
        warm = self._left(rewrite, False, summaries[0], False), summaries[0] + self._fronts[0]
        cold = self._left(rewrite, True, summaries[1], is_front_cold), summaries[1] + self._fronts[is_front_cold]
        after, fits = self.rewrite.after_tokens, [size + new <= self.limit for _, new in self._growths]
        following = self._placed(
            (share, size + new) for (share, new), is_fit in zip(self._growths, fits, strict=True) if is_fit
        )
        forced = self._placed(
            (share, after + new) for (share, new), is_fit in zip(self._growths, fits, strict=True) if not is_fit
        )
        return _Size(warm, cold, summaries[0] if has_call else float("inf"), following, forced)

    def _left(self, rewrite: Rewrite, is_cold: bool, summary: float, is_front_cold: bool) -> float:
        """The next call on the history as it is; a turn too large for the window forces a rewrite before it."""
        bills, context = self._bills, rewrite.context_tokens

        def bill(new: int) -> float:
            if context + new > self.limit:
                return summary + bills.after(rewrite, new, is_cold=is_front_cold)
            return bills.stay(context, new, is_cold=is_cold)

        return self._mean(bill)

    def _front(self, is_cold: bool) -> Callable[[int], float]:
        return lambda new: self._bills.after(self.rewrite, new, is_cold=is_cold)

    def _mean(self, bill: Callable[[int], float]) -> float:
        return sum(share * bill(new) for share, new in self._growths)

    # How it is worked out
    # -------------------------------------------------------------------------------------------------

    def _solve(self) -> float:
        """The cost right after a rewrite and its call, as the course from there has it too."""
        after = 0.0
        for _ in range(_ROUNDS):
            found = self._fixed(after)
            if abs(found - after) <= 1e-7 * max(abs(found), 1e-12):
                return found
            after = found
        return after

    def _fixed(self, after: float) -> float:
        """The same, with what a forced rewrite leads to taken from the round before: how far each size lies above the
        mean after one.
        """
        mean = _mean_of(self._values, self._afterwards)
        above = [value - mean for value in self._values]
        forced = [_mean_of(above, node.forced) for node in self._nodes]
        for _ in range(_ROUNDS):
            found, slope = self._pass(after, forced)
            step = (found - after) / (1 - slope)
            after += step
            if abs(step) <= 1e-8 * max(abs(after), 1e-12):
                break
        return after

    def _pass(self, after: float, forced: list[float]) -> tuple[float, float]:
        """Costs for all sizes, given the one after a rewrite.

        That one as it comes out, and how it moves with the one that was given.
        """
        slopes = [0.0] * len(self._sizes)
        for i in range(len(self._sizes) - 1, -1, -1):
            self._values[i], slopes[i] = self._node(i, after, forced[i], slopes)
        return _mean_of(self._values, self._afterwards), _mean_of(slopes, self._afterwards)

    def _node(self, i: int, after: float, forced: float, slopes: list[float]) -> tuple[float, float]:
        """Cost at one size, and its slope: a turn may end in the same step of sizes, so the cost stands on both sides
        and is solved for.
        """
        size, value = self._nodes[i], self._values[min(i + 1, STEPS)]
        own = sum(weight for index, weight in size.following if index == i)
        share = sum(weight for _, weight in size.forced)
        known = (
            sum(self._values[index] * weight for index, weight in size.following if index != i) + share * after + forced
        )
        moves = sum(slopes[index] * weight for index, weight in size.following if index != i) + share
        for _ in range(8):
            found, by_next, by_after = self._turn(size, own * value + known, after)
            step = (found - value) / (1 - own * by_next)
            value += step
            if abs(step) <= 1e-12 * max(abs(value), 1e-12):
                break
        return value, (by_after + by_next * moves) / (1 - own * by_next)

    def _turn(self, size: _Size, following: float, after: float) -> tuple[float, float, float]:
        """Expected cost of one turn and all that follows, with its slopes: by the cost at the next size, by the cost
        after a rewrite.
        """
        outlook, goes_on = self.outlook, self._goes_on
        first = goes_on * (1 - outlook.idle)
        warm, warm_next = _best(size.warm, following, after)
        cold, cold_next = _best(size.cold, following, after)
        waiting = goes_on * ((outlook.idle - outlook.cold) * warm + outlook.cold * cold)
        idle = self._idle(size, after)
        if idle < waiting:
            return first * warm + idle, first * warm_next, first * (1 - warm_next) + goes_on * outlook.idle
        by_next = goes_on * ((1 - outlook.cold) * warm_next + outlook.cold * cold_next)
        return first * warm + waiting, by_next, goes_on - by_next

    def _idle(self, size: _Size, after: float) -> float:
        """A rewrite at the idle moment, weighted by the chance of that moment: its summary also where no call follows
        any more.
        """
        outlook, goes_on = self.outlook, self._goes_on
        front = (outlook.idle - outlook.far) * self._fronts[0] + outlook.far * self._fronts[1]
        return (1 - goes_on + goes_on * outlook.idle) * size.idle + goes_on * (front + outlook.idle * after)

    def _waiting(self, size: _Size, following: float) -> float:
        """The same for waiting on."""
        outlook = self.outlook
        warm, cold = _best(size.warm, following, self._after)[0], _best(size.cold, following, self._after)[0]
        return self._goes_on * ((outlook.idle - outlook.cold) * warm + outlook.cold * cold)

    @property
    def _goes_on(self) -> float:
        """Chance that a call is followed by another."""
        return self.outlook.remaining_turns / (1 + self.outlook.remaining_turns)

    def _placed(self, contexts: Iterable[tuple[float, float]]) -> _Places:
        """Contexts, each with its share, as weights of the two sizes around each."""
        weights: dict[int, float] = {}
        for share, size in contexts:
            at = min(max(bisect_right(self._sizes, size) - 1, 0), STEPS - 1)
            low, high = self._sizes[at], self._sizes[at + 1]
            part = min(max((size - low) / (high - low), 0.0), 1.0)
            weights[at] = weights.get(at, 0.0) + share * (1 - part)
            weights[at + 1] = weights.get(at + 1, 0.0) + share * part
        return tuple((index, weight) for index, weight in weights.items() if weight)


def _best(paths: tuple[float, float], following: float, after: float) -> tuple[float, float]:
    """The cheaper of leaving the history and rewriting it; and 1.0 where that is leaving it."""
    stay, rewrite = paths[0] + following, paths[1] + after
    return (stay, 1.0) if stay < rewrite else (rewrite, 0.0)


def _mean_of(values: list[float], places: _Places) -> float:
    return sum(values[index] * weight for index, weight in places)
