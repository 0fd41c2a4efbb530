"""What besides the segments must be equal for a prefix to be re-used, per level.

Takes a request's parameters and the flags its segments raise, gives three keys: a parameter that invalidates a level
stands in that level's key and in those behind it. Only parameters that a table names are in a key: a field that no
documented rule names, one that a newer client adds included, is neutral. Knows no provider: the tables come with the
call.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import blake2b

from contextkit.cache.prompt import Breakpoint, Prompt
from contextkit.canonical import Json, canonical
from contextkit.layout.track import Track

TOOLS, SYSTEM, MESSAGES = 0, 1, 2
"""Levels as numbers, in the order of `layout.segment.LEVELS`."""


@dataclass(frozen=True, slots=True)
class Keying:
    """Which parameter invalidates what, for one wire."""

    levels: Mapping[str, int]
    """Parameter → first level it invalidates. Every other parameter is neutral."""
    neutral: frozenset[str]
    """Parameters that are known and that no cache looks at."""
    defaults: Mapping[str, Json] = field(default_factory=dict)
    """Values that mean the same as leaving the parameter out."""
    flags: Mapping[str, int] = field(default_factory=dict)
    """Flag a segment raises → first level its presence invalidates; MESSAGES for others."""


def namespaces(keying: Keying, params: Mapping[str, Json], flags: tuple[str, ...]) -> tuple[bytes, bytes, bytes]:
    """Keys of the three levels, each covering the one before."""
    facts = [
        (keying.levels[name], name, value)
        for name, value in sorted(params.items())
        if name in keying.levels and value is not None and keying.defaults.get(name) != value
    ]
    facts += [(keying.flags.get(flag, MESSAGES), "flag", flag) for flag in flags]
    return _keys(canonical(facts))


def keyed(
    keying: Keying,
    params: Mapping[str, Json],
    flags: tuple[str, ...],
    track: Track,
    n: int,
    marks: tuple[Breakpoint, ...],
) -> Prompt:
    """What a cache sees of the first `n` segments of `track`, with these marks."""
    ends = (min(track.level_ends[0], n), min(track.level_ends[1], n))
    return Prompt(namespaces(keying, params, flags), ends, track.digests, track.ends_tokens, track.positions, marks, n)


@lru_cache(maxsize=4096)
def _keys(facts: bytes) -> tuple[bytes, bytes, bytes]:
    import orjson

    rows = orjson.loads(facts)
    tools, system, messages = (_key([row for row in rows if row[0] <= level]) for level in (TOOLS, SYSTEM, MESSAGES))
    return tools, system, messages


def _key(facts: list[Json]) -> bytes:
    return blake2b(canonical(facts, sort=True), digest_size=8).digest()
