"""Each formula is what the engine counts, and the figures people quote come out."""

from __future__ import annotations

import random

import pytest

from contextkit.transformer.costs import (
    CHIPS,
    PriceRow,
    attention_intensity,
    decode,
    forward,
    kv_bytes,
    miss,
    parameters,
    stored_vectors,
    vector_computations,
)
from contextkit.transformer.engine import Engine
from contextkit.transformer.kv_cache import ContiguousCache
from contextkit.transformer.model import Model
from contextkit.transformer.real_shapes import REAL
from contextkit.transformer.weights import Shape, seeded

LLAMA2 = REAL["Llama-2-7B"]


def random_shape(draw: random.Random) -> Shape:
    kv, per = draw.choice([(1, 1), (1, 4), (2, 2), (4, 1), (2, 3)])
    is_latent = kv == 1 and draw.random() < 0.6
    return Shape(
        n_layers=draw.randint(1, 5),
        d_model=draw.randint(4, 40),
        n_heads=kv * per,
        n_kv_heads=kv,
        d_head=2 * draw.randint(1, 9),
        d_ff=draw.randint(1, 60),
        vocabulary=draw.randint(2, 50),
        positions=draw.choice(["rope", "rope_at_read", "learned"]),
        norm=draw.choice(["pre", "post"]),
        d_latent=draw.randint(1, 20) if is_latent else 0,
        d_rope=2 * draw.randint(1, 5) if is_latent else 0,
        max_positions=64,
        is_tied=draw.random() < 0.3,
    )


@pytest.mark.parametrize("seed", range(50))
def test_formulas_are_what_the_engine_counts(seed: int) -> None:
    draw = random.Random(seed)
    shape = random_shape(draw)
    model = Model(seeded(shape, seed))
    cached, new, batch = draw.randint(0, 20), draw.randint(1, 20), draw.randint(1, 3)
    engine = Engine(model, chunk=None)
    sequences = [[draw.randrange(shape.vocabulary) for _ in range(cached + new)] for _ in range(batch)]
    runs = [engine.open() for _ in sequences]
    if cached:
        engine.feed([(run, tokens[:cached]) for run, tokens in zip(runs, sequences, strict=True)])
    before = engine.work.copy()
    engine.feed(list(zip(runs, sequences, strict=True)))
    work, cost = engine.work.since(before), forward(shape, new, cached, batch, element_bytes=8)
    rows = work.rows_read * shape.n_kv_heads * sum(shape.cached_widths)
    assert (work.flops, 8 * (work.weights_read + rows)) == (cost.flops, cost.n_bytes)
    assert (work.positions, work.vectors) == (batch * new, stored_vectors(shape, batch * new))
    assert parameters(shape) == sum(array.size for array in model.weights.arrays.values())
    before = engine.work.copy()
    engine.decode(runs, [0] * batch)
    assert engine.work.since(before).flops == decode(shape, cached + new + 1, batch).flops


def test_token_by_token_with_a_cache_and_without() -> None:
    shape, tokens = Shape(n_layers=2), list(range(40))
    cached, plain = Engine(Model(seeded(shape))), Engine(Model(seeded(shape)))
    run = cached.open()
    for n in range(1, 41):
        cached.feed([(run, tokens[:n])])
        plain.feed([(plain.open(), tokens[:n])])
    assert cached.work.positions == 40
    assert plain.work.positions == 40 * 41 // 2


def test_a_cache_is_as_large_as_the_formula_says() -> None:
    shape = Shape(n_layers=4, n_heads=4, n_kv_heads=4, d_head=16)
    cache = ContiguousCache(shape, "float32", n_reserved=32)
    engine = Engine(Model(seeded(shape)), lambda: cache)
    engine.feed([(engine.open(), list(range(32)))])
    held = [part for layer in range(4) for part in cache.read(layer, 32, "float32")]
    assert sum(part.size for part in held) == 16_384
    assert sum(part.nbytes for part in held) == kv_bytes(shape, 32, element_bytes=4) == 65_536


