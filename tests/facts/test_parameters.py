"""The table of request fields: as it was in the adapters, every row founded, and extended by a user's file."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path

import pytest

from contextkit.errors import UsageError
from contextkit.facts import load
from contextkit.facts.parameters import LEVELS, Keying, keying

BEFORE = json.loads((Path(__file__).parents[1] / "golden" / "keyings.json").read_text(encoding="utf-8"))
"""The tables that the adapters held before they were data."""


@pytest.mark.parametrize("endpoint", BEFORE)
def test_a_table_is_what_it_was_in_its_adapter(endpoint: str) -> None:
    row = BEFORE[endpoint]
    assert keying(endpoint) == Keying(row["levels"], frozenset(row["neutral"]), row["defaults"], row["flags"])


def test_every_table_has_a_source_a_date_and_a_grade() -> None:
    for name, row in load.built_in_table("parameters.toml")["endpoints"].items():
        fields = [*(one for level in LEVELS for one in row.get(level, ())), *row["neutral"]]
        assert row["source"] and isinstance(row["date"], date) and row["grade"] in load.CONFIDENCE_OF, name
        assert len(fields) == len(set(fields)), name
        assert set(row.get("assumed", ())) <= {*fields, "fallbacks"}, name
        assert row["note"] or "assumed" not in row, name


def test_a_file_of_the_users_adds_a_field_and_moves_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "facts.toml"
    file.write_text(
        '[[parameters]]\nfield = "new_field"\nlevel = "tools"\n'
        '[[parameters]]\nendpoint = "anthropic"\nfield = "thinking"\nlevel = "neutral"\n'
    )
    monkeypatch.setenv(load.VARIABLE, str(file))
    assert keying("anthropic").levels["new_field"] == keying("gemini").levels["new_field"] == 0
    assert "thinking" not in keying("anthropic").levels and keying("anthropic").is_listed("thinking")
    assert keying("openai").levels["thinking"] == 2
    monkeypatch.delenv(load.VARIABLE)
    assert not keying("anthropic").is_listed("new_field")


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ('field = "a"', "'level' is missing"),
        ('field = "a"\nlevel = "head"', "one of tools, system, messages, neutral"),
        ('field = "a"\nlevel = "tools"\nendpoint = "x"', "one of anthropic"),
    ],
)
def test_a_faulty_row_is_named(tmp_path: Path, row: str, message: str) -> None:
    file = tmp_path / "facts.toml"
    file.write_text(f"[[parameters]]\n{row}\n")
    with pytest.raises(UsageError, match=message):
        load.read_facts(file)
