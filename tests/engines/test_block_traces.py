"""Replays over ready block ids: against a list that is searched, and against figures counted by others on real traces."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from math import inf
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contextkit.engines.block_runs import Runs

STREAMS = {False: 30, True: 10_000}


class Listed:
    """Blocks in order of use, a request's last block used first; who goes stands in front."""

    def __init__(self, capacity: int) -> None:
        self.capacity, self.rows = capacity, list[int]()

    def admit(self, ids: list[int]) -> int:
        found = next((index for index, block in enumerate(ids) if block not in self.rows), len(ids))
        for block in reversed(ids):
            if block in self.rows:
                self.rows.remove(block)
            elif len(self.rows) >= self.capacity:
                self.rows.pop(0)
            self.rows.append(block)
        return found


def chained(stem: int, length: int) -> list[int]:
    """Ids that stand for all before them: stems leave one another at their own places."""
    return [1000 * (stem * (index >= 7 * (stem % 4) + 1)) + index for index in range(length)]


REQUESTS = st.lists(st.builds(chained, st.integers(0, 7), st.integers(1, 40)), min_size=5, max_size=25)


def resident(runs: Runs) -> list[int]:
    """All blocks held, the next to go first."""
    return [block for run in runs._runs for block in reversed(run.ids)]


def test_runs_equal_a_list_that_is_searched(pytestconfig: pytest.Config) -> None:
    @settings(max_examples=STREAMS[pytestconfig.getoption("--full")], deadline=None, database=None)
    @given(st.integers(1, 120), REQUESTS)
    def stream(capacity: int, requests: list[list[int]]) -> None:
        runs, listed = Runs(capacity), Listed(capacity)
        for ids in requests:
            expected = listed.admit(ids)
            assert (runs.find(ids), runs.admit(ids)) == (expected, expected)
            assert (resident(runs), runs.n) == (listed.rows, len(listed.rows))

    stream()


def test_equal_ids_at_other_places_are_other_blocks() -> None:
    runs = Runs(inf)
    runs.admit([1, 2, 3])
    assert (runs.admit([2, 3]), runs.admit([1, 3]), runs.admit([1, 3, 3]), runs.admit([1, 2, 3, 4])) == (0, 1, 2, 3)


# Real traces; who counted the expected figures had no part in this code
# ---------------------------------------------------


@pytest.fixture(scope="module")
def mooncake(shared: Path) -> list[list[int]]:
    with gzip.open(shared / "data" / "mooncake" / "synthetic_trace.jsonl.gz") as lines:
        return [json.loads(line)["hash_ids"] for line in lines]


PUBLISHED = {None: 0.6396, 30_000: 0.6242, 10_000: 0.4239, 3_000: 0.1906, 1_000: 0.0841}
"""Capacity in 512-token blocks → hit blocks over all blocks."""


def test_mooncake_gives_the_published_rates(mooncake: list[list[int]]) -> None:
    n = sum(map(len, mooncake))
    assert n == 121_877
    rates = {capacity: round(sum(map(Runs(capacity or inf).admit, mooncake)) / n, 4) for capacity in PUBLISHED}
    assert rates == PUBLISHED


def requests_of(rows: list[dict[str, Any]]) -> Iterator[list[int]]:
    for row in rows:
        yield from [row["hash_ids"]] if "hash_ids" in row else []
        yield from requests_of(row.get("requests", []))


def test_claude_code_conversations_give_the_counted_rate(shared: Path, pytestconfig: pytest.Config) -> None:
    if not pytestconfig.getoption("--full"):
        pytest.skip("22 million blocks: with --full")
    paths = sorted((shared / "data" / "claude-code-blocks").glob("*.json.gz"))
    hits = total = 0
    for path in paths:
        trace = list(requests_of(orjson.loads(gzip.decompress(path.read_bytes()))["requests"]))
        hits += sum(map(Runs(inf).admit, trace))
        total += sum(map(len, trace))
    assert (len(paths), total, round(hits / total, 4)) == (200, 22_633_483, 0.9594)
