"""`contextkit models`: rules, prices, sources, and what is assumed."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import pytest

from contextkit.facts.rules import cache_rules
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


@pytest.mark.parametrize("name", ["anthropic/claude-opus-4.5", "gpt-7-foo"])
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


@pytest.mark.parametrize("name", ["claude-sonnet-5-5", "gpt-6.1-sol"])
def test_the_assumed_rules_of_a_models_cache_are_shown_with_source_and_grade(run: Run, name: str) -> None:
    rules = [one for one in cache_rules() if one.provider == model_named(name).provider]
    text = run("models", name).out
    for rule in rules:
        assert f"rule {rule.name} holds: {rule.grade}, {rule.source}, read {rule.date}" in text
        assert rule.statement in text and rule.against in text and rule.if_wrong in text
    assert json.loads(run("models", name, "--json").out)[0]["rules"] == [asdict(rule) for rule in rules]


def test_a_rule_that_the_users_file_turned_off_says_so(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "facts.toml"
    file.write_text(
        '[[rules]]\nname = "mixed_lifetimes"\nprovider = "anthropic"\nholds = false\ngrade = "measured"\nsource = "our bills"\n'
    )
    text = run("models", "claude-sonnet-5-5", "--models", file).out
    assert "rule mixed_lifetimes does not hold: measured, our bills" in text
    assert "rule mixed_lifetimes holds: assumed" in run("models", "gpt-6.1-sol", "--models", file).out


def test_a_name_like_no_model_ends_with_one_line(run: Run) -> None:
    ended = run("models", "xyz")
    assert (ended.code, ended.out, len(ended.err.strip().splitlines())) == (2, "", 1)
    assert "xyz" in ended.err


def test_a_model_that_several_hosts_sell_lists_them_and_has_the_price_of_its_vendor(run: Run) -> None:
    ended = run("models", "deepseek-v4-flash")
    assert "assumed after" not in ended.out + ended.err and "no price" not in ended.out
    [row] = json.loads(run("models", "deepseek-v4-flash", "--json").out)
    assert row["provider"] == "deepseek" and row["price"]["usd_per_million_tokens"][0]["input"] in (0.15, 0.3)
    assert {"deepseek", "fireworks", "openrouter"} <= row["hosts"].keys()
    assert "  fireworks (deepseek-v4-flash): input 0.14, cache read 0.028" in ended.out


def test_a_model_without_a_price_of_its_provider_has_only_those_of_other_hosts(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "models.toml"
    file.write_text('[[models]]\nname = "openai/gpt-oss-120b"\nlike = "openai/gpt-oss-120b"\nprovider = "our-host"\n')
    [row] = json.loads(run("models", "openai/gpt-oss-120b", "--json", "--models", file).out)
    assert row["price"] is None and {"openrouter", "together"} <= row["hosts"].keys()
