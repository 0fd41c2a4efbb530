"""`contextkit report --anonymize` as it is typed."""

from __future__ import annotations

import json
import os
from pathlib import Path

from tests.cli.conftest import Run, pi_session


def test_the_command(tmp_path: Path, run: Run) -> None:
    session, out = tmp_path / "session.jsonl", tmp_path / "out.jsonl"
    pi_session(session, 6)
    assert run("report", session, "--anonymize", out).out == f"6 calls written to {out}\n"
    was, now = (json.loads(run("report", path, "--json").out)["total"] for path in (session, out))
    assert was == now and "Read everything" not in out.read_text("utf-8")
    assert os.name == "nt" or out.stat().st_mode & 0o777 == 0o600
    assert "is there already" in run("report", session, "--anonymize", out).err
    assert "leave one out" in run("report", session, "--anonymize", "a", "--to", "b").err
