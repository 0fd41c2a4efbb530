"""The judge beside its naive twin, on random recordings."""

from __future__ import annotations

import pytest

from contextkit.ledger.calls import ModelCall
from contextkit.ledger.verdict import Verdict
from tests.judge.recordings import billed, recording, verdicts
from tests.judge.twin import Lengths, Twin
from tests.scale import n_examples

N_RECORDINGS = n_examples(60, 2_000)


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
