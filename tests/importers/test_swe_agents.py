"""Trajectories of mini-swe-agent and SWE-agent: runs made here, one with the sums of a published trajectory."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from contextkit.cache.usage import Usage
from contextkit.importers.registry import records_at
from contextkit.importers.source import Faults
from contextkit.ledger.calls import Exchange, Remark

FIXTURES = Path(__file__).parent / "fixtures" / "swe_agents"
MINI = FIXTURES / "mini.traj.json"


def read(path: Path) -> tuple[list[Exchange], list[Remark], Faults]:
    faults = Faults()
    known, records = records_at(str(path), faults)
    assert known.name == "SWE-agent trajectory"
    held = list(records)
    return [one for one in held if isinstance(one, Exchange)], [one for one in held if isinstance(one, Remark)], faults


def changed(tmp_path: Path, **changes: Any) -> Path:
    path = tmp_path / "a.traj.json"
    path.write_text(json.dumps({**json.loads(MINI.read_text("utf-8")), **changes}, indent=1), "utf-8")
    return path


def test_each_response_of_a_run_is_a_call_with_its_cost() -> None:
    calls, remarks, faults = read(MINI)
    assert [(call.id, call.usage, call.billed_usd) for call in calls] == [
        ("chatcmpl-1", Usage(12, 0, 9_000, 0, 80), 0.01),
        ("chatcmpl-2", Usage(10, 9_000, 390, 0, 60), 0.02),
        ("chatcmpl-3", Usage(10, 9_390, 100, 0, 40), 0.03),
    ]
    assert {(call.session, call.provider, call.model) for call in calls} == {
        ("greenhouse__ferns-1", "anthropic", "claude-sonnet-4-5-20250929")
    }
    assert calls[1].ended_at is not None and calls[1].ended_at - calls[1].at == 18.5
    assert not remarks and not len(faults)


def test_totals_equal_a_count_of_the_usages() -> None:
    run = json.loads(MINI.read_text("utf-8"))
    said = [one["extra"]["response"]["usage"] for one in run["messages"] if "response" in one.get("extra", {})]
    usages = [call.usage for call in read(MINI)[0] if call.usage]
    assert sum(one.prompt or 0 for one in usages) == sum(one["prompt_tokens"] for one in said)
    assert sum(one.read or 0 for one in usages) == sum(one["prompt_tokens_details"]["cached_tokens"] for one in said)
    assert sum(one.output or 0 for one in usages) == sum(one["completion_tokens"] for one in said)


def test_calls_that_left_no_response_are_reported(tmp_path: Path) -> None:
    info = {"model_stats": {"instance_cost": 0.08, "api_calls": 5}}
    calls, _, faults = read(changed(tmp_path, info=info))
    assert len(calls) == 3
    assert [fault.what for fault in faults.kept] == ["2 of the calls of a run left no response; they are not counted"]


def test_a_run_that_says_only_sums_is_one_row() -> None:
    calls, remarks, _ = read(FIXTURES / "sweagent.traj")
    assert [(call.usage, call.billed_usd, call.provider, call.model) for call in calls] == [
        (Usage(output=326), 0.53839, "openai", "gpt-4o")
    ]
    assert [(remark.kind, remark.about) for remark in remarks] == [("sum", "sweagent/main")]


def test_damaged_and_unknown_parts(tmp_path: Path) -> None:
    messages = json.loads(MINI.read_text("utf-8"))["messages"]
    messages[2]["extra"]["response"] = {"id": "chatcmpl-1", "new": 1}
    messages[4]["extra"]["response"] = "cut"
    calls, _, faults = read(changed(tmp_path, messages=[*messages, 5, None], new={"a": 1}))
    assert [call.usage for call in calls] == [Usage(10, 9_390, 100, 0, 40)] and len(faults) == 2
    path = tmp_path / "cut.traj.json"
    path.write_bytes(MINI.read_bytes()[:2_000])
    calls, _, faults = read(path)
    assert not calls and faults.kept[0].line == 1
