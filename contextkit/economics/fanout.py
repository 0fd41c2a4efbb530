"""Plans calls that share a prefix: which is sent first, when the others may start, and what waiting is worth.

Takes the prompts as a cache sees them, a model's row and its price, gives a plan in tokens, dollars and seconds. An
entry is readable from the moment the response that wrote it begins
(https://platform.claude.com/docs/en/build-with-claude/prompt-caching), so siblings that start together each pay for the
shared prefix. Sends nothing; knows nothing of clients. A prewarm call only
fills the cache, before several that share what it wrote.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from contextkit.cache.prompt import Prompt, common
from contextkit.cache.usage import Usage
from contextkit.economics.bill import Price, call_usage, cold_usage
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


@dataclass(frozen=True, slots=True)
class Sibling:
    """One pending call in a plan."""

    index: int
    """Its place among the calls that were given."""
    waits_for: int | None
    """The call whose response must have begun, None for one that starts at once."""
    breakpoint: int | None
    """Index of the segment to mark so that the shared part can be read, None where nothing is shared."""
    read_tokens: int
    """What it reads once it may start."""


@dataclass(frozen=True, slots=True)
class FanOut:
    """Who goes when, and what that saves."""

    siblings: tuple[Sibling, ...]
    """In the order to send them."""
    together_usd: float | None
    """What the prompts cost when all start at once, each cold; None where the model has no price."""
    staggered_usd: float | None
    """What they cost in the order of the plan."""
    wait_seconds: float
    """How much later the last sibling starts: the time a leader's response takes to begin."""

    @property
    def saved_usd(self) -> float | None:
        """What waiting saves; None where the model has no price."""
        return (
            None if self.together_usd is None or self.staggered_usd is None else self.together_usd - self.staggered_usd
        )


def plan_fan_out(
    prompts: Sequence[Prompt], row: Model, price: Price = lambda _: None, first_byte_seconds: float = 2.0
) -> FanOut:
    """The plan for `prompts`, in the order they would be sent.

    One leader for each group that shares at least the model's minimum.

    `first_byte_seconds` is how long a cold response takes to begin. Where waiting saves nothing nobody waits.
    """
    groups = _groups(prompts, row.min_tokens)
    siblings = tuple(sibling for group in groups for sibling in _ordered(prompts, group, row))
    together = _cost([(prompts[i].n_tokens, 0) for i in range(len(prompts))], row, price)
    staggered = _cost([(prompts[one.index].n_tokens, one.read_tokens) for one in siblings], row, price)
    is_led = any(one.waits_for is not None for one in siblings)
    return FanOut(siblings, together, staggered, first_byte_seconds if is_led else 0.0)


def _groups(prompts: Sequence[Prompt], min_tokens: int) -> list[list[int]]:
    """Calls that share a prefix worth caching with the first of their group."""
    groups: list[list[int]] = []
    for index, prompt in enumerate(prompts):
        near = max(groups, key=lambda group: _shared_tokens(prompts[group[0]], prompt), default=None)
        if near and _shared_tokens(prompts[near[0]], prompt) >= min_tokens:
            near.append(index)
        else:
            groups.append([index])
    return groups


def _shared_tokens(one: Prompt, other: Prompt) -> int:
    n = common(one, other)
    return one.ends_tokens[n - 1] if n else 0


def _ordered(prompts: Sequence[Prompt], group: Sequence[int], row: Model) -> list[Sibling]:
    """The leader shares most with all others.

    Among equals it is the one with the least of its own, whose response begins first.
    """

    def worth(index: int) -> tuple[int, int]:
        return sum(_shared_tokens(prompts[index], prompts[other]) for other in group if other != index), -prompts[
            index
        ].n_tokens

    leader = max(group, key=worth)
    rest = [index for index in group if index != leader]
    ends = {index: common(prompts[leader], prompts[index]) for index in rest}
    mark = min(ends.values()) - 1 if rest else None
    led = [Sibling(leader, None, mark, 0)]
    return led + [Sibling(i, leader, ends[i] - 1, _readable(prompts[leader], ends[i], row)) for i in rest]


def _readable(leader: Prompt, n: int, row: Model) -> int:
    tokens = leader.ends_tokens[n - 1]
    return tokens - tokens % row.granularity_tokens


def _cost(calls: Sequence[tuple[int, int]], row: Model, price: Price) -> float | None:
    """Dollars for prompts of (all tokens, tokens read): what is not read is written where writing is how the model
    caches.
    """
    paid = [price(call_usage(read, n_tokens - read, row)) for n_tokens, read in calls]
    return None if None in paid else sum(one or 0.0 for one in paid)
