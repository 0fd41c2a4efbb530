"""Checks that the source detector judges rewrites of the cases as it judges the cases."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.lint.test_source_cases import CASES
from tests.lint.variants import REWRITES, measure, read_case

LEAST_FOUND = {"module": 0.85}
"""Of the hazardous units, by rewrite; 0.9 where it is not named."""
MOST_FLAGGED = 0.02
MOST_UNCHANGED = 0.2


@pytest.mark.parametrize("rewrite", REWRITES)
def test_a_rewrite_changes_most_units_and_flags_no_clean_ones(rewrite: str, tmp_path: Path) -> None:
    row = measure(tmp_path, rewrite)
    assert row.n_same <= MOST_UNCHANGED * (row.n_hazardous + row.n_clean + row.n_same)
    assert len(row.flagged) <= MOST_FLAGGED * row.n_clean, row.flagged


@pytest.mark.parametrize("rewrite", REWRITES)
def test_hazardous_units_are_found_in_a_rewrite(rewrite: str, tmp_path: Path) -> None:
    row = measure(tmp_path, rewrite)
    assert len(row.missed) <= (1 - LEAST_FOUND.get(rewrite, 0.9)) * row.n_hazardous, row.missed


@pytest.mark.parametrize("rewrite", REWRITES)
def test_a_rewrite_is_python(rewrite: str) -> None:
    for file in sorted(CASES.glob("*.py")):
        case = read_case(file)
        REWRITES[rewrite](case)
        assert ast.parse(case.source()).body, file.name
