"""The examples of the bridges run: against the local provider, or saying which extra they need."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("uvicorn", reason="the examples need the extra `server`")

FOLDER = Path(__file__).resolve().parents[2] / "examples"
EXAMPLES = sorted(FOLDER.glob("bridge_*.py"))


@pytest.mark.parametrize("name", [path.stem for path in EXAMPLES])
def test_an_example_runs_with_and_without_its_framework(name: str, example: Callable[[str], str]) -> None:
    out = example(name)
    assert "of input read from cache" in out or 'is not installed: pip install "contextkit-sdk[' in out


def test_each_bridge_has_an_example() -> None:
    assert [path.stem for path in EXAMPLES] == [
        f"bridge_{name}" for name in ("claude_agent", "contexts", "langchain", "openai_agents", "pydantic_ai")
    ]
