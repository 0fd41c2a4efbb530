"""The break-even rate of reading back, against bills added up call by call."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contextkit.cache.usage import Usage
from contextkit.economics.bill import Price, call_usage
from contextkit.economics.read_back import (
    CALL_TOKENS,
    StoredResult,
    break_even_rate,
    reference_cost_usd,
    stay_cost_usd,
)
from contextkit.errors import UsageError
from contextkit.models import Model, model_named
from contextkit.prices import cost_usd

MODELS = ["claude-sonnet-5-5", "gpt-4.1", "gpt-6.1-sol"]
CASES = st.builds(
    StoredResult,
    st.integers(1, 50_000),
    st.integers(0, 500),
    st.integers(0, 80_000),
    st.integers(0, 60),
    st.integers(500, 8_000),
)


def price_of(row: Model) -> Price:
    return lambda usage: cost_usd(row.provider, row.name, usage)


def added_up(result: StoredResult, row: Model, *, is_read: bool) -> float:
    """The bill beside what the conversation costs anyway, call by call."""
    total = 0.0

    def bill(usage: Usage) -> None:
        nonlocal total
        total += cost_usd(row.provider, row.name, usage) or 0.0

    bill(call_usage(0, result.preview_tokens, row))
    carried = result.preview_tokens
    if is_read:
        left = result.result_tokens
        in_window = 0
        while left:
            bill(call_usage(result.prefix_tokens + result.preview_tokens + in_window, 0, row, output=CALL_TOKENS))
            part = min(left, result.read_tokens)
            bill(call_usage(0, part + CALL_TOKENS, row))
            left -= part
            in_window += part + CALL_TOKENS
        carried += result.result_tokens + result.n_reads * CALL_TOKENS
    for _ in range(result.remaining_calls):
        bill(call_usage(carried, 0, row))
    return total


@pytest.mark.parametrize("name", MODELS)
@given(result=CASES)
def test_both_ways_cost_what_their_calls_cost(name: str, result: StoredResult) -> None:
    row = model_named(name)
    price = price_of(row)
    for rate in (0, 1):
        exact = added_up(result, row, is_read=bool(rate))
        assert reference_cost_usd(result, rate, row, price) == pytest.approx(exact, rel=1e-6, abs=1e-9)
    rate = break_even_rate(result, row, price)
    both = reference_cost_usd(result, rate, row, price), stay_cost_usd(result, row, price)
    assert both[0] == pytest.approx(both[1], rel=1e-6, abs=1e-9)


def test_sizes_that_cannot_be_and_a_model_without_a_price_are_refused() -> None:
    with pytest.raises(UsageError, match="read_after"):
        StoredResult(1_000, 100, 0, 3, read_after=4)
    with pytest.raises(UsageError, match="result_tokens"):
        StoredResult(0, 100, 0, 3)
    with pytest.raises(UsageError, match="no price"):
        break_even_rate(StoredResult(1_000, 100, 0, 3), model_named("gpt-4.1"), lambda usage: None)
