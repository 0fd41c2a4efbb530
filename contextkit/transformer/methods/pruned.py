"""Attention over few keys, found in stages: chunks are scored by one of their keys, the best are kept and cut smaller.

InfiniteHiP (arXiv 2502.08910), one sequence, one row at a time. A mask is used for some steps; first layers are dense;
no row is ever lost. A chunk's key is found by going to the half whose first key scores higher: the search is as good as
neighbouring keys are alike.

Beyond the positions a model knows (`Pruning.length`), positions are relative to chunks: while keys are chosen, all keys of
a chunk stand at its number; those that are kept are numbered one by one, the new row last.

All keys and values lie in slow memory, those asked for last in fast memory (`FastTier`): one tier for keys a mask is
chosen with, one for rows that are attended. Nothing is moved here, only counted, since where a row lies changes no
number.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterable
from dataclasses import dataclass

import numpy as np

from contextkit.errors import UsageError
from contextkit.transformer import ops
from contextkit.transformer.methods.rows import Places
from contextkit.transformer.model import Model, Work
from contextkit.transformer.ops import Array
from contextkit.transformer.weights import Weights


class FastTier:
    """An LRU cache of names. A larger one hits wherever a smaller one does.

    >>> tier = FastTier(2)
    >>> tier.ask("abcab"), tier.ask("b")
    (0, 1)
    >>> tier.cost(slow=10.0)
    51.0
    """

    __slots__ = ("_held", "capacity", "hits", "misses")

    def __init__(self, capacity: int) -> None:
        self.capacity, self.hits, self.misses = capacity, 0, 0
        self._held: OrderedDict[Hashable, None] = OrderedDict()

    def ask(self, names: Iterable[Hashable]) -> int:
        """Use rows one after another; how many of them were in the fast tier."""
        before = self.hits
        for name in names:
            self.hits, self.misses = self.hits + (name in self._held), self.misses + (name not in self._held)
            self._held[name] = None
            self._held.move_to_end(name)
            if len(self._held) > self.capacity:
                self._held.popitem(last=False)
        return self.hits - before

    def cost(self, slow: float) -> float:
        """Return the cost of all accesses: 1 in the fast tier, `slow` in the slow one."""
        return self.hits + self.misses * slow


@dataclass(frozen=True, slots=True)
class Pruning:
    """How much is looked at."""

    sinks: int = 4
    """First rows, always attended."""
    window: int = 32
    """Last rows, always attended."""
    stages: tuple[tuple[int, int], ...] = ((16, 128), (4, 64))
    """(keys in a chunk, keys kept), a stage each."""
    refresh: int = 4
    """Steps a mask is used."""
    dense_layers: int = 1
    """First layers, which see everything."""
    length: int | None = None
    """Positions the model knows; a longer context is read with positions below it, in no layer densely. None: any."""

    @property
    def most_rows(self) -> int:
        """Rows that are attended at most."""
        size, budget = self.stages[-1]
        return self.sinks + -(-budget // size) * size + self.window + self.refresh


def chosen(
    q: Array, k: Array, pruning: Pruning, length: int | None = None
) -> tuple[Places, Places]:  # (r, a), (t, a) -> (kept,), (asked,)
    """Places of the keys that heads `q` keep of those between sinks and window, and of those that were scored to find
    them.

    With `length` neither queries nor keys are rotated yet: chunks are numbered from 0, all below it.
    """
    kept, asked = np.arange(pruning.sinks, max(pruning.sinks, len(k) - pruning.window)), [np.empty(0, np.intp)]
    for size, budget in pruning.stages:
        starts, n = np.arange(0, len(kept), size), size if len(kept) > budget else 1
        numbers = np.arange(len(starts)) * length // max(len(starts), length) if length else starts
        asking = ops.rope(q, np.full(len(q), min(len(starts), length - 1))) if length else q

        def scored(rows: Places) -> Array:  # (…, chunks) -> (…, chunks): of the head that looks most
            keys = ops.rope(k[rows], numbers) if length else k[rows]  # noqa: B023 - used in this round only
            best: Array = (keys @ asking.T).max(axis=-1)  # noqa: B023
            return best

        while n > 1:  # each chunk goes to one of its halves
            n //= 2
            right = np.minimum(starts + n, len(kept) - 1)
            pair = kept[np.stack([starts, right])]
            asked.append(pair.ravel())
            starts = np.where(scored(pair).argmax(axis=0), right, starts)
        best = np.sort(np.argsort(-scored(kept[starts]), kind="stable")[: -(-budget // size)])
        kept = np.concatenate([kept[:0], *(kept[i * size : (i + 1) * size] for i in best)])
    return kept, np.concatenate(asked)


class PrunedModel(Model):
    """A model whose single new rows see few keys; several at once (a prefill) see all, up to `Pruning.length`."""

    __slots__ = ("_masks", "attended_keys", "mask_keys", "pruning")

    def __init__(self, weights: Weights, pruning: Pruning, fast_rows: int = 1 << 30) -> None:
        super().__init__(weights)
        shape, length = weights.shape, pruning.length
        if length and (shape.d_latent or shape.positions == "learned" or pruning.most_rows > length):
            raise UsageError(
                f"length={length}: rows are numbered anew as RoPE turns them, without a latent, and the {pruning.most_rows} "
                "attended at most fit into it: keep fewer"
            )
        self.pruning, self._masks = pruning, dict[tuple[int, int], tuple[int, Places]]()
        self.mask_keys, self.attended_keys = FastTier(fast_rows), FastTier(fast_rows)

    def attended(
        self, q: Array, k: Array, v: Array, i: int, work: Work
    ) -> Array:  # (g, r, n, a), (g, t, a), (g, t, b) -> (g, r, n, b)
        """Attend with one new row, by the mask of each KV head."""
        n, t = q.shape[2], k.shape[1]
        known = max(0, min(n, (self.pruning.length or t) - t + n))  # rows that stand at positions the model knows
        if 0 < known < n or (n > 1 and not known):
            ends = [*([known] if known else []), *range(known + 1, n + 1)]
            cuts = zip([0, *ends], ends, strict=False)
            parts = [self.attended(q[:, :, a:b], k[:, : t - n + b], v[:, : t - n + b], i, work) for a, b in cuts]
            return np.concatenate(parts, axis=2)
        if known and (q.shape[2] > 1 or i < self.pruning.dense_layers):
            return super().attended(q, k, v, i, work)
        return np.stack(
            [self._pruned(q[head, :, 0], k[head], v[head], (i, head), work)[:, None] for head in range(len(k))]
        )

    def _pruned(
        self, q: Array, k: Array, v: Array, place: tuple[int, int], work: Work
    ) -> Array:  # (r, a), (t, a), (t, b) -> (r, b)
        t, pruning = len(k), self.pruning
        length = pruning.length if pruning.length and t > pruning.length else None
        if length:  # turned back: what a key says without where it stood
            q, k = ops.rope(q, np.full(len(q), 1 - t)), ops.rope(k, -np.arange(t))
        if place not in self._masks or not 0 <= t - self._masks[place][0] < pruning.refresh:
            kept, asked = chosen(q, k, pruning, length)
            self._masks[place] = t, kept
            self.mask_keys.ask((*place, row) for row in asked.tolist())
            work.flops += 2 * asked.size * q.size
        (made_at, kept), n_sinks = self._masks[place], min(pruning.sinks, t)
        rows = np.concatenate([np.arange(n_sinks), kept, np.arange(max(n_sinks, made_at - pruning.window), t)])
        self.attended_keys.ask((*place, row) for row in rows.tolist())
        work.flops, work.rows_read = (
            work.flops + 2 * rows.size * len(q) * (k.shape[1] + v.shape[1]),
            work.rows_read + rows.size,
        )
        keys = k[rows]
        if length:
            q, keys = ops.rope(q, np.full(len(q), rows.size - 1)), ops.rope(keys, np.arange(rows.size))
        return ops.attend(q[None, :, None], keys[None], v[rows][None], self.shape.d_query**-0.5)[0, :, 0]
