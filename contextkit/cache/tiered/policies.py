"""In which order a tier forgets.

Takes keys as they are put, hit and dropped, gives them in the order they would be evicted; knows nothing of sizes or of
who holds what.

Executed on LMCache 0.5.6: its LRU, LFU, FIFO and MRU. LFU puts a key at frequency 1 and breaks ties by who reached the
frequency first. `tail_first` is LRU whose requests renew all they used when they are stored, the last chunk first: what
a radix tree that evicts leaves by age comes to (SGLang's device and host tiers).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Protocol

Rows = list[tuple[bytes, int]]
"""Keys and their frequencies, as `restore` wants them."""


class Policy(Protocol):
    """The order of one tier."""

    def put(self, key: bytes) -> None:
        """A key is new."""
        ...

    def hit(self, key: bytes) -> None:
        """A key is used."""
        ...

    def drop(self, key: bytes) -> None:
        """A key is gone."""
        ...

    def order(self) -> Iterator[bytes]:
        """All keys, the next to be evicted first."""
        ...

    def to_rows(self) -> Rows:
        """Everything `from_rows` needs."""
        ...

    def from_rows(self, rows: Rows) -> None:
        """Fill an empty order."""
        ...


class Recency:
    """Keys in a row: put at the end, moved there by a hit or not, evicted from the front or from the end."""

    def __init__(self, *, is_renewed_by_hit: bool = True, is_newest_first: bool = False) -> None:
        self._keys: OrderedDict[bytes, None] = OrderedDict()
        self._is_renewed_by_hit = is_renewed_by_hit
        self._is_newest_first = is_newest_first

    def put(self, key: bytes) -> None:
        """To the end."""
        self._keys[key] = None

    def hit(self, key: bytes) -> None:
        """To the end, where hits renew."""
        if self._is_renewed_by_hit:
            self._keys.move_to_end(key)

    def drop(self, key: bytes) -> None:
        """Out of the row."""
        del self._keys[key]

    def order(self) -> Iterator[bytes]:
        """From the front, or from the end."""
        return reversed(self._keys) if self._is_newest_first else iter(self._keys)

    def to_rows(self) -> Rows:
        """The row, from the front."""
        return [(key, 1) for key in self._keys]

    def from_rows(self, rows: Rows) -> None:
        """The row again."""
        self._keys.update((key, None) for key, _ in rows)


class Frequency:
    """Least often used first; among equals the one that got there first."""

    def __init__(self) -> None:
        self._counts: dict[bytes, int] = {}
        self._buckets: dict[int, OrderedDict[bytes, None]] = {}

    def put(self, key: bytes) -> None:
        """Frequency 1."""
        self._to(key, 1)

    def hit(self, key: bytes) -> None:
        """One more."""
        count = self._counts[key]
        self.drop(key)
        self._to(key, count + 1)

    def drop(self, key: bytes) -> None:
        """Out of its bucket."""
        count = self._counts.pop(key)
        del self._buckets[count][key]
        if not self._buckets[count]:
            del self._buckets[count]

    def order(self) -> Iterator[bytes]:
        """Bucket by bucket."""
        for count in sorted(self._buckets):
            yield from self._buckets[count]

    def to_rows(self) -> Rows:
        """Bucket by bucket."""
        return [(key, self._counts[key]) for key in self.order()]

    def from_rows(self, rows: Rows) -> None:
        """The buckets again."""
        for key, count in rows:
            self._to(key, count)

    def _to(self, key: bytes, count: int) -> None:
        self._counts[key] = count
        self._buckets.setdefault(count, OrderedDict())[key] = None


POLICIES: Mapping[str, Callable[[], Policy]] = MappingProxyType(
    {
        "lru": Recency,
        "lfu": Frequency,
        "fifo": lambda: Recency(is_renewed_by_hit=False),
        "mru": lambda: Recency(is_newest_first=True),
        "tail_first": Recency,
    }
)
"""Name → an empty order."""
RENEWING = frozenset({"tail_first"})
"""Policies under which storing a request renews all it used, its last chunk first."""
