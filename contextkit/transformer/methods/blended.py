"""Chunks computed alone, put side by side, and of each only the rows computed again that depend most on what stands
before it.

CacheBlend (arXiv 2405.16444): keys are turned to their new places; layer 0 is computed for all rows and is exact; in
layer 1 those rows are chosen whose keys are furthest from what was cached; deeper layers compute only these. Share 1 is
exact, share 0 is plain re-use.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from contextkit.transformer.methods.rows import Places, Rows, empty, made, through
from contextkit.transformer.model import Model, Work
from contextkit.transformer.ops import Array, rope

Choose = Callable[[Array, int], Places]
"""Deviation of each old row (n,), and how many to take → which."""


def furthest(deviation: Array, n: int) -> Places:  # (rows,) -> (n,)
    """The paper's choice: rows that deviate most."""
    return np.argsort(-deviation, kind="stable")[:n]


def alone(model: Model, tokens: Sequence[int], work: Work) -> Rows:
    """The rows of a chunk that begins at 0."""
    rows, where = empty(model, len(tokens)), np.arange(len(tokens))
    x = model.embedded(tokens, where)
    for i in range(model.shape.n_layers):
        x, _ = through(model, i, x, where, rows, work)
    work.positions += len(tokens)
    return rows


def joined(model: Model, chunks: Sequence[Rows], n: int) -> Rows:
    """Chunks one behind the other, keys turned to their new places; `n` rows of room behind them."""
    rows, start = empty(model, sum(chunk.k.shape[2] for chunk in chunks) + n), 0
    for chunk in chunks:
        end = start + chunk.k.shape[2]
        rows.k[:, :, start:end] = rope(chunk.k, np.full(end - start, start))
        rows.v[:, :, start:end] = chunk.v
        start = end
    return rows


def blended(
    model: Model,
    chunks: Sequence[tuple[Sequence[int], Rows]],
    question: Sequence[int],
    share: float,
    work: Work,
    choose: Choose = furthest,
) -> tuple[Array, Rows, Places]:  # -> (1, vocabulary)
    """Logits behind chunks and a question, all rows, and which of the chunks' were computed in every layer: a `share`
    of them.
    """
    tokens = [token for part, _ in chunks for token in part]
    n_old, where = len(tokens), np.arange(len(tokens) + len(question))
    rows = joined(model, [old for _, old in chunks], len(question))
    x, _ = through(model, 0, model.embedded([*tokens, *question], where), where, rows, work)
    _, k, _ = made(model, 1, x, where, work)
    deviation = ((k - rows.k[1])[:, :n_old] ** 2).sum(axis=(0, 2))
    again = np.sort(choose(deviation, round(share * n_old)))
    chosen = np.concatenate([again, where[n_old:]])
    x = x[chosen]
    for i in range(1, model.shape.n_layers):
        x, _ = through(model, i, x, chosen, rows, work)
    return model.logits(x[-1:], work), rows, again
