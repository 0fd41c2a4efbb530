"""What OpenHands records: metrics made here, in each of its shapes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from contextkit.cache.usage import Usage
from contextkit.importers.registry import records_at, records_in
from contextkit.importers.source import Faults
from contextkit.ledger.calls import Exchange, Remark

FIXTURES = Path(__file__).parent / "fixtures" / "openhands"
EVENTS = FIXTURES / "sessions" / "greenhouse" / "events"


def read(*paths: Path) -> tuple[list[Exchange], list[Remark], Faults]:
    faults = Faults()
    held = list(records_in([str(path) for path in paths], faults))
    return [one for one in held if isinstance(one, Exchange)], [one for one in held if isinstance(one, Remark)], faults


def test_results_of_an_evaluation_list_each_call() -> None:
    assert records_at(str(FIXTURES / "output.jsonl"))[0].name == "OpenHands metrics"
    calls, remarks, faults = read(FIXTURES / "output.jsonl")
    assert [(call.session, call.id, call.usage, call.billed_usd) for call in calls] == [
        ("ferns-1", "resp-1", Usage(12, 0, 9_000, 0, 80), 0.02),
        ("ferns-1", "resp-2", Usage(10, 9_000, 390, 0, 60), 0.02),
        ("ferns-2", "resp-3", Usage(12, 8_000, 1_000, 0, 70), 0.02),
    ]
    assert {(call.provider, call.model) for call in calls} == {("anthropic", "claude-sonnet-4-5")}
    assert [call.ended_at and call.ended_at - call.at for call in calls] == [4, 4, 4]
    assert not remarks and not len(faults)


def test_a_state_has_a_lane_for_each_use_of_a_model() -> None:
    calls, _, _ = read(FIXTURES / "base_state.json")
    assert [(call.session, call.lane, call.usage) for call in calls] == [
        ("conv-1", "main", Usage(10, 0, 7_990, 0, 50)),
        ("conv-1", "main", Usage(10, 7_990, 300, 0, 40)),
        ("conv-1", "condenser", Usage(8_200, 0, 0, 0, 300)),
    ]


@pytest.mark.parametrize(
    ("path", "session"), [(EVENTS, "greenhouse"), (FIXTURES / "trajectory.json", "trajectory.json")]
)
def test_snapshots_grow_by_the_calls_between_them(path: Path, session: str) -> None:
    """The files of a folder come by their names: event 14 before event 7."""
    calls, remarks, faults = read(path)
    assert {call.session for call in calls} == {session}
    total = Usage(22, 9_000, 9_390, 0, 140)
    found = [call.usage for call in calls if call.usage]
    assert found == [total] if path == EVENTS else found == [Usage(12, 0, 9_000, 0, 80), Usage(10, 9_000, 390, 0, 60)]
    assert sum(call.billed_usd or 0 for call in calls) == 0.04
    assert [(remark.kind, remark.about) for remark in remarks] == [("sum", f"{session}/main")] and not len(faults)


def test_an_event_without_metrics_is_no_fault(tmp_path: Path) -> None:
    path = tmp_path / "9.json"
    path.write_text('{"id":9,"timestamp":"2026-01-01T00:00:09","source":"agent","observation":"run"}', "utf-8")
    assert read(path)[0] == [] and not len(read(path)[2])


def test_totals_equal_the_sums_that_the_metrics_hold() -> None:
    rows = [json.loads(line) for line in (FIXTURES / "output.jsonl").read_text("utf-8").splitlines()]
    said = [row["metrics"]["accumulated_token_usage"] for row in rows]
    usages = [call.usage for call in read(FIXTURES / "output.jsonl")[0] if call.usage]
    assert sum(one.prompt or 0 for one in usages) == sum(one["prompt_tokens"] for one in said)
    assert sum(one.read or 0 for one in usages) == sum(one["cache_read_tokens"] for one in said)
    assert sum(one.output or 0 for one in usages) == sum(one["completion_tokens"] for one in said)


def test_damaged_lines_and_counts(tmp_path: Path) -> None:
    first, second = (FIXTURES / "output.jsonl").read_text("utf-8").splitlines(keepends=True)
    row = json.loads(first)
    row["metrics"]["costs"] = [{"model": "m"}, 5]
    row["metrics"]["token_usages"][0] |= {"cache_read_tokens": 99_999, "new": []}
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps(row) + "\n" + second[:90] + '\n{"a": 1}\n', "utf-8")
    calls, _, faults = read(path)
    assert [call.usage for call in calls] == [None, Usage(10, 9_000, 390, 0, 60)]
    assert {fault.line for fault in faults.kept} == {1, 2, 3}
