"""`contextkit models`: rules, prices, sources, and what is assumed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from contextkit.models import MODELS, model_named
from tests.cli.conftest import Run


def test_every_model_has_a_line(run: Run) -> None:
    lines = run("models").out.splitlines()[1:]
    assert len(lines) == sum(not row.source.endswith(" PROF") for row in MODELS.values())
    assert any(line.startswith("claude-opus-4-5 ") and "retires 2027-01-22" in line for line in lines)


def test_a_model_is_shown_with_its_sources_its_price_and_what_is_assumed(run: Run) -> None:
    text = run("models", "claude-haiku-5-5").out
    assert "https://platform.claude.com/docs/en/models/haiku-5-5/migration-guide" in text
    assert "read 2026-11-20" in text and "genai-prices" in text
    forced = next(line for line in text.splitlines() if "accepts_forced_choice" in line)
    assert "assumed" in forced and "not published" in text


@pytest.mark.parametrize("name", ["anthropic/claude-opus-4.5", "gemini-4-neon", "gpt-7-foo", "qwen3.8-max"])
def test_json_has_the_columns_of_the_row(run: Run, name: str) -> None:
    ended = run("models", name, "--json")
    row = json.loads(ended.out)[0]
    model = model_named(name)
    assert (row["name"], row["min_tokens"], row["grade"]) == (name, model.min_tokens, model.grade)
    assert ("no rules are known" in ended.err) is model.is_assumed
    assert row["price"] is None or row["price"]["usd_per_million_tokens"][0]["above_tokens"] == 0


def test_a_row_of_the_users_is_shown_with_its_source(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "models.toml"
    file.write_text(
        '[[models]]\nname = "our-sonnet"\nlike = "claude-sonnet-5-5"\nsource = "our gateway"\ngrade = "measured"\n'
        '[[prices]]\nprovider = "anthropic"\nmodel = "our-sonnet"\ninput = 2.0\noutput = 8.0\nsource = "our contract"\n'
    )
    text = run("models", "our-sonnet", "--models", file).out
    assert "measured, our gateway" in text and "documented, our contract" in text


def test_a_name_like_no_model_ends_with_one_line(run: Run) -> None:
    ended = run("models", "xyz")
    assert (ended.code, ended.out, len(ended.err.strip().splitlines())) == (2, "", 1)
    assert "xyz" in ended.err
