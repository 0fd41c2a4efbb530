"""Trajectories of mini-swe-agent and SWE-agent: runs made here, one with the sums of a published trajectory."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

from tests.importers.reading import read_as

FIXTURES = Path(__file__).parent / "fixtures" / "swe_agents"
MINI = FIXTURES / "mini.traj.json"


read = partial(read_as, "SWE-agent trajectory")


def changed(tmp_path: Path, **changes: Any) -> Path:
    path = tmp_path / "a.traj.json"
    path.write_text(json.dumps({**json.loads(MINI.read_text("utf-8")), **changes}, indent=1), "utf-8")
    return path


def test_calls_that_left_no_response_are_reported(tmp_path: Path) -> None:
    info = {"model_stats": {"instance_cost": 0.08, "api_calls": 5}}
    calls, _, faults = read(changed(tmp_path, info=info))
    assert len(calls) == 3
    assert [fault.what for fault in faults.kept] == ["2 of the calls of a run left no response; they are not counted"]
