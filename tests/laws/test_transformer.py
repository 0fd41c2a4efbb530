"""Law 9: cached rows are the same memory; recomputed rows and logits agree to rounding; work done is what was not hit."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contextkit.transformer.costs import stored_vectors
from contextkit.transformer.engine import Engine
from contextkit.transformer.kv_cache import ContiguousCache, KvCache, PagedCache, Pool
from contextkit.transformer.model import Model
from contextkit.transformer.weights import seeded
from tests.transformer.oracle import VARIANTS

laws = settings.get_profile("laws")
MODELS = {name: Model(seeded(shape, 2)) for name, shape in VARIANTS.items()}
CACHES: dict[str, Callable[[Model], KvCache]] = {
    "one piece": lambda model: ContiguousCache(model.shape, n_reserved=128),
    "paged": lambda model: PagedCache(Pool(model.shape, 40, 4)),
}
SEQUENCES = st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=24), min_size=2, max_size=5)
"""Of few tokens, so that they share prefixes."""


@pytest.mark.parametrize("kind", CACHES)
@pytest.mark.parametrize("name", VARIANTS)
@given(sequences=SEQUENCES, chunk=st.sampled_from([None, 1, 3]))
@laws
def test_what_is_cached_stays_and_only_the_rest_is_computed(
    name: str, kind: str, sequences: list[list[int]], chunk: int | None
) -> None:
    model = MODELS[name]
    engine = Engine(model, lambda: CACHES[kind](model), chunk)
    run, before = engine.open(), list[int]()
    for tokens in sequences:
        common = next(
            (i for i, (a, b) in enumerate(zip(before, tokens, strict=False)) if a != b), min(len(before), len(tokens))
        )
        hit, started = min(common, len(tokens) - 1), engine.work.copy()
        held = run.cache.read(model.shape.n_layers - 1, hit)
        values = [part.copy() for part in held]
        (logits,) = engine.feed([(run, tokens)])
        done = engine.work.since(started)
        assert done.positions == len(tokens) - hit
        assert done.vectors == stored_vectors(model.shape, len(tokens) - hit)
        now = run.cache.read(model.shape.n_layers - 1, hit)
        assert all((a == b).all() for a, b in zip(values, now, strict=True))
        assert kind == "paged" or all(np.shares_memory(a, b) for a, b in zip(held, now, strict=True) if a.size)
        fresh = Engine(model)
        scratch = fresh.open()
        (expected,) = fresh.feed([(scratch, tokens)])
        assert abs(logits - expected).max() < 1e-10
        for layer in range(model.shape.n_layers):
            rows = zip(run.cache.read(layer, len(tokens)), scratch.cache.read(layer, len(tokens)), strict=True)
            assert all(abs(a - b).max() < 1e-12 for a, b in rows)
        before = tokens
