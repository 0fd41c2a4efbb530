"""Every capacity at once: the same hits and evictions as one replay a capacity."""

from __future__ import annotations

import builtins
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contextkit.engines.block_trace import BlockRequest
from contextkit.engines.reuse_distance import Curve, Distances
from contextkit.engines.trace_engines import Setting, build
from contextkit.errors import MissingExtra

np = pytest.importorskip("numpy", reason="the extra numpy is not installed")


def requests_of(prompts: list[list[int]], size: int = 16) -> list[BlockRequest]:
    return [BlockRequest("s", "main", float(at), size, ids, size * len(ids)) for at, ids in enumerate(prompts)]


def curve_of(requests: list[BlockRequest]) -> Curve:
    distances = Distances()
    for request in requests:
        distances.add(request)
    return distances.curve()


def chained(stem: int, length: int) -> list[int]:
    """Ids that stand for all before them: stems leave one another at their own places."""
    return [1000 * (stem * (index >= 7 * (stem % 4) + 1)) + index for index in range(length)]


PROMPTS = st.lists(st.builds(chained, st.integers(0, 7), st.integers(0, 40)), max_size=25)


def test_every_capacity_is_that_of_a_replay(pytestconfig: pytest.Config) -> None:
    @settings(max_examples=1000 if pytestconfig.getoption("--full") else 15, deadline=None, database=None)
    @given(PROMPTS, st.integers(1, 130))
    def stream(prompts: list[list[int]], capacity: int) -> None:
        requests = requests_of(prompts)
        curve = curve_of(requests)
        for room in (capacity, None):
            [engine] = build(Setting(capacity=room))
            hits = [engine.admit(request.ids) for request in requests]
            assert curve.hit_blocks(room) == sum(hits)
            assert curve.hit_tokens(room) == 16 * sum(hits)
            assert curve.evictions(room) == engine.n_evicted

    stream()


def test_more_room_never_hits_less_and_evicts_less() -> None:
    draw = random.Random(3)
    curve = curve_of(requests_of([chained(draw.randrange(8), draw.randrange(40)) for _ in range(200)]))
    rates = [curve.hit_rate(capacity) for capacity in range(1, curve.n_distinct + 1)]
    evicted = [curve.evictions(capacity) for capacity in range(1, curve.n_distinct + 1)]
    assert rates == sorted(rates) and evicted == sorted(evicted, reverse=True)
    assert (rates[-1], evicted[-1]) == (curve.hit_rate(None), 0)
    points = curve.points(20)
    assert 2 < len(points) <= 20 and points[-1] == (curve.n_distinct, curve.hit_rate(None))


def test_a_last_block_that_is_cut_short_weighs_what_it_holds() -> None:
    request = BlockRequest("s", "main", 0.0, 16, [1, 2], 20)
    assert curve_of([request, request]).hit_tokens(None) == 20


def test_an_empty_trace_has_an_empty_curve() -> None:
    curve = curve_of([])
    assert (curve.n_blocks, curve.hit_rate(10), curve.hit_rate(None), curve.evictions(1), curve.points()) == (
        0,
        0.0,
        0.0,
        0,
        [],
    )


def test_hashes_of_64_bits_are_ids_like_any_others() -> None:
    large = [[1, 2**64 - 1, 2**63], [1, 2**64 - 1, 5]]
    assert curve_of(requests_of(large)).hit_blocks(None) == 2


def test_without_numpy_the_error_names_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def refusing(name: str, *rest: Any, **more: Any) -> Any:
        if name == "numpy":
            raise ImportError(name)
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", refusing)
    with pytest.raises(MissingExtra, match=r'pip install "contextkit-sdk\[numpy\]"'):
        Distances().curve()
