"""Tiers against a second opinion: whole prefixes in lists, searched for what goes next.

Two instances over one shared tier.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contextkit.engines.tier import POLICIES, Reuse, Tier, TierStore, TokenChunks
from contextkit.engines.tiered import TieredCache
from contextkit.engines.token_ids import TokenIds

STREAMS = {False: 30, True: 10_000}
RANKS = {
    "lru": lambda row: row["used"],
    "tail_first": lambda row: row["used"],
    "fifo": lambda row: row["born"],
    "mru": lambda row: -row["used"],
    "lfu": lambda row: (row["uses"], row["used"]),
}


class Shelf:
    """One tier: rows in the order they came."""

    def __init__(self, tier: Tier) -> None:
        self.tier, self.rows, self.clock = tier, [], 0

    def get(self, name: Any) -> dict[str, Any] | None:
        return next((row for row in self.rows if row["name"] == name), None)

    def like(self, own: tuple[int, ...] | None) -> dict[str, Any] | None:
        return next((row for row in self.rows if own and row["own"] == own), None)

    def touch(self, row: dict[str, Any], *, is_use: bool = True) -> None:
        self.clock += 1
        row["used"] = self.clock
        row["uses"] += is_use

    def is_full(self, size: int) -> bool:
        return sum(row["size"] for row in self.rows) + size > self.tier.capacity_tokens

    def put(self, pieces: list[dict[str, Any]], held: list[Any]) -> list[dict[str, Any]]:
        gone, new = [], []
        for piece in pieces:
            is_alike = piece["name"][0] == "own" and (
                self.like(piece["own"]) or any(other["own"] == piece["own"] for other in new)
            )
            if not is_alike and not self.get(piece["name"]):
                new.append(piece)
        for piece in new:
            while self.is_full(piece["size"]):
                free = [row for row in self.rows if row["name"] not in held]
                if not free:
                    return gone
                gone.append(min(free, key=RANKS[self.tier.policy]))
                self.rows.remove(gone[-1])
            self.clock += 1
            self.rows.append({**piece, "born": self.clock, "used": self.clock, "uses": 1})
        return gone


class Naive:
    """One instance."""

    def __init__(self, shelves: list[Shelf], size: int, saves_partial: bool, reuse: Reuse | None) -> None:
        self.shelves, self.size, self.saves_partial, self.reuse = shelves, size, saves_partial, reuse

    def pieces(self, tokens: list[int]) -> Iterator[dict[str, Any]]:
        for start in range(0, len(tokens), self.size):
            own = tuple(tokens[start : start + self.size])
            is_known = self.reuse is not None and len(own) >= self.reuse.min_tokens
            if len(own) == self.size or self.saves_partial:
                yield {
                    "name": ("chain", tuple(tokens[: start + len(own)])),
                    "own": own if is_known else None,
                    "size": len(own),
                }

    def find(self, pieces: list[dict[str, Any]]) -> list[int]:
        depths, rest = [], list(pieces)
        for shelf in self.shelves:
            here = 0
            while here < len(rest) and shelf.get(rest[here]["name"]):
                here += 1
            here = here if sum(piece["size"] for piece in rest[:here]) >= shelf.tier.min_read_tokens else 0
            depths.append(here)
            rest = rest[here:]
        return depths

    def sink(self, level: int, gone: list[dict[str, Any]], held: list[Any]) -> None:
        if level < len(self.shelves) and self.shelves[level].tier.write == "on_eviction":
            for row in gone:
                piece = {name: row[name] for name in ("name", "own", "size")}
                self.sink(level + 1, self.shelves[level].put([piece], held), held)

    def store(self, level: int, pieces: list[dict[str, Any]], held: list[Any]) -> None:
        self.sink(level + 1, self.shelves[level].put(pieces, held), held)

    def begin(self, tokens: list[int]) -> tuple[int, int, list[dict[str, Any]], list[dict[str, Any]]]:
        pieces = list(self.pieces(tokens))
        depths = self.find(pieces) if len(tokens) > 1 else [0, 0, 0]  # the last token is computed anyway
        n_read = sum(depths)
        alike = [
            next(((s, s.like(p["own"])) for s in self.shelves if s.like(p["own"])), None)
            for p in pieces[n_read:]
            if len(tokens) > 1
        ]
        held = [piece["name"] for piece in pieces] + [row["name"] for _, row in filter(None, alike)]
        for level in (2, 1, 0):
            shelf, start = self.shelves[level], sum(depths[:level])
            here = pieces[start : start + depths[level]]
            for piece in here[::-1]:
                shelf.touch(shelf.get(piece["name"]))
            if shelf.tier.is_promoted_to:
                self.store(level, pieces[start + depths[level] : n_read], held)
            if level < 2 and self.shelves[level + 1].tier.write == "selective":
                self.store(level + 1, [piece for piece in here if shelf.get(piece["name"])["uses"] >= 2], held)
        n_alike = 0
        for shelf, row in filter(None, alike):
            n_alike += row["size"] - -(-row["size"] // 4)  # a quarter is computed again, rounded up
            shelf.touch(row)
        exact = next((index for index, found in enumerate(alike) if found), len(pieces))
        new = [
            p if i < exact else {**p, "name": ("own", p["own"])}
            for i, p in enumerate(pieces[n_read:])
            if i < exact or p["own"]
        ]
        read = min(sum(piece["size"] for piece in pieces[:n_read]), len(tokens) - 1)
        return read, n_alike, pieces[:n_read], new

    def publish(self, read: list[dict[str, Any]], new: list[dict[str, Any]]) -> None:
        held = [piece["name"] for piece in read + new]
        for level, shelf in enumerate(self.shelves):
            if level == 0 or shelf.tier.write == "through":
                self.store(level, new, held)
            if shelf.tier.policy == "tail_first":
                for piece in (read + new)[::-1]:
                    if row := shelf.get(piece["name"]):
                        shelf.touch(row, is_use=False)


def tier(name: str, writes: list[str]) -> st.SearchStrategy[Tier]:
    return st.builds(
        Tier,
        st.just(name),
        st.integers(4, 24),
        policy=st.sampled_from(sorted(POLICIES)),
        write=st.sampled_from(writes),
        is_promoted_to=st.booleans(),
        min_read_tokens=st.sampled_from([1, 1, 5]),
    )


WRITES = ["through", "on_eviction", "selective"]
TIERS = st.tuples(tier("gpu", WRITES[:1]), tier("host", WRITES), tier("remote", WRITES))
CUTS = st.tuples(st.integers(2, 4), st.booleans(), st.sampled_from([None, None, Reuse(0.25, 2), Reuse(0.25, 3)]))
PATHS = [
    "aaaa",
    "aaaabb",
    "aaaabbbb",
    "aabbaaaa",
    "abababab",
    "bbbb",
    "bbbbaaaabb",
    "a",
    "cccccccc",
    "ccccaaaabbbb",
    "ddddeeeeffffgggg",
]
STEP = st.tuples(
    st.sampled_from(["call", "call", "call", "begin", "publish"]), st.integers(0, 1), st.sampled_from(PATHS)
)
STEPS = st.lists(STEP, min_size=3, max_size=30)


def check(store: TierStore, shelf: Shelf) -> None:
    assert (store.n_tokens, len(store)) == (sum(row["size"] for row in shelf.rows), len(shelf.rows))
    assert store.n_tokens <= shelf.tier.capacity_tokens
    sizes = [row["size"] for row in sorted(shelf.rows, key=RANKS[shelf.tier.policy])]
    assert [store._entries[key].chunk.n_tokens for key in store.evictable(99, ())] == sizes


def test_tiers_equal_lists_that_are_searched(pytestconfig: pytest.Config) -> None:
    @settings(max_examples=STREAMS[pytestconfig.getoption("--full")], deadline=None, database=None)
    @given(TIERS, CUTS, STEPS)
    def stream(tiers: tuple[Tier, ...], cut: Any, steps: list[tuple[str, int, str]]) -> None:
        *own, last = tiers
        remote, far = TierStore(last), Shelf(last)
        caches = [TieredCache(TokenChunks(cut[0], cut[1], reuse=cut[2]), own, [remote]) for _ in range(2)]
        naives = [Naive([*map(Shelf, own), far], *cut) for _ in range(2)]
        under_way: list[Any] = []
        for what, number, path in steps:
            cache, naive, tokens = caches[number], naives[number], [ord(letter) for letter in path]
            if what != "publish":
                seen = cache.lookup(TokenIds(tokens), 0.0)
                lease = cache.begin(TokenIds(tokens), 0.0)
                read, alike, *parts = naive.begin(tokens)
                assert seen == lease.hit and (seen.read_tokens, seen.approximate_tokens) == (read, alike), path
                assert lease.usage.prompt == len(tokens) and lease.usage.read == read
                under_way.append((cache, naive, lease, parts))
            if what != "begin" and under_way:
                cache, naive, lease, parts = under_way.pop()
                cache.publish(lease, 0.0)
                naive.publish(*parts)
            for one, other in zip(caches, naives, strict=True):
                for store, shelf in zip(one._stores, other.shelves, strict=True):
                    check(store, shelf)

    stream()
