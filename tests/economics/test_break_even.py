"""The break-even rule against brute force, and what it says in cases that anybody can check by hand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from contextkit.cache.usage import Usage
from contextkit.economics.break_even import advise, judge, sleep_time
from contextkit.economics.course import Course
from contextkit.economics.rewrite import Bills, Rewrite
from contextkit.economics.rhythm import Outlook, Prior, Rhythm
from contextkit.errors import UsageError
from contextkit.models import model_named
from contextkit.prices import cost_usd
from tests.economics.brute_force import Habits, Problem, Shape, at_share_of, never
from tests.economics.cells import (
    AT,
    RESERVE,
    SHAPES,
    Learning,
    bills_of,
    by_idleness,
    habits_of,
    problem_of,
    recorded,
    rewrite_of,
    rule_for,
    survival,
    table_of,
)
from tests.economics.replayed import Following, Replay, Share, drawn

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


def opus(usage: Usage) -> float | None:
    return cost_usd("anthropic", OPUS.name, usage, AT)


def problem(name: str, ttl: int, habits: str, kind: str, n_sizes: int = 150) -> Problem:
    return problem_of(table_of(name, ttl), HABITS[habits], SHAPES[kind], n_sizes)


@pytest.mark.parametrize("kind", SHAPES)
@pytest.mark.parametrize("habits", HABITS)
def test_within_two_percent_of_dynamic_programming_and_never_above_a_habit(habits: str, kind: str) -> None:
    for name, ttl in TABLES:
        cell = problem(name, ttl, habits, kind)
        best, rule = cell.best(), cell.cost(rule_for(cell))
        habit = min(cell.cost(never), cell.cost(at_share_of(cell.table.window)))
        assert best <= rule * (1 + 1e-9), (name, ttl)
        assert rule <= 1.02 * best, (name, ttl, rule / best)
        assert rule <= 1.005 * habit, (name, ttl, rule / habit)


@pytest.mark.parametrize("kind", SHAPES)
def test_on_recorded_habits(shared: Path, kind: str, pytestconfig: pytest.Config) -> None:
    sessions = recorded(shared / "data" / "claude-code-blocks")
    survives = survival(sessions)
    for name, ttl in TABLES if pytestconfig.getoption("--full") else TABLES[::3]:
        for chosen in list(by_idleness(sessions).values())[:: 1 if pytestconfig.getoption("--full") else 3]:
            cell = problem_of(table_of(name, ttl), habits_of(chosen, survives), SHAPES[kind], 200)
            rule = cell.cost(rule_for(cell))
            assert rule <= 1.02 * cell.best()
            assert rule <= 1.005 * min(cell.cost(never), cell.cost(at_share_of(cell.table.window)))


def test_the_expectation_is_the_mean_of_drawn_sessions_and_nobody_beats_the_clairvoyant() -> None:
    for kind in SHAPES:
        cell = problem("claude-opus-4-5", 300, "pausing", kind, 600)
        replay, policy = Replay(cell.table, cell.shape, cell.limit), rule_for(cell)
        sessions = [drawn(cell.habits, seed) for seed in range(100)]
        paid = [replay.pays(session, Following(policy)) for session in sessions]
        known = [replay.clairvoyant(session) for session in sessions]
        assert np.mean(paid) == pytest.approx(cell.cost(policy), rel=4 * np.std(paid) / np.mean(paid) / 10)
        assert all(least <= one * (1 + 1e-9) for least, one in zip(known, paid, strict=True))


@pytest.mark.parametrize("kind", SHAPES)
def test_learning_from_the_session_alone_saves_in_total(kind: str) -> None:
    table, shape = table_of("claude-opus-4-5", 300), SHAPES[kind]
    replay = Replay(table, shape, table.window - RESERVE)
    sessions = [drawn(HABITS["pausing"], seed)[:70] for seed in (1, 2)]
    total = {
        name: sum(replay.pays(s, make()) for s in sessions)
        for name, make in {
            "rule": lambda: Learning(table, shape),
            "never": lambda: Share(np.inf),
            "share": lambda: Share(160_000.0),
        }.items()
    }
    assert total["rule"] < 0.9 * min(total["never"], total["share"])


def test_the_bill_of_a_rewrite_by_hand() -> None:
    bills = Bills(OPUS, opus, 300)
    summary = (120_000 * 0.5 + 3_000 * 25) / 1e6
    writes = (16_000 * 0.5 + 24_000 * 6.25) / 1e6
    assert bills.rewritten(BIG, 0, is_cold=False) == pytest.approx(summary + writes)
    assert bills.stay(120_000, 0, is_cold=False) == pytest.approx(0.06)
    found = judge(BIG, Outlook(50.0, ((1.0, 0.0),), 0.0, 0.0, 0.0, 270.0), bills, 180_000)
    assert found.cost_usd == pytest.approx(summary + writes - 0.06)
    assert found.carry_usd == pytest.approx(80_000 * 0.5 / 1e6)
    assert found.pays_after_turns == pytest.approx((summary + writes - 0.06) / 0.04)
    cold = (120_000 * 5 + 3_000 * 25 + 40_000 * 6.25) / 1e6  # nothing marked, nothing read: all input, then all written
    assert bills.rewritten(BIG, 0, is_cold=True) == pytest.approx(cold)
    assert bills.stay(120_000, 0, is_cold=True) == pytest.approx(0.75)


def test_now_wait_and_never() -> None:
    rhythm = Rhythm()
    small, large, done = BIG.at(52_000), BIG.at(150_000), Rhythm(Prior(remaining_turns=0.5))
    assert [advise(one, rhythm, OPUS, opus).verdict for one in (small, large)] == ["wait", "now"]
    assert advise(large, done, OPUS, opus).verdict == "never"
    full = advise(BIG.at(183_500), done, OPUS, opus)
    assert (full.verdict, full.saved_usd) == ("now", None)
    assert "window is full" in full.reason
    assert (
        advise(replace(BIG, rewritten_tokens=110_000, context_tokens=120_000), rhythm, OPUS, opus).verdict != "now"
    )  # removes nothing


def test_a_cold_window_is_preferred_where_a_rewrite_costs_nothing_in_it() -> None:
    prune, rhythm = Rewrite(60_000, 16_000, 24_000), Rhythm()
    warm, cold = (advise(prune, rhythm, OPUS, opus, is_cold=is_cold) for is_cold in (False, True))
    assert (warm.verdict, cold.verdict) == ("wait", "now")
    assert cold.cost_usd < 0 < warm.cost_usd
    assert "misses anyway" in cold.reason
    assert warm.cold_tokens == pytest.approx(40_000)
    assert warm.warm_tokens is not None and warm.warm_tokens > 60_000


def test_sleep_time_comes_before_the_lapse_for_a_summary_and_after_it_for_references() -> None:
    for ttl in OPUS.ttls_seconds:
        summary, prune = (
            sleep_time(
                BIG.at(90_000) if n else replace(BIG, summary_output_tokens=0), Rhythm(), OPUS, opus, ttl_seconds=ttl
            )
            for n in (1, 0)
        )
        assert (summary.after_seconds, prune.after_seconds) == (ttl - 30, ttl)
        assert summary.saved_usd > 0 and prune.saved_usd > 0
    assert sleep_time(BIG.at(42_000), Rhythm(), OPUS, opus).after_seconds is None


def test_the_more_there_is_to_come_the_sooner_it_pays() -> None:
    sizes = [
        advise(BIG, Rhythm(Prior(remaining_turns=turns)), OPUS, opus).warm_tokens for turns in (10, 20, 40, 80, 160)
    ]
    assert all(size is not None for size in sizes)
    assert sizes == sorted(sizes, reverse=True)  # type: ignore[type-var]


def test_a_penalty_keeps_the_history_longer() -> None:
    plain, shy = (advise(replace(BIG, penalty_usd=usd), Rhythm(), OPUS, opus).warm_tokens for usd in (0.0, 0.25))
    assert plain and shy and shy > plain + 10_000


def test_the_price_step_of_a_large_prompt_is_seen() -> None:
    sol = table_of("gpt-5.6-sol", 1800)
    course = Course(
        rewrite_of(Shape(rewritten=230_000.0), 0), Rhythm().outlook(1800), bills_of(sol), sol.window - RESERVE
    )
    now, wait = course.before_call(271_999, is_cold=False)
    assert course.before_call(273_500, is_cold=False)[0] > now  # the summary itself is then billed at the upper tier
    assert wait > now


def test_the_same_twice() -> None:
    assert advise(BIG, Rhythm(), OPUS, opus) == advise(BIG, Rhythm(), OPUS, opus)


def test_what_cannot_be_answered_is_refused() -> None:
    with pytest.raises(UsageError, match="no price for claude-opus-4-5"):
        advise(BIG, Rhythm(), OPUS, lambda usage: None)
    with pytest.raises(UsageError, match="keep a shorter tail"):
        advise(Rewrite(150_000, 100_000, 90_000), Rhythm(), OPUS, opus)
    with pytest.raises(UsageError, match="at most context_tokens"):
        Rewrite(10, 11, 0)


def test_whatever_the_numbers_there_is_an_answer_with_its_money() -> None:
    dice = np.random.default_rng(11)
    rows = [model_named(name) for name, _ in TABLES]
    for _ in range(25):
        row = rows[dice.integers(len(rows))]
        unchanged, summary = int(dice.integers(0, 60_000)), int(dice.choice([0, 1, 3_000]))
        rewrite = Rewrite(
            unchanged + int(10 ** dice.uniform(0, 6)), unchanged, int(dice.integers(0, 60_000)) + summary, summary
        )
        rhythm = Rhythm(Prior(remaining_turns=float(10 ** dice.uniform(-2, 4))))
        rhythm.see_all(
            (float(10 ** dice.uniform(-1, 6)), float(10 ** dice.uniform(0, 6)))
            for _ in range(int(dice.integers(0, 20)))
        )
        bills = Bills(row, lambda usage, row=row: cost_usd(row.provider, row.name, usage, AT), row.default_ttl_seconds)
        found = advise(rewrite, rhythm, row, bills.price)
        assert found.verdict in ("now", "wait", "never") and found.reason
        assert np.isfinite([found.cost_usd, found.carry_usd, found.saved_usd or 0.0]).all()
        assert found.verdict != "now" or found.saved_usd is None or found.saved_usd >= 0
