"""What a summary says, and what it refuses to say."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contextkit.cache.usage import Usage
from contextkit.canonical import canonical
from contextkit.ledger.calls import ModelCall
from contextkit.ledger.ledger import Ledger
from contextkit.ledger.summary import summarise
from contextkit.report.json import summary_json


def ledger(*calls: tuple[str, Usage | None], lane: str = "main") -> Ledger:
    made = Ledger()
    for number, (model, usage) in enumerate(calls):
        at = 1_764_000_000.0 + 30 * number
        made.append(ModelCall(f"m{number}", "s", lane, at, at + 1, at + 2, "anthropic", model, None, usage, None, None))
    return made


OPUS = "claude-opus-4-5"
FIRST, SECOND = Usage(0, 0, 100_000, 0, 1_000), Usage(0, 100_000, 10_000, 0, 1_000)


def test_the_one_line() -> None:
    # 0.5 read, 6.25 write, 5 input, 25 output: (110,000 * 6.25 + 100,000 * 0.5 + 2,000 * 25) / 1e6 of (210,000 * 5 +
    # 50,000) / 1e6
    summary = summarise(ledger((OPUS, FIRST), (OPUS, SECOND)))
    assert str(summary) == "47.6 % of input read from cache · $0.79 spent · $0.31 saved · 0 misses"
    assert summary.hit_rate == pytest.approx(100_000 / 210_000)
    assert (summary.cost_usd, summary.cost_uncached_usd) == (pytest.approx(0.7875), pytest.approx(1.1))
    assert summary.hit_rates == (0.0, pytest.approx(10 / 11))


def test_unknown_usage_is_counted_as_unknown() -> None:
    summary = summarise(ledger((OPUS, FIRST), (OPUS, None), (OPUS, Usage(None, 5, 5, 5, 5))))
    assert (summary.calls, summary.calls_with_usage) == (3, 1)
    assert str(summary).endswith("usage unknown for 2 of 3 calls")
    assert summary.usage == FIRST
    assert summary.hit_rates == (0.0, None, None)


def test_rows_by_model_and_lane() -> None:
    made = ledger((OPUS, FIRST), ("claude-sonnet-4-5", FIRST), (OPUS, SECOND))
    made.append(ModelCall("x", "t", "side", 0.0, None, None, "anthropic", OPUS, None, SECOND, None, None))
    summary = summarise(made)
    assert [(row.name, row.calls) for row in summary.models] == [(OPUS, 3), ("claude-sonnet-4-5", 1)]
    assert [(row.name, row.calls) for row in summary.lanes] == [("s/main", 3), ("t/side", 1)]
    assert sum(row.cost_usd or 0 for row in summary.models) == pytest.approx(summary.cost_usd)


counts = st.integers(0, 10**6)


@given(
    st.lists(
        st.tuples(
            st.sampled_from([OPUS, "my-model"]), st.none() | st.builds(Usage, counts, counts, counts, counts, counts)
        )
    )
)
def test_totals_are_sums_and_json_is_json(calls: list[tuple[str, Usage | None]]) -> None:
    summary = summarise(ledger(*calls))
    known = [usage for _, usage in calls if usage]
    assert summary.usage.prompt == sum(usage.prompt or 0 for usage in known)
    assert summary.hit_rate is None or 0 <= summary.hit_rate <= 1
    assert json.loads(canonical(summary_json(summary)))["total"]["calls"] == len(calls)
    assert str(summary)


# Recorded costs and placeholder outputs
# ---------------------------------------------------------------------------------------------------------------------


def recorded(*calls: tuple[str, Usage | None, float | None]) -> Ledger:
    made = Ledger()
    for number, (model, usage, usd) in enumerate(calls):
        at = 1_764_000_000.0 + 30 * number
        call = ModelCall(f"m{number}", "s", "main", at, at + 1, at + 2, "anthropic", model, None, usage, None, None)
        made.append(replace(call, billed_usd=usd))
    return made


def test_a_recorded_cost_comes_before_the_list_price_and_what_was_saved_stays_at_list_prices() -> None:
    listed, made = summarise(ledger((OPUS, FIRST), (OPUS, SECOND))), recorded((OPUS, FIRST, None), (OPUS, SECOND, 3.0))
    summary = summarise(made)
    # 100,000 written at 6.25 and 1,000 generated at 25 a million
    assert summary.cost_usd == pytest.approx(3.0 + 0.65)
    assert (summary.total.list_cost_usd, summary.cost_uncached_usd) == (listed.cost_usd, listed.cost_uncached_usd)
    assert summary.saved_usd == listed.saved_usd
    assert str(summary).startswith("47.6 % of input read from cache · $3.65 spent · $0.31 saved")
    sums = summary.total.recorded
    assert (sums.calls, sums.usd, sums.calls_with_list_price, sums.comparable_usd) == (1, 3.0, 1, 3.0)
    assert sums.list_usd == pytest.approx(0.7875 - 0.65)
    assert [miss.cost_usd for miss in summary.misses] == [miss.cost_usd for miss in listed.misses]


def test_a_model_without_a_list_price_costs_what_was_recorded() -> None:
    summary = summarise(recorded(("my-model", FIRST, 0.25), ("my-model", SECOND, 0.5)))
    assert (summary.cost_usd, summary.saved_usd, summary.total.list_cost_usd) == (0.75, None, None)
    assert summary.models_without_price == ()
    assert not summary.total.is_cost_lower_bound
    assert str(summary) == "47.6 % of input read from cache · $0.75 spent · 0 misses"
    sums = summary.total.recorded
    assert (sums.calls, sums.calls_with_list_price, sums.comparable_usd, sums.list_usd) == (2, 0, None, None)


def test_of_a_model_without_a_list_price_only_the_calls_without_a_recorded_cost_are_unpriced() -> None:
    summary = summarise(recorded(("my-model", FIRST, 0.25), ("my-model", SECOND, None)))
    assert (summary.cost_usd, summary.total.calls_without_price) == (0.25, 1)
    assert summary.models_without_price == ("my-model",)
    assert summary.total.is_cost_lower_bound


def test_a_recorded_cost_counts_where_the_tokens_are_unknown_and_hides_no_unpriced_call() -> None:
    # aider and OpenHands write down dollars of calls whose input nobody knows
    summary = summarise(recorded((OPUS, None, 0.25), ("my-model", SECOND, None)))
    assert (summary.cost_usd, summary.total.calls_with_price, summary.calls_with_usage) == (0.25, 1, 1)
    assert summary.total.is_cost_lower_bound


def test_a_recorded_cost_of_0_is_a_cost() -> None:
    summary = summarise(recorded((OPUS, FIRST, 0.0)))
    assert summary.cost_usd == 0.0
    assert summary.total.recorded.usd == 0.0


def test_placeholder_outputs_are_counted_beside_the_sums_and_not_in_them() -> None:
    whole, cut = Usage(0, 0, 100_000, 0, 1_000), Usage(0, 100_000, 0, 0, 10).with_partial_output()
    made = Ledger()
    for number, (usage, estimate) in enumerate([(whole, None), (cut, 2_010), (cut, None)]):
        at = 1_764_000_000.0 + 30 * number
        call = ModelCall(f"m{number}", "s", "main", at, at + 1, at + 2, "anthropic", OPUS, None, usage, None, None)
        made.append(replace(call, output_estimate=estimate))
    summary = summarise(made)
    sums = summary.total.placeholders
    assert (sums.calls, sums.tokens, sums.calls_estimated, sums.tokens_estimated) == (2, 20, 1, 2_010)
    assert sums.hidden_usd == pytest.approx(2_000 * 25e-6)
    assert summary.usage.output == 1_020
    assert summary.total.is_cost_lower_bound
    # 100,000 written, 200,000 read, 1,020 generated
    assert summary.cost_usd == pytest.approx((100_000 * 6.25 + 200_000 * 0.5 + 1_020 * 25) / 1e6)


def test_a_placeholder_whose_cost_is_recorded_makes_no_lower_bound_of_the_dollars() -> None:
    cut = Usage(0, 0, 100_000, 0, 10).with_partial_output()
    call = ModelCall("m", "s", "main", 1_764_000_000.0, None, None, "anthropic", OPUS, None, cut, None, None)
    made = Ledger()
    made.append(replace(call, output_estimate=2_010, billed_usd=0.7))
    row = summarise(made).total
    assert (row.cost_usd, row.is_cost_lower_bound) == (0.7, False)
    assert (row.placeholders.calls, row.placeholders.hidden_usd) == (1, None)
