"""What attention keeps of every row: K and V, per layer and per KV head; in one piece, or in blocks behind a table.

Takes rows, gives rows; knows nothing of what they mean (of MLA, K is the shared key and V the latent). Rows below a cut
are never touched again: they stay the same memory.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import DTypeLike, NDArray

from contextkit.errors import UsageError
from contextkit.transformer.ops import Array
from contextkit.transformer.weights import Shape

Encoded = tuple[NDArray[Any], NDArray[np.float32]]
"""Stored numbers, and a scale a row, or none."""


def _as_float(dtype: DTypeLike) -> Callable[[Array], Encoded]:
    return lambda rows: (rows.astype(dtype), np.empty((*rows.shape[:-1], 0), np.float32))


def _as_int8(rows: Array) -> Encoded:
    scale = (np.abs(rows).max(axis=-1, keepdims=True, initial=0) / 127 + 1e-30).astype(np.float32)
    return np.rint(rows / scale).astype(np.int8), scale


@dataclass(frozen=True, slots=True)
class Format:
    """How a row is stored."""

    dtype: DTypeLike
    """Of one number."""
    encode: Callable[[Array], Encoded]
    """Rows as they are stored."""
    n_scales: int = 0
    """Scales (float32) a row, a KV head, and each of K and V."""

    def decode(self, data: NDArray[Any], scale: NDArray[np.float32]) -> Array:
        """Rows to compute with, as float64; the very memory where nothing has to be converted."""
        plain = data.astype(np.float64, copy=False)
        return plain * scale if self.n_scales else plain


FORMATS = {
    **{name: Format(name, _as_float(name)) for name in ("float64", "float32", "float16")},
    "int8": Format(np.int8, _as_int8, n_scales=1),
}
"""Name → how rows are stored; int8 keeps one scale a row and head."""


class KvCache(Protocol):
    """Rows 0 to `n_rows` of every layer."""

    n_rows: int
    """Rows that are valid in every layer."""

    def reserve(self, n_rows: int) -> None:
        """Room for so many rows, those from `n_rows` on to be written."""

    def write(self, layer: int, start: int, k: Array, v: Array) -> None:  # (g, n, a), (g, n, b)
        """Rows from `start` on, in reserved room."""

    def read(self, layer: int, end: int) -> tuple[Array, Array]:  # -> (g, end, a), (g, end, b)
        """Rows 0 to `end`."""

    def cut(self, n_rows: int) -> None:
        """Forget all rows from `n_rows` on."""


class ContiguousCache:
    """One array for all rows of a sequence; it doubles when it is full."""

    __slots__ = ("_kind", "_parts", "_shape", "n_rows")

    def __init__(self, shape: Shape, kept_as: str = "float64", n_reserved: int = 64) -> None:
        self._shape, self._kind, self.n_rows = shape, FORMATS[kept_as], 0
        self._parts = self._empty(n_reserved)

    def _empty(self, n: int) -> list[tuple[NDArray[Any], NDArray[np.float32]]]:
        outer = (self._shape.n_layers, self._shape.n_kv_heads, n)
        kind = self._kind
        return [
            (np.empty((*outer, w), kind.dtype), np.empty((*outer, kind.n_scales), np.float32))
            for w in self._shape.cached_widths
        ]

    def reserve(self, n_rows: int) -> None:
        """Room for so many rows."""
        n_held = self._parts[0][0].shape[2]
        if n_rows > n_held:
            old, self._parts = self._parts, self._empty(max(n_rows, 2 * n_held))
            for before, after in zip(old, self._parts, strict=True):
                for source, target in zip(before, after, strict=True):
                    target[:, :, : self.n_rows] = source[:, :, : self.n_rows]

    def write(self, layer: int, start: int, k: Array, v: Array) -> None:  # (g, n, a), (g, n, b)
        """Rows from `start` on."""
        for (data, scales), rows in zip(self._parts, (k, v), strict=True):
            place = np.s_[layer, :, start : start + rows.shape[1]]
            data[place], scales[place] = self._kind.encode(rows)

    def read(self, layer: int, end: int) -> tuple[Array, Array]:  # -> (g, end, a), (g, end, b)
        """Rows 0 to `end`; a view where they are stored as they are computed with."""
        k, v = (self._kind.decode(data[layer, :, :end], scales[layer, :, :end]) for data, scales in self._parts)
        return k, v

    def cut(self, n_rows: int) -> None:
        """Forget all rows from `n_rows` on."""
        self.n_rows = min(self.n_rows, n_rows)


class Pool:
    """Blocks of rows that many sequences take from and give back to; one may stand in several tables.

    A block with a name can be found by it until it is taken again, and of the free ones those that were given back last
    are taken last.
    """

    def __init__(self, shape: Shape, n_blocks: int, block: int = 16, kept_as: str = "float64") -> None:
        self.block, self.kind = block, FORMATS[kept_as]
        self.holders = [0] * n_blocks
        """How many tables each block stands in."""
        self.names, self._named = dict[int, bytes](), dict[bytes, list[int]]()
        self._free = list(range(n_blocks))[::-1]
        outer, kind = (shape.n_layers, n_blocks, block, shape.n_kv_heads), self.kind
        self.parts = [
            (np.empty((*outer, w), kind.dtype), np.empty((*outer, kind.n_scales), np.float32))
            for w in shape.cached_widths
        ]
        """K, then V; each stored numbers and scales, (layer, block, row, head, width)."""

    @property
    def n_free(self) -> int:
        """Blocks nobody holds."""
        return len(self._free)

    def take(self) -> int:
        """A free block, its name forgotten; `UsageError` when there is none."""
        if not self._free:
            raise UsageError(
                f"all {len(self.holders)} blocks of {self.block} rows are taken: cut a sequence, or make the pool larger"
            )
        number = self._free.pop()
        self.holders[number] = 1
        if number in self.names:
            self._named[self.names.pop(number)].remove(number)
        return number

    def give(self, number: int) -> None:
        """One holder less; without any the block is free, and taken after all others if it has a name."""
        self.holders[number] -= 1
        if not self.holders[number]:
            self._free.insert(0 if number in self.names else len(self._free), number)

    def hold(self, number: int) -> None:
        """One holder more."""
        if not self.holders[number]:
            self._free.remove(number)
        self.holders[number] += 1

    def name(self, number: int, name: bytes) -> None:
        """From now on a block without a name is found by this one."""
        if number not in self.names:
            self.names[number] = name
            self._named.setdefault(name, []).append(number)

    def block_named(self, name: bytes) -> int | None:
        """The oldest block of this name; None where there is none."""
        return next(iter(self._named.get(name, ())), None)

    def copied(self, number: int) -> int:
        """A block of one's own with the same rows."""
        mine = self.take()
        for array in (array for part in self.parts for array in part):
            array[:, mine] = array[:, number]
        self.give(number)
        return mine


