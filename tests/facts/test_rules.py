"""Assumed cache rules: every row is founded, and a user's file turns one off for one provider or for all."""

from __future__ import annotations

from pathlib import Path

import pytest

from contextkit.cache.reference import reference_cache
from contextkit.errors import UsageError
from contextkit.facts import load
from contextkit.facts.rules import MIXED_LIFETIMES, cache_rules, rule_holds
from contextkit.models import model_named


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ("holds = false", {"anthropic": False, "aws": False, "openai": False, "other": False}),
        ('holds = false\nprovider = "aws"', {"anthropic": True, "aws": False, "openai": True, "other": True}),
        ('holds = false\nprovider = "other"', {"anthropic": True, "openai": True, "other": False}),
    ],
)
def test_a_users_row_turns_a_rule_off(
    row: str, expected: dict[str, bool], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    facts = tmp_path / "facts.toml"
    facts.write_text(f'[[rules]]\nname = "mixed_lifetimes"\nsource = "measured by us"\ngrade = "measured"\n{row}\n')
    monkeypatch.setenv(load.VARIABLE, str(facts))
    assert {provider: rule_holds(MIXED_LIFETIMES, provider) for provider in expected} == expected
    changed = next(rule for rule in cache_rules() if not rule.holds)
    assert (changed.grade, changed.source) == ("measured", "measured by us")
    cache = reference_cache(model_named("claude-sonnet-5-5"))
    assert cache.is_ttl_interchangeable is expected["anthropic"]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ('name = "mixed_lifetime"\nholds = false', "must be one of mixed_lifetimes"),
        ('name = "mixed_lifetimes"', "'holds' is missing"),
        ('name = "mixed_lifetimes"\nholds = "no"', "must be true or false"),
    ],
)
def test_a_fault_in_a_row_is_named(row: str, message: str, tmp_path: Path) -> None:
    facts = tmp_path / "facts.toml"
    facts.write_text(f"[[rules]]\n{row}\n")
    with pytest.raises(UsageError, match=message):
        load.read_facts(facts)
