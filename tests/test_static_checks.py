"""ruff and mypy find nothing; how strict they are stands in pyproject.toml."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


def report_of(*arguments: str) -> tuple[int, str]:
    """Exit code and output of a tool run in the project's root."""
    ran = subprocess.run([sys.executable, "-m", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    return ran.returncode, ran.stdout + ran.stderr


def test_ruff_finds_nothing(pytestconfig: pytest.Config) -> None:
    folders = [name for name in ("contextkit", "tests", "examples") if (ROOT / name).is_dir()]
    cache = pytestconfig.cache.mkdir("ruff")
    code, output = report_of("ruff", "check", "--output-format", "concise", "--cache-dir", str(cache), *folders)
    assert code == 0, output


def test_mypy_finds_nothing(pytestconfig: pytest.Config) -> None:
    cache = pytestconfig.cache.mkdir("mypy")
    code, output = report_of("mypy", "--cache-dir", str(cache), "--no-color-output", "--show-error-codes")
    assert code == 0, output
