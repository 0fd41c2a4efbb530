"""Bounded blocks by id as a tree of runs: what a trace replay needs, at tens of millions of blocks a second.

A run is a stretch of blocks that were last used by the same request, so one list operation stands for all of them. Runs
are queued by their last use; room is made by cutting the oldest run from its end. That is, block for block, an LRU
whose requests release their last block first — measured on vLLM 0.33.0, and the same as a radix tree that evicts leaves
by age. Whoever uses a block uses all before it, so the oldest run never has a child, and nothing unreachable is ever
kept. A request longer than all the room leaves its head.

Assumed: requests do not overlap, so a request's blocks are released when it begins; every id counts as a full block;
nothing is recomputed on a full hit; what is generated has no ids. `BlockCache` models all four.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from itertools import islice


class _Run:
    """Blocks that follow one another and were last used together."""

    __slots__ = ("children", "ids", "parent")

    def __init__(self, ids: list[int], parent: _Run | None) -> None:
        self.ids = ids
        self.parent = parent
        self.children: dict[int, _Run] | None = None


class Runs:
    """Blocks by id, least recently used first to go, a request's last block before its first.

    >>> runs = Runs(capacity=4)
    >>> runs.admit([1, 2, 3]), runs.admit([1, 2, 9]), runs.admit([1, 2, 3, 4]), runs.admit([1, 2, 9])
    (0, 2, 3, 2)
    """

    def __init__(self, capacity: float) -> None:
        """`capacity` in blocks; infinity for no end."""
        self._capacity = capacity
        self._root = _Run([], None)
        self._runs: OrderedDict[_Run, None] = OrderedDict()
        self.n = 0
        self.n_evicted = 0

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
        if self.n > self._capacity:
            self._trim(self.n - int(self._capacity))
        return position

    def find(self, ids: Sequence[int]) -> int:
        """Count the leading blocks that are held; changes nothing."""
        ids = list(ids)
        n, position, node = len(ids), 0, self._root
        while position < n and node.children and (child := node.children.get(ids[position])):
            shared = _common(child.ids, ids, position)
            position += shared
            if shared < len(child.ids):
                break
            node = child
        return position

    def _add(self, node: _Run, ids: list[int]) -> None:
        """New blocks after the last of `node`: more of it where it is a leaf, since this request uses all of it, or a
        run of their own.
        """
        self.n += len(ids)
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
        self.n -= excess
        self.n_evicted += excess
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


def _common(run: list[int], ids: list[int], position: int) -> int:
    """Count the blocks of `run` that are the next ones of the request: galloping, so that a compare is one list
    operation.
    """
    low, step, high = 0, 8, min(len(run), len(ids) - position)
    while low < high and run[low : low + step] == ids[position + low : position + low + step]:
        low, step = low + step, step * 2
    pairs = zip(islice(run, low, high), islice(ids, position + low, position + high), strict=True)
    return (
        low + next((index for index, (one, other) in enumerate(pairs) if one != other), high - low)
        if low < high
        else high
    )
