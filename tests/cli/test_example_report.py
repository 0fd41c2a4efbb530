"""The recording that comes with contextkit is what its generator writes, and `report --example` shows its misses."""

from __future__ import annotations

import json
import re
import runpy
from pathlib import Path

import pytest

from contextkit.cli.report import EXAMPLE
from tests.cli.conftest import Run

GENERATOR = Path(__file__).resolve().parents[2] / "docs" / "figures" / "example_session.py"


def test_the_recording_is_what_its_generator_writes(tmp_path: Path) -> None:
    pytest.importorskip("uvicorn", reason="the local provider needs the extra `server`")
    runpy.run_path(str(GENERATOR))["main"](tmp_path / "example.jsonl")
    assert (tmp_path / "example.jsonl").read_bytes() == EXAMPLE.read_bytes()


def test_the_readme_shows_its_report(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    readme = (Path(__file__).resolve().parents[2] / "README.md").read_text("utf-8")
    [shown] = re.findall(r"^```text\n(.*?)^```", readme, re.MULTILINE | re.DOTALL)
    assert shown == run("report", "--example").out


def test_its_report_names_each_mistake(run: Run) -> None:
    report = json.loads(run("report", "--example", "--json").out)
    lost = {miss["cause"] for miss in report["misses"] if miss["lost_tokens"]}
    assert lost == {"ttl_expired", "system_changed", "tools_changed"}
    assert run("report", "--example", EXAMPLE).code == 2
