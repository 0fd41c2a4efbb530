"""What OpenHands records: metrics made here, in each of its shapes."""

from __future__ import annotations

from pathlib import Path

from contextkit.importers.registry import records_in
from contextkit.importers.source import Faults
from contextkit.ledger.calls import ModelCall, Remark


def read(*paths: Path) -> tuple[list[ModelCall], list[Remark], Faults]:
    faults = Faults()
    held = list(records_in([str(path) for path in paths], faults))
    return [one for one in held if isinstance(one, ModelCall)], [one for one in held if isinstance(one, Remark)], faults


def test_an_event_without_metrics_is_no_fault(tmp_path: Path) -> None:
    path = tmp_path / "9.json"
    path.write_text('{"id":9,"timestamp":"2026-01-01T00:00:09","source":"agent","observation":"run"}', "utf-8")
    assert read(path)[0] == [] and not len(read(path)[2])
