"""Cache level of each request field, as `facts/parameters.toml` and the user's files of facts have it.

Takes the name of an endpoint, gives its `Keying`. The table is read when the first prompt is keyed.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from contextkit.facts import load

LEVELS = ("tools", "system", "messages")
"""Levels of a prompt, in the order in which they stand in it; a level's number is its place here."""
TOOLS, SYSTEM, MESSAGES = range(3)


@dataclass(frozen=True, slots=True)
class Keying:
    """Which field of a request invalidates what, for one endpoint."""

    levels: Mapping[str, int]
    """Field → first level it invalidates. Every other field is neutral."""
    neutral: frozenset[str]
    """Fields that are listed and that no cache looks at."""
    defaults: Mapping[str, Any] = field(default_factory=dict)
    """Values that mean the same as leaving the field out."""
    flags: Mapping[str, int] = field(default_factory=dict)
    """Flag a block raises → first level its presence invalidates; MESSAGES for others."""

    def is_listed(self, name: str) -> bool:
        """Return whether the table has a row for a field; another one is assumed neutral, and named in findings.

        A field of which a part is listed apart (`output_config.effort`) is listed itself.

        >>> keying("anthropic").is_listed("temperature"), keying("anthropic").is_listed("new_field")
        (True, False)
        >>> keying("anthropic").is_listed("output_config")
        True
        """
        if name in self.levels or name in self.neutral:
            return True
        return any(listed.startswith(f"{name}.") for listed in (*self.levels, *self.neutral))


TABLES: Mapping[str, tuple[str, ...]] = {
    "anthropic_messages": ("anthropic",),
    "openai_chat": ("openai", "engines"),
    "openai_responses": ("openai", "engines"),
    "bedrock_converse": ("bedrock",),
    "gemini": ("gemini",),
}
"""Endpoint → tables of `facts/parameters.toml` with its fields; compatible hosts and engines take OpenAI's bodies."""


def is_listed(endpoint: str, name: str) -> bool:
    """Return whether a table of the endpoint has a row for a field.

    >>> is_listed("gemini", "cached_content"), is_listed("anthropic_messages", "temprature")
    (True, False)
    """
    head, *words = name.split("_")
    camel = head + "".join(word[:1].upper() + word[1:] for word in words)  # Google takes both spellings
    return any(table.is_listed(name) or table.is_listed(camel) for table in map(keying, TABLES[endpoint]))


def keying(endpoint: str) -> Keying:
    """Return the table of an endpoint; raises `KeyError` for a name that is not in `facts/parameters.toml`.

    >>> keying("anthropic").levels["thinking"], keying("anthropic").levels.get("temperature")
    (2, None)
    """
    return _keyings(load.n_changes, os.environ.get(load.VARIABLE, ""))[endpoint]


@lru_cache(maxsize=2)
def _keyings(*state: object) -> dict[str, Keying]:
    tables = {name: _built_in(row) for name, row in load.built_in_table("parameters.toml")["endpoints"].items()}
    for row in load.built_in_table("parameters.toml")["fields"]:
        for endpoint in row["endpoints"]:
            for name in row["fields"]:
                tables[endpoint] = _with_row(tables[endpoint], name, row["level"])
    for facts in load.user_facts():
        for row in facts.parameters:
            names = [row.fields["endpoint"]] if "endpoint" in row.fields else list(tables)
            for name in names:
                tables[name] = _with_row(tables[name], row.fields["field"], row.fields["level"])
    return tables


def _built_in(row: Mapping[str, Any]) -> Keying:
    return Keying(
        levels={name: number for number, level in enumerate(LEVELS) for name in row.get(level, ())},
        neutral=frozenset(row["neutral"]),
        defaults=row.get("defaults", {}),
        flags={name: LEVELS.index(level) for name, level in row.get("flags", {}).items()},
    )


def _with_row(table: Keying, name: str, level: str) -> Keying:
    levels = {other: number for other, number in table.levels.items() if other != name}
    if level == "neutral":
        return replace(table, levels=levels, neutral=table.neutral | {name})
    return replace(table, levels={**levels, name: LEVELS.index(level)}, neutral=table.neutral - {name})
