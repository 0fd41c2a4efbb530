"""A model's shape, and its seeded weights."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from contextkit.errors import UsageError
from contextkit.transformer.ops import Array

Positions = Literal["rope", "rope_at_read", "learned"]
"""rope: keys are rotated, then cached, as engines do. rope_at_read: cached as they are, rotated when read. learned:
added to embeddings."""

Formulas = Literal["llama", "classic"]
"""llama: RMSNorm, SwiGLU, no biases. classic: LayerNorm with γ and β, ReLU with biases, a bias of the logits, as the
formulas of most articles have them."""


@dataclass(frozen=True, slots=True)
class Shape:
    """Everything that says how large a decoder-only transformer is."""

    n_layers: int = 4
    """Layers."""
    d_model: int = 64
    """Width of a row between layers."""
    n_heads: int = 4
    """Query heads."""
    n_kv_heads: int = 4
    """KV heads: as many as query heads is MHA, one is MQA, between them GQA. MLA has one."""
    d_head: int = 16
    """Width of a head's key and value; of MLA the part of a key that is not rotated."""
    d_ff: int = 128
    """Width inside the gated feed-forward part."""
    vocabulary: int = 257
    """Tokens: the 256 bytes and one that ends a text."""
    positions: Positions = "rope"
    """How a row knows where it stands."""
    d_latent: int = 0
    """MLA: width of the latent row cached for keys and values of all heads; 0 is no MLA."""
    d_rope: int = 0
    """MLA: width of the rotated key all heads share."""
    max_positions: int = 8192
    """Rows of the table of learned positions."""
    formulas: Formulas = "llama"
    """How rows are normalised, fed forward and made logits."""

    @property
    def cached_widths(self) -> tuple[int, int]:
        """Numbers cached for a row, a layer and a KV head, as K and as V; of MLA the shared key and the latent."""
        return (self.d_rope, self.d_latent) if self.d_latent else (self.d_head, self.d_head)

    @property
    def attended_widths(self) -> tuple[int, int]:
        """Width of a key and of a value when attention reads them; MLA scores latents, and sums latents."""
        return (self.d_latent + self.d_rope, self.d_latent) if self.d_latent else (self.d_head, self.d_head)

    @property
    def d_query(self) -> int:
        """Width of a query as the layer makes it."""
        return self.d_head + self.d_rope

    def checked(self) -> Shape:
        """Itself; `UsageError` for a shape no model can have."""
        sizes = (self.n_layers, self.d_model, self.n_heads, self.n_kv_heads, self.d_head, self.d_ff, self.vocabulary)
        wrong = [
            words
            for is_wrong, words in (
                (min(sizes) < 1, "a size below 1"),
                (
                    self.n_heads % max(1, self.n_kv_heads) != 0,
                    f"{self.n_heads} query heads that {self.n_kv_heads} KV heads do not divide",
                ),
                (
                    bool(self.d_latent) and self.n_kv_heads != 1,
                    "a latent and more than one KV head: MLA has n_kv_heads=1",
                ),
                (bool(self.d_latent) != bool(self.d_rope), "only one of d_latent and d_rope: MLA has both"),
                (
                    self.positions != "learned" and self.cached_widths[0] % 2 == 1,
                    f"keys {self.cached_widths[0]} wide: RoPE turns pairs",
                ),
            )
            if is_wrong
        ]
        if wrong:
            raise UsageError(f"the shape has {'; '.join(wrong)}")
        return self


def layout(shape: Shape) -> dict[str, tuple[int, ...]]:
    """Name → shape of every array of a model; those of layer i are named `i.name`."""
    d, h, kv, dh = shape.d_model, shape.n_heads, shape.n_kv_heads, shape.d_head
    latent: dict[str, tuple[int, ...]] = {"latent": (d, shape.d_latent), "k_rope": (d, shape.d_rope)}
    latent |= {"k_up": (h, dh, shape.d_latent), "v_up": (h, shape.d_latent, dh)}
    one: dict[str, tuple[int, ...]] = {
        "q": (d, h * shape.d_query),
        "out": (h * dh, d),
        "attention_norm": (d,),
        "feed_norm": (d,),
    }
    one |= latent if shape.d_latent else {"k": (d, kv * dh), "v": (d, kv * dh)}
    is_classic = shape.formulas == "classic"
    one |= {} if is_classic else {"gate": (d, shape.d_ff)}
    one |= {"up": (d, shape.d_ff), "down": (shape.d_ff, d)}
    ends: dict[str, tuple[int, ...]] = {"embedding": (shape.vocabulary, d), "norm": (d,), "head": (d, shape.vocabulary)}
    ends |= {"position": (shape.max_positions, d)} if shape.positions == "learned" else {}
    if is_classic:
        one |= {"attention_norm_beta": (d,), "feed_norm_beta": (d,), "up_bias": (shape.d_ff,), "down_bias": (d,)}
        ends |= {"norm_beta": (d,), "head_bias": (shape.vocabulary,)}
    return {**ends, **{f"{i}.{name}": size for i in range(shape.n_layers) for name, size in one.items()}}


@dataclass(frozen=True, slots=True)
class Weights:
    """The arrays of one model."""

    shape: Shape
    """What they are the weights of."""
    arrays: Mapping[str, Array] = field(repr=False)
    """By the names of `layout`."""

    def layer(self, i: int) -> dict[str, Array]:
        """The arrays of layer `i`, by their short names."""
        return {name.split(".")[1]: array for name, array in self.arrays.items() if name.startswith(f"{i}.")}


def seeded(shape: Shape, seed: int = 0) -> Weights:
    """The same weights for the same shape and seed, on every machine: normal, 1/√(rows) wide; gains near 1, β and biases near 0."""
    draw = np.random.default_rng(seed)
    arrays: dict[str, Array] = {}
    for name, size in layout(shape.checked()).items():
        drawn = draw.standard_normal(size)
        if len(size) == 1:
            arrays[name] = 0.1 * drawn + (0 if name.endswith(("_beta", "_bias")) else 1)
        else:
            arrays[name] = drawn if name in {"embedding", "position"} else drawn / np.sqrt(size[-2])
    return Weights(shape, arrays)
