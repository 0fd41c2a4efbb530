"""Replays over ready block ids: against a list that is searched, and against figures counted by others on real traces."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contextkit.cache.prefix_cache import PrefixCache
from contextkit.cache.usage import Usage
from contextkit.engines.block_runs import Order, TraceCache
from contextkit.engines.token_ids import BlockIds
from contextkit.errors import StorageError, UsageError

STREAMS = {False: 100, True: 10_000}
ORDERS: list[Order] = ["tail_first", "in_order", "lfu", "length_aware"]


class Listed:
    """Blocks as rows [block, uses, depth, last use]; the one that goes is searched for."""

    def __init__(self, capacity: int, order: Order) -> None:
        self.capacity, self.order, self.rows, self.clock = capacity, order, [], 0

    def rank(self, row: list[int]) -> tuple[int, ...]:
        _, uses, depth, used = row
        return {"tail_first": (used,), "in_order": (used,), "lfu": (uses, used), "length_aware": (uses, -depth, used)}[
            self.order
        ]

    def admit(self, ids: list[int]) -> int:
        known = {row[0] for row in self.rows}
        found = next((index for index, block in enumerate(ids) if block not in known), len(ids))
        places = list(enumerate(ids))
        for depth, block in reversed(places) if self.order == "tail_first" else places:
            self.use(block, depth)
        return found

    def use(self, block: int, depth: int) -> None:
        row = next((row for row in self.rows if row[0] == block), None)
        if row is None:
            if len(self.rows) >= self.capacity:
                self.rows.remove(min(self.rows, key=self.rank))
            row = [block, 0, depth, 0]
            self.rows.append(row)
        self.clock += 1
        row[1:] = [row[1] + 1, depth, self.clock]

    def resident(self) -> list[int]:
        return [row[0] for row in sorted(self.rows, key=self.rank)]


def chained(stem: int, length: int) -> list[int]:
    """Ids that stand for all before them: stems leave one another at their own places."""
    return [1000 * (stem * (index >= 7 * (stem % 4) + 1)) + index for index in range(length)]


REQUESTS = st.lists(st.builds(chained, st.integers(0, 7), st.integers(1, 40)), min_size=5, max_size=25)


def test_every_order_equals_a_list_that_is_searched(pytestconfig: pytest.Config) -> None:
    @settings(max_examples=STREAMS[pytestconfig.getoption("--full")], deadline=None, database=None)
    @given(st.sampled_from(ORDERS), st.integers(1, 120), REQUESTS)
    def stream(order: Order, capacity: int, requests: list[list[int]]) -> None:
        cache, listed = TraceCache(capacity, order), Listed(capacity, order)
        for ids in requests:
            expected = listed.admit(ids)
            assert cache.lookup(BlockIds(16, ids), 0.0).read_tokens == 16 * expected
            assert cache.admit(ids) == expected
            assert cache.resident() == listed.resident()
        assert cache.stats()["blocks"] == len(listed.rows)

    stream()


def test_equal_ids_at_other_places_are_other_blocks() -> None:
    cache = TraceCache()
    cache.admit([1, 2, 3])
    assert (cache.admit([2, 3]), cache.admit([1, 3]), cache.admit([1, 3, 3]), cache.admit([1, 2, 3, 4])) == (0, 1, 2, 3)


def test_it_is_a_prefix_cache_that_bills_in_tokens() -> None:
    cache: PrefixCache[BlockIds] = TraceCache(10)
    assert cache.quote(BlockIds(512, (1, 2)), 0.0) == Usage(1024, 0, 0, 0, 0, estimated=True)
    first = cache.begin(BlockIds(512, (1, 2)), 0.0)
    cache.publish(first, 0.0)
    lease = cache.begin(BlockIds(512, (1, 2, 3)), 1.0)
    assert (lease.hit.read_tokens, lease.hit.segment) == (1024, 1)
    assert cache.end(lease, 7, 2.0) == Usage(512, 1024, 0, 0, 7, estimated=True)
    expected = {
        "requests": 2,
        "hits": 1,
        "read_blocks": 2,
        "fresh_blocks": 3,
        "output_tokens": 7,
        "miss_first_write": 1,
    }
    assert cache.stats() == expected | {"blocks": 3, "blocks_evicted": 0}


@pytest.mark.parametrize("order", ORDERS)
def test_a_snapshot_brings_back_everything(order: Order) -> None:
    cache, other = TraceCache(9, order), TraceCache(9, order)
    for stem in range(6):
        cache.begin(BlockIds(16, chained(stem, 5)), 0.0)
    other.restore(cache.snapshot())
    for stem in range(8):
        assert other.admit(chained(stem, 7)) == cache.admit(chained(stem, 7))
    assert (other.resident(), other.stats()) == (cache.resident(), cache.stats())
    with pytest.raises(StorageError):
        other.restore(TraceCache(8, order).snapshot())


@pytest.mark.parametrize("arguments", [(0,), (5, "fifo")])
def test_a_size_or_an_order_that_is_none_is_refused(arguments: tuple[Any, ...]) -> None:
    with pytest.raises(UsageError):
        TraceCache(*arguments)


# Real traces; who counted the expected figures had no part in this code
# ---------------------------------------------------


@pytest.fixture(scope="module")
def mooncake(shared: Path) -> list[list[int]]:
    with gzip.open(shared / "data" / "mooncake" / "synthetic_trace.jsonl.gz") as lines:
        return [json.loads(line)["hash_ids"] for line in lines]


PUBLISHED = {
    "tail_first": {None: 0.6396, 30_000: 0.6242, 10_000: 0.4239, 3_000: 0.1906, 1_000: 0.0841},
    "in_order": {
        None: 0.6396,
        100_000: 0.6396,
        50_000: 0.6396,
        30_000: 0.6242,
        10_000: 0.4235,
        5_859: 0.3094,
        1_000: 0.0825,
    },
    "lfu": {None: 0.6396, 100_000: 0.6396, 50_000: 0.6396, 30_000: 0.6260, 10_000: 0.3578, 1_000: 0.0401},
    "length_aware": {None: 0.6396, 100_000: 0.6396, 50_000: 0.6396, 30_000: 0.5068, 10_000: 0.1865, 1_000: 0.0191},
}
"""Order → capacity in 512-token blocks → hit blocks over all blocks."""


@pytest.mark.parametrize("order", ORDERS)
def test_mooncake_gives_the_published_rates(mooncake: list[list[int]], order: Order) -> None:
    n = sum(map(len, mooncake))
    assert n == 121_877
    rates = {
        capacity: round(sum(map(TraceCache(capacity, order).admit, mooncake)) / n, 4) for capacity in PUBLISHED[order]
    }
    assert rates == PUBLISHED[order]


def requests_of(rows: list[dict[str, Any]]) -> Iterator[list[int]]:
    for row in rows:
        yield from [row["hash_ids"]] if "hash_ids" in row else []
        yield from requests_of(row.get("requests", []))


def test_claude_code_conversations_give_the_counted_rate(shared: Path) -> None:
    paths = sorted((shared / "data" / "claude-code-blocks").glob("*.json.gz"))
    hits = total = 0
    for path in paths:
        trace = list(requests_of(orjson.loads(gzip.decompress(path.read_bytes()))["requests"]))
        hits += sum(map(TraceCache().admit, trace))
        total += sum(map(len, trace))
    assert (len(paths), total, round(hits / total, 4)) == (200, 22_633_483, 0.9594)