def test_figures_people_quote() -> None:
    big = REAL["Llama-3.1-405B"].shape
    assert vector_computations(big, 50_000) == 806_400_000
    assert stored_vectors(big, 50_000) == 100_800_000
    assert kv_bytes(LLAMA2.shape, 4096) == 2_147_483_648
    expected = {
        "Llama-3.1-8B": 131_072,
        "Llama-2-70B": 327_680,
        "Llama-3.1-70B": 327_680,
        "Llama-3.1-405B": 516_096,
        "DeepSeek-V3": 70_272,
    }
    assert {name: kv_bytes(REAL[name].shape, 1) for name in expected} == expected
    assert forward(LLAMA2.shape, 4096, n_parameters=LLAMA2.n_active).flops == pytest.approx(5.960e13, rel=1e-4)
    part = forward(LLAMA2.shape, 512, 3584, n_parameters=LLAMA2.n_active).flops
    assert part == pytest.approx(7.931e12, rel=1e-4)
    assert 1 - part / forward(LLAMA2.shape, 4096, n_parameters=LLAMA2.n_active).flops == pytest.approx(0.8669, abs=1e-4)
    step = decode(LLAMA2.shape, 4096, n_parameters=LLAMA2.n_active)
    assert (step.flops, step.n_bytes) == (pytest.approx(1.5624e10, rel=1e-4), pytest.approx(1.5624e10, rel=1e-4))
    intensities = [decode(LLAMA2.shape, 4096, batch, LLAMA2.n_active).intensity for batch in (1, 8, 64, 256)]
    assert intensities == pytest.approx([1.0, 4.08, 6.63, 7.10], abs=0.005)
    assert attention_intensity(REAL["DeepSeek-V3"].shape) == pytest.approx(241.8, abs=0.05)


EXTRA = {"Qwen3-8B": 36 * 256, "Qwen3-32B": 64 * 256, "Gemma-2-9B": 42 * 2 * 3584, "Gemma-2-27B": 46 * 2 * 4608}
"""Gains our layers have not: Qwen3 normalises queries and keys, Gemma 2 what comes out of a part as well."""


@pytest.mark.parametrize("name", [name for name, row in REAL.items() if row.n_active == row.n_parameters])
def test_shapes_of_dense_models_add_up_to_their_published_size(name: str) -> None:
    assert parameters(REAL[name].shape) + EXTRA.get(name, 0) == REAL[name].n_parameters


def test_layers_with_a_window_keep_only_it() -> None:
    mistral, oss = REAL["Mistral-7B-v0.1"], REAL["gpt-oss-120b"]
    assert kv_bytes(mistral.shape, 100_000, windowed=mistral.windowed) == kv_bytes(mistral.shape, 4096)
    assert kv_bytes(oss.shape, 100_000, windowed=oss.windowed) == (18 * 100_000 + 18 * 128) * 8 * 128 * 2


def test_a_tenth_of_the_price_and_85_percent_sooner() -> None:
    """100,000 tokens of which 95,000 are read, on a 70B model, with 0.3 s for everything else."""
    model, price = REAL["Llama-3.1-70B"], PriceRow(fresh=3.00, read=0.30)
    assert price.read / price.fresh == pytest.approx(0.10)
    lost = miss(model.shape, 95_000, 5_000, price, CHIPS["8xH100"], model.n_active, other_seconds=0.3)
    assert lost.cost_usd == pytest.approx(95_000 * 2.70 / 1e6)
    assert 1 - lost.hit_share_of_seconds == pytest.approx(0.85, abs=0.01)
    assert lost.seconds == pytest.approx(3.19, abs=0.01)


def test_prefill_computes_and_decoding_waits_for_memory() -> None:
    chip = CHIPS["H100"]
    ridge = chip.flops_per_second / chip.bytes_per_second
    prefill, step = forward(LLAMA2.shape, 4096), decode(LLAMA2.shape, 4096)
    assert step.intensity < ridge < prefill.intensity
    assert prefill.seconds(chip) == prefill.flops / chip.flops_per_second
    assert step.seconds(chip) == step.n_bytes / chip.bytes_per_second
