"""Bounded blocks by id, the lowest rank first to go: the orders of eviction that published replays compare.

Takes block ids, gives how many leading ones were there; knows nothing of tokens, keys or requests under way. A heap and
a map: the general way, a tenth as fast as `runs`.

Assumed, and measured only in that these ranks give the figures of an independent replay of the Mooncake trace to four
digits: a block is counted from 1 each time it comes in, also one that was there before; a request uses its blocks from
the front, each of them, also those behind the first one missing; room is made block by block, so a request longer than
all the room leaves its end, and a block whose parent is gone still takes room.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from heapq import heapify, heappop, heappush
from typing import Any

_Rank = Callable[[int, int, int], tuple[int, ...]]

RANKS: dict[str, _Rank] = {
    "in_order": lambda uses, depth, clock: (clock,),
    "lfu": lambda uses, depth, clock: (uses, clock),
    "length_aware": lambda uses, depth, clock: (uses, -depth, clock),
}
"""Name → what a block is worth, from its uses, its place in the prompt and its last use; ties go to the older use."""

_STALE = 4
"""The heap is cleaned when it is this many times as long as the blocks held."""


class Ranked:
    """Blocks by id, the one of the lowest rank first to go.

    >>> ranked = Ranked(3, RANKS["lfu"])
    >>> ranked.admit([1, 2]), ranked.admit([1, 3]), ranked.admit([4]), ranked.admit([1, 2]), ranked.admit([1, 3])
    (0, 1, 0, 1, 1)
    """

    def __init__(self, capacity: float, rank: _Rank) -> None:
        """`capacity` in blocks; infinity for no end."""
        self._capacity = capacity
        self._rank = rank
        self._uses: dict[int, int] = {}
        self._entries: dict[int, tuple[Any, ...]] = {}
        self._heap: list[tuple[Any, ...]] = []
        self._clock = 0
        self.n_evicted = 0

    @property
    def n(self) -> int:
        """Blocks held."""
        return len(self._uses)

    def admit(self, ids: Sequence[int]) -> int:
        """Use a whole request at once: how many leading blocks were there; all that fit are now."""
        found = self.find(ids)
        for depth, block in enumerate(ids):
            if block not in self._uses and len(self._uses) >= self._capacity:
                self._evict()
            self._use(block, depth)
        if len(self._heap) > _STALE * len(self._uses):
            self._heap = list(self._entries.values())
            heapify(self._heap)
        return found

    def find(self, ids: Sequence[int]) -> int:
        """How many leading blocks are there; changes nothing."""
        return next((index for index, block in enumerate(ids) if block not in self._uses), len(ids))

    def resident(self) -> list[int]:
        """All blocks held, the next to go first."""
        return [entry[1] for entry in sorted(self._entries.values())]

    def to_rows(self) -> list[Any]:
        """Everything `from_rows` needs, as JSON would hold it."""
        return [self._clock, [(*entry, self._uses[entry[1]]) for entry in self._entries.values()]]

    def from_rows(self, rows: list[Any]) -> None:
        """Into an empty store, what `to_rows` gave."""
        self._clock = int(rows[0])
        for rank, block, uses in rows[1]:
            self._uses[int(block)] = int(uses)
            self._entries[int(block)] = (tuple(rank), int(block))
        self._heap = list(self._entries.values())
        heapify(self._heap)

    def _use(self, block: int, depth: int) -> None:
        uses = self._uses[block] = self._uses.get(block, 0) + 1
        self._clock += 1
        entry = self._entries[block] = (self._rank(uses, depth, self._clock), block)
        heappush(self._heap, entry)

    def _evict(self) -> None:
        while True:
            entry = heappop(self._heap)
            if self._entries.get(entry[1]) is entry:  # what was used again since has a newer entry
                break
        del self._entries[entry[1]], self._uses[entry[1]]
        self.n_evicted += 1
