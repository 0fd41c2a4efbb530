"""Whether a bill is what it should be: what the call before left in the cache, against what this one read of it.

Takes two calls and their bills, gives how many tokens are missing. The first look costs nothing: it goes by the bills.
Only where they disagree is the reference cache of the model asked, with both bodies.
"""

from __future__ import annotations

from dataclasses import dataclass

from contextkit.cache.usage import Usage
from contextkit.ledger.misses import is_shortfall
from contextkit.lint.requests.cost import Costs, left_tokens, lifetime_seconds
from contextkit.lint.requests.rule import Step
from contextkit.models import find_model
from contextkit.providers.server_state import named_in


@dataclass(frozen=True, slots=True)
class Answered:
    """A call that was answered: what the next one is judged by."""

    wire: str
    """Its endpoint."""
    model: str
    """As asked."""
    body: bytes
    """As it was sent."""
    at: float
    """When it started."""
    began_at: float
    """When its answer began: from here on others can read what it wrote."""
    usage: Usage
    """What it was billed."""


def billed(usage: Usage | None, model: str) -> Usage | None:
    """A bill with every part of the prompt known, else None: where the cache is free to write nobody reports writes,
    they count 0.
    """
    row = find_model(model)
    if usage and row and row.cache in ("implicit", "units"):
        usage = usage.with_unknown_writes_as_zero()
    return usage if usage and usage.prompt is not None else None


def expected_tokens(before: Answered | None, model: str, at: float) -> int:
    """What a call at `at` that only goes on should read, by the bill of the one before; 0 where nothing can be
    expected.

    Nothing is where the model is another one, the answer before had not begun, or the shortest lifetime it may have
    asked for is over.
    """
    row = find_model(model)
    if before is None or row is None or before.model != model or before.began_at > at:
        return 0
    return left_tokens(before.usage, row) if at - before.at < lifetime_seconds(before.usage, row) else 0


def missing_tokens(step: Step) -> int:
    """How much less a call read than the reference cache says it should; 0 within the noise, and where no reference
    knows.

    The reference counts in its own tokens, so its share of the prompt is what counts, applied to what was billed.
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
