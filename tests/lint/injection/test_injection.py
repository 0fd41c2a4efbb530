"""Hazards injected at a random turn of recorded sessions are named, by their code, at their turn.

Without them nothing is reported that is not in the baseline.

Each run takes a random stretch of a random session, does to it what one hazard does to requests, and asks what the
detector finds at the call where it shows first. By default one run for each mutation, each on one of the wires in turn;
`--full -s` makes 50 for each mutation and wire and shows the table."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random

import pytest

from contextkit.ledger.calls import ModelCall
from contextkit.lint.catalogue import hazards
from contextkit.lint.finding import RequestPlace
from contextkit.lint.requests.detect import find_in_requests
from tests.lint.injection.run import MUTATIONS, Score, explained, run
from tests.lint.injection.sessions import WIRES, beginning_of_the_coding_session, coding_session, service_runs
from tests.scale import n_examples

OVERALL, EACH = 0.95, 0.80
RUNS = n_examples(1, 50)
"""For each mutation and wire."""
N_SERVICE_RUNS = n_examples(20, 200)


def test_mutations_spread_over_the_catalogue() -> None:
    codes = {mutation.code for mutation in MUTATIONS}
    assert len(codes) >= 40
    assert {code[:3] for code in codes} >= {"CKT", "CKS", "CKM", "CKB", "CKP", "CKR", "CKL"}
    assert codes <= {row.code for row in hazards() if row.requests}
    assert len({mutation.what for mutation in MUTATIONS}) == len(MUTATIONS)


@pytest.mark.parametrize("wire", WIRES)
def test_an_injected_hazard_is_named_at_its_turn(wire: str, shared: Path, request: pytest.FixtureRequest) -> None:
    is_full = bool(request.config.getoption("--full"))
    pool: list[list[tuple[ModelCall, ...]]] = [list(service_runs(shared, wire, N_SERVICE_RUNS))]
    if is_full or wire == WIRES[0]:
        pool.append([coding_session(shared, wire) if is_full else beginning_of_the_coding_session(shared, wire)])
    scores = [
        _scored(number, wire, pool, RUNS)
        for number in range(len(MUTATIONS))
        if wire in (wires := MUTATIONS[number].wires) and (is_full or wire == wires[number % len(wires)])
    ]
    runs, found = sum(score.runs for score in scores), sum(score.found for score in scores)
    print(f"\n{wire}: {found} of {runs} runs, {found / runs:.1%}", *scores, sep="\n")
    assert not is_full or [score.mutation.code for score in scores if score.runs < RUNS] == []
    assert found >= OVERALL * runs
    assert not is_full or [str(score) for score in scores if score.found < EACH * score.runs] == []


def _scored(number: int, wire: str, pool: list[list[tuple[ModelCall, ...]]], n_runs: int) -> Score:
    mutation, score, rows = MUTATIONS[number], Score(MUTATIONS[number]), list(hazards())
    for n in range(n_runs):
        random = Random(f"{mutation.what} {wire} {n}")
        run(mutation, wire, pool, rows, random, score)
    return score


@pytest.mark.parametrize("wire", WIRES)
def test_nothing_is_reported_of_what_nobody_changed_but_what_the_baseline_explains(
    wire: str, shared: Path, request: pytest.FixtureRequest
) -> None:
    rows, is_full = list(hazards()), bool(request.config.getoption("--full"))
    if is_full or wire == WIRES[0]:
        session = coding_session(shared, wire) if is_full else beginning_of_the_coding_session(shared, wire)
        found = find_in_requests(session, rows)
        places = [(one.code, one.place.turn) for one in found if isinstance(one.place, RequestPlace)]
        expected = (
            (code, turn) for asked, code, turn in explained().elements() if asked == wire and turn <= len(session)
        )
        assert Counter(places) == Counter(expected)
    for session in service_runs(shared, wire, N_SERVICE_RUNS):
        assert [str(one) for one in find_in_requests(session, rows)] == []
