"""The picture of the terminal in `docs/guides/report.md` shows what the report prints today."""

from __future__ import annotations

import runpy
from pathlib import Path

FIGURES = Path(__file__).resolve().parents[2] / "docs" / "figures"


def test_the_picture_of_the_terminal_is_current() -> None:
    drawn = runpy.run_path(str(FIGURES / "report.py"))["terminal_svg"]()
    assert (FIGURES / "report.svg").read_text(encoding="utf-8") == drawn, "run python docs/figures/report.py"
