"""The reference caches against what real engines did; the scenarios lie beside the checkout."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.conformance.run import BUILDERS, main
from tests.conformance.scenario import Scenario, replay, scenarios

FOLDER = Path(__file__).resolve().parents[2].parent / "shared" / "conformance"
FOUND = list(scenarios(FOLDER)) if FOLDER.is_dir() else []


@pytest.mark.skipif(not FOUND, reason="shared/conformance is not beside this checkout")
@pytest.mark.parametrize("scenario", FOUND, ids=lambda scenario: f"{scenario.file}-{scenario.name}")
def test_answers_as_the_engine_did(scenario: Scenario) -> None:
    outcome = replay(scenario, BUILDERS)
    if outcome.passed is None:
        pytest.skip(outcome.detail)
    assert outcome.passed, outcome.detail


def scenario_file(folder: Path, engine: str, expected: int) -> None:
    ops = [
        {"op": "request", "id": "0", "tokens": [["range", 0, 33]]},
        {"op": "allocate", "id": "0", "new_tokens": 33, "use_lookup": False},
        {"op": "request", "id": "1", "tokens": [["range", 0, 33]], "expect": {"num_block_hashes": 2}},
        {"op": "lookup", "id": "1", "expect": {"cached_tokens": expected}},
    ]
    config = {"block_size": 16, "num_blocks": 9, "groups": [{"type": "full"}]}
    data = {"engine": engine, "engine_version": "0.33.0", "scenarios": [{"name": "mine", "config": config, "ops": ops}]}
    (folder / "mine.json").write_text(json.dumps(data), encoding="utf-8")


CASES = [("vllm-v1", 32, True, 0), ("vllm-v1", 48, False, 1), ("other", 0, None, 0)]


@pytest.mark.parametrize(("engine", "expected", "passed", "code"), CASES)
def test_any_folder_in_the_format_can_be_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], engine: str, expected: int, passed: bool | None, code: int
) -> None:
    scenario_file(tmp_path, engine, expected)
    assert main([str(tmp_path), "--json"]) == code
    row = json.loads(capsys.readouterr().out)[0]
    assert (row["name"], row["engine"], row["passed"]) == ("mine", engine, passed)


def test_an_empty_folder_is_no_success(tmp_path: Path) -> None:
    assert main([str(tmp_path)]) == 1


def test_a_scenario_that_breaks_the_adapter_fails_and_the_others_still_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scenario_file(tmp_path, "vllm-v1", 32)
    data = json.loads((tmp_path / "mine.json").read_text(encoding="utf-8"))
    data["scenarios"].insert(
        0, {"name": "broken", "config": {"block_size": 16}, "ops": [{"op": "lookup", "id": "nobody"}]}
    )
    (tmp_path / "mine.json").write_text(json.dumps(data), encoding="utf-8")
    assert main([str(tmp_path), "--json"]) == 1
    assert [row["passed"] for row in json.loads(capsys.readouterr().out)] == [False, True]
