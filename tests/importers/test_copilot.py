"""Event logs of the Copilot CLI: events made here, and real logs, whose sums equal a count of their shutdowns."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

from contextkit.cache.usage import Usage
from contextkit.importers.registry import records_at
from contextkit.importers.source import Faults
from contextkit.ledger.calls import Exchange, Remark
from contextkit.ledger.summary import summarise

FIXTURES = Path(__file__).parent / "fixtures" / "copilot"


def read(path: Path) -> tuple[list[Exchange], list[Remark], Faults]:
    faults = Faults()
    known, records = records_at(str(path), faults)
    assert known.name == "Copilot CLI events"
    held = list(records)
    return [one for one in held if isinstance(one, Exchange)], [one for one in held if isinstance(one, Remark)], faults


def test_a_stretch_gives_a_sum_a_model_and_a_call_where_it_had_one() -> None:
    calls, remarks, faults = read(FIXTURES / "events.jsonl")
    assert [(call.lane, call.model, call.usage) for call in calls] == [
        ("gpt-5.4-mini", "gpt-5.4-mini", Usage(16_300, 15_200, 0, 0, 135)),
        ("agent-7", "claude-sonnet-4.6", Usage(10, 0, 8_990, 0, 70)),
        ("main", "gpt-5.4-mini", Usage(900, 15_500, 0, 0, 30)),
        ("main", "gpt-5.4-mini", Usage(output=25)),
    ]
    assert {call.session for call in calls} == {"greenhouse"} and {call.provider for call in calls} == {
        "github-copilot"
    }
    assert [remark.about for remark in remarks if remark.kind == "sum"] == ["greenhouse/gpt-5.4-mini"]
    assert Remark("project", "greenhouse", "~/greenhouse") in remarks
    assert [fault.what for fault in faults.kept] == [
        "no session.shutdown adds up 1 of its calls: their input is unknown"
    ]


def test_a_sum_is_never_judged_a_miss_and_runs_from_its_first_call_to_the_shutdown() -> None:
    calls, remarks, _ = read(FIXTURES / "events.jsonl")
    assert calls[0].ended_at is not None and calls[0].ended_at - calls[0].at == 30
    assert calls[2].ended_at is not None and calls[2].ended_at - calls[2].at == 4
    assert not summarise([*remarks, *calls]).losses


def test_the_stream_says_a_bill_per_call_and_its_sum_only_what_they_leave_out() -> None:
    calls, remarks, faults = read(FIXTURES / "stream.jsonl")
    assert [(call.lane, call.usage) for call in calls] == [
        ("main", Usage(15_500, 0, 0, 0, 40)),
        ("main", Usage(200, 15_400, 0, 0, 20)),
        ("gpt-5.4-mini", Usage(200, 0, 0, 0, 5)),
    ]
    assert [call.at for call in calls[:2]] == [calls[0].ended_at - 4, calls[1].ended_at]  # type: ignore[operator]
    assert not len(faults) and [remark.kind for remark in remarks] == ["sum"]


def test_calls_behind_the_shutdown_that_adds_them_up_are_not_counted_again(tmp_path: Path) -> None:
    lines = (FIXTURES / "events.jsonl").read_text("utf-8").splitlines(keepends=True)
    path = tmp_path / "a.jsonl"
    path.write_text("".join([lines[0], lines[9], *lines[1:9]]), "utf-8")
    calls, _, faults = read(path)
    assert [call.usage for call in calls] == [Usage(16_300, 15_200, 0, 0, 135), Usage(10, 0, 8_990, 0, 70)]
    assert "3 calls stand behind" in str(faults.kept[-1])


def test_a_damaged_line_and_unknown_events_and_fields_are_passed_over(tmp_path: Path) -> None:
    lines = (FIXTURES / "events.jsonl").read_text("utf-8").splitlines(keepends=True)
    odd = ['{"type":"session.greeted","data":{"x":1},"id":"z"}\n', lines[8][:60] + "\n", '{"type":"assistant"}\n']
    path = tmp_path / "a.jsonl"
    path.write_text("".join([*lines[:8], *odd, lines[9].replace('"requests"', '"asks"')]), "utf-8")
    calls, _, faults = read(path)
    assert [call.usage for call in calls] == [Usage(16_300, 15_200, 0, 0, 135), Usage(10, 0, 8_990, 0, 70)]
    assert [fault.line for fault in faults.kept] == [10, 11]


def test_real_logs_add_up_to_their_shutdowns(shared: Path) -> None:
    """The count parses every line and knows nothing of ours."""
    paths = sorted((shared / "data" / "agent-logs" / "copilot-cli").glob("*.jsonl.gz"))
    assert paths
    n_sums = 0
    for path in paths:
        sums, outputs = [0] * 4, {}
        for line in gzip.decompress(path.read_bytes()).splitlines():
            event = json.loads(line)
            data = event["data"]
            if event["type"] == "session.shutdown":
                for model in data["modelMetrics"].values():
                    said = model["usage"]
                    read_, written = said["cacheReadTokens"], said["cacheWriteTokens"]
                    counts = (said["inputTokens"] - read_ - written, read_, written, said["outputTokens"])
                    sums = [one + other for one, other in zip(sums, counts, strict=True)]
                    n_sums += 1
            elif event["type"] == "assistant.message":
                outputs[data["apiCallId"]] = data["outputTokens"]
        calls, _, _ = read(path)
        ours = [call.usage for call in calls if call.usage]
        found = [sum(getattr(one, name) or 0 for one in ours) for name in ("fresh", "read", "written", "output")]
        assert found == ([*sums[:3], max(sums[3], sum(outputs.values()))]), path.name
        assert len(calls) == len(outputs)
    assert n_sums == 6
