"""The workload benchmark, tiny: contextkit and a loop of one's own on the SDK, no other framework."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.benchmarks.workloads import contender_contextkit, contender_sdk
from tests.benchmarks.workloads.__main__ import replace_results, unchanged
from tests.benchmarks.workloads.recorded import quantiles
from tests.benchmarks.workloads.scenarios import crash, research, workloads
from tests.benchmarks.workloads.table import best_own, best_peer, markdown
from tests.benchmarks.workloads.workload import Contender, Index, Row, View, run

SCALE = 0.02


def rows_of(name: str) -> list[Row]:
    build = dict(workloads(SCALE))[name]
    contenders: list[Contender] = [*contender_contextkit.contenders(name), *contender_sdk.contenders(name)]
    return [run(contender, build()) for contender in contenders]


@pytest.mark.parametrize("name", [name for name, _ in workloads(SCALE)])
def test_every_workload_ends_with_both_loops(name: str) -> None:
    rows = rows_of(name)
    assert [row.error for row in rows] == [""] * len(rows)
    assert all(row.calls > 0 and row.cost_usd and row.n_lines for row in rows)
    assert not any("after the script's end" in row.remark for row in rows)
    assert best_own(rows) is not None
    assert name == "overflow" or best_peer(rows) is not None  # a summary of the SDK loop loses every planted fact


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


def test_a_research_run_that_reads_nothing_back_is_the_same_at_every_rate() -> None:
    plain, *others = contender_contextkit.contenders("research 0")
    [offloading] = [one for one in others if one.settings == "offload above 4,000"]
    rows = [run(one, research("research 0", 0.0, SCALE, page_tokens=9_000)) for one in (plain, offloading)]
    again = run(plain, research("research 1", 1.0, SCALE, page_tokens=9_000))
    assert unchanged(rows, ("research 1", "contextkit", plain.settings)) == again
    assert unchanged(rows, ("research 1", "contextkit", offloading.settings)) is None


def test_tables_name_versions_what_was_left_out_and_failures() -> None:
    [plain, *_] = contender_sdk.contenders("research 0")
    row = run(plain, research("research 0", 0.0, SCALE, page_tokens=1_000))
    failed = replace(row, contender="other", error="ValueError: a | b")
    less = replace(row, contender="third", seen_tokens=10.0)
    text = markdown(
        [row, failed, less], {"research 0": "Research"}, {"anthropic": "1"}, {"x": "not installed"}, is_full=False
    )
    assert "anthropic 1" in text
    assert "x (not installed)" in text
    assert "ValueError: a / b" in text
    assert "third ◦" in text


def test_tables_replace_those_of_a_page(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- results -->\nold\n<!-- end -->\nafter\n")
    for _ in range(2):
        replace_results(page, "new")
    assert page.read_text() == "before\n<!-- results -->\n\nnew\n\n<!-- end -->\nafter\n"


def test_an_exception_of_a_contender_is_a_row() -> None:
    def fails(job: object) -> None:
        raise ValueError("no such setting")

    row = run(Contender("none", "none", fails), research("research 0", 0.0, SCALE, page_tokens=500))
    assert row.error == "ValueError: no such setting"
    assert row.calls == 0


def test_a_view_shows_no_result_that_the_provider_clears() -> None:
    results = [
        {"type": "tool_result", "tool_use_id": one, "content": f"p001.00{at} words"} for at, one in enumerate("abc", 1)
    ]
    body = {"messages": [{"role": "user", "content": results}]}
    assert View(body, Index()).lines("p001") == {1, 2, 3}
    assert View(body, Index(), {"a", "b"}).lines("p001") == {3}


def test_quantiles_span_the_whole() -> None:
    assert quantiles([float(number) for number in range(101)])[::5] == [0, 25, 50, 75, 100]
