"""Checks the source detector on the minimal cases of `data/cases/lint`, each cut from a program that was judged wrongly."""

from __future__ import annotations

from pathlib import Path

import pytest

from contextkit.lint.catalogue import hazards
from contextkit.lint.config import LintConfig
from contextkit.lint.finding import CodePlace
from contextkit.lint.source.detect import find_in_code

CASES = {
    "min_builder": [("CKS01", 22)],
    "min_builder2": [("CKS01", 21)],
    "min_builder3": [("CKS01", 13)],
    "min_sections": [("CKS01", 9)],
    "min_anyllm2": [("CKS01", 7)],
    "min_git": [("CKS04", 9)],
    "min_usage": [],
    "t3": [],
    "min_loop": [],
    "tools_by_state": [("CKT11", 11)],
    "tools_by_mode": [
        *(("CKT11", line) for line in (7, 13, 17, 21)),
        *(("CKB01", line) for line in (10, 14, 18, 22)),
    ],
}
"""Name of a file → codes and lines."""


@pytest.fixture
def folder(shared: Path) -> Path:
    """Return the folder of the cases."""
    path = shared / "data" / "cases" / "lint"
    if not path.is_dir():
        pytest.skip("the shared data beside this checkout has no minimal cases of lint")
    return path


@pytest.mark.parametrize("name", CASES)
def test_a_minimal_case_has_its_findings(name: str, folder: Path) -> None:
    places = [(one.code, one.place) for one in find_in_code([folder / f"{name}.py"], LintConfig(), hazards())]
    found = [(code, place.line) for code, place in places if isinstance(place, CodePlace)]
    assert sorted(found) == sorted(CASES[name])


def test_each_minimal_case_is_expected(folder: Path) -> None:
    assert {path.stem for path in folder.glob("*.py")} == CASES.keys()
