"""Residencies against an exhaustive dynamic program, and in cases that anybody can check by hand."""

from __future__ import annotations

from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contextkit.economics.residency import (
    Outlook,
    Prices,
    Sizes,
    break_even_read_back,
    break_even_read_first,
    costs_usd,
)
from contextkit.models import model_named
from contextkit.prices import cost_usd

SONNET = Prices(2e-6, 2.5e-6, 1e-7, 1e-5)
PRICES = st.builds(
    lambda uncached, write, read, output: Prices(uncached, uncached * write, uncached * read, uncached * output),
    st.floats(1e-7, 1e-5),
    st.sampled_from([1.0, 1.25, 2.0]),
    st.sampled_from([0.025, 0.05, 0.1, 0.25, 0.5]),
    st.floats(2, 8),
)
SIZES = st.builds(
    Sizes,
    st.integers(500, 60_000),
    st.integers(50, 400),
    st.integers(0, 200_000),
    st.integers(0, 300),
    st.just(600),
    st.sampled_from([None, 2_000, 4_000]),
)


def best_usd(sizes: Sizes, need: float, prices: Prices, calls: int, *, can_pass: bool) -> float:
    """The least that any policy costs which has shown the result whole and keeps it out of the window.

    After each call the result may be put into the window for good, or taken out again: every policy is tried.
    """
    n_readings = 1 if sizes.read_tokens is None else -(-sizes.result_tokens // sizes.read_tokens)
    ask = n_readings * (prices.read * sizes.prefix_tokens + (prices.output + prices.written) * sizes.call_tokens)

    @cache
    def least(left: int, is_inside: bool) -> float:
        if left == 0:
            return 0.0
        if is_inside:
            return prices.read * sizes.result_tokens + least(left - 1, True)
        enter = ask + prices.written * sizes.result_tokens + least(left - 1, True)
        glance = ask + prices.uncached * sizes.result_tokens + least(left - 1, False)
        return need * (min(enter, glance) if can_pass else enter) + (1 - need) * least(left - 1, False)

    return least(calls, False)


@given(SIZES, st.floats(0, 0.999), st.integers(0, 120), PRICES, st.booleans())
def test_what_reading_back_costs_is_the_best_any_policy_does(
    sizes: Sizes, read_back: float, calls: int, prices: Prices, can_pass: bool
) -> None:
    need = 1 - (1 - read_back) ** (1 / calls) if calls else 0.0
    costs = costs_usd(sizes, Outlook(calls, read_back, 0.5, can_pass=can_pass), prices)
    shown = prices.uncached * sizes.result_tokens
    preview = sizes.preview_tokens * (prices.written + prices.read * calls)
    assert costs["pass"] == pytest.approx(
        shown + preview + best_usd(sizes, need, prices, calls, can_pass=can_pass), rel=1e-9
    )
    assert costs["stay"] == pytest.approx(sizes.result_tokens * (prices.written + prices.read * calls), rel=1e-9)


@given(SIZES, st.floats(0, 1), st.floats(0, 1), st.integers(0, 60), PRICES)
def test_being_read_more_often_never_costs_less(
    sizes: Sizes, one: float, other: float, calls: int, prices: Prices
) -> None:
    less, more = sorted((one, other))
    rare, often = (costs_usd(sizes, Outlook(calls, 0.0, share), prices)["reference"] for share in (less, more))
    assert rare <= often * (1 + 1e-12)
    rare, often = (costs_usd(sizes, Outlook(calls, share, 0.5), prices)["pass"] for share in (less, more))
    assert rare <= often * (1 + 1e-12)


@given(SIZES, st.integers(1, 60), PRICES)
def test_at_the_break_even_both_cost_the_same(sizes: Sizes, calls: int, prices: Prices) -> None:
    share = break_even_read_back(sizes, calls, prices)
    costs = costs_usd(sizes, Outlook(calls, share, 0.0), prices)
    if 0 < share < 0.999:  # at 1 the cost rises without bound, so a share that is close is no cost that is close
        assert costs["pass"] == pytest.approx(costs["stay"], rel=1e-6)
    elif share == 0:
        assert costs["pass"] >= costs["stay"]
    share = break_even_read_first(sizes, calls, prices)
    costs = costs_usd(sizes, Outlook(calls, 0.0, share), prices)
    if 0 < share < 1:
        assert costs["reference"] == pytest.approx(costs["stay"], rel=1e-6)


def test_a_result_nobody_reads_again_costs_input_once() -> None:
    costs = costs_usd(Sizes(10_000, 400, 0), Outlook(0, 0.0, 0.0), SONNET)
    assert costs["stay"] == pytest.approx(10_000 * 2.5e-6)
    assert costs["pass"] == pytest.approx(10_000 * 2e-6 + 400 * 2.5e-6)
    assert costs["reference"] == pytest.approx(400 * 2.5e-6)


def test_free_writes_cost_plain_input() -> None:
    row = model_named("gpt-4.1")
    prices = Prices.of(lambda usage: cost_usd("openai", "gpt-4.1", usage), row, 1_000)
    assert prices is not None
    assert prices.written == prices.uncached
    assert Prices.of(lambda usage: None, row, 1_000) is None
