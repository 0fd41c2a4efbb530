"""`contextkit report --to` and `--engine`: a ledger out of any recording, and its sums by another engine."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Run, pi_session


def test_a_ledger_made_of_a_recording_gives_the_same_report(run: Run, tmp_path: Path) -> None:
    session, ledger = pi_session(tmp_path / "session.jsonl", 6), tmp_path / "ledger.jsonl"
    made = run("report", str(session), "--to", str(ledger))
    assert made.code == 0
    assert "calls written to" in made.out
    of_session, of_ledger = (json.loads(run("report", str(path), "--json").out) for path in (session, ledger))
    assert of_ledger["total"] == of_session["total"]
    assert of_ledger["misses"] == of_session["misses"]
    again = run("report", str(session), "--to", str(ledger))
    assert again.code != 0
    assert "is there already" in again.err


def test_duckdb_says_what_the_report_says(run: Run, tmp_path: Path) -> None:
    pytest.importorskip("duckdb", reason="the extra duckdb is not installed")
    ledger = tmp_path / "ledger.jsonl"
    run("report", str(pi_session(tmp_path / "session.jsonl", 6)), "--to", str(ledger))
    here, there = (
        json.loads(run("report", str(ledger), "--by", "day", "--json", *engine).out)
        for engine in ((), ("--engine", "duckdb"))
    )
    assert there["groups"] == here["groups"]
    assert there["misses"] == here["misses"]
    assert there["causes"] == here["causes"] and there["sessions"] == here["sessions"]
    assert there["projects"] == here["projects"] and here["projects"][0]["program"] == "pi"
    assert (
        run("report", str(ledger), "--engine", "duckdb").out.splitlines()[1:]
        == run("report", str(ledger)).out.splitlines()[1:]
    )


def test_what_the_engine_cannot_do_is_said(run: Run, tmp_path: Path) -> None:
    session = pi_session(tmp_path / "session.jsonl", 6)
    other = run("report", str(session), "--engine", "duckdb")
    assert other.code != 0
    assert "--to ledger.jsonl" in other.err
    assert run("report", str(session), "--engine", "duckdb", "--since", "7d").code == 2
