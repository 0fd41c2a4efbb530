"""Logits through caches of every kind are those of a model without one; what cannot be computed is said."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from contextkit.errors import UsageError
from contextkit.transformer.engine import Engine, Run
from contextkit.transformer.kv_cache import ContiguousCache, KvCache, PagedCache, Pool
from contextkit.transformer.model import Bytes, Model
from contextkit.transformer.ops import Array, rope
from contextkit.transformer.weights import Shape, seeded
from tests.transformer.oracle import VARIANTS, run

every_variant = pytest.mark.parametrize("name", VARIANTS)
TEXTS = ["a", "the quick brown fox", "jumps over the lazy dog, and over its shadow, and over the moon, and over again"]


@cache
def alone(name: str, text: str) -> tuple[Array, list[tuple[Array, Array]]]:
    """What the oracle computes of one text."""
    return run(seeded(VARIANTS[name]), Bytes().encode(text))


def made(shape: Shape, *, kind: str = "one piece", chunk: int | None = None, kept_as: str = "float64") -> Engine:
    pool = Pool(shape, 40, 5, kept_as)
    caches = {"one piece": lambda: ContiguousCache(shape, kept_as, n_reserved=3), "paged": lambda: PagedCache(pool)}
    return Engine(Model(seeded(shape)), caches[kind], chunk)


@every_variant
@pytest.mark.parametrize("kind", ["one piece", "paged"])
@pytest.mark.parametrize("chunk", [None, 1, 7])
def test_a_ragged_batch_gives_the_logits_of_each_sequence_alone(name: str, kind: str, chunk: int | None) -> None:
    engine = made(VARIANTS[name], kind=kind, chunk=chunk)
    tokens = [Bytes().encode(text) for text in TEXTS]
    runs = [engine.open() for _ in tokens]
    for run_, one in zip(runs, tokens, strict=True):
        engine.feed([(run_, one[: len(one) // 2 or 1])])
    fed = engine.feed(list(zip(runs, tokens, strict=True)), every=True)
    for run_, text, one, logits in zip(runs, TEXTS, tokens, fed, strict=True):
        expected, rows = alone(name, text)
        assert abs(logits - expected[-len(logits) :]).max() < 1e-10
        for i, (k, v) in enumerate(rows):
            cached_k, cached_v = run_.cache.read(i, len(one))
            assert abs(cached_k - k).max() < 1e-12 and abs(cached_v - v).max() < 1e-12


@every_variant
def test_decoding_token_by_token_is_reading_at_once(name: str) -> None:
    engine, begun = made(VARIANTS[name]), Bytes().encode("once upon")
    run_, generated = engine.open(), list[int]()
    (logits,) = engine.feed([(run_, begun)])
    for _ in range(12):
        generated.append(int(logits[-1].argmax()))
        (logits,) = engine.decode([run_], generated[-1:])
    expected, _ = run(engine.model.weights, [*begun, *generated])
    assert generated == [int(row.argmax()) for row in expected[8:-1]]


@pytest.mark.parametrize(("kept_as", "error"), [("float32", 1e-5), ("float16", 1e-2), ("int8", 0.2)])
@pytest.mark.parametrize("kind", ["one piece", "paged"])
def test_shorter_formats_are_as_wrong_as_they_are_short(kept_as: str, error: float, kind: str) -> None:
    engine = made(VARIANTS["GQA"], kept_as=kept_as, kind=kind)
    tokens = Bytes().encode(TEXTS[2])
    (logits,) = engine.feed([(engine.open(), tokens)])
    expected, _ = run(engine.model.weights, tokens)
    assert error / 1e4 < abs(logits[0] - expected[-1]).max() < error


# Memory
# -------------------------------------------------------------------------------------------------------------------


def test_forked_sequences_share_blocks_until_one_writes() -> None:
    pool = Pool(Shape(), 12, 4)
    engine = Engine(Model(seeded(Shape())), lambda: PagedCache(pool))
    run_, tokens = engine.open(), Bytes().encode("ten tokens")
    engine.feed([(run_, tokens)])
    assert isinstance(run_.cache, PagedCache) and pool.n_free == 12 - 3
    other = Run(run_.cache.fork(), list(tokens))
    assert pool.n_free == 12 - 3
    mine, theirs = engine.feed([(run_, [*tokens, 65]), (other, [*tokens, 66])])
    assert (
        pool.n_free == 12 - 4
        and run_.cache.table[:2] == other.cache.table[:2]
        and run_.cache.table[2] != other.cache.table[2]
    )
    for logits, last in ((mine, 65), (theirs, 66)):
        assert abs(logits[-1] - run(engine.model.weights, [*tokens, last])[0][-1]).max() < 1e-10
    run_.cache.cut(0)
    other.cache.cut(0)
    assert pool.n_free == 12


def test_a_full_pool_says_so_and_nothing_is_lost() -> None:
    pool = Pool(Shape(), 2, 4)
    engine = Engine(Model(seeded(Shape())), lambda: PagedCache(pool))
    run_ = engine.open()
    (before,) = engine.feed([(run_, [1, 2, 3, 4, 5])])
    with pytest.raises(UsageError, match="all 2 blocks of 4 rows are taken"):
        engine.feed([(run_, [1, 2, 3, 4, 5, 6, 7, 8, 9])])
    (after,) = engine.feed([(run_, [1, 2, 3, 4, 5])])
    assert abs(before - after).max() < 1e-10


@pytest.mark.parametrize(
    "cache", [ContiguousCache(Shape(), n_reserved=64), PagedCache(Pool(Shape(), 8, 8))], ids=["one piece", "paged"]
)
def test_cutting_frees_only_what_lies_behind(cache: KvCache) -> None:
    engine = Engine(Model(seeded(Shape())), lambda: cache)
    run_ = engine.open()
    engine.feed([(run_, list(range(40)))])
    before = [part.copy() for part in cache.read(3, 20)]
    engine.feed([(run_, [*range(20), 200, 201])])
    assert all((a == b).all() for a, b in zip(before, cache.read(3, 20), strict=True))


# Weights
# ------------------------------------------------------------------------------------------------------------------


def test_a_seed_is_the_same_weights_everywhere() -> None:
    assert float(seeded(Shape(), 3).arrays["2.q"][5, 5]) == pytest.approx(-0.08572503189340654, abs=1e-15)
    assert (seeded(Shape(), 3).arrays["head"] == seeded(Shape(), 3).arrays["head"]).all()
    assert (seeded(Shape(), 3).arrays["head"] != seeded(Shape(), 4).arrays["head"]).any()


# What cannot be
# -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shape", "said"),
    [
        (Shape(n_heads=4, n_kv_heads=3), "4 query heads that 3 KV heads do not divide"),
        (Shape(d_latent=8, d_rope=4), "MLA has n_kv_heads=1"),
        (Shape(n_kv_heads=1, d_latent=8), "MLA has both"),
        (Shape(d_head=7), "keys 7 wide: RoPE turns pairs"),
        (Shape(n_layers=0), "a size below 1"),
    ],
)
def test_a_shape_no_model_can_have(shape: Shape, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        seeded(shape)


@pytest.mark.parametrize("tokens", [[], [257], [-1]])
def test_tokens_there_are_not(tokens: list[int]) -> None:
    engine = made(Shape())
    with pytest.raises(UsageError, match=r"at least one token|whole numbers from 0 to 256"):
        engine.feed([(engine.open(), tokens)])


def test_a_run_twice_in_a_batch_and_positions_beyond_the_table() -> None:
    engine = made(Shape(positions="learned", max_positions=4))
    run_ = engine.open()
    with pytest.raises(UsageError, match="twice in one batch"):
        engine.feed([(run_, [1]), (run_, [2])])
    with pytest.raises(UsageError, match="position 4 is beyond the 4 learned ones"):
        engine.feed([(run_, [1, 2, 3, 4, 5])])
    with pytest.raises(UsageError, match="chunk of 0"):
        Engine(engine.model, chunk=0)


# Small things
# -------------------------------------------------------------------------------------------------------------


def test_turning_twice_is_turning_by_the_sum() -> None:
    rows = np.random.default_rng(0).standard_normal((2, 9, 16))
    here, by = np.arange(9), np.full(9, 31)
    assert abs(rope(rope(rows, here), by) - rope(rows, here + by)).max() < 1e-14


def test_bytes_come_back_as_text() -> None:
    assert Bytes().decode([*Bytes().encode("Grüße 🦊"), Bytes.end]) == "Grüße 🦊"
