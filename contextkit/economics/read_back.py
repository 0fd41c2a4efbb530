"""How often a stored result may be read back before keeping it in the window would have been cheaper.

Takes sizes, how many calls are still to come, and a price; gives dollars and a rate. It weighs the bill only: that the
model reads less of what is stored is not in it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from contextkit.economics.bill import Price, call_usage
from contextkit.errors import UsageError
from contextkit.models import Model

CALL_TOKENS = 80
"""Assumed output of a model that asks for a part of a reference: the call and a sentence."""


@dataclass(frozen=True, slots=True)
class StoredResult:
    """A large result, and the conversation it came into."""

    result_tokens: int
    """Its size."""
    preview_tokens: int
    """What stands in the window in its place."""
    prefix_tokens: int
    """The prompt before it, read from the cache by each call that reads the result back."""
    remaining_calls: int
    """Model calls after the first one that sees it."""
    read_tokens: int = 4_000
    """What one call of `read_reference` returns."""
    read_after: int = 0
    """Calls after which it is read back; 0 for at once, where it stays longest."""

    def __post_init__(self) -> None:
        if min(self.result_tokens, self.read_tokens) < 1 or min(self.preview_tokens, self.prefix_tokens) < 0:
            raise UsageError("result_tokens and read_tokens are 1 or more, preview_tokens and prefix_tokens 0 or more")
        if not 0 <= self.read_after <= self.remaining_calls:
            raise UsageError(f"read_after={self.read_after}: a number from 0 to remaining_calls={self.remaining_calls}")

    @property
    def n_reads(self) -> int:
        """Calls it takes to read it back whole."""
        return math.ceil(self.result_tokens / self.read_tokens)


def stay_cost_usd(result: StoredResult, row: Model, price: Price) -> float:
    """What the result costs in the window: written once, read by each call that remains."""
    return _carried(result.result_tokens, result.remaining_calls, row, price)


def reference_cost_usd(result: StoredResult, rate: float, row: Model, price: Price) -> float:
    """What its preview costs, and at a `rate` (0 to 1) the calls that read it back whole, and that it then stays.

    Raises `UsageError` where the model has no price.

    >>> from contextkit.models import model_named
    >>> from contextkit.prices import cost_usd
    >>> row, price = model_named("claude-opus-4-5"), lambda usage: cost_usd("anthropic", "claude-opus-4-5", usage)
    >>> page = StoredResult(10_000, 400, 40_000, 20)
    >>> [round(reference_cost_usd(page, rate, row, price), 4) for rate in (0, 1)], round(stay_cost_usd(page, row, price), 4)
    ([0.0065, 0.2456], 0.1625)
    """
    return _carried(result.preview_tokens, result.remaining_calls, row, price) + rate * _reading_usd(result, row, price)


def break_even_rate(result: StoredResult, row: Model, price: Price) -> float:
    """The share of such results that may be read back before references cost as much as leaving all in the window.

    Above 1 where a reference is cheaper even if each is read back whole, which takes that it is read late.
    """
    saved = stay_cost_usd(result, row, price) - reference_cost_usd(result, 0.0, row, price)
    return saved / _reading_usd(result, row, price)


def _reading_usd(result: StoredResult, row: Model, price: Price) -> float:
    """Reading it back: calls that read the prefix and what of the result is there already; then it is carried on.

    Each call is priced alone, as long prompts have other prices with some providers.
    """
    asked = result.prefix_tokens + result.preview_tokens
    total = 0.0
    for number in range(result.n_reads):
        there = number * (result.read_tokens + CALL_TOKENS)
        total += _dollars(price(call_usage(asked + there, 0, row, output=CALL_TOKENS)))
    n_tokens = result.result_tokens + result.n_reads * CALL_TOKENS
    return total + _carried(n_tokens, result.remaining_calls - result.read_after, row, price)


def _carried(n_tokens: int, n_calls: int, row: Model, price: Price) -> float:
    """Written once, then read by `n_calls` calls."""
    read = _dollars(price(call_usage(n_tokens, 0, row)))
    return _dollars(price(call_usage(0, n_tokens, row))) + n_calls * read


def _dollars(cost: float | None) -> float:
    if cost is None:
        raise UsageError("the model has no price: give a function from usage to dollars, or add the price")
    return cost
