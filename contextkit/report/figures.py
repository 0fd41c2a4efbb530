"""The series behind the figures of a report: pure functions over a `Summary`.

Takes a `Summary`, gives numbers and short strings of block characters. Knows nothing of terminals, pages or colours.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from contextkit.cache.usage import Usage, ttl_name
from contextkit.ledger.summary import Summary

RAMP = "▁▂▃▄▅▆▇█"
"""From 0 to 1."""
ASCII_RAMP = "_.:-=+*#"
"""The same where blocks cannot be shown."""
UNKNOWN = "·"
"""Stands for a value nobody knows; a dot, as a blank would look like zero."""
ASCII_UNKNOWN = "?"
"""The same where the dot cannot be shown."""


@dataclass(frozen=True, slots=True)
class Loss:
    """All misses of one cause."""

    cause: str
    """As in `Miss.cause`."""
    n: int
    """How many."""
    lost_tokens: int
    """What they lost together."""
    cost_usd: float | None
    """What that cost; None where a price is unknown."""


def buckets(values: Sequence[float | None], width: int) -> list[float | None]:
    """At most `width` means of neighbouring values, unknown ones left out; None for a bucket of unknowns only.

    >>> buckets([1.0, 0.0, None, None, 0.5], 3)
    [1.0, 0.0, 0.5]
    """
    n = min(width, len(values))
    cuts = [i * len(values) // n for i in range(n + 1)] if n > 0 else [0]
    return [_mean(values[start:end]) for start, end in pairwise(cuts)]


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def sparkline(values: Sequence[float | None], width: int, *, is_ascii: bool = False) -> str:
    """Values from 0 to 1 as one line of at most `width` characters.

    >>> sparkline([0.0, None, 0.5, 1.0], 10)
    '▁·▅█'
    """
    ramp, unknown = (ASCII_RAMP, ASCII_UNKNOWN) if is_ascii else (RAMP, UNKNOWN)
    return "".join(unknown if value is None else _step(value, ramp) for value in buckets(values, width))


def _step(value: float, ramp: str) -> str:
    return ramp[min(len(ramp) - 1, max(0, int(value * len(ramp))))]


def shares(usage: Usage) -> list[tuple[str, float]]:
    """What the input was billed as, in parts of 1; empty where a part is unknown or nothing was sent.

    >>> shares(Usage(fresh=1, read=90, writes={300: 9}))
    [('read', 0.9), ('write 5m', 0.09), ('fresh', 0.01)]
    """
    total = usage.prompt
    if not total:
        return []
    writes = [(f"write {ttl_name(ttl)}", tokens) for ttl, tokens in usage.writes or ()]
    parts = [("read", usage.read), *writes, ("fresh", usage.fresh)]
    return [(name, part / total) for name, part in parts if part]


def losses(summary: Summary) -> list[Loss]:
    """Misses that lost something, by cause, the most tokens first."""
    causes = dict.fromkeys(miss.cause for miss in summary.losses)
    found = [_loss(summary, cause) for cause in causes]
    return sorted(found, key=lambda loss: -loss.lost_tokens)


def _loss(summary: Summary, cause: str) -> Loss:
    same = [miss for miss in summary.losses if miss.cause == cause]
    costs = [miss.cost_usd for miss in same if miss.cost_usd is not None]
    return Loss(
        cause, len(same), sum(miss.lost_tokens for miss in same), sum(costs) if len(costs) == len(same) else None
    )
