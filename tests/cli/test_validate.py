"""`contextkit validate` as it is typed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from contextkit.cache.usage import Usage
from contextkit.ledger.calls import Remark
from contextkit.ledger.ledger import Ledger
from tests.cli.conftest import Run
from tests.ledger.test_causes import HEAD_ONLY, claude


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    session = claude((HEAD_ONLY, ("event", "resume: ")), (Usage(10, 0, 80_000, 0, 5), ("event", "skill: commit")))
    path = tmp_path / "ledger.jsonl"
    with Ledger.open(path) as ledger:
        for record in session.records:
            if isinstance(record, Remark):
                ledger.remark(record)
            else:
                ledger.append(record)
    return path


def test_scores_as_tables_as_json_and_as_a_page(run: Run, recorded: Path) -> None:
    shown = run("validate", str(recorded))
    assert shown.code == 0
    assert "3 calls; 2 have one before them in their conversation" in " ".join(shown.out.split())
    said = json.loads(run("validate", str(recorded), "--json").out)
    assert (said["total"]["calls"], said["total"]["agreement"], said["total"]["agreement_trivial"]) == (2, 0.5, 0)
    assert said["deviations"][0]["kind"] == "missed, hit predicted"
    page = run("validate", str(recorded), "--markdown").out
    assert page.startswith("# Predicted and billed\n")
    assert "| contextkit ledger | missed, hit predicted | unknown | 1 | 78,000 |" in page.replace("\\", "")


def test_what_is_wrong_is_said(run: Run, recorded: Path, tmp_path: Path) -> None:
    both = run("validate", str(recorded), "--json", "--markdown")
    assert both.code == 2 and "leave one out" in both.err
    missing = run("validate", str(tmp_path / "none.jsonl"))
    assert missing.code == 2 and "none.jsonl" in missing.err
    (tmp_path / "other.jsonl").write_text('{"a": 1}\n', encoding="utf-8")
    other = run("validate", str(tmp_path / "other.jsonl"))
    assert other.code == 2 and "of no known format" in other.err
    assert run("validate").code == 2
