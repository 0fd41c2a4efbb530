"""The blocks themselves: who uses them, what they are cached under, which one goes next.

Takes block numbers and keys, gives block numbers; knows nothing of requests, tokens or groups.

Measured on vLLM 0.33.0: block 0 is set aside as the null block; the queue of free blocks starts in ascending order; whoever is freed
joins its end, blocks without a key its front (`Rules.is_unhashed_first`; with caching off always its end); new blocks come from its
front and lose their key there; a hit leaves the queue; equal blocks are never merged, so a key may have several blocks: the first one
serves, and the key goes with the last one. A reset is refused while any block is used.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from itertools import repeat

NULL = 0
"""The block that stands where none is needed."""


class Pool:
    """All blocks of one engine."""

    __slots__ = ("_are_unhashed_first", "_spares", "cached", "evicted", "keys", "n_blocks", "queue", "references")

    def __init__(self, n_blocks: int, *, are_unhashed_first: bool = True) -> None:
        """`n_blocks` counts the null block; `are_unhashed_first` puts freed blocks without a key before all others."""
        self.n_blocks = n_blocks
        self._are_unhashed_first = are_unhashed_first
        self.queue: OrderedDict[int, None] = OrderedDict.fromkeys(range(1, n_blocks))
        """Free blocks, the next to be taken first."""
        self.references = [0] * n_blocks
        """How many requests use each block."""
        self.keys: list[int | None] = [None] * n_blocks
        """What each block is cached under."""
        self.cached: dict[int, int] = {}
        """The block that serves each key."""
        self.evicted: list[int] = []
        """Blocks that lost their key to a new use since somebody last emptied this list, in that order."""
        self._spares: dict[int, list[int]] = {}

    def take(self, n: int) -> list[int]:
        """`n` blocks from the front of the queue, for one user; the caller has checked that they are there."""
        popitem, keys, references = self.queue.popitem, self.keys, self.references
        taken = [popitem(False)[0] for _ in repeat(None, n)]
        for block in taken:
            references[block] = 1
            if keys[block] is not None:
                self.forget(block)
                self.evicted.append(block)
        return taken

    def hold(self, blocks: Iterable[int]) -> None:
        """One more user of each; null blocks are skipped."""
        references, queue = self.references, self.queue
        for block in blocks:
            if block:
                if not references[block]:
                    del queue[block]
                references[block] += 1

    def release(self, blocks: Iterable[int]) -> None:
        """One user of each fewer; those with none left are queued in this order, those without a key before all others."""
        references, queue, keys = self.references, self.queue, self.keys
        unhashed = []
        for block in blocks:
            if block:
                left = references[block] = references[block] - 1
                if not left:
                    queue[block] = None
                    if keys[block] is None:
                        unhashed.append(block)
        if self._are_unhashed_first:
            for block in reversed(unhashed):
                queue.move_to_end(block, last=False)

    def register(self, blocks: Sequence[int], keys: Sequence[int]) -> None:
        """Cache each block under its key."""
        cached, key_of, spares = self.cached, self.keys, self._spares
        for block, key in zip(blocks, keys, strict=True):
            key_of[block] = key
            if cached.setdefault(key, block) != block:
                spares.setdefault(key, []).append(block)

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

    def reset(self) -> bool:
        """Forget every key, or give False where a block is in use."""
        if len(self.queue) < self.n_blocks - 1:
            return False
        self.keys = [None] * self.n_blocks
        self.cached.clear()
        self._spares.clear()
        return True

    def to_rows(self) -> dict[str, object]:
        """Everything `from_rows` needs, as JSON would hold it."""
        spares = [[key, blocks] for key, blocks in self._spares.items()]
        serving = [block for key, block in self.cached.items() if key in self._spares]
        return {"queue": list(self.queue), "references": self.references, "keys": self.keys, "serving": serving, "spares": spares}

    def from_rows(self, queue: list[int], references: list[int], keys: list[int | None], serving: list[int], spares: list[list]) -> None:  # type: ignore[type-arg]
        """Back to what `to_rows` gave."""
        self.queue = OrderedDict.fromkeys(queue)
        self.references, self.keys = references, keys
        self.cached = {key: block for block, key in enumerate(keys) if key is not None}
        self.cached |= {key: block for block in serving if (key := keys[block]) is not None}
        self._spares = {key: blocks for key, blocks in spares}
