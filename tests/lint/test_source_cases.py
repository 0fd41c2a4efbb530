"""Every source rule finds what it is for at its line, and nothing in code that only looks like it.

A file of `tests/lint_cases/source/` is `CKS01_clock_in_system.py`: hazardous code, whose offending lines end in `#
expect: CKS01`, and clean code that looks like it. All hazards of the level of the file's code (its letter) are asked,
and those it expects; what they report has to be what stands in the comments. Several codes on a line: `# expect: CKS01,
CKS08`. `# also: CKS08` permits without asking for it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from contextkit.lint.catalogue import hazards
from contextkit.lint.config import LintConfig
from contextkit.lint.finding import CodePlace
from contextkit.lint.source.detect import find_in_code
from contextkit.lint.source.flows import INJECTED, rules
from contextkit.lint.source.rules import RULES

CASES = Path(__file__).resolve().parents[1] / "lint_cases" / "source"
EXPECT = re.compile(r"# expect: (CK\w\d\d(?:, CK\w\d\d)*)")
ALSO = re.compile(r"# also: (CK\w\d\d(?:, CK\w\d\d)*)")
FILES = sorted(CASES.glob("*.py"))
SOURCE = {row.code for row in hazards() if row.in_source}
EVERYTHING = LintConfig(select=tuple(SOURCE))
"""With the codes that are off by default."""


def noted(file: Path, comment: re.Pattern[str]) -> set[tuple[int, str]]:
    """Line and code of each comment of a kind."""
    lines = enumerate(file.read_text(encoding="utf-8").splitlines(), 1)
    return {
        (number, code) for number, line in lines for found in comment.finditer(line) for code in found[1].split(", ")
    }


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_file_has_the_findings_its_comments_say(file: Path) -> None:
    expected = noted(file, EXPECT)
    asked = [row for row in hazards() if row.code[2] == file.stem[2] or row.code in {code for _, code in expected}]
    findings = find_in_code([file], EVERYTHING, asked)
    places = [(one.place.line, one.code, one.message) for one in findings if isinstance(one.place, CodePlace)]
    found = {(line, code) for line, code, _ in places}
    assert expected - found == set(), "not found"
    assert [place for place in places if place[:2] not in expected | noted(file, ALSO)] == [], "found, but not expected"


def test_the_catalogue_has_the_codes_of_the_engine() -> None:
    in_engine = {rule.code for rule in rules()} | {*INJECTED.values()} | {code for codes, _ in RULES for code in codes}
    assert in_engine == SOURCE


def test_every_source_rule_has_a_case_and_clean_code_beside_it() -> None:
    shown = {code for file in FILES for _, code in noted(file, EXPECT) if file.stem.startswith(code)}
    assert shown >= SOURCE, f"tests/lint_cases/source/ has no case for {', '.join(sorted(SOURCE - shown))}"
    asked = {code for file in FILES for comment in (EXPECT, ALSO) for _, code in noted(file, comment)}
    assert asked <= SOURCE, f"no source rule has {', '.join(sorted(asked - SOURCE))}; their cases cannot fail"


def test_a_file_has_clean_code_that_looks_like_it() -> None:
    for file in FILES:
        functions = re.split(r"^(?=(?:async )?def |class )", file.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
        assert any("# expect:" in one for one in functions), f"{file.stem}: nothing hazardous"
        assert any("# expect:" not in one for one in functions), (
            f"{file.stem}: nothing clean: add a function that looks like the hazardous one"
        )
