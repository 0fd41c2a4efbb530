"""What one call can read of what another writes, by the reference cache, and what a prewarm call is worth."""

from __future__ import annotations

from hashlib import blake2b

import pytest

from contextkit.cache.breakpoint_cache import BreakpointCache
from contextkit.cache.prompt import Breakpoint, Prompt
from contextkit.cache.usage import Usage
from contextkit.economics.fanout import prewarm, readable_tokens
from contextkit.models import model_named
from contextkit.prices import cost_usd

OPUS = model_named("claude-opus-4-5")


def price(usage: Usage) -> float | None:
    return cost_usd("anthropic", OPUS.name, usage)


def prompt(*parts: tuple[str, int], marks: tuple[int, ...] = ()) -> Prompt:
    digests: list[bytes] = []
    ends: list[int] = []
    for text, n_tokens in parts:
        digests.append(blake2b((digests[-1] if digests else b"") + text.encode(), digest_size=16).digest())
        ends.append((ends[-1] if ends else 0) + n_tokens)
    breakpoints = tuple(Breakpoint(mark, 300) for mark in marks)
    return Prompt((b"m", b"m", b"m"), (1, 1), digests, ends, range(len(ends)), breakpoints, len(ends))


SHARED = (("tools", 3_000), ("task", 20_000))


def test_a_call_reads_what_the_reference_cache_lets_it_read() -> None:
    leader, follower = (prompt(*SHARED, (name, 900), marks=(1, 2)) for name in "ab")
    cache = BreakpointCache(OPUS.min_tokens)
    assert [cache.begin(call, 0.0).hit.read_tokens for call in (leader, follower)] == [0, 0]
    cache.reset()
    cache.publish(cache.begin(leader, 0.0), 0.5)
    assert cache.begin(follower, 1.0).hit.read_tokens == readable_tokens(leader, follower, OPUS, price) == 23_000


def test_waiting_is_worth_nothing_without_a_shared_prefix_a_minimum_or_a_price() -> None:
    assert readable_tokens(prompt(("x", 9_000)), prompt(("y", 9_000)), OPUS, price) == 0
    assert readable_tokens(prompt(("s", 4_000), ("a", 9_000)), prompt(("s", 4_000), ("b", 9_000)), OPUS, price) == 0
    assert readable_tokens(prompt(*SHARED, ("a", 9)), prompt(*SHARED, ("b", 9)), OPUS, lambda _: None) == 0


def test_a_prewarm_call_pays_from_the_second_call_that_waits() -> None:
    saved = [prewarm(100_000, n, OPUS, price).saved_usd for n in (1, 2, 3)]
    assert saved == pytest.approx([(n * 5.75 - 6.25) / 10 for n in (1, 2, 3)])
    assert prewarm(100_000, 2, OPUS, lambda _: None).saved_usd is None
