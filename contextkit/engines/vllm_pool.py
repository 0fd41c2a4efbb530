"""The blocks of vLLM's cache: who uses each, what it is cached under, and the queue of free ones.

Measured on vLLM 0.33.0: block 0 is set aside as the null block; the queue of free blocks starts in ascending order;
whoever is freed joins its end, blocks without a key its front (`Rules.is_unhashed_first`; with caching off that is
every block); new blocks come from its front and lose their key there; a hit leaves the queue; equal blocks are never
merged, so a key may have several blocks: the first one serves, and the key goes with the last one. A reset is refused
while any block is used.

There are two indexes from keys to blocks. `ByChain`, for one group of full attention, needs 12 bytes a block instead of
an entry in a map: a block remembers the block that follows it, and its own key; a lookup steps from block to block and
compares. Only what cannot be found so has an entry in `heads`: all but one of those that follow the same block, blocks
whose predecessor is gone, and keys with several blocks. A remembered follower may be stale (gone, or used for something
else); the key tells. `ByKey` is a map, for windows, chunks, recurrent states and several groups, whose keys are asked
for one by one; a block may also be cached where a prompt ended inside it (`register_part`), beside its own key or
before it has one.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import repeat

from contextkit.engines.vllm_groups import NULL

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
        """The number of cached keys."""
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
        """The number of cached keys."""
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
        """Return whether the block is cached under this key."""
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
        """Count the requests that use a block; the null block is not counted."""
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
