"""Models a bounded cache of pre-hashed blocks for trace replays, with named eviction orders.

Bounded blocks by id, the lowest rank first to go: the orders of eviction that published replays compare.

Takes block ids, gives how many leading ones were there; knows nothing of tokens, keys or requests under way. A heap and
a map: the general way, a tenth as fast as `runs`.

Assumed, and measured only in that these ranks give the figures of an independent replay of the Mooncake trace to four
digits: a block is counted from 1 each time it comes in, also one that was there before; a request uses its blocks from
the front, each of them, also those behind the first one missing; room is made block by block, so a request longer than
all the room leaves its end, and a block whose parent is gone still takes room.

Bounded blocks by id as a tree of runs: what a trace replay needs, at tens of millions of blocks a second.

Takes block ids, gives how many leading ones were there; knows nothing of tokens, keys or requests under way.

A run is a stretch of blocks that were last used by the same request, so one list operation stands for all of them. Runs
are queued by their last use; room is made by cutting the oldest run from its end. That is, block for block, an LRU
whose requests release their last block first — measured on vLLM 0.33.0, and the same as a radix tree that evicts leaves
by age. Whoever uses a block uses all before it, so the oldest run never has a child, and nothing unreachable is ever
kept. A request longer than all the room leaves its head.

A bounded cache of blocks somebody already hashed, behind `PrefixCache[BlockIds]`; the order of eviction has a name.

Takes block ids, gives hits and bills in tokens; knows nothing of keys or text, and no clock: nothing here dies of age.

`tail_first` is what vLLM does (measured; `runs`), the others are there to compare with (`ranked`). Assumed: requests do
not overlap, so a request's blocks are released when it begins; every id counts as a full block; nothing is recomputed
on a full hit; what is generated has no ids. `BlockCache` models all four.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from heapq import heapify, heappop, heappush
from itertools import islice
from math import inf
from typing import Any, Literal, Protocol

import orjson

from contextkit.cache.prefix_cache import Hit, Lease
from contextkit.cache.usage import Usage
from contextkit.engines.token_ids import BlockIds
from contextkit.errors import StorageError, UsageError

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


class _Run:
    """Blocks that follow one another and were last used together."""

    __slots__ = ("children", "ids", "parent")

    def __init__(self, ids: list[int], parent: _Run | None) -> None:
        self.ids = ids
        self.parent = parent
        self.children: dict[int, _Run] | None = None


class Runs:
    """Blocks by id, least recently used first to go, a request's last block before its first.

    >>> runs = Runs(capacity=4)
    >>> runs.admit([1, 2, 3]), runs.admit([1, 2, 9]), runs.admit([1, 2, 3, 4]), runs.admit([1, 2, 9])
    (0, 2, 3, 2)
    """

    def __init__(self, capacity: float) -> None:
        """`capacity` in blocks; infinity for no end."""
        self._capacity = capacity
        self._root = _Run([], None)
        self._runs: OrderedDict[_Run, None] = OrderedDict()
        self.n = 0
        self.n_evicted = 0

    def admit(self, ids: Sequence[int]) -> int:
        """Use a whole request at once: how many leading blocks were there; all of them are now, and the newest."""
        if type(ids) is not list:
            ids = list(ids)
        n, position, node, path = len(ids), 0, self._root, []
        while position < n:
            children = node.children
            child = children.get(ids[position]) if children else None
            if child is None:
                break
            end = position + len(child.ids)
            if child.ids != ids[position:end]:
                child = self._split(child, _common(child.ids, ids, position))
                end = position + len(child.ids)
            path.append(child)
            node, position = child, end
        if position < n:
            self._add(node, ids[position:] if position else ids[:])
        renew = self._runs.move_to_end
        for run in reversed(path):
            renew(run)
        if self.n > self._capacity:
            self._trim(self.n - int(self._capacity))
        return position

    def find(self, ids: Sequence[int]) -> int:
        """How many leading blocks are there; changes nothing."""
        ids = list(ids)
        n, position, node = len(ids), 0, self._root
        while position < n and node.children and (child := node.children.get(ids[position])):
            shared = _common(child.ids, ids, position)
            position += shared
            if shared < len(child.ids):
                break
            node = child
        return position

    def resident(self) -> list[int]:
        """All blocks held, the next to go first."""
        return [block for run in self._runs for block in reversed(run.ids)]

    def to_rows(self) -> list[Any]:
        """Everything `from_rows` needs, as JSON would hold it."""
        numbers: dict[_Run | None, int] = {run: number for number, run in enumerate(self._runs)}
        return [(numbers.get(run.parent), run.ids) for run in self._runs]

    def from_rows(self, rows: list[Any]) -> None:
        """Into an empty tree, what `to_rows` gave."""
        runs = [_Run([int(block) for block in ids], None) for _, ids in rows]
        for run, (parent, _) in zip(runs, rows, strict=True):
            run.parent = self._root if parent is None else runs[parent]
            run.parent.children = {**(run.parent.children or {}), run.ids[0]: run}
        self._runs = OrderedDict.fromkeys(runs)
        self.n = sum(len(run.ids) for run in runs)

    def _add(self, node: _Run, ids: list[int]) -> None:
        """New blocks after the last of `node`: more of it where it is a leaf, since this request uses all of it, or a
        run of their own.
        """
        self.n += len(ids)
        if node.children:
            run = node.children[ids[0]] = _Run(ids, node)
        elif node.parent:
            node.ids += ids
            return
        else:
            run = _Run(ids, node)
            node.children = {ids[0]: run}
        self._runs[run] = None

    def _split(self, run: _Run, n: int) -> _Run:
        """Cut a run after `n` blocks; gives the first part. The rest keeps its place in the queue."""
        head = _Run(run.ids[:n], run.parent)
        del run.ids[:n]
        head.parent.children[head.ids[0]] = head  # type: ignore[union-attr,index]  # every run hangs under one
        head.children = {run.ids[0]: run}
        run.parent = head
        self._runs[head] = None
        return head

    def _trim(self, excess: int) -> None:
        """Cut so many blocks off the oldest runs, each from its end."""
        self.n -= excess
        self.n_evicted += excess
        while excess:
            run = next(iter(self._runs))
            if excess < len(run.ids):
                del run.ids[-excess:]
                return
            excess -= len(run.ids)
            del self._runs[run]
            parent = run.parent
            del parent.children[run.ids[0]]  # type: ignore[union-attr]
            if not parent.children:  # type: ignore[union-attr]
                parent.children = None  # type: ignore[union-attr]
            run.parent = None


def _common(run: list[int], ids: list[int], position: int) -> int:
    """How many blocks of `run` are the next ones of the request: galloping, so that a compare is one list operation."""
    low, step, high = 0, 8, min(len(run), len(ids) - position)
    while low < high and run[low : low + step] == ids[position + low : position + low + step]:
        low, step = low + step, step * 2
    pairs = zip(islice(run, low, high), islice(ids, position + low, position + high), strict=True)
    return (
        low + next((index for index, (one, other) in enumerate(pairs) if one != other), high - low)
        if low < high
        else high
    )


Order = Literal["tail_first", "in_order", "lfu", "length_aware"]
"""Least recently used with a request's last block first, or with its first block first; least often used; that with the
deepest first."""

_FORMAT = {"kind": "trace_cache", "version": 1}
"""What a snapshot says it is."""
_COUNTERS = ("requests", "hits", "read_blocks", "fresh_blocks", "output_tokens")
"""Counters of `stats` that are always there; `miss_<reason>` joins as reasons occur."""


class Store(Protocol):
    """What keeps the blocks."""

    n_evicted: int

    @property
    def n(self) -> int:
        """Blocks held."""
        ...

    def admit(self, ids: Sequence[int]) -> int:
        """Use a whole request at once: how many leading blocks were there."""
        ...

    def find(self, ids: Sequence[int]) -> int:
        """How many leading blocks are there; changes nothing."""
        ...

    def resident(self) -> list[int]:
        """All blocks held, the next to go first."""
        ...

    def to_rows(self) -> list[Any]:
        """Everything `from_rows` needs."""
        ...

    def from_rows(self, rows: list[Any]) -> None:
        """Into an empty store, what `to_rows` gave."""
        ...


_STORES: dict[str, Callable[[float], Store]] = {
    "tail_first": Runs,
    **{name: partial(Ranked, rank=rank) for name, rank in RANKS.items()},
}


class TraceCache:
    """Blocks by id; satisfies `PrefixCache[BlockIds]`. A replay that needs no bills calls `admit`.

    >>> cache = TraceCache(capacity=4)
    >>> cache.begin(BlockIds(512, (1, 2, 3)), now=0.0).usage.fresh, cache.begin(BlockIds(512, (1, 2, 9)), now=1.0).usage.read
    (1536, 1024)
    >>> cache.admit((1, 2, 3, 4)), cache.resident()
    (3, [4, 3, 2, 1])
    """

    def __init__(self, capacity: int | None = None, order: Order = "tail_first") -> None:
        """`capacity` in blocks, None for no end; raises `UsageError` below 1, or for an order that has no such name."""
        if capacity is not None and capacity < 1:
            raise UsageError(f"capacity is {capacity}: a cache holds at least 1 block; pass None for an unbounded one")
        if order not in _STORES:
            raise UsageError(f"{order!r} is no order of eviction: use one of {', '.join(_STORES)}")
        self._capacity, self._order = capacity, order
        self.reset()

    def lookup(self, prompt: BlockIds, now: float) -> Hit:
        """What would be read now; changes nothing. `segment` is the last block that is covered."""
        return _hit(self._store.find(prompt.ids), prompt.size)

    def quote(self, prompt: BlockIds, now: float) -> Usage:
        """What sending it now would be billed, `output` 0; changes nothing."""
        return _bill(prompt, self._store.find(prompt.ids))

    def begin(self, prompt: BlockIds, now: float) -> Lease:
        """A request starts: its blocks are readable, and the newest, at once."""
        n = self.admit(prompt.ids)
        lease = Lease(_hit(n, prompt.size), _bill(prompt, n), now, ())
        self._counters["requests"] += 1
        self._counters["hits" if n else "miss_first_write"] += 1
        self._counters["read_blocks"] += n
        self._counters["fresh_blocks"] += len(prompt.ids) - n
        return lease

    def publish(self, lease: Lease, now: float) -> None:
        """Its response begins, which changes nothing here: it was readable from the start."""

    def end(self, lease: Lease, output: int, now: float) -> Usage:
        """Its response is complete: the whole bill."""
        self._counters["output_tokens"] += output
        return replace(lease.usage, output=output)

    def resident(self) -> list[int]:
        """All blocks held, the next to go first."""
        return self._store.resident()

    def stats(self) -> dict[str, int]:
        """Counters of `begin` and `end` since the last reset, the blocks held now and those evicted."""
        return (
            dict.fromkeys(_COUNTERS, 0)
            | dict(self._counters)
            | {"blocks": self._store.n, "blocks_evicted": self._store.n_evicted}
        )

    def snapshot(self) -> bytes:
        """Everything `restore` needs, as JSON."""
        rows = {
            "order": self._order,
            "capacity": self._capacity,
            "rows": self._store.to_rows(),
            "n_evicted": self._store.n_evicted,
        }
        return orjson.dumps({**_FORMAT, **rows, "counters": dict(self._counters)})

    def restore(self, state: bytes) -> None:
        """Back to a snapshot.

        Raises `StorageError`, and changes nothing, where `state` is not one of a cache of this size and order.
        """
        other = TraceCache(self._capacity, self._order)
        own = {**_FORMAT, "order": self._order, "capacity": self._capacity}
        try:
            data = orjson.loads(state)
            if (given := {name: data[name] for name in own}) != own:
                raise ValueError(f"it is of {given}")
            other._store.from_rows(data["rows"])
            other._store.n_evicted, other._counters = int(data["n_evicted"]), Counter(data["counters"])
        except (ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
            raise StorageError(
                f"not a snapshot of this TraceCache ({error!r}): pass what its snapshot() gave"
            ) from error
        self._keep(other._store, other._counters)

    def reset(self) -> None:
        """Forget everything."""
        self._keep(_STORES[self._order](inf if self._capacity is None else self._capacity), Counter())

    def _keep(self, store: Store, counters: Counter[str]) -> None:
        self._store, self._counters = store, counters
        self.admit = store.admit
        """Use a whole request at once, unbilled and uncounted: how many leading blocks were there."""


def _hit(n: int, size: int) -> Hit:
    return Hit(n * size, 0, n - 1, "hit", None) if n else Hit(0, 0, None, "first_write", None)


def _bill(prompt: BlockIds, n: int) -> Usage:
    return Usage((len(prompt.ids) - n) * prompt.size, n * prompt.size, 0, 0, 0, estimated=True)
