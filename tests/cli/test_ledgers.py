"""`contextkit report --to`: a ledger out of any recording."""

from __future__ import annotations

import json
from pathlib import Path

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
