"""Attention sinks and a window: the first few rows and the last ones stay, what is between them is forgotten for good.

StreamingLLM (arXiv 2309.17453): positions are places in the cache, so keys are kept as they are and rotated when read
(`positions="rope_at_read"`). Nothing is ever computed again, and a stream of any length is read in constant memory.
Trained models put the attention they do not need on the first rows, which is why a window that drops these fails;
`with_sink` builds that into weights.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from contextkit.errors import UsageError
from contextkit.transformer.kv_cache import ContiguousCache
from contextkit.transformer.model import Model, Step, Work
from contextkit.transformer.ops import Array
from contextkit.transformer.weights import Shape, Weights


class SinkCache(ContiguousCache):
    """Holds at most `sinks + window` rows."""

    __slots__ = ("sinks", "window")

    def __init__(self, shape: Shape, sinks: int = 4, window: int = 60) -> None:
        """`UsageError` for another kind of positions, and for no window."""
        if shape.positions != "rope_at_read" or window < 1:
            raise UsageError(
                'a cache that drops rows moves the others: take positions="rope_at_read", and a window of at least 1'
            )
        super().__init__(shape, n_reserved=sinks + window)
        self.sinks, self.window = sinks, window

    def make_room(self, n: int) -> None:
        """Drop the oldest rows behind the sinks, until `n` more fit."""
        gone = self.n_rows + n - self.sinks - self.window
        if gone <= 0:
            return
        for i in range(self._shape.n_layers):
            k, v = self.read(i, self.n_rows)
            self.write(i, self.sinks, k[:, self.sinks + gone :].copy(), v[:, self.sinks + gone :].copy())
        self.cut(self.n_rows - gone)


def stream(model: Model, cache: SinkCache, tokens: Sequence[int], work: Work) -> Array:  # -> (n, vocabulary)
    """Read tokens one by one; the logits behind each."""
    rows = []
    for token in tokens:
        cache.make_room(1)
        rows.append(model.forward([Step(cache, [token])], work))
    return model.logits(np.concatenate(rows), work)


def with_sink(weights: Weights, token: int, strength: float = 2.5, sharpness: float = 1.0) -> Weights:
    """The same weights, all heads of which look at `token` unless something else matters more, and take nothing from
    it.

    Two dimensions are set apart: one that every row has, which queries read, and one that only `token` has, which its
    keys read. RoPE hardly turns a head's last pair, where the two meet; queries are `sharpness` times as long, since
    those of seeded weights tell keys badly apart. Nobody has trained this; it is the structure that training is
    reported to make.
    """
    shape, arrays = weights.shape, {name: array.copy() for name, array in weights.arrays.items()}
    all_rows, sink, last = shape.d_model - 1, shape.d_model - 2, slice(shape.d_head // 2 - 1, None, shape.d_head)
    arrays["embedding"][token] = 0
    arrays["embedding"][:, all_rows], arrays["embedding"][:, sink] = 1.0, 0.0
    arrays["embedding"][token, sink] = 1.0
    for name in [name for name in arrays if name.split(".")[-1] in {"q", "k", "v", "gate", "up"}]:
        arrays[name][[all_rows, sink]] = 0
    for i in range(shape.n_layers):
        arrays[f"{i}.out"][:, [all_rows, sink]] = arrays[f"{i}.down"][:, [all_rows, sink]] = 0
        arrays[f"{i}.q"] *= sharpness
        arrays[f"{i}.q"][all_rows, last] = arrays[f"{i}.k"][sink, last] = strength
    return Weights(shape, arrays)
