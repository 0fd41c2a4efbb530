"""The same model once more, written to be obviously right: no cache, no batch, one head at a time, MLA with its keys
unpacked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from contextkit.transformer.ops import Array
from contextkit.transformer.weights import Shape, Weights

VARIANTS = {
    "MHA": Shape(),
    "MHA, learned": Shape(positions="learned", max_positions=512),
    "MHA, classic": Shape(formulas="classic"),
    "MHA, classic, learned": Shape(formulas="classic", positions="learned", max_positions=512),
    "GQA": Shape(n_kv_heads=2),
    "GQA, rotated at read": Shape(n_kv_heads=2, positions="rope_at_read"),
    "MQA": Shape(n_kv_heads=1),
    "MLA": Shape(n_kv_heads=1, d_latent=24, d_rope=8),
    "MLA, rotated at read": Shape(n_kv_heads=1, d_latent=24, d_rope=8, positions="rope_at_read"),
    "MLA, learned": Shape(n_kv_heads=1, d_latent=24, d_rope=8, positions="learned", max_positions=512),
}


def turned(row: Array, position: int) -> Array:
    """RoPE with complex numbers."""
    half = len(row) // 2
    z = (row[:half] + 1j * row[half:]) * np.exp(1j * position * 10_000.0 ** (-np.arange(half) / half))
    return np.concatenate([z.real, z.imag])


def normed(x: Array, arrays: Mapping[str, Array], name: str) -> Array:
    gain = arrays[name]
    if name + "_beta" in arrays:  # LayerNorm, as the articles write it
        variance = ((x - x.mean(axis=1)[:, None]) ** 2).mean(axis=1)[:, None]
        return (x - x.mean(axis=1)[:, None]) / np.sqrt(variance + 1e-6) * gain + arrays[name + "_beta"]
    return x / np.sqrt((x * x).mean(axis=1, keepdims=True) + 1e-6) * gain


def run(weights: Weights, tokens: Sequence[int]) -> tuple[Array, list[tuple[Array, Array]]]:
    """Logits of every token (n, vocabulary), and each layer's rows as a cache would hold them: (g, n, a), (g, n, b)."""
    shape, arrays = weights.shape, weights.arrays
    x = arrays["embedding"][list(tokens)]
    if shape.positions == "learned":
        x = x + arrays["position"][: len(tokens)]
    rows = []
    for i in range(shape.n_layers):
        layer = weights.layer(i)
        h = normed(x, layer, "attention_norm")
        seen, cached = (latent if shape.d_latent else heads)(shape, layer, h)
        rows.append(cached)
        x = x + seen @ layer["out"]
        h = normed(x, layer, "feed_norm")
        if shape.formulas == "classic":
            inner = h @ layer["up"] + layer["up_bias"]
            fed = np.where(inner > 0, inner, 0) @ layer["down"] + layer["down_bias"]
        else:
            gate = h @ layer["gate"]
            fed = (gate / (1 + np.exp(-gate)) * (h @ layer["up"])) @ layer["down"]
        x = x + fed
    bias = arrays["head_bias"] if shape.formulas == "classic" else 0
    return normed(x, arrays, "norm") @ arrays["head"] + bias, rows


def heads(shape: Shape, layer: dict[str, Array], h: Array) -> tuple[Array, tuple[Array, Array]]:
    d, outs, ks, vs = shape.d_head, [], [], []
    turn = turned if shape.positions != "learned" else (lambda row, position: row)
    for head in range(shape.n_heads):
        group = head * shape.n_kv_heads // shape.n_heads
        q = np.array([turn(row, i) for i, row in enumerate(h @ layer["q"][:, head * d : (head + 1) * d])])
        plain = h @ layer["k"][:, group * d : (group + 1) * d]
        k = np.array([turn(row, i) for i, row in enumerate(plain)])
        v = h @ layer["v"][:, group * d : (group + 1) * d]
        outs.append(attended(q, k, v, d))
        if head % (shape.n_heads // shape.n_kv_heads) == 0:
            ks.append(k if shape.positions == "rope" else plain)
            vs.append(v)
    return np.concatenate(outs, axis=1), (np.array(ks), np.array(vs))


def latent(shape: Shape, layer: dict[str, Array], h: Array) -> tuple[Array, tuple[Array, Array]]:
    width, outs = shape.d_query, []
    turn = turned if shape.positions != "learned" else (lambda row, position: row)
    c, plain = h @ layer["latent"], h @ layer["k_rope"]
    shared = np.array([turn(row, i) for i, row in enumerate(plain)])
    for head in range(shape.n_heads):
        q = h @ layer["q"][:, head * width : (head + 1) * width]
        q = np.array([[*row[: shape.d_head], *turn(row[shape.d_head :], i)] for i, row in enumerate(q)])
        k = np.concatenate([c @ layer["k_up"][head].T, shared], axis=1)
        outs.append(attended(q, k, c @ layer["v_up"][head], width))
    return np.concatenate(outs, axis=1), ((shared if shape.positions == "rope" else plain)[None], c[None])


def attended(q: Array, k: Array, v: Array, width: int) -> Array:
    scores = np.where(np.tri(len(q), dtype=bool), q @ k.T / np.sqrt(width), -np.inf)
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    seen: Array = weights @ v / weights.sum(axis=1, keepdims=True)
    return seen
