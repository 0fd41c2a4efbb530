"""What one call is billed, in the classes its model bills: read, written for so long, or plain input where writing
costs nothing.

Takes tokens and a model's row, gives a `Usage` for a price to be put on. Knows nothing of prompts.
"""

from __future__ import annotations

from collections.abc import Callable

from contextkit.cache.usage import Usage
from contextkit.models import Model

Price = Callable[[Usage], float | None]
"""What a bill costs in dollars; `prices.cost_usd` with provider and model filled in, or a user's own."""

FREE_WRITES = ("implicit", "units")
"""Caches of these kinds bill what they keep as plain input."""


def call_usage(read: int, rest: int, row: Model, ttl_seconds: int | None = None, output: int = 0) -> Usage:
    """A call that reads `read` tokens and leaves the `rest` behind them in the cache too.

    >>> from contextkit.models import model_named
    >>> call_usage(9, 1, model_named("claude-opus-4-5"), 3600), call_usage(9, 1, model_named("gpt-4.1"))
    (Usage(fresh=0, read=9, writes={3600: 1}, output=0), Usage(fresh=1, read=9, writes={}, output=0))
    """
    if row.cache in FREE_WRITES:
        return Usage(rest, read, 0, 0, output)
    return Usage(0, read, output=output, writes={ttl_seconds or row.default_ttl_seconds: rest})
