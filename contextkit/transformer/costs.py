"""What a KV cache holds and what a prompt costs to compute: formulas.

On a shape the engine can run, each formula equals what the engine counts. `REAL` has shapes of models that people run,
as their makers publish them; none of these can be run here. L layers, H query heads, G KV heads, d_h head width, P
parameters, s bytes a number.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from contextkit.facts.load import built_in_table
from contextkit.kv_size import FULL, Layers
from contextkit.transformer.ops import n_pairs
from contextkit.transformer.weights import Shape


def layer_parameters(shape: Shape) -> int:
    """Weights of one layer's matrix products.

    >>> layer_parameters(Shape(d_model=4096, n_heads=32, n_kv_heads=32, d_head=128, d_ff=11008))
    202375168
    """
    d, h, g, dh, latent = shape.d_model, shape.n_heads, shape.n_kv_heads, shape.d_head, shape.d_latent
    keys_and_values = d * (latent + shape.d_rope) + 2 * h * dh * latent if latent else 2 * d * g * dh
    return d * h * (dh + shape.d_rope) + keys_and_values + h * dh * d + 3 * d * shape.d_ff


def kv_bytes(shape: Shape, n_tokens: int, batch: int = 1, element_bytes: int = 2) -> int:
    """Return the bytes that the cache holds: 2·L·G·d_h·tokens·batch·s.

    Of MLA L·(d_latent + d_rope)·tokens·batch·s, for all heads together. 16,384 elements in float32 are 65,536 bytes:

    >>> kv_bytes(Shape(n_layers=4, n_heads=4, n_kv_heads=4, d_head=16), 32, element_bytes=4)
    65536
    """
    layers = Layers(FULL, shape.n_layers, shape.n_kv_heads * sum(shape.cached_widths))
    return layers.elements(n_tokens) * batch * element_bytes


@dataclass(frozen=True, slots=True)
class Chip:
    """One accelerator."""

    flops_per_second: float
    """Dense 16-bit matrix products."""
    bytes_per_second: float
    """From its memory."""
    source: str
    """Who says so."""


H100 = Chip(989.4e12, 3.35e12, "NVIDIA H100 SXM data sheet, dense BF16")
"""Peak rates; real kernels reach a part of them."""


@dataclass(frozen=True, slots=True)
class Cost:
    """One forward pass."""

    flops: int
    """Floating-point operations of matrix products."""
    n_bytes: int
    """Bytes that must come from memory: weights once, every row that is attended once."""

    @property
    def intensity(self) -> float:
        """Operations a byte: above a chip's own ratio it computes, below it waits for memory."""
        return self.flops / self.n_bytes

    def seconds(self, chip: Chip) -> float:
        """The roofline: the slower of computing and fetching."""
        return max(self.flops / chip.flops_per_second, self.n_bytes / chip.bytes_per_second)


def forward(
    shape: Shape,
    new: int,
    cached: int = 0,
    batch: int = 1,
    n_parameters: int | None = None,
    element_bytes: int = 2,
    n_logits: int = 1,
) -> Cost:
    """`new` tokens behind `cached` ones, `batch` sequences at once: 2·P·N + 4·L·H·d_h·(N·C + N(N+1)/2) operations.

    Without `n_parameters` the products are counted one by one, logits for `n_logits` rows a sequence; with it (of a
    mixture of experts the active ones) every weight counts for every row, as published estimates do. Prefill of 4,096
    tokens by Llama-2-7B:

    >>> model = REAL["Llama-2-7B"]
    >>> f"{forward(model.shape, 4096, n_parameters=model.n_active).flops:.4g}"
    '5.96e+13'
    """
    body, head = shape.n_layers * layer_parameters(shape), shape.d_model * shape.vocabulary
    by_weights = n_parameters * new if n_parameters else body * new + head * n_logits
    by_pairs = shape.n_layers * shape.n_heads * sum(shape.attended_widths) * n_pairs(new, cached + new)
    fetched = (n_parameters or body + head) * element_bytes + kv_bytes(shape, cached + new, batch, element_bytes)
    return Cost(2 * batch * (by_weights + by_pairs), fetched)


def decode(shape: Shape, context: int, batch: int = 1, n_parameters: int | None = None, element_bytes: int = 2) -> Cost:
    """One token a sequence, the last of `context`: 2·P + 4·L·H·d_h·context operations."""
    return forward(shape, 1, context - 1, batch, n_parameters, element_bytes)


def vector_computations(shape: Shape, n_rows: int) -> int:
    """Rows times layers times query heads: how articles count what an edit before `n_rows` tokens costs."""
    return shape.n_layers * shape.n_heads * n_rows


def stored_vectors(shape: Shape, n_rows: int) -> int:
    """K and V vectors that really are computed and stored: one each a row, a layer and a KV head."""
    return 2 * shape.n_layers * shape.n_kv_heads * n_rows


@dataclass(frozen=True, slots=True)
class RealModel:
    """One published model."""

    shape: Shape
    """Of its attention; of a dense model of all of it."""
    n_active: int
    """Parameters a token passes through; of a dense model all."""
    source: str
    """Where the figures stand."""


def _real(row: Mapping[str, Any]) -> RealModel:
    """The shape of one row of `facts/architectures.toml`."""
    config = row["config"]
    heads, width, latent = config["num_attention_heads"], config["hidden_size"], config.get("kv_lora_rank", 0)
    shape = Shape(
        n_layers=config["num_hidden_layers"],
        d_model=width,
        n_heads=heads,
        n_kv_heads=1 if latent else config["num_key_value_heads"],
        d_head=config.get("qk_nope_head_dim", width // heads),
        d_ff=config["intermediate_size"],
        vocabulary=config["vocab_size"],
        d_latent=latent,
        d_rope=config.get("qk_rope_head_dim", 0),
    )
    return RealModel(shape, row["n_active"], row["source"])


REAL = {row["name"]: _real(row) for row in built_in_table("architectures.toml")["architectures"]}
"""Name → its row; `d_ff` of DeepSeek-V3, a mixture of experts, is one expert's."""
