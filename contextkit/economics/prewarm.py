"""A call that only fills the cache, before several that start together and share what it wrote.

Takes sizes, a model's row and its price, gives dollars. Sends nothing; knows nothing of logs or clients.
"""

from __future__ import annotations

from dataclasses import dataclass

from contextkit.cache.usage import Usage
from contextkit.economics.bill import Price, cold_usage
from contextkit.models import Model


@dataclass(frozen=True, slots=True)
class Prewarm:
    """What a call that only fills the cache costs, and what it is worth."""

    cost_usd: float | None
    """The write; None where the model has no price."""
    saved_usd: float | None
    """What calls that start together save by reading instead of each writing, less the write; negative where it does
    not pay."""


def prewarm(n_tokens: int, n_waiting: int, row: Model, price: Price, ttl_seconds: int | None = None) -> Prewarm:
    """A write with no output before `n_waiting` calls that start together, each of which would else write the shared
    prefix.
    """
    write, read = price(cold_usage(n_tokens, row, ttl_seconds)), price(Usage(0, n_tokens, 0, 0, 0))
    return Prewarm(write, None if write is None or read is None else n_waiting * (write - read) - write)
