"""Which block serves which key, as a map: for windows, chunks, recurrent states and several groups, whose keys are
asked for one by one.

Takes keys, gives block numbers; knows nothing of queues, users or requests.

A block may also be cached where a prompt ended inside it (`register_part`), beside its own key or before it has one.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from itertools import repeat
from typing import Any

from contextkit.cache.block.index.free_queue import consume

NONE = 0
"""No key, no block."""


class ByKey:
    """Keys of blocks, and the block that serves each.

    >>> index = ByKey(9)
    >>> index.register([1, 2], [71, 72])
    >>> index.register_part(2, 75, 40, 32)
    >>> index.leading([71, 75]), index.drop([2]), index.leading([71, 72])
    ([1, 2], [2], [1])
    """

    __slots__ = ("_more", "_n_tokens", "_spares", "keys", "serves")

    def __init__(self, n_blocks: int) -> None:
        """Nothing is cached."""
        self.keys = array("q", bytes(8 * n_blocks))
        """What each block is cached under first; 0 for nothing."""
        self.serves: dict[int, int] = {}
        """The block that serves each key."""
        self._spares: dict[int, list[int]] = {}
        self._more: dict[int, list[int]] = {}
        self._n_tokens: dict[int, int] = {}

    @property
    def n(self) -> int:
        """How many keys are cached."""
        return len(self.serves)

    def leading(self, keys: Sequence[int]) -> list[int]:
        """The blocks that serve the first keys, as far as each of them is cached."""
        found = []
        for key in keys:
            if not (block := self.serves.get(key, NONE)):
                break
            found.append(block)
        return found

    def serving(self, keys: Sequence[int]) -> list[int]:
        """The block that serves each key, 0 where none does."""
        return list(map(self.serves.get, keys, repeat(NONE)))

    def register(self, blocks: Sequence[int], keys: Sequence[int]) -> None:
        """Cache each block under its key, and under nothing else."""
        if self._n_tokens and not self._n_tokens.keys().isdisjoint(blocks):
            for block in blocks:
                self.forget(block)
        consume(map(self.keys.__setitem__, blocks, keys))
        self._serve(blocks, keys)

    def register_part(self, block: int, key: int, n_tokens: int, n_full: int) -> None:
        """Cache a block under the key of the first `n_tokens` of its prompt; `n_full` are those up to its end.

        What it was cached under for fewer tokens goes; what it is cached under for more stays.
        """
        if self.has(block, key):
            return
        if self.keys[block] and self.n_tokens(block, n_full) < n_tokens:
            self.forget(block)
        if self.keys[block]:
            self._more.setdefault(block, []).append(key)
        else:
            self.keys[block] = key
            self._n_tokens[block] = n_tokens
        self._serve([block], [key])

    def n_tokens(self, block: int, n_full: int) -> int:
        """Tokens of the prompt that the block's first key stands for; 0 where it has none."""
        return self._n_tokens.get(block, n_full) if self.keys[block] else 0

    def has(self, block: int, key: int) -> bool:
        """Whether the block is cached under this key."""
        return self.keys[block] == key or key in self._more.get(block, ())

    def move(self, block: int, to: int) -> None:
        """Everything `block` is cached under is now `to`'s, which has no key yet."""
        keys, n_tokens = [self.keys[block], *self._more.get(block, ())], self._n_tokens.get(block)
        self.forget(block)
        if not keys[0]:
            return
        self.keys[to] = keys[0]
        if n_tokens is not None:
            self._n_tokens[to] = n_tokens
        if keys[1:]:
            self._more[to] = keys[1:]
        self._serve([to] * len(keys), keys)

    def drop(self, blocks: list[int]) -> list[int]:
        """These blocks get another use: those of them that were cached, which they are no more."""
        cached = [block for block in blocks if self.keys[block]]
        for block in cached:
            self.forget(block)
        return cached

    def forget(self, block: int) -> None:
        """The block is cached no more; another one with its key takes its place."""
        key = self.keys[block]
        if not key:
            return
        self.keys[block] = NONE
        self._n_tokens.pop(block, None)
        for one in (key, *self._more.pop(block, ())):
            self._give_up(block, one)

    def clear(self) -> None:
        """Nothing is cached."""
        self.keys = array("q", bytes(8 * len(self.keys)))
        for row in (self.serves, self._spares, self._more, self._n_tokens):
            row.clear()

    def hide(self, keys: Sequence[int], index: int) -> int:
        """Take away what serves one key of a prompt, as if it were not there.

        Gives its block, 0 for none. `show` undoes it.
        """
        return self.serves.pop(keys[index], NONE)

    def show(self, key: int, block: int) -> None:
        """Bring back what was hidden."""
        self.serves[key] = block

    def to_rows(self) -> dict[str, Any]:
        """Everything `from_rows` needs, as JSON would hold it."""
        rows: dict[str, dict[int, Any]] = {
            "serves": self.serves,
            "spares": self._spares,
            "more": self._more,
            "n_tokens": self._n_tokens,
        }
        return {"keys": self.keys.tolist(), **{name: list(row.items()) for name, row in rows.items()}}

    def from_rows(self, rows: dict[str, Any]) -> None:
        """Back to what `to_rows` gave."""
        self.keys = array("q", rows["keys"])
        self.serves, self._spares = dict(rows["serves"]), dict(rows["spares"])
        self._more, self._n_tokens = dict(rows["more"]), dict(rows["n_tokens"])

    def _serve(self, blocks: Iterable[int], keys: Iterable[int]) -> None:
        for block, key in zip(blocks, keys, strict=True):
            if self.serves.setdefault(key, block) != block:
                self._spares.setdefault(key, []).append(block)

    def _give_up(self, block: int, key: int) -> None:
        spares = self._spares.get(key)
        if spares is None:
            self.serves.pop(key, None)
            return
        if self.serves[key] == block:
            self.serves[key] = spares.pop(0)
        else:
            spares.remove(block)
        if not spares:
            del self._spares[key]
