"""`contextkit advise` as it is typed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from contextkit.ledger.calls import Exchange, Remark
from contextkit.ledger.ledger import Ledger
from tests.analysis.test_compactions import session
from tests.cli.conftest import Run


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    path = tmp_path / "ledger.jsonl"
    with Ledger.open(path) as ledger:
        for record in session(40):
            {Exchange: ledger.append, Remark: ledger.remark}[type(record)](record)  # type: ignore[operator]
    return path


def test_what_a_compaction_was_worth_and_what_now(run: Run, recorded: Path) -> None:
    ended = run("advise", recorded, "--summary-tokens", "2000")
    assert (ended.code, ended.err) == (0, "")
    page = " ".join(ended.out.split())
    assert "compaction before call 92 (claude-opus-4-5): 100,000 → 30,000 tokens" in page
    assert "cost $0.1800, saved $1.40 over the 40 calls behind it: paid after 6; worth $+1.22" in page
    assert "next call cold: now:" in page
    assert "assumed: a summary of 2,000 tokens" in page


def test_as_json(run: Run, recorded: Path) -> None:
    found = json.loads(run("advise", recorded, "--json").out)
    assert [one["index"] for one in found["compactions"]] == [91]
    reached = found["compactions"][0]["reached_at"]
    assert (
        reached is not None and f"reached at call {reached + 1}\n" in run("advise", recorded).out
    )  # people count from 1
    assert found["compactions"][0]["net_usd"] == pytest.approx(
        found["compactions"][0]["saved_usd"] - found["compactions"][0]["cost_usd"]
    )
    assert found["standings"][0]["advice"]["verdict"] in {"now", "wait", "never"}


def test_nothing_to_tell(run: Run, tmp_path: Path) -> None:
    with Ledger.open(tmp_path / "ledger.jsonl"):
        pass
    assert "no compaction is recorded" in run("advise", tmp_path / "ledger.jsonl").out
