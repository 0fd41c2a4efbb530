"""The arithmetic of a transformer as pure functions, shapes on the `def` line.

Takes arrays, gives arrays; knows nothing of layers, weights or caches. n new rows, t rows in all, d width, g KV heads,
r query heads a KV head, a and b widths of a key and a value.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.floating[Any]]
ROPE_BASE = 10_000.0
"""Of the wavelengths of RoPE."""
TILE = 128
"""Query rows attended at once: their scores stay in the processor's cache, and little of the masked half is computed.
"""


def norm(x: Array, gain: Array, shift: Array | None = None) -> Array:  # (n, d), (d,), (d,) -> (n, d)
    """RMSNorm: each row at root mean square 1, times `gain` (γ).

    With a `shift` (β) LayerNorm: its mean is taken away first, and the shift added at the end.
    """
    if shift is not None:
        return norm(x - x.mean(axis=1, keepdims=True), gain) + shift
    scale: Array = 1 / np.sqrt(np.einsum("nd,nd->n", x, x)[:, None] / x.shape[1] + 1e-6)
    return x * scale * gain


def silu(x: Array) -> Array:  # (n, d) -> (n, d)
    """x · sigmoid(x)."""
    out: Array = x / (1 + np.exp(-x))
    return out


def split_heads(x: Array, n_heads: int) -> Array:  # (n, h·d) -> (h, n, d)
    """A row's heads, one behind the other, as rows of each head."""
    return x.reshape(len(x), n_heads, -1).swapaxes(0, 1)


def join_heads(x: Array) -> Array:  # (h, n, d) -> (n, h·d)
    """The inverse of `split_heads`."""
    return x.swapaxes(0, 1).reshape(x.shape[1], -1)


def rope(x: Array, positions: NDArray[np.intp]) -> Array:  # (…, n, d), (n,) -> (…, n, d)
    """Each pair (x[i], x[i + d/2]) turned by position · 10,000^(-2i/d); turning by p, then by q is turning by p + q."""
    half = x.shape[-1] // 2
    angles = positions[:, None] * ROPE_BASE ** (-np.arange(half) / half)
    cos, sin = np.cos(angles).astype(x.dtype), np.sin(angles).astype(x.dtype)
    one, two = x[..., :half], x[..., half:]
    return np.concatenate([one * cos - two * sin, two * cos + one * sin], axis=-1)


def attend(q: Array, k: Array, v: Array, scale: float) -> Array:  # (g, r, n, a), (g, t, a), (g, t, b) -> (g, r, n, b)
    """Causal attention of the last n of t rows: row i of them sees the keys up to itself."""
    (g, r, n, _), t = q.shape, k.shape[1]
    out = np.empty((g, r, n, v.shape[2]), dtype=q.dtype)
    later = np.triu(np.ones((min(n, TILE), min(n, TILE)), dtype=bool), 1)
    for low in range(0, n, TILE):
        size = min(TILE, n - low)
        end = t - n + low + size
        scores = (q[:, :, low : low + size] * scale).reshape(g, r * size, -1) @ k[:, :end].swapaxes(1, 2)
        scores.reshape(g, r, size, end)[..., end - size :][..., later[:size, :size]] = -np.inf
        scores -= scores.max(axis=-1, keepdims=True)
        np.exp(scores, out=scores)
        seen = scores @ v[:, :end]
        seen /= scores.sum(axis=-1, keepdims=True)
        out[:, :, low : low + size] = seen.reshape(g, r, size, -1)
    return out


def n_pairs(n: int, t: int) -> int:  # n new rows of t -> pairs
    """Pairs of a query and a key it sees: all that attention has to work on.

    >>> n_pairs(3, 5)  # rows 3, 4 and 5 of five
    12
    """
    return n * (t - n) + n * (n + 1) // 2
