"""A long shared prefix costs a comparison of memory, not a step of Python for each page.

pytest tests/benchmarks/test_radix.py -n 0 -s

The other side is `PagedTree`: the same compressed tree in plain Python, its edges lists of ids compared page by page.
Both look up and insert every prompt of a recorded trace whose 512-token blocks are spelt out as tokens; each takes the
tokens in the form it likes."""

from __future__ import annotations

import gzip
import json
import time
from array import array
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from contextkit.engines.sglang import RadixCache, RadixShape
from contextkit.engines.sglang_tree import RadixTree
from contextkit.engines.token_ids import TokenIds, pack

PAGE, BLOCK = 16, 512
EACH = 8
"""The plain tree is compared on every so many requests of the trace."""
READ = {None: 0.6512, 25_600_000: 0.6512, 3_000_000: 0.3151}
"""KV slots → part of the trace's tokens that is read with least-recently-used 512-token blocks, found by another
program; pages of 16 and whole leaves come within 0.002."""


@pytest.fixture(scope="module")
def prompts(shared: Path) -> list[array[int]]:
    path = shared / "data" / "mooncake" / "synthetic_trace.jsonl.gz"
    if not path.is_file():
        pytest.skip("the trace is not beside this checkout")
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return [_spelt_out(json.loads(line)) for line in lines]


def _spelt_out(row: dict[str, Any]) -> array[int]:
    blocks = b"".join(array("i", [block]).tobytes() * BLOCK for block in row["hash_ids"])
    return array("i", blocks)[: row["input_length"]]


class Run:
    """A node of `PagedTree`."""

    __slots__ = ("children", "edge", "used")

    def __init__(self, edge: list[int]) -> None:
        self.edge, self.children, self.used = edge, {}, 0
        self.children: dict[tuple[int, ...], Run]


class PagedTree:
    """A compressed trie that compares lists of ids page by page."""

    def __init__(self, page: int) -> None:
        self.page, self.root, self.clock = page, Run([]), 0

    def match(self, ids: list[int]) -> int:
        return sum(length for _, length in self._walk(ids))

    def insert(self, ids: list[int]) -> int:
        node, at = self.root, 0
        for node, length in self._walk(ids):  # noqa: B007
            at += length
        if at < len(ids):
            node.children[tuple(ids[at : at + self.page])] = Run(ids[at:])
        return at

    def _walk(self, ids: list[int]) -> Iterator[tuple[Run, int]]:
        node, at = self.root, 0
        self.clock += 1
        while at < len(ids) and (child := node.children.get(tuple(ids[at : at + self.page]))):
            child.used = self.clock
            length = self._along(child.edge, ids, at)
            at += length
            if length < len(child.edge):
                child = self._split(node, child, length)
            yield child, length
            node = child

    def _along(self, edge: list[int], ids: list[int], at: int) -> int:
        length = 0
        while length < len(edge) and edge[length : length + self.page] == ids[at + length : at + length + self.page]:
            length += self.page
        return length

    def _split(self, parent: Run, child: Run, length: int) -> Run:
        head = Run(child.edge[:length])
        child.edge = child.edge[length:]
        head.children[tuple(child.edge[: self.page])] = child
        parent.children[tuple(head.edge[: self.page])] = head
        return head


def _mtok_per_second(work: Callable[[], int]) -> float:
    """By the processor's time, so that what else runs on the machine counts little."""
    start = time.process_time()
    n_tokens = work()
    return n_tokens / (time.process_time() - start) / 1e6


def _on_memory(prompts: list[array[int]], n_hits: list[int]) -> int:
    tree = RadixTree(PAGE)
    for prompt in prompts:
        tokens = pack(prompt)
        n_hits.append(tree.match(tokens).length)
        tree.insert(tokens)
    return sum(map(len, prompts))


def _on_lists(prompts: list[list[int]], n_hits: list[int]) -> int:
    tree = PagedTree(PAGE)
    for ids in prompts:
        whole = ids[: len(ids) // PAGE * PAGE]
        n_hits.append(tree.match(whole))
        tree.insert(whole)
    return sum(map(len, prompts))


def _as_a_cache(prompts: list[array[int]], shape: RadixShape) -> int:
    cache = RadixCache(shape)
    for prompt in prompts:
        lease = cache.begin(TokenIds(prompt), 0.0)
        cache.publish(lease, 0.0)
        cache.end(lease, 1, 0.0)
    stats = cache.stats()
    read = stats["read_tokens"] / sum(map(len, prompts))
    print(f"\n  as a cache of {shape.n_tokens or 'unlimited'} tokens, {read:.4f} read", end="")
    assert abs(read - READ[shape.n_tokens]) < 0.002
    return sum(map(len, prompts))


def test_comparing_memory_is_five_times_as_fast_as_comparing_pages(prompts: list[array[int]]) -> None:
    some = prompts[::EACH]
    hits: tuple[list[int], list[int]] = ([], [])
    lists = [prompt.tolist() for prompt in some]
    plain = _mtok_per_second(lambda: _on_lists(lists, hits[0]))
    ours = _mtok_per_second(lambda: _on_memory(some, hits[1]))
    print(f"\npage {PAGE}: plain tree {plain:.0f} Mtok/s, ours {ours:.0f} Mtok/s: x{ours / plain:.1f}")
    assert hits[0] == hits[1]
    assert ours / plain >= 5


def test_a_whole_trace(prompts: list[array[int]]) -> None:
    """Lookup and insertion of every prompt.

    Then the same as requests that begin, publish and end, unlimited and with eviction.
    """
    whole = max(_mtok_per_second(lambda: _on_memory(prompts, [])) for _ in range(3))
    print(f"\ntree, page {PAGE}: {whole:.0f} Mtok/s", end="")
    for n_tokens in READ:
        shape = RadixShape(n_tokens, PAGE)
        print(f": {_mtok_per_second(lambda shape=shape: _as_a_cache(prompts, shape)):.0f} Mtok/s", end="")  # type: ignore[misc]
    assert whole >= 300
