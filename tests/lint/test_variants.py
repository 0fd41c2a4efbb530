"""What the source detector says about a case, it says about rewrites of it that keep its meaning.

That they keep it is tested by running them: each function and method of each case is called with objects that write
down what is done with them, and so is each rewrite of it.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.lint.variants import CASES, REWRITES, Judged, Variant, measure, variant

LEAST_FOUND = 0.95
MOST_FLAGGED = 0.05
FILES = sorted(CASES.glob("*.py"))


def _rewritten(file: Path, rewrite: str) -> Variant:
    return variant(file.read_text(encoding="utf-8"), rewrite, file.stem)


@pytest.mark.parametrize("rewrite", REWRITES)
def test_a_rewrite_changes_most_units(rewrite: str) -> None:
    units = [unit for file in FILES for unit in _rewritten(file, rewrite).units]
    least = {"partial": 0.6, "async": 0.8}.get(rewrite, 0.9)
    assert sum(unit.is_rewritten for unit in units) >= least * len(units)


def test_rewrites_are_judged_as_their_cases(tmp_path: Path) -> None:
    hazardous: list[tuple[str, Judged]] = []
    clean: list[tuple[str, Judged]] = []
    for rewrite in REWRITES:
        if rewrite != "unchanged":
            folder = tmp_path / rewrite
            folder.mkdir()
            row = measure(folder, rewrite)
            hazardous.extend((rewrite, one) for one in row.hazardous)
            clean.extend((rewrite, one) for one in row.clean)
    missed, flagged = ([one for one in judged if not one[1].is_right] for judged in (hazardous, clean))
    assert len(missed) <= (1 - LEAST_FOUND) * len(hazardous), missed
    assert len(flagged) <= MOST_FLAGGED * len(clean), flagged
