"""Every capacity of an LRU at once: how far back each block was last used, instead of one replay a capacity.

A `Curve` has the hits and evictions of every capacity, exactly those of a replay. NumPy is imported when one is made.

An LRU of C blocks holds the C blocks used last (Mattson 1970), so a block is there when a request begins exactly if at
most C blocks were used since its last use, itself included: its distance. A request reads its leading blocks up to the
first one that is not there, so block j is a hit where the largest distance among blocks 0…j is at most C.

A distance is s - p - (blocks used again in between, the second use counted), s being where the request begins and p the
last use. Blocks that were used together and are used together again have distances that fall by one from use to use, so
one count for a whole stretch is enough; and as a use is the last one of at most one later use, stretches never overlap
and are counted whole. What is left is a count of pairs of stretches, done level by level over the bits of their times.
Assumed: no block stands twice in one request, as ids stand for all before them.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from contextkit.engines.block_trace import BlockRequest
from contextkit.errors import MissingExtra

if TYPE_CHECKING:
    from numpy import int64
    from numpy.typing import NDArray

    Ints = NDArray[int64]


@dataclass(frozen=True, slots=True, eq=False)
class Curve:
    """What an LRU of every capacity does with one trace."""

    n_blocks: int
    """Blocks asked for."""
    n_tokens: int
    """Tokens asked for."""
    n_distinct: int
    """Different blocks: with so much room nothing is ever forgotten."""
    _hits: Ints
    """Capacity → blocks hit; and so on for the other two."""
    _hit_tokens: Ints
    _evicted: Ints

    def hit_blocks(self, capacity: int | None) -> int:
        """Blocks read from a cache of `capacity` blocks; None for no end."""
        return int(self._hits[self._index(capacity)])

    def hit_tokens(self, capacity: int | None) -> int:
        """Tokens they hold."""
        return int(self._hit_tokens[self._index(capacity)])

    def evictions(self, capacity: int | None) -> int:
        """Blocks forgotten to make room."""
        return int(self._evicted[self._index(capacity)])

    def hit_rate(self, capacity: int | None) -> float:
        """Blocks hit over all blocks; 0 for an empty trace."""
        return self.hit_blocks(capacity) / self.n_blocks if self.n_blocks else 0.0

    def points(self, n: int = 200) -> list[tuple[int, float]]:
        """At most `n` capacities, evenly spaced by ratio, with the hit rate of each: from a hundredth of all hits on."""
        if not self.n_distinct:
            return []
        start = max(1, int(self._hits.searchsorted(self.hit_blocks(None) / 100)))
        steps = (round(start * (self.n_distinct / start) ** (step / max(1, n - 1))) for step in range(n))
        return [(capacity, self.hit_rate(capacity)) for capacity in dict.fromkeys(steps)]

    def _index(self, capacity: int | None) -> int:
        return self.n_distinct if capacity is None else max(0, min(capacity, self.n_distinct))


class Distances:
    """Collects requests, eight bytes a block, until the curve is wanted.

    >>> distances = Distances()
    >>> for ids in ([1, 2, 3], [1, 2, 9], [1, 2, 3, 4]):
    ...     distances.add(BlockRequest("s", "main", 0.0, 16, ids, 16 * len(ids)))
    >>> curve = distances.curve()
    >>> [curve.hit_blocks(capacity) for capacity in (1, 2, 3, 4, None)]
    [2, 4, 4, 5, 5]
    """

    def __init__(self) -> None:
        self._ids = array("q")
        self._lengths, self._sizes, self._tokens = array("q"), array("q"), array("q")
        self._numbers: dict[int, int] | None = None

    def add(self, request: BlockRequest) -> None:
        """One more request, after those before."""
        ids = request.ids
        try:
            self._ids.extend(array("q", ids) if self._numbers is None else self._numbered(ids))
        except OverflowError:  # hashes of 64 bits without a sign
            self._numbers = {}
            self._ids = self._numbered(self._ids.tolist())
            self._ids.extend(self._numbered(ids))
        self._lengths.append(len(ids))
        self._sizes.append(request.size)
        self._tokens.append(request.n_tokens)

    def curve(self) -> Curve:
        """Hits for every capacity; raises `MissingExtra` without NumPy."""
        try:
            import numpy as np
        except ImportError:
            raise MissingExtra("the whole curve of hit rate by capacity", "numpy") from None
        lengths, sizes, tokens = (np.array(column, np.int64) for column in (self._lengths, self._sizes, self._tokens))
        ids = np.frombuffer(self._ids, np.int64) if self._ids else np.empty(0, np.int64)
        return _curve(np, ids, lengths, sizes, tokens)

    def _numbered(self, ids: Sequence[int]) -> array[int]:
        numbers = self._numbers if self._numbers is not None else {}
        return array("q", [numbers.setdefault(block, len(numbers)) for block in ids])


def _curve(np: Any, ids: Ints, lengths: Ints, sizes: Ints, tokens: Ints) -> Curve:
    ends = np.cumsum(lengths)
    starts = ends - lengths
    request = np.repeat(np.arange(len(lengths)), lengths)
    place = np.arange(len(ids)) - starts[request]
    turned = starts[request] + lengths[request] - 1 - place  # a request's last block counts as used first
    previous, n_distinct = _previous(np, ids[turned])
    distance = _distances(np, previous, starts, request, n_distinct)
    # the largest distance from the front of a request to each block: requests are lifted apart, so one pass does them all
    lift = request * (n_distinct + 2)
    reach = np.maximum.accumulate(distance[turned] + lift) - lift
    weights = np.minimum(sizes[request], np.maximum(0, tokens[request] - place * sizes[request]))
    hits, hit_tokens = _cumulative(np, reach, n_distinct), _cumulative(np, reach, n_distinct, weights)
    evicted = np.maximum(0, len(ids) - hits - np.arange(n_distinct + 1))
    return Curve(len(ids), int(tokens.sum()), n_distinct, hits, hit_tokens, evicted)


def _previous(np: Any, ids: Ints) -> tuple[Ints, int]:
    """Return where each block was used before, -1 for never, in order of use, and the number of different blocks."""
    n = len(ids)
    order = np.argsort(ids, kind="stable")
    by_id = ids[order]
    is_again = np.empty(n, bool)
    is_again[:1] = False
    np.equal(by_id[1:], by_id[:-1], out=is_again[1:])
    previous = np.full(n, -1, np.int64)
    again = np.flatnonzero(is_again)
    previous[order[again]] = order[again - 1]
    return previous, n - len(again)


def _distances(np: Any, previous: Ints, starts: Ints, request: Ints, n_distinct: int) -> Ints:
    """Distance of each use when its request begins; more than there is for a first use."""
    n = len(previous)
    is_first_of_stretch = np.ones(n, bool)
    is_first_of_stretch[1:] = (previous[1:] != previous[:-1] + 1) | (previous[1:] < 1) | (request[1:] != request[:-1])
    first = np.flatnonzero(is_first_of_stretch)
    length = np.diff(np.append(first, n))
    is_repeat = previous[first] >= 0
    first, length = first[is_repeat], length[is_repeat]
    last_use, begins = previous[first], starts[request[first]]
    at_begin = begins - last_use - _again_since(np, request[first], last_use, length)
    inside = np.arange(int(length.sum())) - np.repeat(np.cumsum(length) - length, length)
    distance: Ints = np.full(n, n_distinct + 1, np.int64)
    # below 1: used twice in one request
    distance[np.repeat(first, length) + inside] = np.maximum(1, np.repeat(at_begin, length) - inside)
    return distance


def _again_since(np: Any, times: Ints, last_use: Ints, length: Ints) -> Ints:
    """For each stretch, the uses in stretches of an earlier time whose own last use was later than its own.

    In falling order of last use, level by level from the highest bit of the time: what has the bit adds up what stands
    before it in its group without the bit; then each group is divided by the bit, stably.
    """
    total: Ints = np.zeros(len(times), np.int64)
    falling = np.argsort(-last_use)
    time, weight = times[falling], length[falling]
    for bit in reversed(range(int(times.max(initial=0)).bit_length())):
        is_set = (time >> bit & 1).astype(bool)
        before = np.cumsum(np.where(is_set, 0, weight))
        group = time >> bit + 1
        opens = np.flatnonzero(np.append(True, group[1:] != group[:-1])) if len(time) else falling
        offset = np.repeat(np.append(0, before)[opens], np.diff(np.append(opens, len(time))))
        total[falling[is_set]] += (before - offset)[is_set]
        divided = np.argsort(time >> bit, kind="stable")
        falling, time, weight = falling[divided], time[divided], weight[divided]
    return total


def _cumulative(np: Any, distance: Ints, n_distinct: int, weights: Ints | None = None) -> Ints:
    """Capacity → how many distances are at most that, first uses left out; `weights` counts them by size."""
    counts = np.bincount(distance, weights, minlength=n_distinct + 2)[: n_distinct + 1]
    reached: Ints = np.cumsum(counts).astype(np.int64)
    return reached
