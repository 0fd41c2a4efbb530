"""Which lifetime a lane's entries should be written with, from its gaps and sizes alone.

Takes the turns of one lane as numbers, a model's row and its price, gives each lifetime with its bill, the cheapest first. A longer
lifetime costs more a token written and saves the writes after gaps that the shorter one does not outlive. Knows nothing of logs.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from contextkit.cache.usage import WRITE_CLASSES, Usage
from contextkit.economics.fanout import Price
from contextkit.models import Model


@dataclass(frozen=True, slots=True)
class Turn:
    """One call of a lane."""

    gap_seconds: float
    """From the start of the call before to its own start; infinite for the first."""
    prefix_tokens: int
    """What the calls before left in the cache, if it is still alive."""
    new_tokens: int
    """What it adds to that."""


@dataclass(frozen=True, slots=True)
class Lifetime:
    """One lifetime that can be asked for."""

    ttl_seconds: int
    """How long an entry lives after it was written or read."""
    cost_usd: float | None
    """The bill of the turns' input; None where the model has no price."""
    n_expired: int
    """Turns that found their prefix dead."""


def lifetimes(turns: Iterable[Turn], row: Model, price: Price) -> list[Lifetime]:
    """Every lifetime of the model with the bill of these turns, cheapest first (shortest first where no price is known)."""
    known = list(turns)
    rows = [_lifetime(known, ttl, row, price) for ttl in row.ttls_seconds]
    return sorted(rows, key=lambda one: (one.cost_usd is not None and one.cost_usd, one.ttl_seconds))


def break_even_share(prefix_tokens: int, new_tokens: int, row: Model, price: Price) -> float | None:
    """Share of turns with a gap between the shortest and the longest lifetime from which on the longest is the cheaper one.

    For turns that add `new_tokens` to a prefix of `prefix_tokens`; above 1 it never is. None where the model has one lifetime or no price.

    >>> from contextkit.models import model_named
    >>> from contextkit.prices import cost_usd
    >>> opus = lambda usage: cost_usd("anthropic", "claude-opus-4-5", usage)
    >>> round(break_even_share(100_000, 2_000, model_named("claude-opus-4-5"), opus), 4)
    0.013
    """
    if len(row.ttls_seconds) < 2:
        return None
    short, long = (_written(new_tokens, ttl) for ttl in (row.ttls_seconds[0], row.ttls_seconds[-1]))
    bills = [price(usage) for usage in (short, long, _written(prefix_tokens, row.ttls_seconds[0]), Usage(0, prefix_tokens, 0, 0, 0))]
    cheap, dear, lost, read = (bill if bill is not None else float("nan") for bill in bills)
    return None if None in bills or lost <= read else (dear - cheap) / (lost - read)


def _lifetime(turns: list[Turn], ttl: int, row: Model, price: Price) -> Lifetime:
    expired = [turn.gap_seconds >= ttl for turn in turns]
    bills = [price(_bill(turn, is_expired, ttl, row)) for turn, is_expired in zip(turns, expired, strict=True)]
    paid = [bill for bill in bills if bill is not None]
    return Lifetime(ttl, sum(paid) if len(paid) == len(bills) else None, sum(expired))


def _bill(turn: Turn, is_expired: bool, ttl: int, row: Model) -> Usage:
    read = 0 if is_expired else turn.prefix_tokens
    rest = turn.prefix_tokens + turn.new_tokens - read
    if row.cache in ("implicit", "units"):
        return Usage(rest, read, 0, 0, 0)
    written = _written(rest, ttl)
    return Usage(0, read, written.write_5m, written.write_1h, 0)


def _written(n_tokens: int, ttl: int) -> Usage:
    return Usage(0, 0, 0, n_tokens, 0) if WRITE_CLASSES.get(ttl) == "write_1h" else Usage(0, 0, n_tokens, 0, 0)
