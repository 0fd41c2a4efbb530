"""Shapes of a difference that several hazards share: a reorder, other spelling of one value, one stretch of a text.

Takes blocks and texts, says what kind of difference they show; knows no hazard.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence

import orjson

from contextkit.canonical import Json
from contextkit.lint.requests.rule import Change
from contextkit.prompt.block import Block, text_of


def paired(change: Change) -> list[tuple[Block, Block]]:
    """Blocks that stand where others stood and differ; empty where their number is not the same."""
    if len(change.was) != len(change.now):
        return []
    return [
        (was, now)
        for was, now in zip(change.was, change.now, strict=True)
        if was.body != now.body or was.role != now.role
    ]


def is_reorder(change: Change) -> bool:
    """Whether the same blocks stand there in another order."""
    return (
        change.was != change.now
        and len(change.was) > 1
        and Counter(map(_said, change.was)) == Counter(map(_said, change.now))
    )


def _said(block: Block) -> tuple[str, bytes]:
    return block.role, block.body


def is_same_value(was: Block, now: Block) -> bool:
    """Whether two blocks parse to the same JSON, the order of their keys left out; strings are compared as they are."""
    return was.body != now.body and _typed(orjson.loads(was.body)) == _typed(orjson.loads(now.body))


def _typed(value: Json) -> object:
    """The value, with `1`, `1.0` and `true` told apart."""
    if isinstance(value, dict):
        return {key: _typed(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_typed(item) for item in value]
    return (type(value).__name__, value)


def is_same_json(was: str, now: str) -> bool:
    """Whether two strings hold the same JSON, spelled otherwise.

    >>> is_same_json('{"a": 1, "b": 2}', '{"b":2,"a":1}')
    True
    """
    if was == now:
        return False
    try:
        return bool(_typed(json.loads(was)) == _typed(json.loads(now)))
    except ValueError:
        return False


def differing_strings(was: Json, now: Json) -> list[tuple[str, str]] | None:
    """Pairs of strings at the same place that differ; None where anything else differs as well.

    >>> differing_strings({"a": "x", "b": 1}, {"a": "y", "b": 1})
    [('x', 'y')]
    """
    if type(was) is not type(now):
        return None
    if isinstance(was, str) and isinstance(now, str):
        return [] if was == now else [(was, now)]
    if isinstance(was, dict) and isinstance(now, dict):
        return _all_of(was, now) if list(was) == list(now) else None
    if isinstance(was, list) and isinstance(now, list):
        return _all_of(dict(enumerate(was)), dict(enumerate(now))) if len(was) == len(now) else None
    return [] if was == now else None


def _all_of(was: dict[object, Json], now: dict[object, Json]) -> list[tuple[str, str]] | None:  # type: ignore[type-arg, unused-ignore]
    found: list[tuple[str, str]] = []
    for key, value in was.items():
        inside = differing_strings(value, now[key])
        if inside is None:
            return None
        found += inside
    return found


def differs_only_in(pattern: re.Pattern[str], was: str, now: str) -> bool:
    """Whether two texts are the same once every stretch of `pattern` is taken out of both.

    >>> differs_only_in(re.compile(r"[0-9]+:[0-9]+"), "at 9:05 sharp", "at 9:06 sharp")
    True
    """
    if was == now:
        return False
    start, one, other = differing_span(was, now)
    windows = [text[max(0, start - _AROUND) : start + len(span) + _AROUND] for text, span in ((was, one), (now, other))]
    return pattern.sub("\0", windows[0]) == pattern.sub("\0", windows[1])


_AROUND = 400
"""Characters beside a difference in which what stands there can begin and end: no pattern of ours is longer."""


def differing_span(was: str, now: str) -> tuple[int, str, str]:
    """Where two texts part, and what stands there in each up to where they agree again until their ends.

    >>> differing_span("it is warm today", "it is cold today")
    (6, 'warm', 'cold')
    """
    start = _agreeing(was, now)
    rest = _agreeing(was[start:][::-1], now[start:][::-1])
    return start, was[start : len(was) - rest], now[start : len(now) - rest]


def _agreeing(one: str, other: str) -> int:
    """Leading characters that are equal, found by halving."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if one[low:middle] == other[low:middle] else (low, middle - 1)
    return low


def texts_of(change: Change) -> tuple[str, str]:
    """The words of both sides."""
    return "\n".join(map(text_of, change.was)), "\n".join(map(text_of, change.now))


def strings_in(value: Json) -> Iterator[str]:
    """Every string of a JSON value, keys left out."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from strings_in(item)
    elif isinstance(value, list):
        for item in value:
            yield from strings_in(item)


def holds_run(blocks: Sequence[Block], run: Sequence[Block]) -> int:
    """Index at which `run` stands in `blocks`, -1 where it does not."""
    wanted = [_said(block) for block in run]
    said = [_said(block) for block in blocks]
    return next((at for at in range(len(said) - len(wanted) + 1) if said[at : at + len(wanted)] == wanted), -1)
