"""Prefill is as fast as its matrix products allow, and a token costs the same behind any prompt but for attention.

Measured in a process of its own with one thread, against the same products without anything around them. Only with
`--full`: a clock decides nothing where other work runs beside."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

MEASURE = """
import time
import numpy as np
from contextkit.transformer.engine import Engine
from contextkit.transformer.kv_cache import ContiguousCache
from contextkit.transformer.model import Model
from contextkit.transformer.weights import Shape, seeded

N, D, H, F, L, T = 4096, 256, 4, 1024, 4, 128
model = Model(seeded(Shape(n_layers=L, d_model=D, n_heads=H, n_kv_heads=H, d_head=D // H, d_ff=F)))
tokens = [i * 7 % 256 for i in range(N)]
draw = np.random.default_rng(0)
x, wide = draw.standard_normal((N, D)), draw.standard_normal((N, F))
square, up, down = draw.standard_normal((D, D)), draw.standard_normal((D, F)), draw.standard_normal((F, D))
q, cached = draw.standard_normal((H, N, D // H)), draw.standard_normal((L, 2, H, N, D // H))

def bare(first, n):
    for k, v in cached:
        for matrix in (square, square, square, square, up, up):
            x[:n] @ matrix
        wide[:n] @ down
        for low in range(first, first + n, T):
            end = min(first + n, low + T)
            (q[:, low:end] @ k[:, :end].swapaxes(1, 2)) @ v[:, :end]

def seconds(do, *arguments):
    start = time.perf_counter()
    do(*arguments)
    return time.perf_counter() - start

def prefill():
    engine = Engine(model, lambda: ContiguousCache(model.shape, n_reserved=N + 100))
    run = engine.open()
    engine.feed([(run, tokens)])
    return engine, run

def decoding(engine, run):
    return min(seconds(engine.decode, [run], [1]) for _ in range(80))

ratio = 1e9
for _ in range(3):
    alone = seconds(bare, 0, N)
    start = time.perf_counter()
    engine, run = prefill()
    ratio = min(ratio, (time.perf_counter() - start) / alone)
    if ratio < 2.5:
        break
short = engine.open()
engine.feed([(short, tokens[:256])])
attention = min(seconds(bare, N - 1, 1) for _ in range(20)) - min(seconds(bare, 255, 1) for _ in range(80))
print(ratio, decoding(engine, run) - decoding(engine, short), attention)
"""


@pytest.fixture(scope="module")
def measured(request: pytest.FixtureRequest) -> tuple[float, float, float]:
    if not request.config.getoption("--full"):
        pytest.skip("a timed test: with --full")
    alone = dict.fromkeys(["OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS"], "1")
    root = Path(__file__).resolve().parents[2]
    ran = subprocess.run(
        [sys.executable, "-c", MEASURE],
        check=True,
        capture_output=True,
        text=True,
        cwd=root,
        env={**os.environ, **alone},
    )
    ratio, longer, attention = map(float, ran.stdout.split())
    return ratio, longer, attention


def test_prefill_takes_at_most_three_times_its_bare_matrix_products(measured: tuple[float, float, float]) -> None:
    assert measured[0] < 3


def test_a_token_behind_4096_costs_more_only_by_its_attention(measured: tuple[float, float, float]) -> None:
    _, longer, attention = measured
    assert longer < 4 * attention + 0.002
