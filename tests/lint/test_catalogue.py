"""Every hazard has its row, its page and its line in the table, and the three say the same."""

from __future__ import annotations

import ast
import re
from functools import cache
from itertools import pairwise
from pathlib import Path
from textwrap import indent
from typing import get_args

import pytest

from contextkit.errors import ContextKitError
from contextkit.ledger.changes.kinds import Kind
from contextkit.ledger.changes.settings import Setting
from contextkit.ledger.request_checks import CHECKS
from contextkit.ledger.verdict import WHOSE
from contextkit.lint.catalogue import hazards, hazards_of, main, merged_table, page, table
from contextkit.lint.explain import terminal_text
from contextkit.lint.hazard import Hazard
from contextkit.lint.own import OWN
from tests.lint import page_output

ROOT = Path(__file__).resolve().parents[2]
CATALOGUE = ROOT.parent / "shared" / "facts" / "hazards.md"
PAGE = ROOT / "docs" / "reference" / "hazards.md"
ENTRY = re.compile(r"^\*\*([A-Z]\d\d) `([^`]+)`\*\* \[(\w)\]", re.MULTILINE)
LINK = re.compile(r"https?://[^\s;)]+")
SECTIONS = [
    *("What it is", "In code", "In a recording", "In the report", "Fix", "How often it was right", "References"),
]
VERDICT = """Not found in code; in recordings it is the judge's verdict (see
[how it was checked](../../explanation/judge.md#how-it-was-checked))."""
CHECK = "Not found in code; in recordings it is a check of one request, not the judge's verdict."

needs_catalogue = pytest.mark.skipif(
    not CATALOGUE.is_file(), reason="the shared hazard catalogue is not beside this repository"
)


@cache
def entries() -> dict[str, str]:
    """Code → the whole entry of the shared catalogue."""
    text = CATALOGUE.read_text(encoding="utf-8")
    starts = [*(found.start() for found in ENTRY.finditer(text)), len(text)]
    return {f"CK{ENTRY.match(text, a)[1]}": re.split(r"\n\n|\n#", text[a:b])[0] for a, b in pairwise(starts)}  # type: ignore[index]


def section(row: Hazard, name: str) -> str:
    return re.split(r"^## ", page(row.code).split(f"\n## {name}\n", 1)[1], flags=re.MULTILINE)[0]


