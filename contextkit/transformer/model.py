"""The forward pass: rows of many sequences through every layer, keys and values through each sequence's cache.

A step is a cache and the tokens it lacks; every token gets a row, and what is computed is counted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from contextkit.errors import UsageError
from contextkit.transformer import ops
from contextkit.transformer.kv_cache import KvCache
from contextkit.transformer.ops import Array
from contextkit.transformer.weights import Shape, Weights

Layer = dict[str, Array]
"""One layer's weights by name."""


class Tokenizer(Protocol):
    """Text to tokens and back."""

    size: int
    """Tokens there are."""

    def encode(self, text: str) -> list[int]:
        """The tokens of a text."""

    def decode(self, tokens: Sequence[int]) -> str:
        """The text of tokens."""


class Bytes:
    """A token a byte, and 256 to end a text."""

    size = 257
    end = 256

    def encode(self, text: str) -> list[int]:
        """The bytes of a text in UTF-8."""
        return list(text.encode())

    def decode(self, tokens: Sequence[int]) -> str:
        """The text of bytes; what is no UTF-8 becomes U+FFFD, what is no byte nothing."""
        return bytes(token for token in tokens if token < self.end).decode(errors="replace")


@dataclass(slots=True)
class Work:
    """What was computed.

    Matrix products count, 2·m·k·n each, attention only for the pairs that see each other. Norms, softmax and rotation
    do not: no published formula counts them.
    """

    positions: int = 0
    """Rows that went through the layers."""
    vectors: int = 0
    """K and V vectors computed: one each a row, a layer and a KV head."""
    flops: int = 0
    """Floating-point operations of matrix products."""
    weights_read: int = 0
    """Numbers of weights, each once a forward pass."""
    rows_read: int = 0
    """Rows of the cache that attention read, summed over layers."""
    passes: int = 0
    """Forward passes: each reads all weights, however many rows go through."""

    def product(self, x: Array, matrix: Array) -> Array:  # (…, n, d), (…, d, e) -> (…, n, e)
        """`x @ matrix`, counted."""
        self.flops += 2 * x.size * matrix.shape[-1]
        self.weights_read += matrix.size
        out: Array = x @ matrix
        return out

    def since(self, before: Work) -> Work:
        """The work between two moments."""
        return Work(*(now - then for now, then in zip(astuple(self), astuple(before), strict=True)))

    def copy(self) -> Work:
        """The counters now."""
        return Work(*astuple(self))


@dataclass(frozen=True, slots=True)
class Step:
    """The next rows of one sequence."""

    cache: KvCache
    """Holds the rows before them."""
    tokens: Sequence[int]
    """What they are made of."""


