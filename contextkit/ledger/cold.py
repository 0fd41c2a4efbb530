"""A cold cache: what a call would write anew of what the call before it left, and what that costs.

Takes usages and prices, gives tokens and dollars; knows nothing of caches.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from contextkit.cache.usage import Usage
from contextkit.economics.bill import FREE_WRITES, Price, call_usage
from contextkit.models import Model

COLD_SHARE = 0.5
"""From this share on of what the call before left, unread, a call is cold."""


@dataclass(frozen=True, slots=True)
class ColdCache:
    """A call that is about to pay again for what the cache held after the call before it."""

    lane: str
    """Who makes the call: `main`, a branch or a sub-agent."""
    model: str
    """The model it goes to."""
    n_tokens: int
    """Prompt tokens that would have been read, and are written or processed anew. An estimate."""
    cost_usd: float | None
    """What that costs beyond reading them; None where the model has no price."""
    reason: str
    """`ttl_expired`: the entry has died; any other word of `cache.prefix_cache.Hit.reason`: the prompt is rewritten, as
    by an epoch, or the model is another one."""
    expired_at: float | None
    """When the entry died, seconds since 1970; None where none did."""

    def __str__(self) -> str:
        cost = "at an unknown price" if self.cost_usd is None else f"for ${self.cost_usd:.4f} more than reading them"
        return f"{self.n_tokens:,} tokens are cached no more ({self.reason}) and would be paid for again, {cost}"


OnCold = Callable[[ColdCache], object]
"""Called before a cold call is sent; False stops it, and so does raising."""


def is_cold(n_cached: int, usage: Usage, row: Model) -> bool:
    """Return whether a call with this predicted usage reads too little of `n_cached` tokens that the call before
    left.
    """
    n_missing = n_not_read(n_cached, usage)
    return n_missing >= max(row.min_tokens, 1) and n_missing >= COLD_SHARE * n_cached


def n_not_read(n_cached: int, usage: Usage) -> int:
    """Tokens of a prompt that the call before left in the cache, and this one pays for."""
    return max(min(n_cached, usage.prompt or 0) - (usage.read or 0), 0)


def rewarming_usd(usage: Usage, n_tokens: int, price: Price) -> float | None:
    """What a cold call costs more than one that reads `n_tokens` of what it pays for."""
    return _difference(price(_with_output(usage)), price(_with_output(as_read(usage, n_tokens))))


def at_risk_usd(usage: Usage, row: Model, ttl_seconds: int, price: Price) -> float | None:
    """What a call costs more once the entry that it would read now has died."""
    read = usage.read or 0
    cold = call_usage(0, read, row, ttl_seconds)
    writes = dict(usage.writes or ())
    for ttl, n_tokens in cold.writes or ():
        writes[ttl] = (writes.get(ttl) or 0) + (n_tokens or 0)
    dead = replace(usage, fresh=(usage.fresh or 0) + (cold.fresh or 0), read=0, writes=tuple(sorted(writes.items())))
    return _difference(price(_with_output(dead)), price(_with_output(usage)))


def n_left(usage: Usage, row: Model) -> int:
    """Tokens that a call leaves in the cache, by its bill."""
    if row.cache in FREE_WRITES:
        return usage.with_unknown_writes_as_zero().prompt or 0
    return (usage.read or 0) + (usage.written or 0)


def as_read(usage: Usage, n_tokens: int) -> Usage:
    """Return `usage` with `n_tokens` read that it writes or processes."""
    left, writes = n_tokens, dict(usage.writes or ())
    for ttl in sorted(writes, reverse=True):
        moved = min(left, writes[ttl] or 0)
        writes[ttl] = (writes[ttl] or 0) - moved
        left -= moved
    fresh = max((usage.fresh or 0) - left, 0)
    read = (usage.read or 0) + n_tokens
    return Usage(
        fresh,
        read,
        output=usage.output,
        estimated=usage.estimated,
        service_tier=usage.service_tier,
        writes=writes,
        qualities=usage.qualities,
    )


def _with_output(usage: Usage) -> Usage:
    return replace(usage, output=usage.output or 0)


def _difference(more: float | None, less: float | None) -> float | None:
    return None if more is None or less is None else max(more - less, 0.0)