def code_blocks(text: str) -> list[str]:
    return [block.strip() for block in re.findall(r"^```py\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)]


def cells(row: Hazard) -> dict[str, str]:
    """Heading → cell of the row of a hazard in the table."""
    lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in table().splitlines() if "|" in line]
    found = next(line for line in lines if line[0].startswith(f"[{row.code}]"))
    return dict(zip(lines[0], found, strict=True))


def compiles(code: str) -> bool:
    """Whether it is the body of a function; `except …:` may go on with a `try` of the block above."""
    body = code if not code.startswith("except") else f"try:\n    ...\n{code}"
    try:
        ast.parse(f"async def example():\n{indent(body, '    ')}")
    except SyntaxError:
        return False
    return True


@needs_catalogue
def test_a_row_has_the_best_grade_of_its_entries_in_the_catalogue() -> None:
    grades = {f"CK{code}": grade for code, _, grade in ENTRY.findall(CATALOGUE.read_text(encoding="utf-8"))}
    for row in hazards():
        assert row.grade == min(grades[code] for code in (row.code, *row.merged)), row.code


@needs_catalogue
def test_a_page_names_every_source_of_the_catalogue() -> None:
    for row in hazards():
        evidence = " ".join(entries()[code].split("- evidence:", 1)[1] for code in (row.code, *row.merged))
        assert set(LINK.findall(evidence)) <= set(LINK.findall(section(row, "References"))), row.code


def test_a_page_has_its_parts_in_order() -> None:
    for row in hazards():
        text = page(row.code)
        heading, blank, *summary = text.partition("\n## ")[0].splitlines()
        assert (heading, blank) == (f"# {row.code} {row.name}", "")
        assert summary[0][0].isupper()
        assert " ".join(summary).strip().endswith(".")
        assert re.findall(r"^## (.*)$", text, re.MULTILINE) == SECTIONS
        assert all(section(row, name).strip() for name in SECTIONS)


def test_an_example_is_code_that_compiles() -> None:
    for row in hazards():
        example = code_blocks(section(row, "In code"))
        assert len(example) == 1
        assert [code for code in [*example, *code_blocks(section(row, "Fix"))] if not compiles(code)] == [], row.code


def test_a_page_names_the_kinds_of_its_row() -> None:
    named = {*get_args(Kind), *get_args(Setting)} - {"parameter"}
    for row in hazards():
        text = section(row, page_output.RECORDING)
        assert [name for name in row.requests if name in named and f"`{name}`" not in text] == [], row.code


def test_every_code_of_requests_has_a_case_for_its_page() -> None:
    assert page_output.page_cases().keys() == {row.code for row in hazards() if row.requests}


@pytest.mark.parametrize("code", [row.code for row in hazards()])
def test_a_page_shows_what_lint_and_report_print(code: str) -> None:
    text = page(code)
    for name in (page_output.RECORDING, page_output.REPORT):
        part = text.split(f"\n## {name}\n", 1)[1].split("\n## ", 1)[0]
        shown = re.findall(r"^```text\n(.*?)\n```$", part, re.MULTILINE | re.DOTALL)
        printed = page_output.outputs(code).get(name)
        assert shown == ([printed] if printed else []), "python -m tests.lint.page_output --write"


def test_the_outputs_of_a_page_are_filled_in_without_a_change_to_the_rest() -> None:
    text = page("CKS01")
    emptied = re.sub(r"(?<=^```text\n).*?(?=^```$)", "old\n", text, flags=re.MULTILINE | re.DOTALL)
    assert emptied != text
    assert page_output.filled_in("CKS01", emptied) == text


def test_a_page_says_how_often_it_was_right() -> None:
    for row in hazards():
        mark, _, claim = section(row, "How often it was right").strip().partition("\n")
        assert mark == "<!-- measured -->"
        is_check = {*row.requests} <= {*CHECKS}
        expected = page_output.measured(row.code) if row.in_source else CHECK if is_check else VERDICT
        assert claim == expected, "python -m tests.lint.page_output --write"


def test_a_terminal_shows_no_comments() -> None:
    assert "<!--" in page("CKS01") and "<!--" not in terminal_text("CKS01")


def test_every_page_belongs_to_a_code() -> None:
    pages = {path.stem for path in (ROOT / "docs" / "reference" / "rules").iterdir()}
    assert pages == {row.code for row in hazards()} | set(OWN)


def test_the_request_detector_knows_nothing_of_the_source_detector() -> None:
    imports = [
        (path.name, node.module)
        for path in (ROOT / "contextkit" / "lint" / "requests").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and node.module
    ]
    assert len(imports) > 20
    assert [pair for pair in imports if re.match(r"contextkit\.lint\.(rules|source)\b", pair[1])] == []


ROW: dict[str, object] = {"name": "clock-in-system", "grade": "A", "severity": "error"}


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ({"CKX01": ROW}, r"\[CKX01\] is no code"),
        ({"CKS01": ROW | {"level": "system"}}, "unknown key 'level'"),
        ({"CKS01": ROW | {"name": "Clock"}}, "name is 'Clock'"),
        ({"CKS01": ROW | {"grade": "E"}}, "grade is 'E'; it must be one of A, B, C, D, I"),
        ({"CKS01": {"name": "clock-in-system", "grade": "A"}}, "severity is None"),
        ({"CKS01": ROW | {"confirmed_by": "system_changed"}}, "confirmed_by"),
        ({"CKS02": ROW, "CKS01": ROW}, "not in order"),
        ({"CKS01": ROW, "CKS02": ROW}, "two rows have the name 'clock-in-system'"),
    ],
)
def test_a_wrong_row_is_an_error_that_names_it(rows: dict[str, dict[str, object]], message: str) -> None:
    assert hazards_of({"CKS01": ROW})[0] == Hazard("CKS01", "clock-in-system", "A", "error")
    with pytest.raises(ValueError, match=message):
        hazards_of(rows)


