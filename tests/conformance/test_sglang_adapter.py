"""SGLang's scenarios: every operation, config field and figure in any combination, and what is said where there is
none."""

from __future__ import annotations

import random
from typing import Any

import pytest

from tests.conformance.against_sglang import POLICIES, Stream
from tests.conformance.run import BUILDERS
from tests.conformance.scenario import Scenario, replay
from tests.conformance.sglang import SglangReplay


def outcome(ops: list[dict[str, Any]], **config: Any) -> tuple[bool | None, str]:
    done = replay(Scenario("mine.json", "sglang-radix", "0.5.23", "mine", config, ops), BUILDERS)
    return done.passed, done.detail


@pytest.mark.parametrize(
    ("core", "policy"), [(core, policy) for core, policies in POLICIES.items() for policy in policies]
)
def test_any_stream_can_be_replayed_and_leaves_nothing(core: str, policy: str) -> None:
    for seed in range(10):
        stream = Stream(random.Random(seed), policy, core)
        cache = SglangReplay(stream.config, "0.5.23")
        for op in stream.ops():
            cache.run(op)
        assert (cache.tree.total, cache.tree.protected, cache.tree.n_nodes) == (0, 0, 0)


def test_a_node_counts_as_hit_only_beyond_what_its_request_inserted_before() -> None:
    """Measured on both of SGLang's trees: what was forgotten meanwhile and is inserted again is no hit."""
    ops: list[dict[str, Any]] = [
        {"op": "insert", "tokens": [1, 2]},
        {"op": "insert", "tokens": [3, 4], "inserted_len": 2},
        {"op": "evict", "num_tokens": 1, "expect": {"evicted_slots": [[2, 3]]}},
    ]
    assert outcome(ops, policy="lfu") == (True, "")


def test_the_two_cores_date_a_split_differently() -> None:
    """Measured: fifo forgets the upper half of [1, 2, 3, 4] before or after [5, 6], which came between its making and
    its split."""
    ops: list[dict[str, Any]] = [
        {"op": "insert", "tokens": [1, 2, 3, 4]},
        {"op": "insert", "tokens": [5, 6]},
        {"op": "match", "tokens": [1, 2], "as": "n"},
        {"op": "evict", "num_tokens": 2, "expect": {"evicted_slots": [[2, 3]]}},
        {"op": "evict", "num_tokens": 2},
    ]
    for core, slots in (("python", [[4, 5]]), ("rust", [[0, 1]])):
        assert outcome([*ops[:-1], ops[-1] | {"expect": {"evicted_slots": slots}}], policy="fifo", core=core) == (
            True,
            "",
        )


def test_tlru_first_forgets_what_a_conversation_can_lose() -> None:
    """Measured on the Rust core."""
    ops: list[dict[str, Any]] = [
        {"op": "insert", "tokens": [1, 2, 3, 4, 5, 6]},
        {"op": "insert", "tokens": list(range(10, 18))},
        {"op": "insert", "tokens": list(range(10, 22))},
        {"op": "evict", "num_tokens": 1, "expect": {"evicted_slots": [[22, 23, 24, 25]]}},
        {"op": "evict", "num_tokens": 1, "expect": {"evicted_slots": [[0, 1, 2, 3, 4, 5]]}},
    ]
    assert outcome(ops, policy="tlru", policy_config={"threshold": 6, "next_prompt_estimate": 2}) == (True, "")


CASES: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    ({"op": "fetch"}, {}, "no operation 'fetch'"),
    ({"op": "lock", "node": "m"}, {}, "no node 'm'"),
    ({"op": "insert"}, {}, "insert needs 'tokens'"),
    ({"op": "evict"}, {}, "evict needs 'num_tokens'"),
    ({"op": "state", "expect": {"height": 1}}, {}, "no figure 'height'"),
    ({"op": "state", "expect": {"total": 0}}, {"polcy": "lru"}, "config has polcy"),
    ({"op": "reset"}, {"policy": "arc"}, "no eviction policy 'arc'"),
    ({"op": "reset"}, {"policy": "slru", "engine_version": "0.5.9"}, "no eviction policy 'slru'"),
    ({"op": "reset"}, {"policy_config": {"threshold": 4}}, "lru takes no parameter threshold"),
    ({"op": "reset"}, {"core": "java"}, "no core 'java'"),
    ({"op": "reset"}, {"page_size": 0}, "page of 0"),
]


@pytest.mark.parametrize(("op", "config", "text"), CASES, ids=lambda case: case if isinstance(case, str) else "")
def test_what_there_is_not_fails_its_scenario_and_says_so(
    op: dict[str, Any], config: dict[str, Any], text: str
) -> None:
    passed, detail = outcome([op], **config)
    assert passed is False and text in detail
