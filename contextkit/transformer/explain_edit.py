"""What an edit does to a cache: which rows of which layers stay, which are computed again, which come out different.

Takes a model, a token list and an edit; runs the edited list from scratch and through the cache of the list before it,
and compares row by row. Knows nothing of text or of pictures.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from itertools import groupby
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from contextkit.errors import UsageError
from contextkit.transformer.engine import Engine
from contextkit.transformer.kv_cache import ContiguousCache, KvCache
from contextkit.transformer.model import Model, Step, Work
from contextkit.transformer.ops import Array, rope

TOLERANCE = 1e-12
"""A row times a matrix, alone and in a batch, differs in the last bits; rows that differ by more are different rows."""
Kind = Literal["append", "replace", "insert", "delete", "move"]


@dataclass(frozen=True, slots=True)
class Edit:
    """One change of a token list."""

    kind: Kind
    """What is done."""
    at: int = 0
    """First token it concerns; of an append nothing."""
    n: int = 0
    """Tokens taken away, or moved."""
    to: int = 0
    """Where moved tokens stand afterwards."""
    tokens: tuple[int, ...] = ()
    """New tokens: appended, inserted, or in the place of as many or `n` old ones."""

    def apply(self, tokens: Sequence[int]) -> tuple[list[int], list[int]]:
        """The edited list, and for each token of it the index it had, -1 for a new one.

        `UsageError` where the edit does not fit.

        >>> Edit("move", at=0, n=2, to=1).apply([10, 11, 12, 13])
        ([12, 10, 11, 13], [2, 0, 1, 3])
        """
        n = self.n or (len(self.tokens) if self.kind == "replace" else 0)
        if not (0 <= self.at <= len(tokens) and 0 <= n <= len(tokens) - self.at and 0 <= self.to <= len(tokens) - n):
            raise UsageError(f"{self.kind} of {n} tokens at {self.at} does not fit into {len(tokens)}, counted from 0")
        old, new = list(zip(tokens, range(len(tokens)), strict=True)), [(token, -1) for token in self.tokens]
        edited = _EDITS[self.kind](old[: self.at], old[self.at : self.at + n], old[self.at + n :], new, self.to)
        if not edited:
            raise UsageError(f"{self.kind} of {n} tokens leaves nothing: a sequence has at least one token")
        return [token for token, _ in edited], [origin for _, origin in edited]


Placed = list[tuple[int, int]]
"""Tokens, and the index each had."""


_EDITS: dict[Kind, Callable[[Placed, Placed, Placed, Placed, int], Placed]] = {
    "append": lambda before, chosen, after, new, to: before + chosen + after + new,
    "replace": lambda before, chosen, after, new, to: before + new + after,
    "insert": lambda before, chosen, after, new, to: before + new + chosen + after,
    "delete": lambda before, chosen, after, new, to: before + after,
    "move": lambda before, chosen, after, new, to: (before + after)[:to] + chosen + (before + after)[to:],
}
"""Kind → the list cut into before, chosen and after, and joined anew."""


class Fate(IntEnum):
    """What becomes of one row in one layer."""

    KEPT = 0
    """Same memory: nothing is computed."""
    EQUAL = 1
    """Computed again, though K and V are what they were."""
    TURNED = 2
    """Computed again; before rotation K and V are what they were, only the position is another."""
    CHANGED = 3
    """Computed again, and different from what this token's row was."""
    NEW = 4
    """A token that was not there."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """What one edit costs, and why."""

    n_before: int
    """Tokens before the edit."""
    n_after: int
    """Tokens after it."""
    n_kept: int
    """Rows read from the cache."""
    first_row: tuple[int | None, ...]
    """For each layer the first row whose K or V is not what the cache holds at that place; None where there is none."""
    fates: NDArray[np.int8]  # (layers, n_after)
    """A `Fate` for each layer and row."""
    work: Work
    """What the edited list took through the cache."""
    work_uncached: Work
    """What it took from scratch."""
    rows_error: float
    """Largest difference of a row, computed through the cache and from scratch: rounding."""
    logits_error: float
    """Largest difference of the last logits, cached and from scratch: rounding."""
    stale_error: float
    """The same, had the rows of all old tokens been kept and only the new ones and the last been computed: an error."""
    stale_changes_token: bool
    """Whether greedy decoding would have gone on with another token."""


def explain_edit(model: Model, tokens: Sequence[int], edit: Edit) -> Explanation:
    """Do the edit from scratch and through the cache, and compare.

    `UsageError` for an edit that does not fit or leaves nothing.
    """
    edited, origins = edit.apply(tokens)
    engine, fresh = Engine(model), Engine(model)
    run, scratch = engine.open(), fresh.open()
    engine.feed([(run, tokens)])
    old = _rows(model, run.cache, len(tokens))
    started = engine.work.copy()
    (scratch_logits,) = fresh.feed([(scratch, edited)])
    n_kept = run.hit(edited)
    (logits,) = engine.feed([(run, edited)])
    stale, new = _stale_logits(model, old, edited, origins), _rows(model, scratch.cache, len(edited))
    return Explanation(
        len(tokens),
        len(edited),
        n_kept,
        tuple(_first_different(old, new)),
        _fates(model, old, new, origins, n_kept),
        engine.work.since(started),
        fresh.work,
        max(float(abs(a - b).max()) for a, b in zip(_rows(model, run.cache, len(edited)), new, strict=True)),
        float(abs(logits - scratch_logits).max()),
        float(abs(stale - scratch_logits).max()),
        bool(stale.argmax() != scratch_logits.argmax()),
    )


Rows = list[Array]
"""A copy of K and V of all layers as they are cached: (layers, heads, rows, width) each."""


def _rows(model: Model, cache: KvCache, n: int) -> Rows:
    return [np.stack(part) for part in zip(*(cache.read(i, n) for i in range(model.shape.n_layers)), strict=True)]


def _differ(one: Array, other: Array) -> NDArray[np.bool_]:  # (layers, heads, rows, width) twice -> (layers, rows)
    return np.asarray((abs(one - other) > TOLERANCE).any(axis=(1, 3)))


def _first_different(old: Rows, new: Rows) -> list[int | None]:
    """Layer by layer; a row beyond the old ones is different from nothing."""
    n = min(old[0].shape[2], new[0].shape[2])
    different = np.logical_or(*(_differ(a[:, :, :n], b[:, :, :n]) for a, b in zip(old, new, strict=True)))
    beyond = n if new[0].shape[2] > n else None
    return [int(row.argmax()) if row.any() else beyond for row in different]


def _fates(
    model: Model, old: Rows, new: Rows, origins: list[int], n_kept: int
) -> NDArray[np.int8]:  # -> (layers, rows)
    """Each row beside the one the same token had before."""
    here, came_from = np.arange(len(origins)), np.array(origins)
    was = [part[:, :, came_from] for part in old]
    k_differs, v_differs = (_differ(a, b) for a, b in zip(was, new, strict=True))
    plain = [
        rope(rows, -where) if model.shape.positions == "rope" else rows
        for rows, where in ((was[0], came_from), (new[0], here))
    ]
    fates = np.where(v_differs | _differ(*plain), Fate.CHANGED, np.where(k_differs, Fate.TURNED, Fate.EQUAL))
    fates[:, came_from < 0] = Fate.NEW
    fates[:, :n_kept] = Fate.KEPT
    return fates.astype(np.int8)


def _stale_logits(model: Model, old: Rows, edited: list[int], origins: list[int]) -> Array:  # -> (1, vocabulary)
    """The last logits when every old token keeps the row it had, wherever it now stands.

    New tokens and the last one are computed.
    """
    cache, work, end = ContiguousCache(model.shape, n_reserved=len(edited)), Work(), 0
    for is_new, stretch in groupby(origin < 0 for origin in [*origins[:-1], -1]):
        start, end = end, end + len(list(stretch))
        if is_new:
            x = model.forward([Step(cache, edited[start:end])], work)
        else:
            cache.reserve(end)
            for i, (k, v) in enumerate(zip(*old, strict=True)):
                cache.write(i, start, k[:, origins[start:end]], v[:, origins[start:end]])
            cache.n_rows = end
    return model.logits(x[-1:], work)
