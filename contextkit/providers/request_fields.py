"""Request fields that no table lists: passed through, assumed neutral for the cache, and named in findings.

Takes the endpoint and the body of a request, gives names. What is listed is in `facts/parameters.toml`, the user's file of
facts and the names of clients (`facts/clients.toml`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from contextkit.canonical import Json
from contextkit.facts.load import client
from contextkit.facts.parameters import LEVELS, TABLES, is_listed, keying
from contextkit.providers.endpoints import BODIES
from contextkit.terminal import printable

_OUTER: Mapping[str, tuple[str, ...]] = {
    "gemini": ("generationConfig", "generation_config"),
}
"""Endpoint → fields whose own fields are listed one by one."""
_CLIENT_FIELDS = frozenset({client("codex")["metadata_field"]})
"""Fields that a client adds for itself."""
MAX_NAMES = 1000
"""Names of one body that are reported: they come from whoever sends requests."""


def unlisted_fields(endpoint: str, body: Mapping[str, Json]) -> tuple[str, ...]:
    """Fields of a body that no table lists, sorted; a field that is null counts as absent.

    >>> unlisted_fields("anthropic_messages", {"model": "m", "messages": [], "temperature": 1, "colour": "red"})
    ('colour',)
    """
    names = [
        path for path, name in _fields(endpoint, body) if name not in _CLIENT_FIELDS and not is_listed(endpoint, name)
    ]
    return tuple(sorted(names)[:MAX_NAMES])


def _fields(endpoint: str, body: Mapping[str, Json]) -> Iterator[tuple[str, str]]:
    """Path and name of each field that is no block."""
    for name, value in BODIES[endpoint].params(body).items():
        if name in _OUTER.get(endpoint, ()) and isinstance(value, dict):
            yield from ((f"{name}.{inner}", inner) for inner, field in value.items() if field is not None)
        elif value is not None:
            yield name, name


def cache_effect(endpoint: str, name: str) -> str:
    """The effect of a field on the cache, in words.

    >>> cache_effect("openai_chat", "cache_salt"), cache_effect("openai_chat", "colour")
    ('a change invalidates the cache from tools on', 'assumed neutral for the cache')
    """
    for table in map(keying, TABLES[endpoint]):
        if name in table.levels:
            return f"a change invalidates the cache from {LEVELS[table.levels[name]]} on"
        if table.is_listed(name):
            return "neutral for the cache"
    return "assumed neutral for the cache"


def describe_unlisted(endpoint: str, path: str) -> str:
    """One sentence on an unlisted field, for a terminal or a log."""
    return (
        f"{endpoint}: field {printable(path)!r} is not listed: passed through, and assumed neutral for the cache; "
        "a [[parameters]] row in a file of facts says what it changes"
    )


class UnlistedFields:
    """The unlisted fields of many requests, each reported once."""

    def __init__(self) -> None:
        self._reported: set[tuple[str, str]] = set()

    def new(self, endpoint: str, body: Mapping[str, Json]) -> list[str]:
        """A sentence for each unlisted field of a body that no earlier body of the endpoint had."""
        texts = []
        for path in unlisted_fields(endpoint, body):
            if (endpoint, path) not in self._reported and len(self._reported) < MAX_NAMES:
                self._reported.add((endpoint, path))
                texts.append(describe_unlisted(endpoint, path))
        return texts
