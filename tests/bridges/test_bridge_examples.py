"""The examples of the bridges run: against the local provider, or saying which extra they need."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("uvicorn", reason="the examples need the extra `server`")

FOLDER = Path(__file__).resolve().parents[2] / "examples"
EXAMPLES = sorted(FOLDER.glob("bridge_*.py"))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_runs_with_and_without_its_framework(path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("ANTHROPIC_", "OPENAI_", "CLAUDE"))}
    ran = subprocess.run(
        [sys.executable, path.name], cwd=FOLDER, env={**environment, "PYTHONIOENCODING": "utf-8"}, capture_output=True,
        encoding="utf-8", timeout=120, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    assert "of input read from cache" in ran.stdout or 'is not installed: pip install "contextkit[' in ran.stdout


def test_each_bridge_has_an_example() -> None:
    assert [path.stem for path in EXAMPLES] == [f"bridge_{name}" for name in ("claude_agent", "langchain", "openai_agents", "pydantic_ai")]
