"""Free blocks in a row, the next to be taken first.

Takes block numbers, gives block numbers; knows nothing of keys, users or requests.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import repeat

_SWEPT_FROM = 64
"""Ghosts, or places behind the front, that a row may always hold."""
_MOST = 255
"""Ghosts of one block that can be counted."""

consume = deque[None](maxlen=0).extend
"""Run an iterator to its end without a step of Python for each item: half the time of a loop, and this is the innermost
one."""


class FreeQueue:
    """Free blocks, the next to be taken first: 6 bytes for each block there is, and up to as many again for ghosts.

    A block taken out of the middle stays in the row and is counted as a ghost: it is passed over when its turn comes.
    Ghosts of a block always stand before its own place, so a count is enough; the row is swept when it holds more
    ghosts than blocks. What was taken from the front stays there as room for what is put before all others, until it is
    more than half of the row.
    """

    __slots__ = ("_ghosts", "_is_free", "_n_ghosts", "_row", "_start", "n")

    def __init__(self, blocks: Iterable[int], n_blocks: int) -> None:
        """`blocks` in order; none has a number of `n_blocks` or more."""
        self._row = array("i", blocks)
        self._start = 0
        self._ghosts = bytearray(n_blocks)
        self._n_ghosts = 0
        self._is_free = bytearray(n_blocks)
        self.n = len(self._row)
        """How many blocks are free."""
        consume(map(self._is_free.__setitem__, self._row, repeat(True)))

    def __contains__(self, block: int) -> bool:
        return bool(self._is_free[block])

    def __iter__(self) -> Iterator[int]:
        self._sweep()
        return iter(self._row[self._start :])

    def take(self, n: int) -> list[int]:
        """The first `n`, which must be there."""
        taken = self._next(n)
        if self._n_ghosts and any(map(self._ghosts.__getitem__, taken)):
            taken = [block for block in taken if not self._was_ghost(block)]
            while len(taken) < n:
                taken += [block for block in self._next(n - len(taken)) if not self._was_ghost(block)]
        consume(map(self._is_free.__setitem__, taken, repeat(False)))
        self.n -= n
        if self._start > len(self._row) - self._start + _SWEPT_FROM:
            del self._row[: self._start]
            self._start = 0
        return taken

    def remove(self, block: int) -> None:
        """Take it out, wherever it stands."""
        self._is_free[block] = False
        if self._ghosts[block] == _MOST:
            self._sweep()
        self._ghosts[block] += 1
        self._n_ghosts += 1
        self.n -= 1

    def append(self, blocks: Sequence[int]) -> None:
        """To the end, in this order."""
        consume(map(self._is_free.__setitem__, blocks, repeat(True)))
        self._row.extend(blocks)
        self.n += len(blocks)
        if len(self._row) - self._start > 2 * self.n + _SWEPT_FROM:
            self._sweep()

    def prepend(self, blocks: Sequence[int]) -> None:
        """Before all others, in this order."""
        if self._n_ghosts and any(map(self._ghosts.__getitem__, blocks)):
            self._sweep()  # a ghost behind its block would be taken for it
        consume(map(self._is_free.__setitem__, blocks, repeat(True)))
        if self._start < len(blocks):
            room = len(blocks) + _SWEPT_FROM + len(self._row) // 8
            self._row[: self._start] = array("i", bytes(room * self._row.itemsize))
            self._start = room
        self._row[self._start - len(blocks) : self._start] = array("i", blocks)
        self._start -= len(blocks)
        self.n += len(blocks)

    def _next(self, n: int) -> list[int]:
        taken = self._row[self._start : self._start + n].tolist()
        self._start += n
        return taken

    def _was_ghost(self, block: int) -> bool:
        if not self._ghosts[block]:
            return False
        self._ghosts[block] -= 1
        self._n_ghosts -= 1
        return True

    def _sweep(self) -> None:
        if self._n_ghosts:
            self._row = array("i", [block for block in self._row[self._start :] if not self._was_ghost(block)])
            self._start = 0
