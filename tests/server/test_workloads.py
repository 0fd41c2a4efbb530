"""The workload benchmark, tiny: contextkit and a loop of one's own on the SDK, no other framework."""

from __future__ import annotations

import pytest

from tests.benchmarks.workloads import contender_contextkit, contender_sdk
from tests.benchmarks.workloads.scenarios import crash, research, workloads
from tests.benchmarks.workloads.table import best_own, best_peer
from tests.benchmarks.workloads.workload import Contender, Row, run
from tests.scale import cases

SCALE = 0.02


def rows_of(name: str) -> list[Row]:
    build = dict(workloads(SCALE))[name]
    contenders: list[Contender] = [*contender_contextkit.contenders(name), *contender_sdk.contenders(name)]
    return [run(contender, build()) for contender in contenders]


@pytest.mark.parametrize("name", cases(["late tools"], ["support mixed", "coding", "late tools", "parallel"]))
def test_every_workload_ends_with_both_loops(name: str) -> None:
    rows = rows_of(name)
    assert [row.error for row in rows] == [""] * len(rows)
    assert all(row.calls > 0 and row.cost_usd and row.n_lines for row in rows)
    assert not any("after the script's end" in row.remark for row in rows)
    assert best_own(rows) is not None
    assert best_peer(rows) is not None


def test_a_preview_is_marked_as_less_information_and_read_back() -> None:
    [offloading] = [
        one for one in contender_contextkit.contenders("research 0") if one.settings == "offload above 4,000"
    ]
    seldom = run(offloading, research("research 0", 0.0, SCALE, page_tokens=9_000))
    always = run(offloading, research("research 1", 1.0, SCALE, page_tokens=9_000))
    assert seldom.seen_share < 0.2
    assert always.seen_share > 0.99
    assert always.calls > seldom.calls
    assert seldom.facts == {"reference": 4}


def test_a_crash_inside_a_tool_costs_the_call_that_asks_for_it_again() -> None:
    rows = [run(one, crash(scale=SCALE)) for one in contender_contextkit.contenders("crash")]
    whole = len(crash(scale=SCALE).turns) * 5
    assert [row.calls for row in rows] == [whole + 1]


def test_equal_runs_cost_the_same() -> None:
    [plain, *_] = contender_contextkit.contenders("research 0")
    first, again = (run(plain, research("research 0", 0.0, SCALE, page_tokens=2_000)) for _ in range(2))
    assert first == again
