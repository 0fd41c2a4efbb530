"""Compares what a call read from the cache with what the call before left there.

`expected_tokens` uses the bills only. Where they disagree, `missing_tokens` takes the judge's verdict.
"""

from __future__ import annotations

from dataclasses import dataclass

from contextkit.cache.usage import Usage
from contextkit.ledger.judge import left_tokens, lifetime_seconds
from contextkit.ledger.verdict import Verdict, is_shortfall
from contextkit.models import find_model


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


def missing_tokens(verdict: Verdict) -> int:
    """Tokens that a call read less than the cache held for it; 0 within noise."""
    lost = sum(gap.tokens for gap in verdict.gaps if gap.whose in ("provider", "unexplained"))
    read = verdict.read or 0
    return lost if is_shortfall(read + lost, read) else 0
