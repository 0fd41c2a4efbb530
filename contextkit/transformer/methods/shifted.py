"""Re-used at another place: a stretch of rows whose tokens come again elsewhere is kept, its keys turned by the
distance.

As llama.cpp does with `--cache-reuse N` (https://github.com/ggml-org/llama.cpp, tools/server). Exact in layer 0, and
everywhere if all that stands before the stretch moved with it; else every later layer holds what was read in another
context. Never a hit: count it apart.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from contextkit.transformer.engine import n_common
from contextkit.transformer.kv_cache import ContiguousCache, KvCache
from contextkit.transformer.methods.rows import empty
from contextkit.transformer.model import Model, Step, Work
from contextkit.transformer.ops import Array, rope


def stretches(old: Sequence[int], new: Sequence[int], shortest: int) -> list[tuple[int, int, int]]:
    """What of `old` the front of `new` keeps, (from, to, rows) each: the common prefix, then stretches of at least
    `shortest` tokens.

    >>> stretches([1, 2, 3, 4, 5, 6], [1, 4, 5, 6], shortest=2)
    [(0, 0, 1), (3, 1, 2)]
    """
    wanted = list(new[:-1])  # somebody wants the last token's logits
    to = here = n_common(old, wanted)
    found = [(0, 0, to)]
    while here < len(old) and to < len(wanted):
        n = n_common(old[here:], wanted[to:])
        if n >= shortest:
            found.append((here, to, n))
            to += n
        here += n if n >= shortest else 1
    return found


def reused(model: Model, cache: KvCache, found: Sequence[tuple[int, int, int]]) -> ContiguousCache:
    """A cache for the new sequence with the rows of `found`, keys turned to where they now stand."""
    empty(model, 0)
    n = sum(length for _, _, length in found)
    other = ContiguousCache(model.shape, n_reserved=max(1, n))
    for i in range(model.shape.n_layers):
        k, v = cache.read(i, cache.n_rows)
        for start, to, length in found:
            stood = np.s_[:, start : start + length]
            other.write(i, to, rope(k[stood], np.full(length, to - start)), v[stood])
    other.n_rows = n
    return other


def logits_shifted(
    model: Model, cache: KvCache, old: Sequence[int], new: Sequence[int], shortest: int, work: Work
) -> tuple[Array, int]:
    """The last logits of `new` behind what was kept of `old` (1, vocabulary), and how many of its rows are not exact."""
    found = stretches(old, new, shortest)
    kept = reused(model, cache, found)
    n_kept = kept.n_rows
    x = model.forward([Step(kept, new[n_kept:])], work)
    return model.logits(x[-1:], work), n_kept - found[0][2]
