"""Checks the source detector on files whose comments say what is found in them.

A file of `tests/lint_cases/source` is `CKS01_clock_in_system.py`: functions and classes whose hazardous lines end in
`# expect: CKS01`, and others that look like them and have none. All codes are looked for.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from pathlib import Path

import pytest

from contextkit.lint.catalogue import hazards
from contextkit.lint.config import LintConfig
from contextkit.lint.finding import CodePlace
from contextkit.lint.source.detect import find_in_code
from contextkit.lint.source.rules import CODES

CASES = Path(__file__).resolve().parents[1] / "lint_cases" / "source"
EXPECT = re.compile(r"# expect: (CK\w\d\d)")
FILES = sorted(CASES.glob("*.py"))
GAPS = sorted((CASES.parent / "gaps").glob("*.py"))
"""Files of one function each that is judged wrong."""
LEAST = 5
"""Hazardous functions of a code, and clean ones beside them."""


def expected(file: Path) -> set[tuple[int, str]]:
    """Return line and code of each comment."""
    lines = enumerate(file.read_text(encoding="utf-8").splitlines(), 1)
    return {(number, comment[1]) for number, line in lines for comment in EXPECT.finditer(line)}


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_file_has_the_findings_its_comments_say(file: Path) -> None:
    places = [
        (one.place.line, one.code, one.message)
        for one in find_in_code([file], LintConfig(), hazards())
        if isinstance(one.place, CodePlace)
    ]
    found = {(line, code) for line, code, _ in places}
    assert expected(file) - found == set(), "not found"
    assert [place for place in places if place[:2] not in expected(file)] == [], "found, but not expected"
    assert len(places) == len(expected(file)), "found twice"


@pytest.mark.parametrize("file", GAPS, ids=lambda file: file.stem)
@pytest.mark.xfail(strict=True, reason="the source detector does not tell this yet")
def test_a_gap_is_open(file: Path) -> None:
    """Fail strictly once the file is judged right: it then belongs among the cases."""
    places = [(one.place, one.code) for one in find_in_code([file], LintConfig(), hazards())]
    assert {(place.line, code) for place, code in places if isinstance(place, CodePlace)} == expected(file)


def test_the_catalogue_has_the_codes_of_the_engine() -> None:
    assert {row.code for row in hazards() if row.in_source} == CODES


def test_each_code_has_hazardous_and_clean_functions() -> None:
    counts: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for file in FILES:
        lines = {line for line, code in expected(file) if file.stem.startswith(code)}
        assert {code for _, code in expected(file)} == {file.stem[:5]}, file.stem
        for node in ast.parse(file.read_text("utf-8")).body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                own = range(node.lineno, (node.end_lineno or node.lineno) + 1)
                counts[file.stem[:5]][lines.isdisjoint(own)] += 1
    assert counts.keys() == CODES
    assert {code: found for code, found in counts.items() if min(found) < LEAST} == {}


def test_a_file_is_named_after_its_hazard() -> None:
    names = {row.code: row.name.replace("-", "_") for row in hazards()}
    stems = {file.stem for file in FILES}
    assert {f"{code}_{names[code]}" for code in CODES} <= stems


def test_hazards_without_a_breakpoint_stand_in_a_file_without_one() -> None:
    (file,) = CASES.glob("CKB01_*.py")
    assert re.search("cache_?(?:control|point)", file.read_text("utf-8"), re.IGNORECASE) is None
