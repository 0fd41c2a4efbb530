"""Real traces replayed: figures that others counted, to four digits."""

from __future__ import annotations

from pathlib import Path

import pytest

from contextkit.engines.block_trace import BlockRequest
from contextkit.engines.compare import compare
from contextkit.engines.trace_engines import Setting
from contextkit.importers.block_trace import BlockTraces, trace_files

CAPACITIES = (None, 100_000, 50_000, 30_000, 10_000, 5_859, 1_000)
TAIL_FIRST = {1_000: 0.0841, 3_000: 0.1906, 10_000: 0.4239}
"""Measured with a tree that evicts leaves and with vLLM's order of release."""


@pytest.fixture(scope="module")
def mooncake(shared: Path) -> list[BlockRequest]:
    path = shared / "data" / "mooncake" / "synthetic_trace.jsonl.gz"
    if not path.is_file():
        pytest.skip("the Mooncake trace is not beside this checkout")
    return list(BlockTraces().read(str(path)))


def test_the_trace_is_read_whole(mooncake: list[BlockRequest]) -> None:
    counts = compare(mooncake, [Setting()]).outcomes[0].counts
    assert (counts.requests, counts.blocks, counts.tokens) == (3_993, 121_877, 61_194_628)
    assert (round(counts.hit_rate, 4), round(counts.token_hit_rate, 4)) == (0.6396, 0.6512)


def test_tail_first_is_the_curve_of_a_tree_that_evicts_leaves(mooncake: list[BlockRequest]) -> None:
    comparison = compare(mooncake, [Setting(capacity=capacity) for capacity in TAIL_FIRST])
    assert {
        outcome.setting.capacity: round(outcome.counts.hit_rate, 4) for outcome in comparison.outcomes
    } == TAIL_FIRST


def test_a_curve_says_the_same_as_the_replays_it_stands_for(mooncake: list[BlockRequest]) -> None:
    pytest.importorskip("numpy", reason="the extra numpy is not installed")
    settings = [Setting(capacity=capacity) for capacity in (*CAPACITIES, 7, 300)]
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
    [together] = compare(requests, [Setting()]).outcomes
    alone = [compare(BlockTraces().read(name), [Setting()]).outcomes[0].counts for name in names]
    assert len(names) == 50
    assert together.counts.blocks == sum(counts.blocks or 0 for counts in alone)
    assert together.counts.hit_blocks == sum(counts.hit_blocks or 0 for counts in alone)
