"""aider's analytics log: events made here as those of its published sample."""

from __future__ import annotations

import json
from pathlib import Path

from contextkit.cache.usage import Usage
from contextkit.importers.registry import records_at
from contextkit.importers.source import Faults
from contextkit.ledger.calls import Exchange

LOG = Path(__file__).parent / "fixtures" / "aider" / "analytics.jsonl"


def read(path: Path) -> tuple[list[Exchange], Faults]:
    faults = Faults()
    known, records = records_at(str(path), faults)
    assert known.name == "aider analytics"
    return [one for one in records if isinstance(one, Exchange)], faults


def test_each_message_is_a_row_with_its_output_and_cost() -> None:
    calls, faults = read(LOG)
    assert [(call.provider, call.model, call.usage, call.billed_usd) for call in calls] == [
        ("anthropic", "claude-sonnet-4-5", Usage(output=80), 0.0386),
        ("anthropic", "claude-sonnet-4-5", Usage(output=60), 0.0051),
        ("", "unknown", Usage(output=40), None),
    ]
    assert [call.ended_at and call.ended_at - call.at for call in calls] == [6, 8, 9]
    assert len({call.session for call in calls}) == 2 and not len(faults)


def test_totals_equal_a_count_of_the_events() -> None:
    events = [json.loads(line) for line in LOG.read_text("utf-8").splitlines()]
    said = [event["properties"] for event in events if event["event"] == "message_send"]
    calls, _ = read(LOG)
    assert sum(call.usage.output or 0 for call in calls if call.usage) == sum(one["completion_tokens"] for one in said)
    assert sum(call.billed_usd or 0 for call in calls) == sum(one["cost"] for one in said)


def test_damaged_lines_are_faults_with_their_line(tmp_path: Path) -> None:
    lines = LOG.read_text("utf-8").splitlines(keepends=True)
    path = tmp_path / "a.jsonl"
    odd = lines[3].replace('"cost": 0.0386', '"cost": "much", "new": {}').replace('"completion_tokens": 80', '"x": 1')
    path.write_text("".join([*lines[:3], odd, lines[4][:40] + "\n", '{"a": 1}\n', *lines[5:]]), "utf-8")
    calls, faults = read(path)
    assert [(call.usage, call.billed_usd) for call in calls][:2] == [(None, None), (Usage(output=60), 0.0051)]
    assert [fault.line for fault in faults.kept] == [5, 6]
