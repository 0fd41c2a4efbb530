"""Pings that keep a prefix alive over a gap: how many it takes, what they cost, how many a miss is worth.

Takes sizes, seconds, a model's row and its price, gives counts and dollars. Sends nothing; knows nothing of logs or
clients.
"""

from __future__ import annotations

from dataclasses import dataclass

from contextkit.cache.usage import Usage
from contextkit.economics.bill import Price, cold_usage
from contextkit.models import Model

MARGIN_SECONDS = 30.0
"""How long before an entry dies its ping is sent: time for a queue, a retry and clocks that disagree."""


@dataclass(frozen=True, slots=True)
class KeepAlive:
    """What keeping one prefix alive over one gap takes, and what it is worth."""

    pings: int
    """How many it takes, 0 where the prefix outlives the gap by itself."""
    pings_usd: float | None
    """What they cost together; None where the model has no price."""
    lost_usd: float | None
    """What finding the prefix dead costs more than reading it; 0 where no ping is needed."""

    @property
    def saved_usd(self) -> float | None:
        """What the pings save; negative where the miss is the cheaper of the two; None where the model has no price."""
        return None if self.lost_usd is None or self.pings_usd is None else self.lost_usd - self.pings_usd


def ping_usage(n_tokens: int, n_fresh: int = 0) -> Usage:
    """What one ping is billed: the prefix read, what stands behind its last mark in full, one output token.

    >>> ping_usage(20_000, 12)
    Usage(fresh=12, read=20000, writes={}, output=1)
    """
    return Usage(n_fresh, n_tokens, 0, 0, 1)


def keep_alive(
    gap_seconds: float,
    n_tokens: int,
    ttl_seconds: int,
    row: Model,
    price: Price = lambda _: None,
    margin_seconds: float = MARGIN_SECONDS,
) -> KeepAlive:
    """What it takes to find a prefix of `n_tokens` alive `gap_seconds` after the call that used it last, from start to
    start.

    >>> from contextkit.models import model_named
    >>> [keep_alive(gap, 100_000, 300, model_named("claude-opus-4-5")).pings for gap in (299, 570)]
    [0, 2]
    """
    if gap_seconds < ttl_seconds:
        return KeepAlive(0, 0.0, 0.0)
    pings = int((gap_seconds - ttl_seconds) // interval_seconds(ttl_seconds, margin_seconds)) + 1
    one = price(ping_usage(n_tokens))
    return KeepAlive(pings, None if one is None else pings * one, _lost(n_tokens, row, ttl_seconds, price))


def interval_seconds(ttl_seconds: float, margin_seconds: float = MARGIN_SECONDS) -> float:
    """Seconds from one ping to the next; half the lifetime where the margin would eat more than that."""
    return max(ttl_seconds - margin_seconds, ttl_seconds / 2)


def most_pings(n_tokens: int, ttl_seconds: int, row: Model, price: Price) -> int:
    """How many pings cost no more than the miss they prevent; 0 where even one does not pay, or where the model has no
    price.

    Who stops there pays at most twice what the best choice would have cost, however long the gap turns out.
    """
    lost, one = _lost(n_tokens, row, ttl_seconds, price), price(ping_usage(n_tokens))
    return 0 if lost is None or not one else max(0, int(lost / one + 1e-9))


def _lost(n_tokens: int, row: Model, ttl_seconds: int, price: Price) -> float | None:
    cold, read = price(cold_usage(n_tokens, row, ttl_seconds)), price(Usage(0, n_tokens, 0, 0, 0))
    return None if cold is None or read is None else cold - read
