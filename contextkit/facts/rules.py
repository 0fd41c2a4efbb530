"""Assumed rules of provider caches, as `facts/rules.toml` and the user's files of facts have them.

Takes the name of a rule and a provider, gives whether the rule holds. A user's `[[rules]]` row turns a rule off (or on)
for one provider, or for all where it names none; the reference cache, the local provider and the planner all ask here.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

from contextkit.facts import load

MIXED_LIFETIMES = "mixed_lifetimes"
"""A breakpoint reads a live entry of any lifetime, so that a long one is written only for what lies behind a live short
one."""

WRITTEN_HEAD = "written_head"
"""Beside its moving end, an implicit breakpoint leaves an entry at the end of the system text, so that another conversation
reads it."""


@dataclass(frozen=True, slots=True)
class CacheRule:
    """One rule for one provider."""

    name: str
    """As in `[[rules]]`."""
    provider: str
    """Id as in `Model.provider`."""
    holds: bool
    """Whether the reference cache, the local provider and the planner go by it."""
    statement: str
    """The rule, in words."""
    grade: str
    """`documented`, `measured` or `assumed`."""
    source: str
    """Pages and packages that were read."""
    date: str
    """ISO date of that."""
    evidence: str
    """What speaks for it."""
    against: str
    """What speaks against it."""
    if_wrong: str
    """What happens where it does not hold."""


def rule_at(name: str, provider: str) -> CacheRule:
    """The assumed rule of a name at a provider; one without a row of its own has the first provider's.

    Raises `KeyError` for a name that is not in `facts/rules.toml`, `UsageError` for a fault in a user's file.

    >>> rule_at("mixed_lifetimes", "anthropic").grade
    'assumed'
    """
    rules = _rules(load.n_changes, os.environ.get(load.VARIABLE, ""))[name]
    return rules.get(provider, next(iter(rules.values())))


def rule_holds(name: str, provider: str) -> bool:
    """Return whether `rule_at` holds; raises as it does.

    >>> rule_holds("mixed_lifetimes", "anthropic")
    True
    """
    return rule_at(name, provider).holds


def cache_rules() -> Iterator[CacheRule]:
    """Iterate over every rule, with what speaks for and against it, as the user's files leave it.

    >>> [rule.provider for rule in cache_rules() if rule.name == "mixed_lifetimes"]
    ['anthropic', 'aws', 'openai']
    """
    for rules in _rules(*load.state()).values():
        yield from rules.values()


@lru_cache(maxsize=2)
def _rules(*state: object) -> dict[str, dict[str, CacheRule]]:
    """Rule by name and provider; `state` is that of the user's files."""
    rules: dict[str, dict[str, CacheRule]] = {}
    for row in load.built_in_table("rules.toml")["rules"]:
        rule = CacheRule(**{**row, "date": row["date"].isoformat()})
        rules.setdefault(rule.name, {})[rule.provider] = rule
    for facts in load.user_facts():
        for user_row in facts.rules:
            fields = user_row.fields
            by_provider = rules[fields["name"]]
            first = next(iter(by_provider.values()))
            for provider in [fields["provider"]] if "provider" in fields else list(by_provider):
                own = {key: fields[key] for key in ("holds", "grade", "source", "date") if key in fields}
                by_provider[provider] = replace(by_provider.get(provider, first), provider=provider, **own)
    return rules
