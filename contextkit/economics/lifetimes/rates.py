"""What one token costs in each class a call is billed in, at the size a prompt has.

Takes a price and a size, gives dollars a token. Knows nothing of prompts.
"""

from __future__ import annotations

from dataclasses import dataclass

from contextkit.cache.usage import Usage
from contextkit.economics.bill import Price


@dataclass(frozen=True, slots=True)
class Rates:
    """Dollars for one token."""

    fresh: float
    """Neither read nor written."""
    read: float
    """Read from the cache."""
    short: float
    """Written with the short lifetime."""
    long: float
    """Written with the long one."""

    def written(self, *, is_long: bool) -> float:
        """What a written token costs."""
        return self.long if is_long else self.short


def rates_at(n_tokens: int, price: Price) -> Rates | None:
    """What a token costs in a prompt of that size; None where the model has no price.

    >>> from contextkit.prices import cost_usd
    >>> rates = rates_at(10_000, lambda usage: cost_usd("anthropic", "claude-opus-4-5", usage))
    >>> [round(1e6 * rate, 2) for rate in (rates.fresh, rates.read, rates.short, rates.long)]
    [5.0, 0.5, 6.25, 10.0]
    """
    n = max(n_tokens, 1)
    used = (Usage(n, 0, 0, 0, 0), Usage(0, n, 0, 0, 0), Usage(0, 0, n, 0, 0), Usage(0, 0, 0, n, 0))
    fresh, read, short, long = (None if bill is None else bill / n for bill in map(price, used))
    return None if fresh is None or read is None or short is None or long is None else Rates(fresh, read, short, long)
