"""What the literature says and what contextkit does: every row of the page is run, and its table is that of the rows.

python tests/test_literature.py        writes the table into the page
"""

from __future__ import annotations

import re
import shlex
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import pytest
from click.testing import CliRunner

from contextkit.cli.main import cli

PAGE = Path(__file__).resolve().parents[1] / "docs" / "explanation" / "literature.md"
RUNNING, SILENT = ("works", "lesson"), ("not yet", "not here")
TABLE = re.compile(r"(?<=<!-- table: statements -->\n).*?(?=<!-- end -->)", re.DOTALL)


@dataclass(frozen=True)
class Row:
    """One statement and what shows it."""

    id: str
    source: str
    statement: str
    state: str
    see: str = ""
    note: str = ""
    code: str = ""
    command: str = ""
    prints: tuple[str, ...] = ()
    full: bool = False

    def line(self) -> str:
        """The row of the page."""
        shown = [f"`{self.command}`"] if self.command else []
        shown += [f"[page]({self.see})"] if self.see else []
        shown += [self.note] if self.note else []
        return f"| `{self.id}` | {self.statement} | {self.source} | {self.state} | {'; '.join(shown)} |\n"


DATA = tomllib.loads(PAGE.with_suffix(".toml").read_text(encoding="utf-8"))
ROWS = [
    Row(source=row.pop("from"), state=row.pop("is"), prints=tuple(row.pop("prints", ())), **row) for row in DATA["rows"]
]


def statements() -> str:
    return "| row | statement | from | here | see |\n|---|---|---|---|---|\n" + "".join(row.line() for row in ROWS)


def test_the_table_of_the_page_is_that_of_the_rows() -> None:
    assert TABLE.findall(PAGE.read_text(encoding="utf-8")) == [statements()], (
        "python tests/test_literature.py writes it"
    )


def test_every_row_runs_or_says_why_not() -> None:
    assert len(ROWS) == 39 == len({row.id for row in ROWS})
    assert sum(row.state in RUNNING for row in ROWS) >= 36
    for row in ROWS:
        assert (row.state in RUNNING) == bool(row.code or row.command) and bool(row.command) == bool(row.prints), row.id
        assert row.state in RUNNING or (row.state in SILENT and row.note), row.id


@pytest.mark.parametrize("row", [pytest.param(row, id=row.id) for row in ROWS if row.state in RUNNING])
def test_a_row_is_so(row: Row, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    if row.full and not request.config.getoption("--full"):
        pytest.skip("an expensive row: with --full")
    monkeypatch.chdir(tmp_path)
    module = ModuleType(f"row_{row.id}")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    module.__dict__["PRELUDE"] = DATA["prelude"]
    exec(compile(DATA["prelude"], "prelude", "exec"), module.__dict__)
    exec(compile(row.code, row.id, "exec"), module.__dict__)
    if row.command:
        ended = CliRunner().invoke(cli, shlex.split(row.command)[1:], catch_exceptions=False)
        assert ended.exit_code in (0, 1), ended.output
        assert [text for text in row.prints if text not in ended.output] == [], ended.output


if __name__ == "__main__":
    PAGE.write_text(TABLE.sub(lambda _: statements(), PAGE.read_text(encoding="utf-8")), encoding="utf-8")
