"""A bounded cache of blocks somebody already hashed, behind `PrefixCache[BlockIds]`; the order of eviction has a name.

Takes block ids, gives hits and bills in tokens; knows nothing of keys or text, and no clock: nothing here dies of age.

`tail_first` is what vLLM does (measured; `runs`), the others are there to compare with (`ranked`). Assumed: requests do
not overlap, so a request's blocks are released when it begins; every id counts as a full block; nothing is recomputed
on a full hit; what is generated has no ids. `BlockCache` models all four.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from math import inf
from typing import Any, Literal, Protocol

import orjson

from contextkit.cache.block.ids import BlockIds
from contextkit.cache.block.ranked import RANKS, Ranked
from contextkit.cache.block.runs import Runs
from contextkit.cache.prefix_cache import Hit, Lease
from contextkit.cache.usage import Usage
from contextkit.errors import StorageError, UsageError

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
