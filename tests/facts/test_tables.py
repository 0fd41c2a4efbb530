"""Every row of the tables of facts has a source, a date and a grade, and says what of it is assumed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import date
from typing import Any

from contextkit.facts import load
from contextkit.facts.parameters import LEVELS
from contextkit.facts.rules import MIXED_LIFETIMES, cache_rules
from contextkit.models import built_in_models


def rows() -> Iterator[tuple[str, str, Any]]:
    """(table, name, row) of each row."""
    for table, key in (("betas", "name"), ("clients", "name"), ("providers", "id")):
        yield from ((table, row[key], row) for row in load.built_in_table(f"{table}.toml")[table])
    parameters = load.built_in_table("parameters.toml")
    yield from (("endpoints", name, row) for name, row in parameters["endpoints"].items())
    yield from (("fields", str(number), row) for number, row in enumerate(parameters["fields"]))


def test_every_row_is_founded_and_stands_once() -> None:
    names = Counter(
        (table, name) for table, name, _ in rows() if table != "providers"
    )  # of which one may have two rows
    assert len(names) > 60 and set(names.values()) == {1}
    for table, name, row in rows():
        assert row["source"] and isinstance(row["date"], date) and row["grade"] in load.CONFIDENCE_OF, (table, name)
        assert row.get("note") or "assumed" not in row, (table, name)


def test_every_rule_of_a_cache_says_what_speaks_against_it() -> None:
    rules = list(cache_rules())
    assert len({(rule.name, rule.provider) for rule in rules}) == len(rules)
    for rule in rules:
        assert rule.grade in load.CONFIDENCE_OF and rule.source and rule.date
        assert rule.statement and rule.evidence and rule.against and rule.if_wrong
    assert {rule.grade for rule in rules if rule.name == MIXED_LIFETIMES} == {"assumed"}


def test_every_model_has_a_source_a_date_and_a_grade() -> None:
    for model in built_in_models():
        assert model.source and date.fromisoformat(model.date), model.name
        assert model.grade == ("assumed" if model.assumed else "documented"), model.name
        assert all(hasattr(model, column) for column in model.assumed) and (model.note or not model.assumed), model.name


def test_columns_fit_together() -> None:
    providers = load.built_in_table("providers.toml")["providers"]
    names = Counter(name for row in providers for name in row["names"])
    assert not [name for name, n in names.items() if n > 1], "a name is of one provider"
    assert all(load.provider_id(name) == row["id"] for row in providers for name in (row["id"], *row["names"]))
    assert load.provider_id("openai.chat") == "openai" and load.provider_id("openai.azure.com") == "openai.azure.com"
    assert all(row.get("note") or "sells_at" not in row for row in providers)
    for _, name, row in (row for row in rows() if row[0] == "clients"):
        headers = [header for key, listed in row.items() if key.endswith("_headers") for header in listed]
        assert set(row.get("assumed", ())) <= row.keys() and all(one == one.lower() for one in headers), name
        assert not headers or (row["header_source"] and row["header_grade"] in load.CONFIDENCE_OF), name
    endpoints = load.built_in_table("parameters.toml")["endpoints"]
    for name, row in endpoints.items():
        fields = [*(one for level in LEVELS for one in row.get(level, ())), *row["neutral"]]
        assert len(fields) == len(set(fields)) and set(row.get("assumed", ())) <= {*fields, "fallbacks"}, name
    for row in load.built_in_table("parameters.toml")["fields"]:
        assert row["level"] in (*LEVELS, "neutral") and row["note"] and row["fields"] == sorted(row["fields"])
        assert set(row["endpoints"]) <= set(endpoints)
