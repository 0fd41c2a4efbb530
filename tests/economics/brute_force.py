"""The best that can be done, by trying everything: an oracle for the break-even rule that shares nothing with it but
price numbers.

Sizes are a fine grid, turns are counted one by one, growth is the whole recorded distribution, and the history may be
rewritten before each call, found warm or found cold. Policies are judged exactly, by expectation over everything
that may happen."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Table:
    """A model's prices, in dollars a token, as they stand on the page."""

    name: str
    kind: str  # "marks" (writes cost, where marked), "billed" (writes cost, always), "free" (writes cost what input costs)
    ttl: float
    window: int
    tiers: tuple[
        tuple[int, tuple[float, ...]], ...
    ]  # (above so many tokens, (fresh, read, short, long, output)), highest first
    is_long: bool = False

    def cost(self, fresh: Floats, read: Floats, written: Floats, output: float = 0.0) -> Floats:
        """Each call at the tier of its prompt."""
        prompt = np.asarray(fresh + read + written, float)
        total = np.full(prompt.shape, np.nan)
        for above, (input_, reading, short, long, generated) in self.tiers:
            writing = input_ if self.kind == "free" else long if self.is_long else short
            bill = fresh * input_ + read * reading + written * writing + output * generated
            total = np.where(np.isnan(total) & (prompt > above), bill, total)
        return total


@dataclass(frozen=True)
class Habits:
    """What is known of a cell's sessions: recorded gaps, recorded growths, and the chance that call t is followed by
    another."""

    gaps: tuple[float, ...]
    growths: tuple[float, ...]
    survives: tuple[float, ...]

    def longer(self, seconds: float) -> float:
        return float(np.mean(np.asarray(self.gaps) > seconds))

    def remaining(self) -> Floats:
        """Calls that are expected to follow the t-th one."""
        left = np.zeros(len(self.survives) + 1)
        for t in range(len(self.survives) - 1, -1, -1):
            left[t] = self.survives[t] * (1 + left[t + 1])
        return left[:-1]


@dataclass(frozen=True)
class Shape:
    """A rewrite: what stays at the front, what is written behind it, what the summary generates (0: none is made)."""

    start: float = 20_000
    unchanged: float = 16_000
    rewritten: float = 24_000
    summary: float = 3_000

    @property
    def after(self) -> float:
        return self.unchanged + self.rewritten


@dataclass(frozen=True)
class Choice:
    """At which sizes to rewrite, by moment."""

    warm: Mask
    cold: Mask


Policy = Callable[[int, Floats], Choice]
"""(calls so far, sizes) → when to rewrite."""


@dataclass
class Problem:
    """One cell: a price table, habits, a rewrite."""

    table: Table
    habits: Habits
    shape: Shape
    limit: float
    n_sizes: int = 400
    sizes: Floats = field(init=False)

    def __post_init__(self) -> None:
        self.step = self.limit / self.n_sizes
        self.sizes = np.arange(self.n_sizes + 1) * self.step
        self.floor = self._cell(self.shape.after)
        self.begin = self._cell(self.shape.start)
        self._grow()
        self._bill()
        self.cold = self.habits.longer(self.table.ttl)

    def _cell(self, tokens: float) -> int:
        return round(tokens / self.step)

    def _grow(self) -> None:
        """Growths as steps of the grid, rounded up or down so that their mean stays."""
        chance = np.zeros(self.n_sizes + 1 - self.floor)
        for tokens in self.habits.growths:
            low, part = divmod(min(tokens, self.limit - self.sizes[self.floor] - self.step) / self.step, 1.0)
            chance[int(low)] += 1 - part
            chance[int(low) + 1] += part
        self.steps = np.flatnonzero(chance)
        self.chances = chance[self.steps] / chance.sum()

    def _bill(self) -> None:
        n, free, front = (
            self.n_sizes + 1,
            self.table.kind == "free",
            self.table.kind != "marks" and self.shape.summary > 0,
        )
        c, g = self.sizes[:, None], (self.steps * self.step)[None, :]
        self.is_over = c + g > self.limit + 1e-6
        zero, kept, new = np.zeros_like(g), np.full_like(g, self.shape.unchanged), self.shape.rewritten + g
        self.after_warm_of = self.table.cost(zero, kept, new)[0]
        self.after_cold_of = self.table.cost(zero, zero, kept + new)[0]
        has = self.shape.summary > 0
        self.sum_warm = self.table.cost(0 * self.sizes, self.sizes, 0 * self.sizes, self.shape.summary) * has
        sent, written = (0 * self.sizes, self.sizes) if self.table.kind == "billed" else (self.sizes, 0 * self.sizes)
        self.sum_cold = self.table.cost(sent, 0 * self.sizes, written, self.shape.summary) * has
        redo_warm = self.sum_warm[:, None] + self.after_warm_of
        redo_cold = self.sum_cold[:, None] + (self.after_warm_of if front else self.after_cold_of)
        self.stay_warm_of = np.where(self.is_over, redo_warm, self.table.cost(0 * c * g, c + 0 * g, 0 * c + g))
        self.stay_cold_of = np.where(self.is_over, redo_cold, self.table.cost(0 * c * g, 0 * c * g, c + g))
        self.stay_warm, self.stay_cold, self.redo_warm, self.redo_cold = (
            bill @ self.chances for bill in (self.stay_warm_of, self.stay_cold_of, redo_warm, redo_cold)
        )
        self.moves = np.zeros((n, n))
        for k, chance in zip(self.steps, self.chances, strict=True):
            to = np.arange(n) + k
            to = np.where(to > self.n_sizes, np.minimum(self.floor + k, self.n_sizes), to)
            np.add.at(self.moves, (np.arange(n), to), chance)
        assert free or self.table.kind in ("marks", "billed")

    # Expectations
    # ---------------------------------------------------------------------------------------------------------

    def best(self) -> float:
        """The least expected cost of a session's calls after its first, whatever is done."""
        return self._run(None)

    def cost(self, policy: Policy) -> float:
        """The expected cost under a policy."""
        return self._run(policy)

    def _run(self, policy: Policy | None) -> float:
        value = np.zeros(self.n_sizes + 1)
        for t in range(len(self.habits.survives), 0, -1):
            stay, after = self.moves @ value, float(self.moves[self.floor] @ value)
            value = self._turn(self.habits.survives[t - 1], stay, after, policy(t, self.sizes) if policy else None)
        return float(value[self.begin])

    def _turn(self, goes_on: float, stay: Floats, after: float, choice: Choice | None) -> Floats:
        leave_warm, redo_warm = self.stay_warm + stay, self.redo_warm + after
        leave_cold, redo_cold = self.stay_cold + stay, self.redo_cold + after
        warm = np.minimum(leave_warm, redo_warm) if choice is None else np.where(choice.warm, redo_warm, leave_warm)
        cold = np.minimum(leave_cold, redo_cold) if choice is None else np.where(choice.cold, redo_cold, leave_cold)
        return goes_on * ((1 - self.cold) * warm + self.cold * cold)


def never(_: int, sizes: Floats) -> Choice:
    """Rewrite only where the window leaves no choice."""
    no = np.zeros(len(sizes), bool)
    return Choice(no, no)


def at_share_of(window: float, share: float = 0.8) -> Policy:
    """Rewrite before the first call that would repeat more than that share of the window."""

    def policy(_: int, sizes: Floats) -> Choice:
        full = sizes >= share * window
        return Choice(full, full)

    return policy
