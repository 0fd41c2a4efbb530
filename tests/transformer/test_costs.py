"""Each formula is what the engine counts, and the figures people quote come out."""

from __future__ import annotations

import random

import pytest

from contextkit.transformer.costs import H100, REAL, decode, forward, kv_bytes, stored_vectors, vector_computations
from contextkit.transformer.engine import Engine
from contextkit.transformer.kv_cache import ContiguousCache
from contextkit.transformer.model import Model
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
        d_latent=draw.randint(1, 20) if is_latent else 0,
        d_rope=2 * draw.randint(1, 5) if is_latent else 0,
        max_positions=64,
        formulas=draw.choice(["llama", "classic"]),
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
    held = [part for layer in range(4) for part in cache.read(layer, 32)]
    assert sum(part.size for part in held) == 16_384
    assert 4 * sum(part.size for part in held) == kv_bytes(shape, 32, element_bytes=4) == 65_536


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


def test_prefill_computes_and_decoding_waits_for_memory() -> None:
    chip = H100
    ridge = chip.flops_per_second / chip.bytes_per_second
    prefill, step = forward(LLAMA2.shape, 4096), decode(LLAMA2.shape, 4096)
    assert step.intensity < ridge < prefill.intensity
    assert prefill.seconds(chip) == prefill.flops / chip.flops_per_second
    assert step.seconds(chip) == step.n_bytes / chip.bytes_per_second