class Model:
    """Weights that can be run."""

    __slots__ = ("layers", "project", "shape", "weights")

    def __init__(self, weights: Weights) -> None:
        self.weights, self.shape = weights, weights.shape
        self.layers = [weights.layer(i) for i in range(weights.shape.n_layers)]
        self.project = _with_latent if weights.shape.d_latent else _with_heads

    def forward(
        self, steps: Sequence[Step], work: Work
    ) -> Array:  # rows of all steps, one behind the other -> (n, d_model)
        """Return the last layer's output for each new token; every cache afterwards holds its rows."""
        starts = [step.cache.n_rows for step in steps]
        positions = [np.arange(start, start + len(step.tokens)) for start, step in zip(starts, steps, strict=True)]
        x = self.embedded([token for step in steps for token in step.tokens], np.concatenate(positions))
        for step, where in zip(steps, positions, strict=True):
            step.cache.reserve(int(where[-1]) + 1)
        for i, layer in enumerate(self.layers):
            x = x + self._attention(normed(x, layer, "attention_norm"), i, layer, steps, positions, work)
            x = x + feed_forward(normed(x, layer, "feed_norm"), layer, work)
        for step, where in zip(steps, positions, strict=True):
            step.cache.n_rows = int(where[-1]) + 1
        work.positions += len(x)
        work.passes += 1
        return x

    def logits(self, x: Array, work: Work) -> Array:  # (n, d_model) -> (n, vocabulary)
        """Return how likely each token is to come next, unnormalised."""
        arrays = self.weights.arrays
        return work.product(normed(x, arrays, "norm"), arrays["head"]) + arrays.get("head_bias", 0.0)

    def embedded(self, tokens: Sequence[int], positions: NDArray[np.intp]) -> Array:  # -> (n, d_model)
        """Return the input of layer 0."""
        if not tokens or not 0 <= min(tokens) <= max(tokens) < self.shape.vocabulary:
            raise UsageError(
                f"tokens are whole numbers from 0 to {self.shape.vocabulary - 1}, and a step has at least one"
            )
        x = self.weights.arrays["embedding"][list(tokens)]
        if self.shape.positions != "learned":
            return x
        if positions.max() >= self.shape.max_positions:
            raise UsageError(
                f"position {positions.max()} is beyond the {self.shape.max_positions} learned ones: raise max_positions"
            )
        return x + self.weights.arrays["position"][positions]

    def _attention(  # (n, d_model) -> (n, d_model)
        self, h: Array, i: int, layer: Layer, steps: Sequence[Step], positions: list[NDArray[np.intp]], work: Work
    ) -> Array:
        q, k, v = self.project(h, layer, self.shape, work)
        work.vectors += k.shape[0] * k.shape[1] + v.shape[0] * v.shape[1]
        seen = np.empty((self.shape.n_heads, len(h), self.shape.attended_widths[1]), dtype=h.dtype)
        low = 0
        for step, where in zip(steps, positions, strict=True):
            rows = np.s_[:, low : low + len(where)]
            seen[rows] = self._attended(q[rows], k[rows], v[rows], i, step.cache, where, work)
            low += len(where)
        if self.shape.d_latent:
            seen = work.product(seen, layer["v_up"])
        return work.product(ops.join_heads(seen), layer["out"])

    def _attended(  # (h, n, a'), (g, n, a), (g, n, b) -> (h, n, b')
        self, q: Array, k: Array, v: Array, i: int, cache: KvCache, where: NDArray[np.intp], work: Work
    ) -> Array:
        """Attend with one sequence's new rows, their own keys and values first written into its cache."""
        shape, end, width = self.shape, int(where[-1]) + 1, self.shape.cached_widths[0]
        if shape.positions != "learned":
            q = np.concatenate([q[..., :-width], ops.rope(q[..., -width:], where)], axis=-1)
        cache.write(i, int(where[0]), ops.rope(k, where) if shape.positions == "rope" else k, v)
        k, v = cache.read(i, end)
        if shape.positions == "rope_at_read":
            k = ops.rope(k, np.arange(end))
        if (
            shape.d_latent
        ):  # a head's key is its up-projected latent beside the shared key; its query has absorbed the up-projection
            k = np.concatenate([v, k], axis=-1)
        grouped = q.reshape(shape.n_kv_heads, -1, *q.shape[1:])
        return self.attended(grouped, k, v, i, work).reshape(shape.n_heads, len(where), -1)

    def attended(
        self, q: Array, k: Array, v: Array, i: int, work: Work
    ) -> Array:  # (g, r, n, a), (g, t, a), (g, t, b) -> (g, r, n, b)
        """Attend with the last n of t rows in layer i, to every key up to their own.

        A method that looks at fewer overrides this.
        """
        work.flops += 2 * ops.n_pairs(q.shape[2], k.shape[1]) * self.shape.n_heads * sum(self.shape.attended_widths)
        work.rows_read += k.shape[1]
        return ops.attend(q, k, v, self.shape.d_query**-0.5)


def _with_heads(
    h: Array, layer: Layer, shape: Shape, work: Work
) -> tuple[Array, Array, Array]:  # -> (h, n, a), (g, n, a), (g, n, b)
    """MHA, GQA and MQA: a key and a value for each KV head."""
    names = (("q", shape.n_heads), ("k", shape.n_kv_heads), ("v", shape.n_kv_heads))
    q, k, v = (ops.split_heads(work.product(h, layer[name]), n_heads) for name, n_heads in names)
    return q, k, v


def _with_latent(
    h: Array, layer: Layer, shape: Shape, work: Work
) -> tuple[Array, Array, Array]:  # -> (h, n, b+a), (1, n, a), (1, n, b)
    """MLA (DeepSeek-V2, arXiv 2405.04434), absorbed: a query is carried into the latent's space, so that latents are
    never unpacked.
    """
    q = ops.split_heads(work.product(h, layer["q"]), shape.n_heads)
    inner = work.product(q[..., : shape.d_head], layer["k_up"])
    q = np.concatenate([inner, q[..., shape.d_head :]], axis=-1)
    return q, work.product(h, layer["k_rope"])[None], work.product(h, layer["latent"])[None]


def normed(x: Array, arrays: Mapping[str, Array], name: str) -> Array:  # (n, d_model) -> (n, d_model)
    """Return rows normalised by the gain of that name, and by its β where the model has one."""
    return ops.norm(x, arrays[name], arrays.get(f"{name}_beta"))


def feed_forward(h: Array, layer: Layer, work: Work) -> Array:  # (n, d_model) -> (n, d_model)
    """SwiGLU; of the classic formulas ReLU(h·up + b₁)·down + b₂."""
    if "gate" not in layer:
        inner = np.maximum(work.product(h, layer["up"]) + layer["up_bias"], 0)
        return work.product(inner, layer["down"]) + layer["down_bias"]
    return work.product(ops.silu(work.product(h, layer["gate"])) * work.product(h, layer["up"]), layer["down"])
