"""Prompts that begin alike share the blocks of what they have in common.

Freed blocks keep their rows until somebody needs the room.

PagedAttention (arXiv 2309.06180) and vLLM's automatic prefix caching: a full block is found by its tokens and all
tokens before them. It never changes, so sharing it is exact; a block that is shared and not full is copied before it is
written (`PagedCache.reserve`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from hashlib import blake2b
from typing import cast

import numpy as np

from contextkit.transformer.engine import Engine, Run
from contextkit.transformer.kv_cache import PagedCache, Pool
from contextkit.transformer.model import Model
from contextkit.transformer.ops import Array


def names(tokens: Sequence[int], block: int) -> Iterator[bytes]:
    """A name for each full block: its tokens, and all before them."""
    before = b""
    for end in range(block, len(tokens) + 1, block):
        before = blake2b(before + np.asarray(tokens[end - block : end], np.int64).tobytes(), digest_size=16).digest()
        yield before


class PrefixEngine(Engine):
    """An engine whose runs begin with the blocks their prompts have in common with earlier ones."""

    def __init__(self, model: Model, pool: Pool) -> None:
        super().__init__(model)
        self.pool = pool

    def begin(self, tokens: Sequence[int], known: Sequence[bytes]) -> tuple[Run, int, Array]:
        """A run over the prompt whose blocks are called `known`, how many rows of it were there, and its last logits
        (1, vocabulary).
        """
        cache = PagedCache(self.pool)
        for name in known[: (len(tokens) - 1) // self.pool.block]:
            number = self.pool.block_named(name)
            if number is None:
                break
            self.pool.hold(number)
            cache.table.append(number)
        cache.n_rows = n_found = len(cache.table) * self.pool.block
        run = Run(cache, list(tokens))
        (logits,) = self.feed([(run, tokens)])
        self.name(run, known)
        return run, n_found, logits

    def name(self, run: Run, known: Sequence[bytes]) -> None:
        """Let others find the full blocks of a run."""
        for name, number in zip(
            known[: run.cache.n_rows // self.pool.block], cast(PagedCache, run.cache).table, strict=False
        ):
            self.pool.name(number, name)
