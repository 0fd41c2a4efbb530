"""Conformance scenarios: files of operations and of what a real engine answered; an adapter per engine replays them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, Protocol

from contextkit.errors import ContextKitError


class Replayed(Protocol):
    """One reference cache under test, configured for one scenario."""

    def run(self, op: dict[str, Any]) -> dict[str, Any]:
        """Do one operation; give what it answered. `ask` is called for what else is expected."""
        ...

    def ask(self, name: str, op: dict[str, Any]) -> Any:
        """One figure of the state after the operation."""
        ...


Build = Callable[[dict[str, Any], str], Replayed]
"""A scenario's config and the engine's version → the cache to replay it on."""


@dataclass(frozen=True)
class Scenario:
    """One scenario of one file."""

    file: str
    engine: str
    version: str
    name: str
    config: dict[str, Any]
    ops: list[dict[str, Any]]


@dataclass(frozen=True)
class Outcome:
    """How it went: `passed` is None where no adapter knows the engine."""

    scenario: Scenario
    passed: bool | None
    detail: str = ""


def scenarios(folder: Path) -> Iterator[Scenario]:
    """Every scenario of every JSON file in `folder`, files in order of name."""
    for path in sorted(folder.glob("*.json")):
        data = json.loads(path.read_text(encoding="utf-8"))
        for row in data["scenarios"]:
            version = row.get("engine_version", data["engine_version"])
            yield Scenario(path.name, data["engine"], version, row["name"], row.get("config", {}), row["ops"])


_SEGMENTS: dict[str, Callable[..., list[int]]] = {
    "range": lambda first, last: list(range(first, last)),
    "rep": lambda value, n: [value] * n,
    "lit": list,
}


def token_ids(spec: list[Any]) -> list[int]:
    """A token spec, spelt out.

    >>> token_ids([["range", 3, 5], ["rep", 0, 2], ["lit", [7]]]), token_ids([1, 2])
    ([3, 4, 0, 0, 7], [1, 2])
    """
    parts = ([part] if isinstance(part, int) else _SEGMENTS[part[0]](*part[1:]) for part in spec)
    return list(chain.from_iterable(parts))


def replay(scenario: Scenario, builders: dict[str, Build]) -> Outcome:
    """Run every operation and compare only what it expects; stop at the first difference."""
    build = builders.get(scenario.engine)
    if build is None:
        return Outcome(scenario, None, f"no adapter for {scenario.engine}")
    cache = build(scenario.config, scenario.version)
    for number, op in enumerate(scenario.ops):
        where = f"op {number} ({op['op']})"
        try:
            differences = _differences(cache, op)
        except (LookupError, TypeError, ValueError, AttributeError, ContextKitError) as error:
            return Outcome(scenario, False, f"{where}: {error!r}")
        if differences:
            return Outcome(scenario, False, f"{where}: {'; '.join(differences)}")
    return Outcome(scenario, True)


def _differences(cache: Replayed, op: dict[str, Any]) -> list[str]:
    answered = cache.run(op)
    rows = (
        (name, answered[name] if name in answered else cache.ask(name, op), value)
        for name, value in op.get("expect", {}).items()
    )
    return [f"{name} is {got}, expected {expected}" for name, got, expected in rows if got != expected]
