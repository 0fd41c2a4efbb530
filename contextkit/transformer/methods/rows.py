"""Any rows through any layer: what methods need that do not compute the end of a sequence only.

Takes rows and where they stand, and keys and values of all rows; replaces those of the rows it computes. MHA, GQA and
MQA with RoPE.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from contextkit.errors import UsageError
from contextkit.transformer import ops
from contextkit.transformer.model import Model, Work, feed_forward, normed
from contextkit.transformer.ops import Array

Places = NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class Rows:
    """Keys (rotated) and values of all layers; a method writes into them."""

    k: Array  # (layers, g, t, a)
    """Keys."""
    v: Array  # (layers, g, t, a)
    """Values."""


def empty(model: Model, n: int) -> Rows:
    """Room for `n` rows, all zero; `UsageError` for MLA, and for positions other than RoPE applied before caching."""
    shape = model.shape
    if shape.d_latent or shape.positions != "rope":
        raise UsageError(
            'this method moves keys as RoPE rotates them before they are cached: take positions="rope" and no latent'
        )
    outer = (shape.n_layers, shape.n_kv_heads, n, shape.d_head)
    return Rows(np.zeros(outer), np.zeros(outer))


def made(
    model: Model, i: int, x: Array, where: Places, work: Work
) -> tuple[Array, Array, Array]:  # -> (h, n, a), (g, n, a), (g, n, a)
    """Queries, keys and values of layer i for what enters it at `where` (n, d_model)."""
    h = normed(x, model.layers[i], "attention_norm")
    q, k, v = model.project(h, model.layers[i], model.shape, work)
    work.vectors += 2 * k.shape[0] * k.shape[1]
    return ops.rope(q, where), ops.rope(k, where), v


def through(
    model: Model, i: int, x: Array, where: Places, rows: Rows, work: Work, *, is_causal: bool = True
) -> tuple[Array, Array]:
    """Layer i for rows at `where`, which see all of `rows` or, causal, those up to their own.

    Gives what leaves the layer (n, d_model), and how much each row looked at each: attention, the mean of all heads (n,
    t).
    """
    (q, k, v), layer, shape = made(model, i, x, where, work), model.layers[i], model.shape
    rows.k[i][:, where], rows.v[i][:, where] = k, v
    scores = q.reshape(shape.n_kv_heads, -1, *q.shape[1:]) @ rows.k[i][:, None].swapaxes(2, 3) * shape.d_head**-0.5
    if is_causal:
        scores[..., np.arange(scores.shape[-1]) > where[:, None]] = -np.inf
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights /= weights.sum(axis=-1, keepdims=True)
    work.flops += 4 * int(np.isfinite(scores).sum()) * shape.d_head
    seen = (weights @ rows.v[i][:, None]).reshape(q.shape)
    x = x + work.product(ops.join_heads(seen), layer["out"])
    return x + feed_forward(normed(x, layer, "feed_norm"), layer, work), weights.mean(axis=(0, 1))
