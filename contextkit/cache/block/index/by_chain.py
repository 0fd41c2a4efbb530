"""Which block serves which key, where every block has one key and follows another: 12 bytes a block instead of an entry
in a map.

Takes keys of a prompt from the front, gives block numbers; knows nothing of queues, users or requests. For one group of
full attention.

A block remembers the block that follows it, and its own key; a lookup steps from block to block and compares. Only what
cannot be found so has an entry in `heads`: all but one of those that follow the same block, blocks whose predecessor is
gone, and keys with several blocks. A remembered follower may be stale (gone, or used for something else); the key
tells.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from itertools import repeat
from typing import Any

from contextkit.cache.block.index.free_queue import consume

NONE = 0
"""No key; and the null block, which stands before the first one of every prompt."""


class ByChain:
    """Keys of blocks, and the way from each to the next.

    >>> index = ByChain(9)
    >>> index.register([1, 2, 3], [71, 72, 73], 0, 3)
    >>> index.register([1, 2, 4], [71, 72, 79], 2, 3)
    >>> index.leading([71, 72, 79, 80]), index.drop([3, 2]), index.leading([71, 72, 79])
    ([1, 2, 4], [3, 2], [1])
    """

    __slots__ = ("_heads", "_n_hidden", "_next", "_spares", "keys")

    def __init__(self, n_blocks: int) -> None:
        """Nothing is cached."""
        self.keys = array("q", bytes(8 * n_blocks))
        """What each block is cached under; 0 for nothing."""
        self._next = array("i", bytes(4 * n_blocks))
        self._heads: dict[int, int] = {}
        self._spares: dict[int, list[int]] = {}
        self._n_hidden = 0

    @property
    def n(self) -> int:
        """How many keys are cached."""
        return len(self.keys) - self.keys.count(NONE) - sum(map(len, self._spares.values())) - self._n_hidden

    def leading(self, keys: Sequence[int]) -> list[int]:
        """The blocks that serve the first keys, as far as each of them is cached."""
        follower, own, head, block = self._next, self.keys, self._heads.get, NONE
        found: list[int] = []
        append = found.append
        for key in keys:
            block = follower[block]
            if own[block] != key:
                block = head(key, NONE)
                if not block:
                    break
            append(block)
        return found

    def serving(self, keys: Sequence[int]) -> list[int]:
        """The block that serves each of a prompt's keys from the front, 0 where none does."""
        parent: int | None = NONE
        found = []
        for key in keys:
            found.append(self._serving(key, parent))
            parent = found[-1] or None  # not the null block, which only the first ones follow
        return found

    def register(self, table: Sequence[int], keys: Sequence[int], start: int, end: int) -> None:
        """Cache a prompt's blocks `start`…`end`, which have no key yet.

        `table` and `keys` are those of the whole prompt.
        """
        blocks, fresh, parent = table[start:end], keys[start:end], self._parent(table, keys, start)
        if not self._heads.keys().isdisjoint(fresh) or (
            parent is not None and self.keys[self._next[parent]] == fresh[0]
        ):
            self._join(blocks, fresh, parent)
            return
        consume(map(self.keys.__setitem__, blocks, fresh))
        self._follow(parent, blocks[0], fresh[0])
        consume(map(self._next.__setitem__, blocks, blocks[1:]))

    def drop(self, blocks: list[int]) -> list[int]:
        """These blocks get another use: those of them that were cached, which they are no more."""
        own = self.keys
        old = list(map(own.__getitem__, blocks))
        if not any(old):
            return []
        cached = [block for block, key in zip(blocks, old, strict=True) if key] if NONE in old else blocks
        if self._spares and not self._spares.keys().isdisjoint(old):
            for block in cached:
                self.forget(block)
            return cached[:]
        consume(map(own.__setitem__, cached, repeat(NONE)))
        for key in self._heads.keys() & old:
            del self._heads[key]
        followers = list(map(self._next.__getitem__, cached))
        if any(left := list(map(own.__getitem__, followers))):
            for follower, key in zip(followers, left, strict=True):
                if key:
                    self._heads.setdefault(key, follower)
        consume(map(self._next.__setitem__, cached, repeat(NONE)))
        return cached[:]

    def forget(self, block: int) -> None:
        """The block is cached no more; another one with its key takes its place."""
        key = self.keys[block]
        if not key:
            return
        self._release(block)
        self._next[block] = self.keys[block] = NONE
        spares = self._spares.get(key)
        if spares is None:
            if self._heads.get(key) == block:
                del self._heads[key]
            return
        if self._heads[key] == block:
            self._heads[key] = spares.pop(0)
        else:
            spares.remove(block)
        if not spares:
            del self._spares[key]

    def clear(self) -> None:
        """Nothing is cached."""
        n_blocks = len(self.keys)
        self.keys, self._next = array("q", bytes(8 * n_blocks)), array("i", bytes(4 * n_blocks))
        self._heads.clear()
        self._spares.clear()

    def hide(self, keys: Sequence[int], index: int) -> int:
        """Take away what serves one key of a prompt, as if it were not there.

        Gives its block, 0 for none. `show` undoes it.
        """
        serving = self.serving(keys[: index + 1])
        block, parent = serving[-1], (NONE, *serving)[-2]
        if block:
            self._n_hidden += 1
            self._release(block)
            self._heads.pop(keys[index], None)
            self._next[block] = NONE
            if (parent or not index) and self._next[parent] == block:
                self._next[parent] = NONE
        return block

    def show(self, key: int, block: int) -> None:
        """Bring back what was hidden."""
        self._heads[key] = block
        self._n_hidden -= 1

    def to_rows(self) -> dict[str, Any]:
        """Everything `from_rows` needs, as JSON would hold it."""
        rows = {"heads": list(self._heads.items()), "spares": list(self._spares.items())}
        return {"keys": self.keys.tolist(), "next": self._next.tolist(), **rows}

    def from_rows(self, rows: dict[str, Any]) -> None:
        """Back to what `to_rows` gave."""
        self.keys, self._next = array("q", rows["keys"]), array("i", rows["next"])
        self._heads, self._spares = dict(rows["heads"]), dict(rows["spares"])

    def _parent(self, table: Sequence[int], keys: Sequence[int], start: int) -> int | None:
        """The block that serves the key before `start`: the null block at the front, None where none does."""
        if start == 0:
            return NONE
        key, before = keys[start - 1], table[start - 1]
        if found := self._heads.get(key):
            return found
        if self.keys[before] == key:
            return before
        return self.serving(keys[:start])[-1] or None  # the one in the table was forgotten while in use

    def _serving(self, key: int, parent: int | None) -> int:
        block = self._next[parent] if parent is not None else NONE
        return block if block and self.keys[block] == key else self._heads.get(key, NONE)

    def _follow(self, parent: int | None, block: int, key: int) -> None:
        """Make `block` findable: behind its predecessor where that has no follower yet, else by an entry."""
        if parent is None or self.keys[self._next[parent]]:
            self._heads[key] = block
        else:
            self._next[parent] = block

    def _release(self, block: int) -> None:
        """Its follower is found by an entry from now on."""
        follower = self._next[block]
        if key := self.keys[follower]:
            self._heads.setdefault(key, follower)

    def _join(self, blocks: Iterable[int], keys: Iterable[int], parent: int | None) -> None:
        """One by one, since some of the keys are cached already: of equal blocks the first one serves."""
        for block, key in zip(blocks, keys, strict=True):
            first = self._serving(key, parent)
            self.keys[block] = key
            if not first:
                self._follow(parent, block, key)
                parent = block
                continue
            self._spares.setdefault(key, []).append(block)
            self._heads[key] = first
            if parent is not None and self._next[parent] == block:
                self._next[parent] = NONE  # left from the block's last use: it would seem to serve
            parent = first
