"""Request settings outside the prompt's text that key the cache: those of a body, and the kind of one that changed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Literal

from contextkit.canonical import Json
from contextkit.facts.parameters import TABLES, keying

Setting = Literal[
    "effort",
    "thinking",
    "tool_choice",
    "output_schema",
    "speed",
    "template",
    "images",
    "server_tool",
    "isolation",
    "routing_key",
    "parameter",
]
"""Kinds of settings; `parameter` is any other one."""


def keyed_settings(params: Mapping[str, Json], endpoint: str, flags: Iterable[str]) -> dict[str, Json]:
    """Path → value of each setting of a body that keys a cache, defaults left out; `flags` are raised by its blocks.

    >>> keyed_settings({"output_config": {"effort": "low"}, "temperature": 0}, "anthropic_messages", ["image"])
    {'output_config.effort': 'low', 'image': True}
    """
    found: dict[str, Json] = {}
    for table in map(keying, TABLES[endpoint]):
        for path in table.levels:
            value = _value_at(params, path)
            if value is not None and value != table.defaults.get(path):
                found[path] = value
        found |= {flag: True for flag in flags if flag in table.flags}
    return found


def changed_settings(was: Mapping[str, Json], now: Mapping[str, Json]) -> Iterator[tuple[str, Json, Json]]:
    """Path and both values of each setting that differs, None for one that is left out.

    >>> list(changed_settings({"speed": "fast"}, {"reasoning": {"effort": "low"}}))
    [('reasoning.effort', None, 'low'), ('speed', 'fast', None)]
    """
    for name in sorted({*was, *now}):
        one, other = was.get(name), now.get(name)
        if one == other:
            continue
        if isinstance(one or other, dict) and isinstance(other or one, dict):
            inside = changed_settings(one or {}, other or {})
            yield from ((f"{name}.{path}", old, new) for path, old, new in inside)
        else:
            yield name, one, other


def setting_kind(path: str) -> Setting:
    """Return the kind of a setting by its path, or by the word that a transcript has for it.

    >>> setting_kind("reasoning.effort"), setting_kind("output_config.format"), setting_kind("service_tier")
    ('effort', 'output_schema', 'speed')
    """
    return next((kind for kind, words in _WORDS if any(word in path for word in words)), "parameter")


_WORDS: tuple[tuple[Setting, tuple[str, ...]], ...] = (
    ("template", ("template",)),
    ("effort", ("effort",)),
    ("thinking", ("thinking", "task_budget", "reasoning")),
    ("tool_choice", ("tool_choice", "toolChoice", "parallel_tool_calls")),
    ("output_schema", ("format", "Format", "schema", "Schema")),
    ("speed", ("speed", "tier", "verbosity", "inference_geo", "beta")),
    ("images", ("image",)),
    ("isolation", ("isolation",)),
    ("routing_key", ("prompt_cache_key",)),
    ("server_tool", ("citations", "web_search", "web_fetch")),
)
"""Kind → words in the paths of its settings."""


def _value_at(fields: Json, path: str) -> Json:
    for name in path.split("."):
        fields = fields.get(name) if isinstance(fields, dict) else None
    return fields