class PagedCache:
    """A sequence's rows in blocks of a pool; row i stands in block `table[i // block]`."""

    __slots__ = ("n_rows", "pool", "table")

    def __init__(self, pool: Pool) -> None:
        self.pool, self.table, self.n_rows = pool, list[int](), 0

    def fork(self) -> PagedCache:
        """Another sequence with the same rows in the same blocks; who writes into a shared block first copies it."""
        other = PagedCache(self.pool)
        other.table, other.n_rows = self.table[: -(-self.n_rows // self.pool.block)], self.n_rows
        for number in other.table:
            self.pool.hold(number)
        return other

    def reserve(self, n_rows: int) -> None:
        """Blocks for so many rows; those to be written are nobody else's."""
        pool = self.pool
        for i in range(self.n_rows // pool.block, len(self.table)):
            if pool.holders[self.table[i]] > 1:
                self.table[i] = pool.copied(self.table[i])
        while len(self.table) * pool.block < n_rows:
            self.table.append(pool.take())

    def write(self, layer: int, start: int, k: Array, v: Array) -> None:  # (g, n, a), (g, n, b)
        """Rows from `start` on."""
        rows = np.arange(start, start + k.shape[1])
        blocks, inside = np.array(self.table)[rows // self.pool.block], rows % self.pool.block
        for (data, scales), new in zip(self.pool.parts, (k, v), strict=True):
            data[layer, blocks, inside], scales[layer, blocks, inside] = self.pool.kind.encode(new.swapaxes(0, 1))

    def read(self, layer: int, end: int) -> tuple[Array, Array]:  # -> (g, end, a), (g, end, b)
        """Rows 0 to `end`, gathered."""
        table = self.table[: -(-end // self.pool.block)]
        k, v = (
            self.pool.kind.decode(_gathered(d[layer], table, end), _gathered(s[layer], table, end))
            for d, s in self.pool.parts
        )
        return k, v

    def cut(self, n_rows: int) -> None:
        """Forget all rows from `n_rows` on and give back their blocks."""
        self.n_rows = min(self.n_rows, n_rows)
        n_blocks = -(-self.n_rows // self.pool.block)
        for number in self.table[n_blocks:][::-1]:
            self.pool.give(number)
        del self.table[n_blocks:]


def _gathered(blocks: NDArray[Any], table: list[int], end: int) -> NDArray[Any]:  # (blocks, rows, g, w) -> (g, end, w)
    rows = blocks[table]
    return np.ascontiguousarray(rows.reshape(rows.shape[0] * rows.shape[1], *rows.shape[2:])[:end].swapaxes(0, 1))
