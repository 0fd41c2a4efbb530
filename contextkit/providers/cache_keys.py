"""What besides the blocks must be equal for a prefix to be reused, per level.

A parameter that invalidates a level stands in the key of that level and of those behind it. Only parameters that a table
of `facts/parameters.toml` names are in a key; any other field is neutral.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from hashlib import blake2b

from contextkit.cache.prompt import Breakpoint, Prompt
from contextkit.canonical import Json, canonical
from contextkit.facts.parameters import MESSAGES, SYSTEM, TOOLS, keying
from contextkit.prompt.prompt import PromptColumns


def namespaces(endpoint: str, params: Mapping[str, Json], flags: tuple[str, ...]) -> tuple[bytes, bytes, bytes]:
    """Return the keys of the three levels, each covering the one before; `endpoint` as in `facts/parameters.toml`."""
    table = keying(endpoint)
    facts = [
        (table.levels[name], name, value)
        for name, value in sorted(params.items())
        if name in table.levels and value is not None and table.defaults.get(name) != value
    ]
    facts += [(table.flags.get(flag, MESSAGES), "flag", flag) for flag in flags]
    return _keys(canonical(facts))


def keyed(
    endpoint: str,
    params: Mapping[str, Json],
    flags: tuple[str, ...],
    columns: PromptColumns,
    n: int,
    marks: tuple[Breakpoint, ...],
) -> Prompt:
    """Return the prompt that a cache sees of the first `n` blocks of `columns`, with these breakpoints."""
    ends = (min(columns.level_ends[0], n), min(columns.level_ends[1], n))
    keys = namespaces(endpoint, params, flags)
    return Prompt(keys, ends, columns.digests, columns.ends_tokens, columns.positions, marks, n)


@lru_cache(maxsize=4096)
def _keys(facts: bytes) -> tuple[bytes, bytes, bytes]:
    import orjson

    rows = orjson.loads(facts)
    tools, system, messages = (_key([row for row in rows if row[0] <= level]) for level in (TOOLS, SYSTEM, MESSAGES))
    return tools, system, messages


def _key(facts: list[Json]) -> bytes:
    return blake2b(canonical(facts, sort=True), digest_size=8).digest()
