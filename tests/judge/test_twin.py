"""The judge beside its naive twin, on random recordings."""

from __future__ import annotations

import random
from itertools import combinations

import pytest

from contextkit.ledger.calls import ModelCall
from contextkit.ledger.verdict import Verdict
from contextkit.prompt.alignment import Unit, align
from tests.judge.recordings import billed, recording, verdicts
from tests.judge.twin import Lengths, Twin
from tests.scale import n_examples

N_RECORDINGS = n_examples(60, 2_000)
LEAST_EQUAL = 0.97
"""Share of the calls at least of which the chosen candidates show all that every earlier call does."""


def measured(calls: list[ModelCall], *, is_limited: bool) -> list[Lengths | None]:
    twin = Twin(is_limited=is_limited)
    return [twin.feed(call) for call in calls]


def lengths_of(verdict: Verdict) -> tuple[int, int | None, int | None]:
    return verdict.prompt, verdict.readable, verdict.shared


@pytest.mark.parametrize("has_bills", [True, False], ids=["billed", "unbilled"])
def test_the_judge_measures_what_its_twin_measures(has_bills: bool) -> None:
    for seed in range(N_RECORDINGS):
        calls = recording(seed)
        calls = billed(calls) if has_bills else calls
        for call, verdict, twin in zip(calls, verdicts(calls), measured(calls, is_limited=True), strict=True):
            assert (verdict is None) == (twin is None), (seed, call.id)
            if verdict is None or twin is None:
                continue
            assert lengths_of(verdict) == (twin.prompt, twin.readable, twin.shared), (seed, call.id)
            assert verdict.similar in twin.similar, (seed, call.id)


def test_the_candidates_that_the_judge_chooses_show_nearly_all() -> None:
    """It never finds more than a twin that compares a call with every earlier one."""
    n = n_equal = 0
    for seed in range(N_RECORDINGS):
        calls = billed(recording(seed))
        for call, verdict, twin in zip(calls, verdicts(calls), measured(calls, is_limited=False), strict=True):
            if verdict is None or twin is None:
                continue
            is_equal = lengths_of(verdict)[1:] == (twin.readable, twin.shared) and verdict.similar in twin.similar
            n, n_equal = n + 1, n_equal + is_equal
            assert (verdict.readable or 0) <= twin.readable, (seed, call.id)
            assert (verdict.shared or 0) <= twin.shared, (seed, call.id)
            assert (verdict.similar or 0) <= max(twin.similar), (seed, call.id)
    assert n_equal >= LEAST_EQUAL * n


@pytest.mark.parametrize("seed", range(n_examples(200, 5_000)))
def test_the_pairs_of_an_alignment_weigh_most(seed: int) -> None:
    """Of prompts whose blocks repeat, so that many pairings weigh the same: every subsequence is tried."""
    rng = random.Random(seed)
    one, other = ([Unit(2, bytes([rng.choice(b"abcd")]), None) for _ in range(rng.randint(0, 7))] for _ in range(2))
    sizes = {key: rng.randint(1, 9) for key in b"abcd"}
    weights = [sizes[unit.key[0]] for unit in other]
    shared = next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    kept = [block for block, _ in align(one, other, weights, shared, 1_024).kept]
    assert is_subsequence([other[block] for block in kept], one)
    assert sum(weights[block] for block in kept) == max(
        sum(weights[block] for block in chosen)
        for n in range(len(other) + 1)
        for chosen in combinations(range(len(other)), n)
        if is_subsequence([other[block] for block in chosen], one)
    )


def is_subsequence(part: list[Unit], whole: list[Unit]) -> bool:
    rest = iter(whole)
    return all(unit in rest for unit in part)
