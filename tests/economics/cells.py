"""The cells the break-even rule is checked on: price tables of six models, habits of recorded sessions, and the rule as
a policy.

Sessions are the main lanes of the block traces in kv-cache-tester's format (github.com/callanjfox/kv-cache-tester):
seconds from the start of one call to the start of the next, and what the prompt grew by; where it shrank, it grew by
nothing."""

from __future__ import annotations

import gzip
import json
import math
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path

from contextkit.cache.usage import Usage
from contextkit.economics.break_even import OUTPUT_RESERVE, pays_from
from contextkit.economics.rewrite import Bills, Rewrite
from contextkit.economics.rhythm import SIZES, Growths
from contextkit.models import model_named
from contextkit.prices import cost_usd, price_rows
from tests.economics.brute_force import Choice, Floats, Habits, Policy, Problem, Shape, Table
from tests.scale import n_examples

Session = Sequence[tuple[float, float]]
"""Gap before each call after the first, and the tokens it carries more."""
AT = 1_790_000_000.0
"""When prices are looked up, so that figures stay."""
SHAPES = {"summary": Shape(), "references": Shape(summary=0.0)}
"""A summary of 3,000 tokens and a tail of 21,000 behind a head of 16,000; or the same without a call, old results made
references."""
LONGEST = 440
"""Calls of the longest recorded session."""


def table_of(name: str, ttl: int) -> Table:
    row = model_named(name)
    kind = {"breakpoints": "marks", "billed": "billed"}.get(row.cache, "free")
    tiers = price_rows(row.provider, name, AT)[1]
    return Table(name, kind, float(ttl), row.window_tokens, tiers, is_long=kind == "marks" and ttl in (3600, 43_200))


def bills_of(table: Table) -> Bills:
    row = model_named(table.name)

    def price(usage: Usage) -> float | None:
        return cost_usd(row.provider, row.name, usage, AT)

    return Bills(row, price, int(table.ttl))


@cache
def recorded(folder: Path) -> list[Session]:
    """The sessions of every fourth trace in `folder`, of all with `--full`; those with a second call."""
    found = [
        _session(json.loads(gzip.decompress(path.read_bytes())))
        for path in sorted(folder.glob("*.json.gz"))[:: n_examples(4, 1)]
    ]
    return [session for session in found if session]


def _session(trace: dict) -> Session:  # type: ignore[type-arg]
    calls = [call for call in trace["requests"] if "in" in call]
    return [(b["t"] - a["t"], max(0.0, float(b["in"] - a["in"]))) for a, b in pairwise(calls)]


def by_idleness(sessions: Sequence[Session]) -> dict[str, list[Session]]:
    """All of them, and those with no, few, some and many gaps over five minutes."""
    bounds = {
        "no gap over 5 min": (0.0, 1e-9),
        "under 5 %": (1e-9, 0.05),
        "5 to 15 %": (0.05, 0.15),
        "over 15 %": (0.15, 1.1),
    }
    share = [sum(gap > 300 for gap, _ in session) / len(session) for session in sessions]
    parts = {
        name: [one for one, x in zip(sessions, share, strict=True) if low <= x < high]
        for name, (low, high) in bounds.items()
    }
    return {"all": list(sessions), **parts}


def survival(sessions: Iterable[Session]) -> tuple[float, ...]:
    """The chance that call t is followed by another, t from 1: the recorded one, in steps that get wider."""
    lengths = [len(session) + 1 for session in sessions]
    edges, chances = (1, 4, 10, 20, 40, 80, 160, LONGEST + 1), []
    for low, high in pairwise(edges):
        exposed = sum(max(0, min(length, high - 1) - low + 1) for length in lengths)
        ended = sum(low <= length < high for length in lengths)
        chances += [1 - ended / exposed if exposed else 0.0] * (high - low)
    return tuple(chances)


def habits_of(sessions: Iterable[Session], survives: tuple[float, ...]) -> Habits:
    turns = [turn for session in sessions for turn in session]
    return Habits(tuple(gap for gap, _ in turns), tuple(growth for _, growth in turns), survives)


def problem_of(table: Table, habits: Habits, shape: Shape, n_sizes: int = 400) -> Problem:
    return Problem(table, habits, shape, table.window - OUTPUT_RESERVE, n_sizes)


def rewrite_of(shape: Shape, context: float) -> Rewrite:
    return Rewrite(
        max(round(context), int(shape.unchanged)), int(shape.unchanged), int(shape.rewritten), int(shape.summary)
    )


def rule_for(problem: Problem) -> Policy:
    """The rule, given the habits: five kinds of growth, the share of gaps that outlive the cache, and how many calls are
    expected after the t-th."""
    bills, habits = bills_of(problem.table), problem.habits
    left = Habits((), (), habits.survives + habits.survives[-1:] * 2_000).remaining()
    growths, known = growths_of(habits.growths), {}

    def thresholds(remaining: float) -> list[float]:
        sizes = pays_from(
            rewrite_of(problem.shape, 0),
            bills,
            int(problem.limit),
            growths=growths,
            cold_share=problem.cold,
            remaining_turns=remaining,
        )
        return [math.inf if size is None else size for size in sizes]

    def policy(t: int, sizes: Floats) -> Choice:
        key = round(20 * math.log1p(left[min(t, len(left) - 1)]))  # a rest known to 5 %
        if key not in known:
            known[key] = thresholds(math.expm1(key / 20))
        return Choice(*(sizes >= size for size in known[key]))

    return policy


def growths_of(tokens: Sequence[float]) -> Growths:
    """What turns added, by the kinds of `SIZES`; a kind that none of them is of has no share."""
    kinds = [[one for one in tokens if bisect_right(SIZES, one) - 1 == kind] for kind in range(len(SIZES))]
    return tuple(
        (len(kind) / len(tokens), sum(kind) / len(kind) if kind else low)
        for kind, low in zip(kinds, SIZES, strict=True)
    )
