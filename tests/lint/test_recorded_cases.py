"""Recorded cases of `data/cases`: `lint --requests` names what the case's page says, with the tokens that `report` tells."""

from __future__ import annotations

from pathlib import Path

import pytest

from contextkit.importers.registry import records_at
from contextkit.ledger.calls import ModelCall
from contextkit.ledger.misses import analyzed_calls
from contextkit.lint.catalogue import hazards
from contextkit.lint.finding import RequestPlace
from contextkit.lint.requests.detect import find_in_requests

CASES = {
    "01-mcp-server-drops-out": [("CKT02", "tools[2]"), ("CKT02", "tools[2]")],
    "15-converse-stream-counts-twice": [],
    "21-write-count-missing": [("CKS10", "messages[0].content[0]")],
    "22-billing-header-on-a-local-engine": [("CKS03", "system[0]"), ("CKS03", "system[0]")],
    "23-one-question-each": [("CKS01", "system[0]"), ("CKS01", "system[0]")],
}


@pytest.mark.parametrize("name", CASES)
def test_a_recorded_case_is_named_and_costs_what_report_says(name: str, shared: Path) -> None:
    path = shared / "data" / "cases" / name / "calls.jsonl"
    calls = [record for record in records_at(str(path))[1] if isinstance(record, ModelCall)]
    findings = list(find_in_requests(calls, hazards()))
    assert [(one.code, one.place.path) for one in findings if isinstance(one.place, RequestPlace)] == CASES[name]
    misses = [call.miss for call in analyzed_calls(calls) if call.miss and call.miss.is_loss]
    assert [one.cost_tokens for one in findings] == [miss.lost_tokens for miss in misses]
    assert [one.cost_usd for one in findings] == [miss.cost_usd for miss in misses]
