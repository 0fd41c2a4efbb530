"""The break-even sizes against brute force, and in cases that anybody can check by hand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from contextkit.cache.usage import Usage
from contextkit.economics.break_even import OUTPUT_RESERVE, pays_from
from contextkit.economics.rewrite import Bills, Rewrite
from contextkit.economics.rhythm import Prior, Rhythm
from contextkit.errors import UsageError
from contextkit.models import Model, model_named
from contextkit.prices import cost_usd
from tests.economics.brute_force import Habits, Problem, at_share_of, never
from tests.economics.cells import (
    AT,
    SHAPES,
    by_idleness,
    habits_of,
    problem_of,
    recorded,
    rule_for,
    survival,
    table_of,
)
from tests.scale import cases, n_examples

OPUS = model_named("claude-opus-4-5")
BIG = Rewrite(120_000, 16_000, 24_000, 3_000)
TABLES = (
    ("claude-opus-4-5", 300),
    ("claude-opus-4-5", 3600),
    ("gpt-5.2", 86_400),
    ("gpt-5.6-sol", 1800),
    ("deepseek-v4-pro", 3600),
)
QUICK = (20.0,) * 95
HABITS = {
    "busy": Habits((8.0, 20.0, 40.0), (300.0, 900.0, 3_000.0), (0.98,) * 200),
    "pausing": Habits((*QUICK, 290.0, 400.0, 1_200.0, 5_000.0, 90_000.0), (1_500.0,), (0.98,) * 200),
    "mostly idle": Habits((20.0, 700.0, 4_000.0), (2_500.0,), (0.9,) * 80),
    "short": Habits(QUICK, (2_000.0,), (0.6,) * 20),
    "large files": Habits((*QUICK, 400.0), (*(500.0,) * 40, 9_000.0, 120_000.0), (0.98,) * 200),
    "creeping": Habits((*QUICK, 600.0), (60.0,), (0.99,) * 300),
    "Lindy": Habits((*QUICK, 600.0, 9_000.0), (800.0, 4_000.0), tuple(1 - 2 / (t + 8) for t in range(1, 60))),
}


SOME = TABLES[::3]
"""A short lifetime and a long one: the tables tried by default."""


def opus(usage: Usage) -> float | None:
    return cost_usd("anthropic", OPUS.name, usage, AT)


def problem(name: str, ttl: int, habits: str, kind: str, n_sizes: int = 150) -> Problem:
    return problem_of(table_of(name, ttl), HABITS[habits], SHAPES[kind], n_sizes)


@pytest.mark.parametrize("kind", SHAPES)
@pytest.mark.parametrize("habits", HABITS)
def test_within_two_percent_of_dynamic_programming_and_never_above_a_habit(habits: str, kind: str) -> None:
    for name, ttl in cases(SOME, TABLES):
        cell = problem(name, ttl, habits, kind)
        best, rule = cell.best(), cell.cost(rule_for(cell))
        habit = min(cell.cost(never), cell.cost(at_share_of(cell.table.window)))
        assert best <= rule * (1 + 1e-9), (name, ttl)
        assert rule <= 1.02 * best, (name, ttl, rule / best)
        assert rule <= 1.005 * habit, (name, ttl, rule / habit)


@pytest.mark.parametrize("kind", SHAPES)
def test_on_recorded_habits(shared: Path, kind: str) -> None:
    sessions = recorded(shared / "data" / "claude-code-blocks")
    survives = survival(sessions)
    for name, ttl in cases(SOME, TABLES):
        for chosen in list(by_idleness(sessions).values())[:: n_examples(3, 1)]:
            cell = problem_of(table_of(name, ttl), habits_of(chosen, survives), SHAPES[kind], 200)
            rule = cell.cost(rule_for(cell))
            assert rule <= 1.02 * cell.best()
            assert rule <= 1.005 * min(cell.cost(never), cell.cost(at_share_of(cell.table.window)))


def sizes(rewrite: Rewrite, rhythm: Rhythm, row: Model = OPUS) -> tuple[float | None, float | None]:
    bills = Bills(row, lambda usage: cost_usd(row.provider, row.name, usage, AT), row.default_ttl_seconds)
    return pays_from(
        rewrite,
        bills,
        row.window_tokens - OUTPUT_RESERVE,
        growths=rhythm.growths,
        cold_share=rhythm.longer_than(row.default_ttl_seconds),
        remaining_turns=rhythm.remaining_turns,
    )


def test_the_bill_of_a_rewrite_by_hand() -> None:
    bills = Bills(OPUS, opus, 300)
    assert bills.summary(BIG, is_cold=False) == pytest.approx((120_000 * 0.5 + 3_000 * 25) / 1e6)
    assert bills.after(BIG, 0, is_cold=False) == pytest.approx((16_000 * 0.5 + 24_000 * 6.25) / 1e6)
    assert bills.stay(120_000, 0, is_cold=False) == pytest.approx(0.06)
    # nothing marked, nothing read: all input, then all written
    assert bills.summary(BIG, is_cold=True) == pytest.approx((120_000 * 5 + 3_000 * 25) / 1e6)
    assert not bills.leaves_warm(BIG, is_cold=True)
    assert bills.stay(120_000, 0, is_cold=True) == pytest.approx(0.75)


def test_references_pay_at_once_in_a_cold_window() -> None:
    warm, cold = sizes(replace(BIG, summary_output_tokens=0), Rhythm())
    assert cold == pytest.approx(40_000) and warm is not None and warm > 60_000


def test_the_more_there_is_to_come_the_sooner_it_pays() -> None:
    found = [sizes(BIG, Rhythm(Prior(remaining_turns=turns)))[0] for turns in (10, 20, 40, 80, 160)]
    assert all(found) and found == sorted(found, reverse=True)  # type: ignore[type-var]
    assert sizes(BIG, Rhythm(Prior(remaining_turns=0.5)))[0] is None


def test_a_penalty_keeps_the_history_longer() -> None:
    plain, shy = (sizes(replace(BIG, penalty_usd=usd), Rhythm())[0] for usd in (0.0, 0.25))
    assert plain and shy and shy > plain + 10_000


def test_what_cannot_be_answered_is_refused() -> None:
    with pytest.raises(UsageError, match="no price for claude-opus-4-5"):
        pays_from(
            BIG, Bills(OPUS, lambda _: None, 300), 180_000, growths=((1.0, 9.0),), cold_share=0, remaining_turns=9
        )
    with pytest.raises(UsageError, match="keep a shorter tail"):
        sizes(Rewrite(150_000, 100_000, 90_000), Rhythm())
    with pytest.raises(UsageError, match="at most context_tokens"):
        Rewrite(10, 11, 0)


def test_whatever_the_numbers_the_sizes_are_within_the_window() -> None:
    dice = np.random.default_rng(11)
    rows = [model_named(name) for name, _ in TABLES]
    for _ in range(25):
        row = rows[dice.integers(len(rows))]
        unchanged, summary = int(dice.integers(0, 60_000)), int(dice.choice([0, 1, 3_000]))
        rewrite = Rewrite(unchanged, unchanged, int(dice.integers(0, 60_000)) + summary, summary)
        rhythm = Rhythm(Prior(remaining_turns=float(10 ** dice.uniform(-2, 4))))
        for _ in range(int(dice.integers(0, 20))):
            rhythm.see(float(10 ** dice.uniform(-1, 6)), float(10 ** dice.uniform(0, 6)))
        for size in sizes(rewrite, rhythm, row):
            assert size is None or rewrite.after_tokens <= size <= row.window_tokens - OUTPUT_RESERVE
