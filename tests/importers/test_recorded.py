"""What each importer makes of its fixtures, whole: every call, remark, fault, miss and verdict, as recorded in `read`.

`RECORD=1 pytest tests/importers/test_recorded.py` records anew; look at the difference before you commit it.
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from contextkit.importers.registry import records_at, records_in
from contextkit.importers.source import Faults
from contextkit.ledger.calls import encode
from contextkit.ledger.misses import analyzed_calls

HERE = Path(__file__).parent
FIXTURES = HERE / "fixtures"
WHOLE = ("claude_code", "opencode/storage", "openhands/sessions")
"""Folders that are read as one log; of the others each file is one."""
WRITTEN = 1_790_000_000
"""When each file was written, for logs that say no time."""


def logs(importer: str, folder: Path) -> list[Path]:
    """The logs of an importer, in a copy of its fixtures."""
    shutil.copytree(FIXTURES / importer, folder / importer)
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    for path in files:
        os.utime(path, (WRITTEN, WRITTEN))
    return sorted({next((folder / name for name in WHOLE if folder / name in path.parents), path) for path in files})


def read(path: Path, folder: Path) -> str:
    """A log as lines of text."""
    faults = Faults()
    records = list(records_in([str(path)], faults))
    calls = (row for row in analyzed_calls(records) if row.miss or row.diagnosis)
    told = [f"# {path.relative_to(folder).as_posix()}: {'' if path.is_dir() else records_at(str(path))[0].name}"]
    told += [encode(record).decode() for record in records]
    told += [f"fault {fault.line}: {fault.what}" for fault in faults.kept]
    for row in calls:
        miss = row.miss and [row.miss.cause, row.miss.where, row.miss.certain]
        told.append(f"miss {row.call.id}: {json.dumps([miss, row.diagnosis], ensure_ascii=False)}")
    return "\n".join(told) + "\n"


@pytest.mark.parametrize("importer", sorted(path.name for path in FIXTURES.iterdir() if path.is_dir()))
def test_the_fixtures_of_an_importer_are_read_as_recorded(importer: str, tmp_path: Path) -> None:
    recorded = HERE / "read" / f"{importer}.txt"
    found = "".join(read(path, tmp_path) for path in logs(importer, tmp_path))
    if os.environ.get("RECORD"):
        recorded.parent.mkdir(exist_ok=True)
        recorded.write_text(found, "utf-8")
    assert found == recorded.read_text("utf-8")
