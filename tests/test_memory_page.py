"""The tables of `docs/guides/memory.md` are what the code does.

python tests/test_memory_page.py        writes the tables into the page
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

import pytest

from contextkit.log.entry import (
    Change,
    DateChanged,
    EffortChanged,
    FileChanged,
    FolderChanged,
    MemoryUpdated,
    ModeChanged,
    PermissionChanged,
)
from contextkit.providers.reply_form import OutputChanged

PAGE = Path(__file__).resolve().parents[1] / "docs" / "guides" / "memory.md"
TABLE = re.compile(r"(?<=<!-- table: )(?P<name>[a-z ]+)(?P<open> -->\n)(?P<body>.*?)(?=<!-- end -->)", re.DOTALL)
CHANGES: tuple[Change, ...] = (
    DateChanged("2026-11-21"),
    ModeChanged("review", "Change nothing."),
    EffortChanged("low"),
    FolderChanged("/src"),
    MemoryUpdated("notes.md"),
    PermissionChanged("You may push."),
    FileChanged("a.py", "9f2c"),
    OutputChanged(None),
)


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    lines = [list(head), ["---"] * len(list(head)), *map(list, rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def changes() -> str:
    rows = ((f"`{type(one).__name__}`", one.text, "each time" if one.is_repeatable else "once") for one in CHANGES)
    return table(("change", "what the model reads", "the same words"), rows)


TABLES = {"changes": changes}


def written() -> str:
    return TABLE.sub(
        lambda found: f"{found['name']}{found['open']}\n{TABLES[found['name']]()}\n", PAGE.read_text(encoding="utf-8")
    )


@pytest.mark.parametrize("name", TABLES)
def test_a_table_is_what_the_code_does(name: str) -> None:
    bodies = [
        found["body"].strip() for found in TABLE.finditer(PAGE.read_text(encoding="utf-8")) if found["name"] == name
    ]
    assert bodies == [TABLES[name]().strip()], "python tests/test_memory_page.py writes them anew"


def test_every_kind_of_change_is_in_it() -> None:
    assert {one.kind for one in CHANGES} == {kind.kind for kind in Change.__subclasses__()}


if __name__ == "__main__":
    PAGE.write_text(written(), encoding="utf-8")
