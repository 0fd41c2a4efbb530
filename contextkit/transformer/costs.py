"""What a KV cache holds, what a prompt costs to compute, and what losing the cache costs: formulas.

Takes shapes and numbers, gives bytes, operations, seconds, dollars; knows nothing of caches that run. On a shape the
engine can run, each formula equals what the engine counts. L layers, H query heads, G KV heads, d_h head width, P
parameters, s bytes a number.
"""

from __future__ import annotations

from dataclasses import dataclass

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


def parameters(shape: Shape) -> int:
    """All weights: products, embedding, output, gains, learned positions. What a model card calls its size."""
    tables = shape.vocabulary * (1 if shape.is_tied else 2) + (
        shape.max_positions if shape.positions == "learned" else 0
    )
    return shape.n_layers * (layer_parameters(shape) + 2 * shape.d_model) + (tables + 1) * shape.d_model


def kv_bytes(
    shape: Shape, n_tokens: int, batch: int = 1, element_bytes: int = 2, windowed: tuple[int, int] = (0, 0)
) -> int:
    """What the cache holds: 2·L·G·d_h·tokens·batch·s.

    Of MLA L·(d_latent + d_rope)·tokens·batch·s, for all heads together.

    `windowed` is (layers, window): so many layers keep only their last tokens. 16,384 elements in float32 are 65,536
    bytes:

    >>> kv_bytes(Shape(n_layers=4, n_heads=4, n_kv_heads=4, d_head=16), 32, element_bytes=4)
    65536
    """
    n_windowed, window = windowed
    rows = (shape.n_layers - n_windowed) * n_tokens + n_windowed * min(n_tokens, window)
    return rows * shape.n_kv_heads * sum(shape.cached_widths) * batch * element_bytes


@dataclass(frozen=True, slots=True)
class Chip:
    """One accelerator, or several that share the work perfectly."""

    flops_per_second: float
    """Dense 16-bit matrix products."""
    bytes_per_second: float
    """From its memory."""
    source: str
    """Who says so."""


CHIPS = {
    "A100": Chip(312e12, 2.039e12, "NVIDIA A100 80GB SXM data sheet"),
    "H100": Chip(989.4e12, 3.35e12, "NVIDIA H100 SXM data sheet, dense BF16"),
    "8xH100": Chip(8 * 989.4e12, 8 * 3.35e12, "eight times the above; nothing lost between them"),
}
"""Name → peak rates. Real kernels reach a part of them."""


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

    >>> from contextkit.transformer.real_shapes import REAL
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


def attention_intensity(shape: Shape, element_bytes: int = 2) -> float:
    """Operations a byte of cache when decoding: H/G at 2 bytes, whatever the length. That is why heads share keys.

    >>> [attention_intensity(Shape(n_heads=32, n_kv_heads=n)) for n in (32, 8, 1)]
    [1.0, 4.0, 32.0]
    """
    return (
        2 * shape.n_heads * sum(shape.attended_widths) / (shape.n_kv_heads * sum(shape.cached_widths) * element_bytes)
    )


def vector_computations(shape: Shape, n_rows: int) -> int:
    """Rows times layers times query heads: how articles count what an edit before `n_rows` tokens costs."""
    return shape.n_layers * shape.n_heads * n_rows


def stored_vectors(shape: Shape, n_rows: int) -> int:
    """K and V vectors that really are computed and stored: one each a row, a layer and a KV head."""
    return 2 * shape.n_layers * shape.n_kv_heads * n_rows


@dataclass(frozen=True, slots=True)
class PriceRow:
    """List price of a model, dollars a million input tokens."""

    fresh: float
    """Not cached."""
    read: float
    """Read from the cache."""


@dataclass(frozen=True, slots=True)
class Miss:
    """What reading a prefix would have saved."""

    cost_usd: float
    """Dollars more."""
    seconds: float
    """Longer until the first token."""
    hit_share_of_seconds: float
    """Time to the first token with the prefix read, as a share of the time without."""


def miss(
    shape: Shape,
    lost: int,
    new: int,
    price: PriceRow,
    chip: Chip,
    n_parameters: int | None = None,
    other_seconds: float = 0.0,
) -> Miss:
    """A prompt of `lost + new` tokens of which `lost` could have been read.

    `other_seconds` pass whatever is cached (network, queue).
    """
    without = forward(shape, lost + new, 0, 1, n_parameters).seconds(chip) + other_seconds
    with_it = forward(shape, new, lost, 1, n_parameters).seconds(chip) + other_seconds
    full, reduced = (lost + new) * price.fresh / 1e6, (lost * price.read + new * price.fresh) / 1e6
    return Miss(full - reduced, without - with_it, with_it / without)
