"""Sessions of Cline's SDK: messages made here; totals equal a count of their metrics."""

from __future__ import annotations

import json
from pathlib import Path

from contextkit.cache.usage import Usage
from contextkit.importers.registry import records_at
from contextkit.importers.source import Faults
from contextkit.ledger.calls import Exchange

SESSION = Path(__file__).parent / "fixtures" / "cline_sessions" / "sess_1.messages.json"


def read(path: Path) -> tuple[list[Exchange], Faults]:
    faults = Faults()
    known, records = records_at(str(path), faults)
    assert known.name == "Cline session"
    return [one for one in records if isinstance(one, Exchange)], faults


def test_each_message_with_metrics_is_a_call_with_its_cost() -> None:
    calls, faults = read(SESSION)
    assert [(call.session, call.lane, call.provider, call.usage, call.billed_usd) for call in calls] == [
        ("sess_1", "main", "anthropic", Usage(12, 0, 14_000, 0, 80), 0.0538),
        ("sess_1", "main", "anthropic", Usage(10, 14_000, 690, 0, 60), 0.0087),
        ("sess_1", "main", "openai", Usage(400, 14_600, 0, 0, 50), None),
    ]
    assert [call.ended_at and call.ended_at - call.at for call in calls] == [7, 6, 9] and not len(faults)


def test_totals_equal_a_count_of_the_metrics() -> None:
    said = [one["metrics"] for one in json.loads(SESSION.read_text("utf-8"))["messages"] if "metrics" in one]
    usages = [call.usage for call in read(SESSION)[0] if call.usage]
    assert sum(one.prompt or 0 for one in usages) == sum(one["inputTokens"] for one in said)
    assert sum(one.read or 0 for one in usages) == sum(one["cacheReadTokens"] for one in said)
    assert sum(one.output or 0 for one in usages) == sum(one["outputTokens"] for one in said)


def test_damaged_and_unknown_parts(tmp_path: Path) -> None:
    session = json.loads(SESSION.read_text("utf-8"))
    session["messages"][1]["metrics"] |= {"cacheReadTokens": 99_999, "new": 1}
    session["messages"][3]["metrics"] = "cut"
    path = tmp_path / "a.json"
    path.write_text(json.dumps({**session, "messages": [*session["messages"], 5], "new": {}}), "utf-8")
    calls, faults = read(path)
    assert [call.usage for call in calls] == [None, Usage(400, 14_600, 0, 0, 50)]
    assert [(fault.line, fault.what[:9]) for fault in faults.kept] == [(1, "more read")]
    path.write_bytes(SESSION.read_bytes()[:900])
    calls, faults = read(path)
    assert not calls and faults.kept[0].line == 1
