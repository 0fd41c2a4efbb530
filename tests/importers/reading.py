"""A log read by the importer that knows it."""

from __future__ import annotations

from pathlib import Path

from contextkit.importers.registry import records_at
from contextkit.importers.source import Faults
from contextkit.ledger.calls import ModelCall, Remark


def read_as(name: str, path: Path) -> tuple[list[ModelCall], list[Remark], Faults]:
    """Calls, remarks and faults of a log, which has to be known under its name."""
    faults = Faults()
    known, records = records_at(str(path), faults)
    assert known.name == name
    held = list(records)
    return [one for one in held if isinstance(one, ModelCall)], [one for one in held if isinstance(one, Remark)], faults
