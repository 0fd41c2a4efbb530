"""Every path that `docs/contributing.md` names exists."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "contributing.md"
PATH = re.compile(r"`((?:contextkit|tests|docs|examples|\.ci)/[a-z0-9_./-]+|pyproject\.toml)`", re.IGNORECASE)
PLACEHOLDER = re.compile(r"NAME|CODE|lint/pages$")


def test_every_path_exists() -> None:
    paths = [path for path in PATH.findall(PAGE.read_text(encoding="utf-8")) if not PLACEHOLDER.search(path)]
    assert [path for path in paths if not (ROOT / path).exists()] == []


def test_the_table_opens_files_of_every_kind() -> None:
    _, _, table = PAGE.read_text(encoding="utf-8").partition("## To change X, open Y\n")
    rows = [row.rsplit("|", 2)[1] for row in table.splitlines() if row.startswith("| ")][1:]
    assert len(rows) >= 40 and all(PATH.search(row) for row in rows)
    assert {Path(path).suffix for row in rows for path in PATH.findall(row)} >= {".py", ".toml", ".css", ".md"}


def test_the_page_has_the_static_checks_of_ci() -> None:
    (checks,) = re.findall(r'^run "Static checks" "(.*)"$', (ROOT / ".ci" / "run").read_text("utf-8"), re.MULTILINE)
    assert f"\n{checks}\n" in PAGE.read_text("utf-8")