def test_a_name_of_requests_stands_in_one_row() -> None:
    rows = {
        "CKS01": ROW | {"requests": ["clock"]},
        "CKS02": ROW | {"name": "date-rollover", "requests": ["date", "clock"]},
    }
    with pytest.raises(ValueError, match="'clock' stands in two rows"):
        hazards_of(rows)


def test_everything_that_requests_can_show_has_a_row() -> None:
    """Kinds, settings and checks all; of the causes those that are somebody's doing."""
    causes = {cause for cause, whose in WHOSE.items() if whose != "nobody"}
    shown = {*get_args(Kind), *get_args(Setting), *CHECKS, *causes, "unknown_best_effort", "upstream"}
    assert {name for row in hazards() for name in row.requests} == shown


def test_a_guard_reports_what_a_request_itself_breaks() -> None:
    guarded = {row.code for row in hazards() if cells(row)["guard"]}
    assert guarded >= {"CKB02", "CKB08", "CKS01", "CKM18", "CKP01", "CKP02", "CKR08"}
    assert guarded & {"CKM28", "CKB01", "CKL01", "CKL06", "CKR01", "CKA03"} == set()


def test_a_code_is_found_in_source_or_not() -> None:
    rows = {"CKS01": ROW, "CKS02": ROW | {"name": "found", "in_source": True}}
    assert [row.in_source for row in hazards_of(rows)] == [False, True]
    with pytest.raises(ValueError, match="in_source is 'on'; it must be true"):
        hazards_of({"CKS01": ROW | {"in_source": "on"}})


def test_a_code_that_was_merged_is_no_code_any_more() -> None:
    codes = [code for row in hazards() for code in (row.code, *row.merged)]
    assert len(codes) == len({*codes})
    with pytest.raises(ContextKitError, match="CKT06 is part of CKT02 tools-arrive-late now"):
        page("ckt06")
    with pytest.raises(ValueError, match="CKS02 is a code twice"):
        hazards_of({"CKS01": ROW | {"merged": ["CKS02"]}, "CKS02": ROW | {"name": "other"}})


@pytest.mark.parametrize("word", ["cks01", " Clock_in-System "])
def test_a_page_is_found_by_code_and_by_name(word: str) -> None:
    assert page(word).startswith("# CKS01 clock-in-system\n")


@pytest.mark.parametrize(
    ("word", "near"),
    [
        ("CKS1", r"CKS1\d "),
        ("clock-in-sistem", "clock-in-system"),
        ("clock", "CKS01"),
        ("zzz", "codes look like CKS01"),
    ],
)
def test_an_unknown_page_names_what_comes_near(word: str, near: str) -> None:
    with pytest.raises(ContextKitError, match=near) as raised:
        page(word)
    assert repr(word) in str(raised.value)


def test_the_tables_of_the_docs_are_the_generated_ones() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert table() in text and merged_table() in text, (
        "python -m contextkit.lint.catalogue --write docs/reference/hazards.md"
    )


def test_writing_the_table_keeps_the_rest_of_a_page(tmp_path: Path) -> None:
    target = tmp_path / "page.md"
    target.write_text("before\n<!-- table: hazards -->\nold\n<!-- end -->\nafter\n", encoding="utf-8")
    main(["--write", str(target)])
    main(["--write", str(target)])
    assert target.read_text(encoding="utf-8") == f"before\n<!-- table: hazards -->\n{table()}<!-- end -->\nafter\n"


def test_a_page_without_marks_is_an_error_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--write", str(tmp_path / "missing.md")])
    assert "<!-- table: hazards -->" in capsys.readouterr().err
