"""Caches side by side: names, routings, and engines that agree where they must."""

from __future__ import annotations

import random

import pytest

from contextkit.cache.usage import Usage
from contextkit.engines.block_trace import BlockRequest, requests_of
from contextkit.engines.compare import compare
from contextkit.engines.hosted import replay_hosted
from contextkit.engines.trace_engines import POLICIES, Setting, build
from contextkit.errors import UsageError
from contextkit.importers.block_trace import calls_of
from contextkit.ledger.calls import ModelCall
from contextkit.ledger.ledger import Ledger


def conversations(n: int, turns: int, seed: int = 1) -> list[BlockRequest]:
    """`n` growing conversations behind one shared beginning of 5 blocks, their turns mixed."""
    draw = random.Random(seed)
    grown = {session: list(range(5)) for session in range(n)}
    requests = []
    for at, session in enumerate(draw.sample([session for session in range(n) for _ in range(turns)], n * turns)):
        ids = grown[session]
        ids += [1_000 * (session + 1) + len(ids) + extra for extra in range(draw.randrange(1, 4))]
        requests.append(BlockRequest(f"s{session}", "main", float(at), 16, list(ids), 16 * len(ids)))
    return requests


TRACE = conversations(6, 8)


@pytest.mark.parametrize("cache", ["vllm", "sglang", "tiered"])
def test_without_an_end_of_room_engines_over_blocks_agree(cache: str) -> None:
    settings = [Setting(cache, policy) for policy in POLICIES[cache]]
    [expected] = compare(TRACE, [Setting()]).outcomes
    assert {outcome.counts for outcome in compare(TRACE, settings).outcomes} == {expected.counts}
    seen: set[int] = set()
    hits = 0
    for request in TRACE:
        hits += next((index for index, block in enumerate(request.ids) if block not in seen), len(request.ids))
        seen.update(request.ids)
    assert expected.counts.hit_blocks == hits and expected.evictions == 0


@pytest.mark.parametrize(
    ("cache", "policy"), [(cache, policy) for cache, policies in POLICIES.items() for policy in policies]
)
def test_no_cache_hits_more_than_one_without_an_end(cache: str, policy: str) -> None:
    [best] = compare(TRACE, [Setting()]).outcomes
    for outcome in compare(TRACE, [Setting(cache, policy, capacity=capacity) for capacity in (1, 30, 80)]).outcomes:
        assert 0 <= (outcome.counts.hit_blocks or 0) <= (best.counts.hit_blocks or 0)
        assert outcome.counts.requests == len(TRACE)


@pytest.mark.parametrize(("cache", "evictions"), [("llamacpp", None), ("transformers", 0)])
def test_some_never_read_the_last_block_of_a_repeated_prompt(cache: str, evictions: int | None) -> None:
    again = [BlockRequest("s", "main", float(at), 16, [1, 2, 3], 48) for at in range(2)]
    [outcome] = compare(again, [Setting(cache, POLICIES[cache][0])]).outcomes
    assert (outcome.counts.hit_blocks, outcome.evictions) == (2, evictions)


def test_pages_below_the_margin_go_all_at_once() -> None:
    """Of 20 blocks 3 stay free: what the running request holds is kept, all else goes."""
    asked = [
        BlockRequest("s", "main", float(at), 16, ids, 16 * len(ids)) for at, ids in enumerate(([1, 2], [3], [1, 2]))
    ]
    for n, expected in ((14, 1), (15, 0)):
        filling = BlockRequest("s", "main", 1.5, 16, list(range(10, 10 + n)), 16 * n)
        [outcome] = compare([*asked[:2], filling, asked[2]], [Setting("transformers", "all", 20)]).outcomes
        assert (outcome.counts.hit_blocks, outcome.evictions) == (expected, 3 * (1 - expected))


def test_one_pass_gives_what_each_alone_gives() -> None:
    settings = [
        Setting(cache, policies[0], capacity) for cache, policies in POLICIES.items() for capacity in (20, 60, None)
    ]
    assert compare(iter(TRACE), settings).outcomes == tuple(
        compare(TRACE, [setting]).outcomes[0] for setting in settings
    )


def test_routing_by_prefix_keeps_conversations_together_and_in_turn_does_not() -> None:
    hits = {
        routing: compare(TRACE, [Setting(instances=3)], routing).outcomes[0].counts.hit_blocks or 0
        for routing in ("round-robin", "session", "prefix")
    }
    assert hits["round-robin"] < hits["session"] <= hits["prefix"]


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        (Setting("redis"), "vllm, sglang, llamacpp, transformers, tiered"),
        (Setting("vllm", "slru"), "use one of lru"),
        (Setting(capacity=0), "1 or more"),
        (Setting(instances=0), "1 or more"),
    ],
)
def test_what_there_is_not_is_refused_naming_what_there_is(setting: Setting, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        build(setting)
    with pytest.raises(UsageError, match="round-robin, session, prefix"):
        compare([], [Setting()], "random")


def test_a_ledger_of_block_ids_is_a_trace() -> None:
    assert (
        compare(requests_of(calls_of(TRACE)), [Setting(capacity=40)]).outcomes
        == compare(TRACE, [Setting(capacity=40)]).outcomes
    )


def test_a_hosted_cache_wants_outlines() -> None:
    ledger = Ledger()
    ledger.append(ModelCall("a", "s", "main", 0.0, 1.0, 2.0, "anthropic", "claude-opus-4-5", None, Usage(), None, None))
    with pytest.raises(UsageError, match="no call of this trace has the outline"):
        replay_hosted(ledger, "anthropic")
