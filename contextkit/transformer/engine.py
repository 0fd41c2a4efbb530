"""Sequences that grow, and are edited, over one model: what a cache has is re-used, what it lacks is computed in one
batch.

Takes token lists, gives logits; counts the work. Knows nothing of text or of why a sequence changed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from contextkit.errors import UsageError
from contextkit.transformer.kv_cache import ContiguousCache, KvCache
from contextkit.transformer.model import Model, Step, Work
from contextkit.transformer.ops import Array


def n_common(one: Sequence[object], other: Sequence[object]) -> int:
    """Length of the longest common prefix.

    >>> n_common([1, 2, 3], [1, 2, 4, 5])
    2
    """
    return next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


@dataclass(slots=True)
class Run:
    """One sequence and what is cached of it."""

    cache: KvCache
    """Holds a row for each of the first `cache.n_rows` tokens."""
    tokens: list[int] = field(default_factory=list)
    """The sequence."""

    def hit(self, tokens: Sequence[int]) -> int:
        """Rows that `tokens` could re-use: the common prefix, less the last token, whose logits somebody wants."""
        return min(n_common(self.tokens, tokens), self.cache.n_rows, len(tokens) - 1)


def _check_apart(runs: Sequence[Run]) -> None:
    if len({id(run) for run in runs}) < len(runs):
        raise UsageError("a run stands twice in one batch, and can become only one sequence: open another")


class Engine:
    """Runs one model; `work` counts all it did."""

    __slots__ = ("_new_cache", "chunk", "model", "work")

    def __init__(self, model: Model, new_cache: Callable[[], KvCache] | None = None, chunk: int | None = None) -> None:
        """`new_cache` makes the cache of a new run (in one piece, float64).

        `chunk`: most tokens of a sequence in one forward pass.
        """
        if chunk is not None and chunk < 1:
            raise UsageError(f"a chunk of {chunk} tokens computes nothing: give at least 1, or None for all at once")
        self.model, self.chunk, self.work = model, chunk, Work()
        self._new_cache = new_cache or (lambda: ContiguousCache(model.shape))

    def open(self) -> Run:
        """An empty sequence."""
        return Run(self._new_cache())

    def feed(self, wanted: Sequence[tuple[Run, Sequence[int]]], *, every: bool = False) -> list[Array]:
        """Make each run the sequence beside it, computing what its cache lacks; ragged, in one batch.

        Gives for each the logits of its last token (1, vocabulary); with `every`, of each token it computed (n,
        vocabulary). Raises `UsageError` for an empty sequence, which has no last token, and for a run that stands there
        twice.
        """
        if not all(tokens for _, tokens in wanted):
            raise UsageError("an empty sequence has no next token: give at least one token")
        _check_apart([run for run, _ in wanted])
        for run, tokens in wanted:
            run.cache.cut(run.hit(tokens))
            run.tokens = list(tokens)
        return self._completed([run for run, _ in wanted], every=every)

    def decode(self, runs: Sequence[Run], tokens: Sequence[int]) -> list[Array]:
        """One token more for each run; the logits behind it. Nothing that is there is looked at again but by attention."""
        _check_apart(runs)
        for run, token in zip(runs, tokens, strict=True):
            run.tokens.append(token)
        return self._completed(runs, every=False)

    def _completed(self, runs: Sequence[Run], *, every: bool) -> list[Array]:
        """Compute every row the runs lack."""
        rows: list[list[Array]] = [[] for _ in runs]
        while lacking := [i for i, run in enumerate(runs) if run.cache.n_rows < len(run.tokens)]:
            steps = [self._step(runs[i]) for i in lacking]
            ends = np.cumsum([len(step.tokens) for step in steps])[:-1]
            for i, x in zip(lacking, np.split(self.model.forward(steps, self.work), ends), strict=True):
                rows[i] = [*rows[i], x] if every else [x[-1:]]
        made = [np.concatenate(parts) for parts in rows]
        logits = self.model.logits(np.concatenate(made), self.work)
        return np.split(logits, np.cumsum([len(x) for x in made])[:-1])

    def _step(self, run: Run) -> Step:
        start = run.cache.n_rows
        return Step(run.cache, run.tokens[start : None if self.chunk is None else start + self.chunk])
