"""What the source detector says about a case, it says about rewrites of it that keep its meaning."""

from __future__ import annotations

from pathlib import Path

from tests.lint.variants import CASES, REWRITES, Judged, measure
from tests.scale import n_examples

LEAST_FOUND = 0.95
MOST_FLAGGED = 0.05
STEP = n_examples(3, 1)
"""Each rewrite is tried on every `STEP`-th file of cases, the next rewrite on the files after those."""


def test_rewrites_change_most_units_and_are_judged_as_their_cases(tmp_path: Path) -> None:
    hazardous: list[tuple[str, Judged]] = []
    clean: list[tuple[str, Judged]] = []
    files = sorted(CASES.glob("*.py"))
    for number, rewrite in enumerate(REWRITES):
        if rewrite != "unchanged":
            folder = tmp_path / rewrite
            folder.mkdir()
            row = measure(folder, rewrite, files=files[(number + 1) % STEP :: STEP])
            n_rewritten = len({(one.stem, one.unit) for one in [*row.hazardous, *row.clean]})
            least = {"partial": 0.6, "async": 0.8}.get(rewrite, 0.9)
            assert n_rewritten >= least * (n_rewritten + row.n_skipped), rewrite
            hazardous.extend((rewrite, one) for one in row.hazardous)
            clean.extend((rewrite, one) for one in row.clean)
    missed, flagged = ([one for one in judged if not one[1].is_right] for judged in (hazardous, clean))
    assert len(missed) <= (1 - LEAST_FOUND) * len(hazardous), missed
    assert len(flagged) <= MOST_FLAGGED * len(clean), flagged
