"""Calls that share a prefix: what one can read of what another writes, and what a prewarm call before them is worth.

An entry is readable from the moment the response that wrote it begins
(https://platform.claude.com/docs/en/build-with-claude/prompt-caching), so calls that start together each pay for the
shared prefix.
"""

from __future__ import annotations

from dataclasses import dataclass

from contextkit.cache.prompt import Prompt, common
from contextkit.cache.usage import Usage
from contextkit.economics.bill import Price, call_usage
from contextkit.models import Model


@dataclass(frozen=True, slots=True)
class Prewarm:
    """What a call that only fills the cache costs, and what it is worth."""

    cost_usd: float | None
    """The write; None where the model has no price."""
    saved_usd: float | None
    """What calls that start together save by reading instead of each writing, less the write; negative where it does
    not pay."""


def prewarm(n_tokens: int, n_waiting: int, row: Model, price: Price) -> Prewarm:
    """Price a write with no output before `n_waiting` calls that start together, each of which would else write the
    shared prefix.
    """
    write, read = price(call_usage(0, n_tokens, row)), price(Usage(0, n_tokens, 0, 0, 0))
    return Prewarm(write, None if write is None or read is None else n_waiting * (write - read) - write)


def readable_tokens(leader: Prompt, follower: Prompt, row: Model, price: Price) -> int:
    """Count the tokens that `follower` can read of what `leader` writes; 0 if reading them saves nothing."""
    n = common(leader, follower)
    shared = leader.ends_tokens[n - 1] if n else 0
    if shared < row.min_tokens:
        return 0
    read, size = shared - shared % row.granularity_tokens, follower.n_tokens
    alone, behind = price(call_usage(0, size, row)), price(call_usage(read, size - read, row))
    return read if alone is not None and behind is not None and behind < alone else 0
