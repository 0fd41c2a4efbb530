"""One session, call by call: what a policy pays for it, and the least that anybody could have paid who knew it
beforehand.

Prices are those of the oracle's `Table`; nothing here is shared with the rule.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from tests.economics.brute_force import Choice, Floats, Habits, Policy, Shape, Table

Session = Sequence[tuple[float, float]]
"""Gap before each call after the first, and the tokens it carries more."""


class Decider(Protocol):
    """What is asked before each call, and told after it."""

    def while_idle(self, context: float) -> bool: ...
    def before_call(self, context: float, is_cold: bool) -> bool: ...
    def see(self, gap: float, growth: float) -> None: ...


@dataclass(frozen=True)
class Replay:
    """A price table, a rewrite and the largest prompt."""

    table: Table
    shape: Shape
    limit: float
    margin: float = 30.0

    @property
    def moment(self) -> float:
        return max(self.table.ttl - self.margin, self.table.ttl / 2)

    def pays(self, session: Session, decider: Decider) -> float:
        """The bill of the calls after the first; the idle moment after the last reply included."""
        context, total = self.shape.start, 0.0
        for gap, asked in session:
            growth, is_cold = self.fitting(asked), gap > self.table.ttl
            if gap > self.moment and self.shape.summary and decider.while_idle(context):
                total += self.summary(context, False) + self.after(growth, gap > self.moment + self.table.ttl)
                context = self.shape.after
            elif decider.before_call(context, is_cold) or context + growth > self.limit:
                total += self.rewritten(context, growth, is_cold)
                context = self.shape.after
            else:
                total += self.left(context, growth, is_cold)
            context += growth
            decider.see(gap, growth)
        is_summed = self.shape.summary and decider.while_idle(context)
        return total + (self.summary(context, False) if is_summed else 0.0)

    def clairvoyant(self, session: Session) -> float:
        """The least: a path for every turn at which the history may have been rewritten last."""
        contexts, paid = np.array([self.shape.start]), np.array([0.0])
        for gap, asked in session:
            growth, is_cold = self.fitting(asked), gap > self.table.ttl
            redo = self.rewritten(contexts, growth, is_cold)
            if is_cold and self.shape.summary:
                redo = np.minimum(
                    redo, self.summary(contexts, False) + self.after(growth, gap > self.moment + self.table.ttl)
                )
            best = float(np.min(paid + redo))
            stays = contexts + growth <= self.limit
            paid = np.append(paid[stays] + self.left(contexts[stays], growth, is_cold), best)
            contexts = np.append(contexts[stays] + growth, self.shape.after + growth)
        return float(np.min(paid))

    def fitting(self, growth: float) -> float:
        return min(growth, self.limit - self.shape.after - 1)

    def left(self, context: float | Floats, growth: float, is_cold: bool) -> Floats:
        read = context * (not is_cold)
        return self.table.cost(0 * context, read, context - read + growth)

    def after(self, growth: float, is_cold: bool) -> Floats:
        read = self.shape.unchanged * (not is_cold)
        return self.table.cost(np.float64(0), np.float64(read), self.shape.after - read + growth)

    def summary(self, context: float | Floats, is_cold: bool) -> Floats:
        if not self.shape.summary:
            return np.zeros(np.shape(context))
        lost = context * is_cold
        written = lost * (self.table.kind == "billed")
        return self.table.cost(lost - written, context - lost, written, self.shape.summary)

    def rewritten(self, context: float | Floats, growth: float, is_cold: bool) -> Floats:
        is_front_cold = is_cold and (self.table.kind == "marks" or not self.shape.summary)
        return self.summary(context, is_cold) + self.after(growth, is_front_cold)


def drawn(habits: Habits, seed: int) -> list[tuple[float, float]]:
    """A session of a cell: as long as its sessions are, every gap and growth drawn from the recorded ones."""
    dice = np.random.default_rng(seed)
    ends = np.flatnonzero(dice.random(len(habits.survives)) >= np.asarray(habits.survives))
    n = int(ends[0]) if len(ends) else len(habits.survives)
    return list(
        zip(
            dice.choice(np.asarray(habits.gaps), n).tolist(),
            dice.choice(np.asarray(habits.growths), n).tolist(),
            strict=True,
        )
    )


@dataclass
class Share:
    """Rewrites before a call that would repeat so many tokens; infinitely many for never."""

    tokens: float

    def while_idle(self, context: float) -> bool:
        return False

    def before_call(self, context: float, is_cold: bool) -> bool:
        return context >= self.tokens

    def see(self, gap: float, growth: float) -> None:
        pass


@dataclass
class Following:
    """A policy of the oracle's, followed call by call."""

    policy: Policy
    turns: int = 1

    def _choice(self, context: float) -> Choice:
        return self.policy(self.turns, np.array([context]))

    def while_idle(self, context: float) -> bool:
        return bool(self._choice(context).idle[0])

    def before_call(self, context: float, is_cold: bool) -> bool:
        choice = self._choice(context)
        return bool((choice.cold if is_cold else choice.warm)[0])

    def see(self, gap: float, growth: float) -> None:
        self.turns += 1
