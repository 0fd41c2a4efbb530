"""Where a large tool result lives: in the window, shown once, behind a reference, or read by a side call.

Four residencies, priced for one result of `result_tokens` that may be needed again in the calls to come:

- *stay*: the result is written to the cache and read by every later call.
- *pass*: the first request after the result holds it whole behind the last breakpoint, so that it is billed as uncached
  input and not written. From the next request on a preview stands in its place.
- *reference*: a preview stands there from the start.
- *delegate*: a side call on the shared prefix reads the result whole and returns an extract, which stands in its place.

A result that is not in the window may be read back. That takes one more call, or several where one reads less than the
result: each reads the prefix, and the result is shown again as *stay* or *pass*, whichever costs less and is allowed.
`need` is the chance that a call needs a result it cannot see, the same for every call, so the expected cost follows from
a recursion over the calls to come.

Only dollars are weighed. What a model does worse without a result in its window is not known here, and neither is the
compaction that a fuller window brings forward.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from contextkit.cache.usage import Usage
from contextkit.economics.bill import FREE_WRITES, Price
from contextkit.economics.lifetime import rates_at
from contextkit.models import Model

ResidencyKind = Literal["stay", "pass", "reference", "delegate"]
"""How one result lives."""
MOST_CALLS = 400
"""Calls to come that are looked at; later ones change no choice."""


@dataclass(frozen=True, slots=True)
class Prices:
    """Dollars for one token."""

    uncached: float
    """Sent behind the last breakpoint."""
    written: float
    """Written to the cache; equal to `uncached` where writes cost nothing."""
    read: float
    """Read from the cache."""
    output: float
    """Generated."""

    @classmethod
    def of(cls, price: Price, model: Model, n_tokens: int, ttl_seconds: int | None = None) -> Prices | None:
        """The prices of a model for prompts of `n_tokens`; None where it has no price."""
        rates, n = rates_at(n_tokens, price), 1_000_000
        output = price(Usage(0, 0, 0, 0, n))
        if rates is None or output is None:
            return None
        is_long = (ttl_seconds or model.default_ttl_seconds) > model.default_ttl_seconds
        written = rates.fresh if model.cache in FREE_WRITES else rates.written(is_long=is_long)
        return cls(rates.fresh, written, rates.read, output / n)


@dataclass(frozen=True, slots=True)
class Sizes:
    """Tokens of one result and of what surrounds it."""

    result_tokens: int
    """The whole result."""
    preview_tokens: int
    """What stands in its place."""
    prefix_tokens: int
    """The prompt before it, which every further call reads."""
    call_tokens: int = 120
    """What a model generates to read something back; an assumption."""
    extract_tokens: int = 600
    """What a side call returns; an assumption."""
    read_tokens: int | None = None
    """What one call reads back at most; None for the whole result."""

    @property
    def n_readings(self) -> int:
        """Calls that it takes to read the whole result back."""
        return 1 if not self.read_tokens else max(1, -(-self.result_tokens // self.read_tokens))


@dataclass(frozen=True, slots=True)
class Outlook:
    """How often the result will be needed."""

    calls_to_come: int
    """Calls after the one that follows the result."""
    read_back: float = 0.1
    """Chance that a result which was seen whole is read again in the calls to come."""
    read_first: float = 0.5
    """Chance that a result of which only a preview was seen is read at all."""
    can_pass: bool = True
    """Whether what is read back may be shown once; it stays in the window otherwise."""


def costs_usd(sizes: Sizes, outlook: Outlook, prices: Prices) -> dict[ResidencyKind, float]:
    """Expected dollars that the result adds to this and all later calls, for each residency.

    >>> prices = Prices(uncached=2e-6, written=2.5e-6, read=1e-7, output=1e-5)
    >>> page = Sizes(result_tokens=12_000, preview_tokens=400, prefix_tokens=20_000)
    >>> costs = costs_usd(page, Outlook(calls_to_come=50, read_back=0.0), prices)
    >>> [(name, round(costs[name], 3)) for name in ("stay", "pass")]
    [('stay', 0.09), ('pass', 0.027)]
    """
    n = min(max(outlook.calls_to_come, 0), MOST_CALLS)
    preview = _living(sizes.preview_tokens, n, prices)
    extract = _living(sizes.preview_tokens + sizes.extract_tokens, n, prices)
    again = _reading_back(sizes, outlook, prices, n)
    shown = prices.uncached * sizes.result_tokens
    stay, glance = _living(sizes.result_tokens, n, prices), shown + again[n]
    first = outlook.read_first * (_call(sizes, prices) + (min(stay, glance) if outlook.can_pass else stay))
    asking = prices.read * sizes.prefix_tokens + prices.output * sizes.extract_tokens
    return {
        "stay": stay,
        "pass": shown + preview + again[n],
        "reference": preview + first + (1 - outlook.read_first) * again[n],
        "delegate": asking + shown + extract + again[n],
    }


def break_even_read_back(sizes: Sizes, calls_to_come: int, prices: Prices) -> float:
    """The chance of being read back up to which *pass* costs less than *stay*; 0 where it never does, 1 where always.

    >>> prices = Prices(uncached=2e-6, written=2.5e-6, read=1e-7, output=1e-5)
    >>> round(break_even_read_back(Sizes(12_000, 400, 20_000), 50, prices), 2)
    0.9
    """
    return _break_even("pass", "stay", sizes, calls_to_come, prices)


def break_even_read_first(
    sizes: Sizes, calls_to_come: int, prices: Prices, against: ResidencyKind = "stay", *, can_pass: bool = True
) -> float:
    """The chance of being read at all up to which *reference* costs less than *stay* (or *pass*)."""
    return _break_even("reference", against, sizes, calls_to_come, prices, can_pass=can_pass)


def _break_even(
    one: ResidencyKind,
    other: ResidencyKind,
    sizes: Sizes,
    calls_to_come: int,
    prices: Prices,
    *,
    can_pass: bool = True,
) -> float:
    """The largest chance at which `one` costs less than `other`; both costs rise with it, their difference too."""

    def gain(chance: float) -> float:
        chances = (chance, 0.0) if one == "pass" else (0.0, chance)
        outlook = Outlook(calls_to_come, *chances, can_pass=can_pass)
        costs = costs_usd(sizes, outlook, prices)
        return costs[other] - costs[one]

    if gain(0.0) <= 0:
        return 0.0
    if gain(1.0) > 0:
        return 1.0
    low, high = 0.0, 1.0
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if gain(middle) > 0 else (low, middle)
    return low


def _living(n_tokens: int, calls: int, prices: Prices) -> float:
    """Written once, and read by `calls` calls."""
    return n_tokens * (prices.written + prices.read * calls)


def _call(sizes: Sizes, prices: Prices) -> float:
    """The calls that read a result back: each reads the prefix, and what the model generates becomes part of it."""
    return sizes.n_readings * (prices.read * sizes.prefix_tokens + (prices.output + prices.written) * sizes.call_tokens)


def _reading_back(sizes: Sizes, outlook: Outlook, prices: Prices, n: int) -> list[float]:
    """Expected dollars of reading the result back, by the number of calls that are still to come."""
    need = 1 - (1 - min(outlook.read_back, 1 - 1e-9)) ** (1 / n) if n else 0.0
    call, shown = _call(sizes, prices), prices.uncached * sizes.result_tokens
    costs = [0.0]
    for left in range(1, n + 1):
        stay, glance = _living(sizes.result_tokens, left - 1, prices), shown + costs[left - 1]
        anew = call + (min(stay, glance) if outlook.can_pass else stay)
        costs.append(need * anew + (1 - need) * costs[left - 1])
    return costs
