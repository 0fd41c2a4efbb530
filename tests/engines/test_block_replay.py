"""Real traces replayed: figures that others counted, to four digits."""

from __future__ import annotations

from pathlib import Path

import pytest

from contextkit.engines.block_trace import BlockRequest
from contextkit.engines.compare import compare
from contextkit.engines.trace_engines import Setting
from contextkit.importers.block_trace import BlockTraces, trace_files

CAPACITIES = (None, 100_000, 50_000, 30_000, 10_000, 5_859, 1_000)
LRU = (0.6396, 0.6396, 0.6396, 0.6242, 0.4235, 0.3094, 0.0825)
"""Share of blocks in a contiguous prefix that is there, of an independent replay of the Mooncake synthetic trace, used
in order."""
LRU_TOKENS = (0.6512, 0.6512, 0.6512, 0.6356, 0.4313, 0.3151, 0.0840)
"""The same weighted by tokens."""
OTHERS = {
    ("lfu", 30_000): 0.6260,
    ("lfu", 10_000): 0.3578,
    ("lfu", 1_000): 0.0401,
    ("length-aware", 30_000): 0.5068,
    ("length-aware", 10_000): 0.1865,
    ("length-aware", 1_000): 0.0191,
}
"""The same under other policies."""
TAIL_FIRST = {1_000: 0.0841, 3_000: 0.1906, 10_000: 0.4239}
"""Measured with a tree that evicts leaves and with vLLM's order of release."""


@pytest.fixture(scope="module")
def mooncake(shared: Path) -> list[BlockRequest]:
    path = shared / "data" / "mooncake" / "synthetic_trace.jsonl.gz"
    if not path.is_file():
        pytest.skip("the Mooncake trace is not beside this checkout")
    return list(BlockTraces().read(str(path)))


def test_lru_is_that_of_an_independent_replay_by_blocks_and_by_tokens(mooncake: list[BlockRequest]) -> None:
    outcomes = compare(mooncake, [Setting(order="in-order", capacity=capacity) for capacity in CAPACITIES]).outcomes
    assert tuple(round(outcome.counts.hit_rate, 4) for outcome in outcomes) == LRU
    assert tuple(round(outcome.counts.token_hit_rate, 4) for outcome in outcomes) == LRU_TOKENS
    counts = outcomes[0].counts
    assert (counts.requests, counts.blocks, counts.tokens) == (3_993, 121_877, 61_194_628)


@pytest.mark.parametrize(("policy", "capacity"), OTHERS)
def test_other_policies_are_those_of_an_independent_replay(
    policy: str, capacity: int, mooncake: list[BlockRequest]
) -> None:
    [outcome] = compare(mooncake, [Setting("vllm", policy, "in-order", capacity)]).outcomes
    assert round(outcome.counts.hit_rate, 4) == OTHERS[policy, capacity]


def test_tail_first_is_the_curve_of_a_tree_that_evicts_leaves(mooncake: list[BlockRequest]) -> None:
    comparison = compare(mooncake, [Setting(capacity=capacity) for capacity in TAIL_FIRST])
    assert {
        outcome.setting.capacity: round(outcome.counts.hit_rate, 4) for outcome in comparison.outcomes
    } == TAIL_FIRST


def test_a_curve_says_the_same_as_the_replays_it_stands_for(mooncake: list[BlockRequest]) -> None:
    pytest.importorskip("numpy", reason="the extra numpy is not installed")
    settings = [
        Setting("vllm", "lru", order, capacity)
        for order in ("tail-first", "in-order")
        for capacity in (*CAPACITIES, 7, 300)
    ]
    read_off = compare(mooncake, settings).outcomes
    replayed = tuple(outcome for setting in settings for outcome in compare(mooncake, [setting]).outcomes)
    assert read_off == replayed


def test_conversations_whose_ids_are_their_own(shared: Path) -> None:
    """All of a quarter of the files: the whole folder takes some seconds, and its figure is in the benchmarks."""
    folder = shared / "data" / "claude-code-blocks"
    if not folder.is_dir():
        pytest.skip("the Claude Code traces are not beside this checkout")
    traces = BlockTraces()
    names = trace_files([str(folder)])[::4]
    requests = (request for name in names for request in traces.read(name))
    [outcome] = compare(requests, [Setting()], has_sessions=True).outcomes
    assert len(outcome.sessions) == len(names) == 50
    assert sum(counts.blocks or 0 for counts in outcome.sessions.values()) == outcome.counts.blocks
    for name in names[:3]:
        [alone] = compare(BlockTraces().read(name), [Setting()]).outcomes
        assert alone.counts in outcome.sessions.values()
