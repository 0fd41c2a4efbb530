"""The blocks themselves: who uses them, what they are cached under, which one goes next.

Takes block numbers and keys, gives block numbers; knows nothing of requests, tokens or groups.

Measured on vLLM 0.33.0: block 0 is set aside as the null block; the queue of free blocks starts in ascending order; whoever is freed
joins its end, blocks without a key its front (`Rules.is_unhashed_first`; with caching off always its end); new blocks come from its
front and lose their key there; a hit leaves the queue; equal blocks are never merged, so a key may have several blocks: the first one
serves, and the key goes with the last one. A reset is refused while any block is used.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import repeat

NULL = 0
"""The block that stands where none is needed."""
_SWEPT_FROM = 64
"""Ghosts a row may always hold."""

_consume = deque[None](maxlen=0).extend
"""Run an iterator to its end without a step of Python for each item: half the time of a loop, and this is the innermost one."""


class FreeQueue:
    """Free blocks, the next to be taken first.

    A block taken out of the middle stays in the row and is counted as a ghost: it is passed over when its turn comes. Ghosts of a block
    always stand before its own place, so a count is enough; the row is swept when it holds more ghosts than blocks.
    """

    __slots__ = ("_ghosts", "_is_free", "_row", "n")

    def __init__(self, blocks: Iterable[int], n_blocks: int) -> None:
        """`blocks` in order; none has a number of `n_blocks` or more."""
        self._row = deque(blocks)
        self._ghosts: dict[int, int] = {}
        self._is_free = bytearray(n_blocks)
        self.n = len(self._row)
        """How many blocks are free."""
        for block in self._row:
            self._is_free[block] = True

    def __contains__(self, block: int) -> bool:
        return bool(self._is_free[block])

    def __iter__(self) -> Iterator[int]:
        self._sweep()
        return iter(self._row)

    def take(self, n: int) -> list[int]:
        """The first `n`, which must be there."""
        pop, ghosts, is_free = self._row.popleft, self._ghosts, self._is_free
        taken = [pop() for _ in repeat(None, n)]
        if not ghosts.keys().isdisjoint(taken):
            taken = [block for block in taken if not self._was_ghost(block)]
            while len(taken) < n:
                if not self._was_ghost(block := pop()):
                    taken.append(block)
        for block in taken:
            is_free[block] = False
        self.n -= n
        return taken

    def remove(self, block: int) -> None:
        """Take it out, wherever it stands."""
        self._is_free[block] = False
        self._ghosts[block] = self._ghosts.get(block, 0) + 1
        self.n -= 1

    def append(self, blocks: Sequence[int]) -> None:
        """To the end, in this order."""
        is_free = self._is_free
        for block in blocks:
            is_free[block] = True
        self._row.extend(blocks)
        self.n += len(blocks)
        if len(self._row) > 2 * self.n + _SWEPT_FROM:
            self._sweep()

    def prepend(self, blocks: Sequence[int]) -> None:
        """Before all others, in this order."""
        if not self._ghosts.keys().isdisjoint(blocks):
            self._sweep()  # a ghost behind its block would be taken for it
        for block in reversed(blocks):
            self._is_free[block] = True
            self._row.appendleft(block)
        self.n += len(blocks)

    def _was_ghost(self, block: int) -> bool:
        left = self._ghosts.get(block)
        if left is None:
            return False
        if left > 1:
            self._ghosts[block] = left - 1
        else:
            del self._ghosts[block]
        return True

    def _sweep(self) -> None:
        if self._ghosts:
            self._row = deque([block for block in self._row if not self._was_ghost(block)])


class Pool:
    """All blocks of one engine."""

    __slots__ = ("_are_unhashed_first", "_spares", "cached", "evicted", "keys", "n_blocks", "queue", "shared")

    def __init__(self, n_blocks: int, *, are_unhashed_first: bool = True) -> None:
        """`n_blocks` counts the null block; `are_unhashed_first` puts freed blocks without a key before all others."""
        self.n_blocks = n_blocks
        self._are_unhashed_first = are_unhashed_first
        self.queue = FreeQueue(range(1, n_blocks), n_blocks)
        """Free blocks, the next to be taken first."""
        self.shared: dict[int, int] = {}
        """Users beyond the first, of blocks that have more than one."""
        self.keys: list[int | None] = [None] * n_blocks
        """What each block is cached under."""
        self.cached: dict[int, int] = {}
        """The block that serves each key."""
        self.evicted: list[int] = []
        """Blocks that lost their key to a new use since somebody last emptied this list, in that order."""
        self._spares: dict[int, list[int]] = {}

    def users(self, block: int) -> int:
        """How many requests use it; the null block is not counted."""
        return 0 if block in self.queue or block == NULL else 1 + self.shared.get(block, 0)

    def take(self, n: int) -> list[int]:
        """`n` blocks from the front of the queue, for one user; the caller has checked that they are there."""
        keys = self.keys
        taken = self.queue.take(n)
        stale = [block for block in taken if keys[block] is not None]
        if self._spares:
            for block in stale:
                self.forget(block)
        else:
            cached = self.cached
            for block in stale:
                del cached[keys[block]]  # type: ignore[arg-type]  # stale: it has a key
                keys[block] = None
        self.evicted += stale
        return taken

    def hold(self, blocks: Iterable[int]) -> None:
        """One more user of each; null blocks are skipped."""
        queue, shared = self.queue, self.shared
        for block in blocks:
            if block in queue:
                queue.remove(block)
            elif block:
                shared[block] = shared.get(block, 0) + 1

    def release(self, blocks: Sequence[int]) -> None:
        """One user of each fewer; those with none left are queued in this order, those without a key before all others."""
        keys = self.keys
        freed = self._last_uses(blocks) if self.shared or NULL in blocks else blocks
        unhashed = [block for block in freed if keys[block] is None] if self._are_unhashed_first else ()
        if unhashed:
            freed = [block for block in freed if keys[block] is not None]
            self.queue.prepend(unhashed)
        self.queue.append(freed)

    def register(self, blocks: list[int], keys: Sequence[int]) -> None:
        """Cache each block under its key."""
        _consume(map(self.keys.__setitem__, blocks, keys))
        serving = list(map(self.cached.setdefault, keys, blocks))
        if serving != blocks:
            for block, key, first in zip(blocks, keys, serving, strict=True):
                if first != block:
                    self._spares.setdefault(key, []).append(block)

    def forget(self, block: int) -> None:
        """The block is cached no more; another one with its key takes its place."""
        key = self.keys[block]
        if key is None:
            return
        self.keys[block] = None
        if key not in self._spares:
            del self.cached[key]
            return
        spares = self._spares[key]
        if self.cached[key] == block:
            self.cached[key] = spares.pop(0)
        else:
            spares.remove(block)
        if not spares:
            del self._spares[key]

    def _last_uses(self, blocks: Sequence[int]) -> list[int]:
        """Those of `blocks` that nobody else uses; one user fewer of the others."""
        shared, last = self.shared, []
        for block in blocks:
            others = shared.get(block)
            if others is None:
                last += [block] if block else []
            elif others == 1:
                del shared[block]
            else:
                shared[block] = others - 1
        return last

    def reset(self) -> bool:
        """Forget every key, or give False where a block is in use."""
        if self.queue.n < self.n_blocks - 1:
            return False
        self.keys = [None] * self.n_blocks
        self.cached.clear()
        self._spares.clear()
        return True

    def to_rows(self) -> dict[str, object]:
        """Everything `from_rows` needs, as JSON would hold it."""
        spares = [[key, blocks] for key, blocks in self._spares.items()]
        serving = [block for key, block in self.cached.items() if key in self._spares]
        return {"queue": list(self.queue), "shared": list(self.shared.items()), "keys": self.keys, "serving": serving, "spares": spares}

    def from_rows(
        self,
        queue: list[int],
        shared: list[tuple[int, int]],
        keys: list[int | None],
        serving: list[int],
        spares: list[tuple[int, list[int]]],
    ) -> None:
        """Back to what `to_rows` gave."""
        self.queue = FreeQueue(queue, self.n_blocks)
        self.shared, self.keys = dict(shared), keys
        self.cached = {key: block for block, key in enumerate(keys) if key is not None}
        self.cached |= {key: block for block in serving if (key := keys[block]) is not None}
        self._spares = dict(spares)
