"""Every capacity of an LRU at once, against one replay a capacity; and a folder of real conversations from disk.

pytest tests/benchmarks/test_curve.py -n 0 -s

The other side of the curve is `blocks.ordered_dict`: the same LRU in an OrderedDict, which has to be run again for
every capacity."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from contextkit.engines.block_trace import BlockRequest
from contextkit.engines.compare import compare
from contextkit.engines.reuse_distance import Curve, Distances
from contextkit.engines.trace_engines import Setting
from contextkit.importers.block_trace import BlockTraces, trace_files
from tests.benchmarks.blocks import ordered_dict

pytest.importorskip("numpy", reason="the extra numpy is not installed")
CAPACITIES = (50_000, 30_000, 10_000, 1_000)
BLOCKS_A_SECOND = 1.3e6
SECONDS_FOR_THE_FOLDER = 6.0
FULL_FOLDER = "CONTEXTKIT_FULL_FOLDER"
"""Set it to put the curve of all 22.6 million blocks to the clock too: it takes 3 GB."""


@pytest.fixture(scope="module")
def trace(shared: Path) -> list[BlockRequest]:
    path = shared / "data" / "mooncake" / "synthetic_trace.jsonl.gz"
    if not path.is_file():
        pytest.skip("the Mooncake trace is not beside this checkout")
    return list(BlockTraces().read(str(path)))


def fastest(work: Callable[[], object], n: int = 5) -> float:
    times = []
    for _ in range(n):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return min(times)


def curve_of(trace: list[BlockRequest]) -> Curve:
    distances = Distances()
    for request in trace:
        distances.add(request)
    return distances.curve()


def test_the_whole_curve_is_made_from_1_3_million_blocks_a_second(trace: list[BlockRequest]) -> None:
    curve = curve_of(trace)
    seconds = fastest(lambda: curve_of(trace))
    prompts = [list(request.ids) for request in trace]
    print(f"\nwhole curve, {curve.n_distinct:,} capacities: {curve.n_blocks / seconds / 1e6:.1f} M blocks/s")
    for capacity in CAPACITIES:
        plain = fastest(lambda capacity=capacity: ordered_dict(prompts, capacity), 3)  # type: ignore[misc]
        assert ordered_dict(prompts, capacity) == curve.hit_blocks(capacity)
        speed = f"{curve.n_blocks / plain / 1e6:4.1f} M blocks/s"
        print(f"  OrderedDict at {capacity:>6,}: {speed}; the whole curve costs {seconds / plain:.2f} of that replay")
    assert curve.n_blocks / seconds >= BLOCKS_A_SECOND


def test_a_folder_of_conversations_within_six_seconds(shared: Path) -> None:
    folder = shared / "data" / "claude-code-blocks"
    if not folder.is_dir():
        pytest.skip("the Claude Code traces are not beside this checkout")
    start = time.perf_counter()
    traces = BlockTraces()
    [outcome] = compare(
        (request for name in trace_files([str(folder)]) for request in traces.read(name)), [Setting()]
    ).outcomes
    seconds = time.perf_counter() - start
    print(f"\n{outcome.counts.blocks:,} blocks, {outcome.counts.hit_rate:.4f}: {seconds:.2f} s with reading")
    assert (outcome.counts.blocks, round(outcome.counts.hit_rate, 4)) == (22_633_483, 0.9594)
    assert seconds < SECONDS_FOR_THE_FOLDER


@pytest.mark.skipif(FULL_FOLDER not in os.environ, reason=f"takes 3 GB: set {FULL_FOLDER}=1")
def test_the_curve_of_all_conversations(shared: Path) -> None:
    distances, traces = Distances(), BlockTraces()
    for name in trace_files([str(shared / "data" / "claude-code-blocks")]):
        for request in traces.read(name):
            distances.add(request)
    start = time.process_time()
    curve = distances.curve()
    speed = curve.n_blocks / (time.process_time() - start)
    print(f"\n{curve.n_blocks:,} blocks, {curve.hit_rate(None):.4f}: {speed / 1e6:.1f} M blocks/s")
    assert speed >= BLOCKS_A_SECOND
