"""The blocks themselves: who uses them, what they are cached under, which one goes next.

Takes block numbers and keys, gives block numbers; knows nothing of requests, tokens or groups.

Measured on vLLM 0.33.0: block 0 is set aside as the null block; the queue of free blocks starts in ascending order;
whoever is freed joins its end, blocks without a key its front (`Rules.is_unhashed_first`; with caching off that is
every block); new blocks come from its front and lose their key there; a hit leaves the queue; equal blocks are never
merged, so a key may have several blocks: the first one serves, and the key goes with the last one. A reset is refused
while any block is used.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from contextkit.cache.block.groups import NULL
from contextkit.cache.block.index.by_chain import ByChain
from contextkit.cache.block.index.by_key import ByKey
from contextkit.cache.block.index.free_queue import FreeQueue


class Pool:
    """All blocks of one engine."""

    __slots__ = ("_are_unhashed_first", "evicted", "index", "n_blocks", "queue", "shared")

    def __init__(self, n_blocks: int, index: ByChain | ByKey, *, are_unhashed_first: bool = True) -> None:
        """`n_blocks` counts the null block; `are_unhashed_first` puts freed blocks without a key before all others."""
        self.n_blocks = n_blocks
        self._are_unhashed_first = are_unhashed_first
        self.index = index
        """What each block is cached under."""
        self.queue = FreeQueue(range(1, n_blocks), n_blocks)
        """Free blocks, the next to be taken first."""
        self.shared: dict[int, int] = {}
        """Users beyond the first, of blocks that have more than one."""
        self.evicted: list[int] = []
        """Blocks that lost their key to a new use since somebody last emptied this list, in that order."""

    def users(self, block: int) -> int:
        """How many requests use it; the null block is not counted."""
        return 0 if block in self.queue or block == NULL else 1 + self.shared.get(block, 0)

    def take(self, n: int) -> list[int]:
        """`n` blocks from the front of the queue, for one user; the caller has checked that they are there."""
        taken = self.queue.take(n)
        self.evicted += self.index.drop(taken)
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
        keys = self.index.keys
        freed = self._last_uses(blocks) if self.shared or NULL in blocks else blocks
        if self._are_unhashed_first and not all(map(keys.__getitem__, freed)):
            self.queue.prepend([block for block in freed if not keys[block]])
            freed = [block for block in freed if keys[block]]
        self.queue.append(freed)

    def forget(self, block: int) -> None:
        """The block is cached no more; another one with its key takes its place."""
        self.index.forget(block)

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
        self.index.clear()
        return True

    def to_rows(self) -> dict[str, Any]:
        """Everything `from_rows` needs, as JSON would hold it."""
        return {"queue": list(self.queue), "shared": list(self.shared.items()), "index": self.index.to_rows()}

    def from_rows(self, queue: list[int], shared: list[tuple[int, int]], index: dict[str, Any]) -> None:
        """Back to what `to_rows` gave."""
        self.queue = FreeQueue(queue, self.n_blocks)
        self.shared = dict(shared)
        self.index.from_rows(index)
