"""Compares what a call read from the cache with what the call before left there.

`expected_tokens` uses the bills only. Where they disagree, `missing_tokens` replays both bodies through the reference
cache of the model.
"""

from __future__ import annotations

from dataclasses import dataclass

from contextkit.cache.usage import Usage
from contextkit.ledger.verdict import is_shortfall
from contextkit.lint.requests.cost import Costs, left_tokens, lifetime_seconds
from contextkit.lint.requests.rule import Step
from contextkit.models import find_model
from contextkit.providers.histories import named_in


@dataclass(frozen=True, slots=True)
class Answered:
    """A billed call, with which the next one is compared."""

    wire: str
    """Wire format."""
    model: str
    """Model the request names."""
    body: bytes
    """Body as it was sent."""
    at: float
    """Start of the request, in seconds since 1970."""
    began_at: float
    """Start of the response, from which on other calls can read what it wrote."""
    usage: Usage
    """Billed usage."""


def billed(usage: Usage | None, model: str) -> Usage | None:
    """Usage with every part of the prompt known, else None.

    Unreported writes count as 0 where writing to the cache is free.
    """
    row = find_model(model)
    if usage and row and row.cache in ("implicit", "units"):
        usage = usage.with_unknown_writes_as_zero()
    return usage if usage and usage.prompt is not None else None


def expected_tokens(before: Answered | None, model: str, at: float) -> int:
    """Tokens that a call at `at` that only appends should read, by the bill of the call before.

    0 where the model differs, the response before had not begun, or the shortest possible lifetime is over.
    """
    row = find_model(model)
    if before is None or row is None or before.model != model or before.began_at > at:
        return 0
    return left_tokens(before.usage, row) if at - before.at < lifetime_seconds(before.usage, row) else 0


def missing_tokens(step: Step) -> int:
    """Tokens that a call read less than the reference cache predicts; 0 within noise or without a reference.

    The reference counts its own tokens, so the share of the prompt it predicts is applied to the billed size.
    """
    cost, usage = Costs().of(step), step.after.usage
    if cost is None or usage is None or not cost.usage.prompt:
        return 0
    read = usage.read or 0
    is_by_bills = named_in(step.after.params) is not None
    should = (
        read + cost.tokens if is_by_bills else round((cost.usage.read or 0) / cost.usage.prompt * (usage.prompt or 0))
    )
    return should - read if is_shortfall(should, read) else 0
