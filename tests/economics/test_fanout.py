"""Who goes first, when the others may start, and whether the bill of the plan is the bill the reference cache gives."""

from __future__ import annotations

from hashlib import blake2b

import pytest

from contextkit.cache.breakpoint_cache import BreakpointCache
from contextkit.cache.prompt import Breakpoint, Prompt
from contextkit.cache.usage import Usage
from contextkit.economics.fanout import plan_fan_out
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


def test_one_leads_and_the_rest_read_what_it_wrote() -> None:
    plan = plan_fan_out(
        [prompt(*SHARED, ("a", 900)), prompt(*SHARED, ("b", 500)), prompt(*SHARED, ("c", 700))], OPUS, price
    )
    assert [(one.index, one.waits_for, one.breakpoint, one.read_tokens) for one in plan.siblings] == [
        (1, None, 1, 0),
        (0, 1, 1, 23_000),
        (2, 1, 1, 23_000),
    ]
    # 23,000 tokens twice at 0.50 instead of 6.25 dollars a million
    assert plan.saved_usd == pytest.approx(2 * 23_000 * 5.75 / 1e6)
    assert plan.wait_seconds == 2.0


def test_the_cache_agrees_that_the_plan_reads_and_the_crowd_does_not() -> None:
    calls = [prompt(*SHARED, (name, 900), marks=(1, 2)) for name in "abc"]
    plan = plan_fan_out(calls, OPUS, price)
    cache = BreakpointCache(OPUS.min_tokens)
    crowd = [cache.begin(call, 0.0).hit.read_tokens for call in calls]
    assert crowd == [0, 0, 0]
    cache.reset()
    read = []
    for number, one in enumerate(plan.siblings):
        lease = cache.begin(calls[one.index], float(number))
        cache.publish(lease, number + 0.5)
        read.append(lease.hit.read_tokens)
    assert read == [one.read_tokens for one in plan.siblings]


def test_strangers_do_not_wait_for_one_another() -> None:
    plan = plan_fan_out([prompt(("x", 9_000)), prompt(("y", 9_000))], OPUS, price)
    assert [one.waits_for for one in plan.siblings] == [None, None]
    assert (plan.saved_usd, plan.wait_seconds) == (0.0, 0.0)


def test_a_prefix_below_the_minimum_is_not_worth_waiting_for() -> None:
    plan = plan_fan_out([prompt(("s", 4_000), ("a", 9_000)), prompt(("s", 4_000), ("b", 9_000))], OPUS, price)
    assert [one.waits_for for one in plan.siblings] == [None, None]


def test_nothing_pending_is_an_empty_plan() -> None:
    assert plan_fan_out([], OPUS, price).siblings == ()
