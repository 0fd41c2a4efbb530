"""Readings that share a run until they differ cost what each costs in a run of its own."""

from __future__ import annotations

from collections import Counter, defaultdict
from pathlib import Path

import pytest

from contextkit import prices
from contextkit.analysis.counterfactual.fix import Fix, LaneChange, Reading, readings_of
from contextkit.analysis.counterfactual.fixes import FIXES
from contextkit.analysis.counterfactual.timed_lane import AS_IT_WAS, Call, LaneRun, Paid
from contextkit.analysis.counterfactual.timed_lanes import LIFETIMES, Lanes, call_of
from contextkit.importers.registry import records_in
from contextkit.importers.source import Faults
from contextkit.ledger.misses import analyzed_calls

TIMED = [FIXES["ttl-1h"], FIXES["keep-alive"]]


@pytest.fixture
def lanes(shared: Path) -> dict[tuple[str, str], list[tuple[Call, float]]]:
    """The calls of 20 real sessions by session and lane, with what each was billed."""
    files = sorted((shared / "data" / "agent-logs" / "claude-code").glob("*.gz"))[:20]
    found: defaultdict[tuple[str, str], list[tuple[Call, float]]] = defaultdict(list)
    for row in analyzed_calls(records_in(map(str, files), Faults())):
        call = call_of(row)
        if isinstance(call, Call):
            found[row.exchange.session, row.exchange.lane].append((call, row.cost_usd or 0.0))
    return found


def usd(bills: list[Paid]) -> float:
    return sum(
        prices.cost_usd(bill.call.exchange.provider, bill.call.exchange.model, bill.usage, bill.call.exchange.at) or 0.0
        for bill in bills
    )


def pinged(run: LaneRun, until: float, change: LaneChange, reading: Reading) -> list[Paid]:
    pings = run.pings_before(until, reading["pinging"], Counter()) if change.has_pings else None
    if pings is None:
        return []
    return run.ping(pings) if reading["pings"] == "renew" else [Paid(pings.call, pings.usage)] * len(pings.times)


def saved_alone(calls: list[Call], change: LaneChange, reading: Reading) -> float:
    """What a change saves in a lane, as it was and with the change replayed apart from every other reading."""
    was, run = LaneRun(AS_IT_WAS, {"lifetime": reading["lifetime"]}), LaneRun(change, reading)
    before = after = 0.0
    for call in calls:
        bills = pinged(run, call.exchange.at, change, reading)
        adjusted = was.find_out(call)
        before += usd([was.see(call, adjusted)])
        after += usd([*bills, run.see(call, adjusted)])
    if change.has_pings and reading["pinging"] == "until it no longer pays" and not run.is_over:
        after += usd(pinged(run, float("inf"), change, reading))
    return before - after


@pytest.mark.parametrize("fix", TIMED, ids=lambda fix: fix.name)
def test_every_reading_saves_what_it_saves_alone(
    lanes: dict[tuple[str, str], list[tuple[Call, float]]], fix: Fix
) -> None:
    assert fix.lane is not None and len(lanes) > 20
    together = Lanes([fix])
    for (session, lane), calls in lanes.items():
        for call, cost in calls:
            together.see(call, cost, f"{session}/{lane}")
    together.finish()
    for (session, lane), calls in lanes.items():
        alone = [saved_alone([call for call, _ in calls], fix.lane, reading) for reading in readings_of(fix)]
        assert together.sums.of(fix, f"{session}/{lane}") == alone
    assert {reading["lifetime"] for reading in readings_of(fix)} == set(LIFETIMES)
