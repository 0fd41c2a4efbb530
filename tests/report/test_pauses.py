"""What recorded compactions were worth, by hand and on a real session."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from contextkit.analysis.compactions import Advised, advised
from contextkit.cache.usage import Usage
from contextkit.importers.registry import records_in
from contextkit.importers.source import Faults
from contextkit.ledger.calls import Exchange, Record, Remark
from contextkit.ledger.misses import analyzed_calls

START = 1_765_000_000.0


def call(number: int, at: float, read: int, written: int, model: str = "claude-opus-4-5") -> Exchange:
    usage = Usage(0, read, written, 0, 0)
    return Exchange(
        f"s/{number}",
        "s",
        "main",
        START + at,
        START + at + 1,
        START + at + 2,
        "anthropic",
        model,
        None,
        usage,
        None,
        None,
    )


def session(n_after: int) -> Iterator[Record]:
    """100,000 tokens in a hundred steps, cut to 30,000 of which 10,000 are read, then 1,000 more a call."""
    yield call(0, 0, 0, 10_000)
    for number in range(1, 91):
        yield call(number, 20 * number, 9_000 + 1_000 * number, 1_000)
    yield Remark("compaction", "s/91", "summary")
    yield call(91, 1_820, 10_000, 20_000)
    for number in range(1, n_after + 1):
        yield call(91 + number, 1_820 + 20 * number, 29_000 + 1_000 * number, 1_000)


def found(n_after: int) -> Advised:
    return advised(analyzed_calls(session(n_after)), summary_tokens=2_000)


def test_cost_and_savings_by_hand() -> None:
    one = found(40).compactions[0]
    cost = (100_000 * 0.5 + 2_000 * 25 + 10_000 * 0.5 + 20_000 * 6.25 - 100_000 * 0.5) / 1e6
    carry = 70_000 * 0.5 / 1e6
    assert (one.index, one.before_tokens, one.after_tokens, one.turns) == (91, 100_000, 30_000, 40)
    assert one.cost_usd == pytest.approx(cost)
    assert one.saved_usd == pytest.approx(40 * carry)
    assert one.paid_after == 6  # 0.18 over 0.035
    assert one.net_usd == pytest.approx(40 * carry - cost)
    assert one.full_after is None
    assert one.advice.verdict == "now"
    assert one.reached_at is not None and one.reached_at < 91


def test_one_that_came_too_late_is_not_paid() -> None:
    one = found(3).compactions[0]
    assert one.paid_after is None
    assert one.net_usd < 0


def test_what_now() -> None:
    standing = found(60).standings[0]
    assert (standing.context_tokens, standing.after_tokens) == (90_000, 30_000)
    assert standing.sleep.after_seconds is None  # it never paused: who idles now is probably done
    assert standing.advice_cold.cost_usd < standing.advice.cost_usd


def test_models_without_rules_are_named() -> None:
    assert advised(analyzed_calls([call(0, 0, 0, 10, "somebody-elses-7b")])).unknown == ("somebody-elses-7b",)


def test_the_two_compactions_of_a_real_session(shared: Path) -> None:
    told = advised(analyzed_calls(records_in([str(shared / "data" / "pi" / "before-compaction.jsonl")], Faults())))
    first, second = told.compactions
    assert [one.before_tokens for one in (first, second)] == [175_004, 185_014]  # as pi wrote them down
    assert [one.after_tokens for one in (first, second)] == [25_739, 28_617]
    assert [one.advice.verdict for one in (first, second)] == ["now", "now"]
    assert all(one.paid_after and one.net_usd > 10 > one.cost_usd for one in (first, second))
    assert told.standings[0].context_tokens == 168_018
