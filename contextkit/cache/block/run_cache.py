"""A bounded cache of blocks somebody already hashed, kept as a tree of runs: what a trace replay needs, at tens of millions of blocks a second.

Takes block ids, gives how many leading ones were there; knows nothing of tokens, keys or requests under way.

A run is a stretch of blocks that were last used by the same request, so one list operation stands for all of them. Runs are queued by
their last use; room is made by cutting the oldest run from its end. That is, block for block, an LRU whose requests release their last
block first — measured on vLLM 0.33.0, and the same as a radix tree that evicts leaves by age. Whoever uses a block uses all before it,
so the oldest run never has a child, and nothing unreachable is ever kept.

Assumed: requests do not overlap (a request's blocks are released when it begins), every id counts as a full block, and nothing is
recomputed on a full hit; `BlockCache` models all three. A request longer than the whole cache leaves its head.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from math import inf

import orjson

from contextkit.cache.block.ids import BlockIds
from contextkit.cache.prefix_cache import Hit, Lease
from contextkit.cache.usage import Usage
from contextkit.errors import StorageError, UsageError

_FORMAT = {"kind": "run_cache", "version": 1}
"""What a snapshot says it is."""


class _Run:
    """Blocks that follow one another and were last used together."""

    __slots__ = ("children", "ids", "parent")

    def __init__(self, ids: list[int], parent: _Run | None) -> None:
        self.ids = ids
        self.parent = parent
        self.children: dict[int, _Run] | None = None


class RunCache:
    """Blocks by id, least recently used first to go, a request's last block before its first; satisfies `PrefixCache[BlockIds]`.

    >>> cache = RunCache(capacity=4)
    >>> cache.admit([1, 2, 3]), cache.admit([1, 2, 9]), cache.admit([1, 2, 3, 4]), cache.admit([1, 2, 9])
    (0, 2, 3, 2)
    """

    def __init__(self, capacity: int | None = None) -> None:
        """`capacity` in blocks, None for no end; raises `UsageError` below 1."""
        if capacity is not None and capacity < 1:
            raise UsageError(f"capacity is {capacity}: a cache holds at least 1 block; pass None for an unbounded one")
        self._capacity: float = inf if capacity is None else capacity
        self.reset()

    def admit(self, ids: Sequence[int]) -> int:
        """Use a whole request at once: how many leading blocks were there; all of them are now, and the newest."""
        if type(ids) is not list:
            ids = list(ids)
        n, position, node, path = len(ids), 0, self._root, []
        while position < n:
            children = node.children
            child = children.get(ids[position]) if children else None
            if child is None:
                break
            end = position + len(child.ids)
            if child.ids != ids[position:end]:
                child = self._split(child, _common(child.ids, ids, position))
                end = position + len(child.ids)
            path.append(child)
            node, position = child, end
        if position < n:
            self._add(node, ids[position:] if position else ids[:])
        renew = self._runs.move_to_end
        for run in reversed(path):
            renew(run)
        if self._n > self._capacity:
            self._trim(self._n - int(self._capacity))
        return position

    def find(self, ids: Sequence[int]) -> int:
        """How many leading blocks are there; changes nothing."""
        ids = list(ids)
        n, position, node = len(ids), 0, self._root
        while position < n and node.children and (child := node.children.get(ids[position])):
            shared = _common(child.ids, ids, position)
            position += shared
            if shared < len(child.ids):
                break
            node = child
        return position

    def lookup(self, prompt: BlockIds, now: float) -> Hit:
        """What would be read now; changes nothing. `segment` is the last block that is covered."""
        return _hit(self.find(prompt.ids), prompt.size)

    def quote(self, prompt: BlockIds, now: float) -> Usage:
        """What sending it now would be billed, `output` 0; changes nothing."""
        return _bill(prompt, self.find(prompt.ids))

    def begin(self, prompt: BlockIds, now: float) -> Lease:
        """A request starts: its blocks are readable, and the newest, at once."""
        n = self.admit(prompt.ids)
        lease = Lease(_hit(n, prompt.size), _bill(prompt, n), now, ())
        self._counters.update(requests=1, hits=bool(n), miss_first_write=not n, read_blocks=n, fresh_blocks=len(prompt.ids) - n)
        return lease

    def publish(self, lease: Lease, now: float) -> None:
        """Its response begins, which changes nothing here: it was readable from the start."""

    def end(self, lease: Lease, output: int, now: float) -> Usage:
        """Its response is complete: the whole bill. What it generated has no ids, so nothing of it is kept."""
        self._counters["output_tokens"] += output
        return replace(lease.usage, output=output)

    def stats(self) -> dict[str, int]:
        """Counters of `begin` and `end` since the last reset, and the blocks held now."""
        return dict(self._counters) | {"blocks": self._n, "runs": len(self._runs), "blocks_evicted": self._n_evicted}

    def resident(self) -> list[int]:
        """All blocks held, the next to go first."""
        return [block for run in self._runs for block in reversed(run.ids)]

    def snapshot(self) -> bytes:
        """Everything `restore` needs, as JSON."""
        numbers = {run: number for number, run in enumerate(self._runs)}
        runs = [(numbers.get(run.parent), run.ids) for run in self._runs]  # type: ignore[arg-type]  # the root has no number
        return orjson.dumps({**_FORMAT, "runs": runs, "n_evicted": self._n_evicted, "counters": self._counters})

    def restore(self, state: bytes) -> None:
        """Back to a snapshot; raises `StorageError`, and changes nothing, where `state` is not one of a `RunCache`."""
        try:
            data = orjson.loads(state)
            if {name: data[name] for name in _FORMAT} != _FORMAT:
                raise ValueError(f"it is of {data['kind']!r}, version {data['version']!r}")
            runs = [_Run([int(block) for block in ids], None) for _, ids in data["runs"]]
            root = _Run([], None)
            for run, (parent, _) in zip(runs, data["runs"], strict=True):
                _attach(run, root if parent is None else runs[parent])
            counters, n_evicted = Counter(data["counters"]), int(data["n_evicted"])
        except (ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
            raise StorageError(f"not a snapshot of a RunCache ({error!r}): pass what RunCache.snapshot() gave") from error
        self._root, self._runs = root, OrderedDict.fromkeys(runs)
        self._n, self._counters, self._n_evicted = sum(len(run.ids) for run in runs), counters, n_evicted

    def reset(self) -> None:
        """Forget everything."""
        self._root = _Run([], None)
        self._runs: OrderedDict[_Run, None] = OrderedDict()
        self._n = 0
        self._n_evicted = 0
        self._counters: Counter[str] = Counter()

    def _add(self, node: _Run, ids: list[int]) -> None:
        """New blocks after the last of `node`: more of it where it is a leaf, since this request uses all of it, or a run of their own."""
        self._n += len(ids)
        if node.children:
            run = node.children[ids[0]] = _Run(ids, node)
        elif node.parent:
            node.ids += ids
            return
        else:
            run = _Run(ids, node)
            node.children = {ids[0]: run}
        self._runs[run] = None

    def _split(self, run: _Run, n: int) -> _Run:
        """Cut a run after `n` blocks; gives the first part. The rest keeps its place in the queue."""
        head = _Run(run.ids[:n], run.parent)
        del run.ids[:n]
        head.parent.children[head.ids[0]] = head  # type: ignore[union-attr,index]  # every run hangs under one
        head.children = {run.ids[0]: run}
        run.parent = head
        self._runs[head] = None
        return head

    def _trim(self, excess: int) -> None:
        """Cut so many blocks off the oldest runs, each from its end."""
        self._n -= excess
        self._n_evicted += excess
        while excess:
            run = next(iter(self._runs))
            if excess < len(run.ids):
                del run.ids[-excess:]
                return
            excess -= len(run.ids)
            del self._runs[run]
            parent = run.parent
            del parent.children[run.ids[0]]  # type: ignore[union-attr]
            if not parent.children:  # type: ignore[union-attr]
                parent.children = None  # type: ignore[union-attr]
            run.parent = None


def _attach(run: _Run, parent: _Run) -> None:
    run.parent = parent
    parent.children = {**(parent.children or {}), run.ids[0]: run}


def _common(run: list[int], ids: list[int], position: int) -> int:
    """How many blocks of `run` are the next ones of the request: galloping, so that a compare is one list operation."""
    low, step, high = 0, 8, min(len(run), len(ids) - position)
    while low < high and run[low : low + step] == ids[position + low : position + low + step]:
        low, step = low + step, step * 2
    pairs = zip(islice(run, low, high), islice(ids, position + low, position + high), strict=True)
    return low + next((index for index, (one, other) in enumerate(pairs) if one != other), high - low) if low < high else high


def _hit(n: int, size: int) -> Hit:
    return Hit(n * size, 0, n - 1, "hit", None) if n else Hit(0, 0, None, "first_write", None)


def _bill(prompt: BlockIds, n: int) -> Usage:
    return Usage((len(prompt.ids) - n) * prompt.size, n * prompt.size, 0, 0, 0, estimated=True)
