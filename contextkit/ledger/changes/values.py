"""Compares the JSON values and texts of changed blocks: equal values, other key order, other number or Unicode form."""

from __future__ import annotations

import enum
import json
import re
import unicodedata
from collections import Counter

import orjson

from contextkit.canonical import Json
from contextkit.prompt.block import Block, text_of
from contextkit.prompt.diff import Change


def paired_blocks(change: Change) -> list[tuple[Block, Block]]:
    """Pair the blocks of both sides that differ; empty where their number is not the same."""
    if len(change.was) != len(change.now):
        return []
    return [
        (was, now)
        for was, now in zip(change.was, change.now, strict=True)
        if was.body != now.body or was.role != now.role
    ]


def is_reorder(change: Change) -> bool:
    """Return whether both sides hold the same blocks in another order."""
    return (
        change.was != change.now
        and len(change.was) > 1
        and Counter(map(_role_and_body, change.was)) == Counter(map(_role_and_body, change.now))
    )


def _role_and_body(block: Block) -> tuple[str, bytes]:
    return block.role, block.body


def is_same_value(was: Block, now: Block) -> bool:
    """Return whether two blocks parse to the same JSON, the order of their keys left out; strings are compared as
    they are.
    """
    return was.body != now.body and _typed(orjson.loads(was.body)) == _typed(orjson.loads(now.body))


def _typed(value: Json) -> object:
    """Return the value with the type of each scalar, so that `1`, `1.0` and `true` differ."""
    if isinstance(value, dict):
        return {key: _typed(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_typed(item) for item in value]
    return (type(value).__name__, value)


def differing_strings(was: Json, now: Json) -> list[tuple[str, str]] | None:
    """Pair the strings at the same place that differ; None where anything else differs as well.

    >>> differing_strings({"a": "x", "b": 1}, {"a": "y", "b": 1})
    [('x', 'y')]
    """
    if type(was) is not type(now):
        return None
    if isinstance(was, str) and isinstance(now, str):
        return [] if was == now else [(was, now)]
    if isinstance(was, dict) and isinstance(now, dict):
        return _differing_in(was, now) if list(was) == list(now) else None
    if isinstance(was, list) and isinstance(now, list):
        return _differing_in(dict(enumerate(was)), dict(enumerate(now))) if len(was) == len(now) else None
    return [] if was == now else None


def _differing_in(was: dict[object, Json], now: dict[object, Json]) -> list[tuple[str, str]] | None:  # type: ignore[type-arg, unused-ignore]
    collected: list[tuple[str, str]] = []
    for key, value in was.items():
        inside = differing_strings(value, now[key])
        if inside is None:
            return None
        collected += inside
    return collected


def differs_only_in(pattern: re.Pattern[str], was: str, now: str) -> bool:
    """Return whether two texts are the same once every stretch of `pattern` is taken out of both.

    >>> differs_only_in(re.compile(r"[0-9]+:[0-9]+"), "at 9:05 sharp", "at 9:06 sharp")
    True
    """
    if was == now:
        return False
    start, one, other = differing_span(was, now)
    windows = [
        text[max(0, start - _CONTEXT_CHARACTERS) : start + len(span) + _CONTEXT_CHARACTERS]
        for text, span in ((was, one), (now, other))
    ]
    return pattern.sub("\0", windows[0]) == pattern.sub("\0", windows[1])


_CONTEXT_CHARACTERS = 400
"""Characters beside a difference in which what stands there can begin and end: no pattern of ours is longer."""


def differing_span(was: str, now: str) -> tuple[int, str, str]:
    """Return where two texts part, and what stands there in each up to their common end.

    >>> differing_span("it is warm today", "it is cold today")
    (6, 'warm', 'cold')
    """
    start = _n_common_leading(was, now)
    rest = _n_common_leading(was[start:][::-1], now[start:][::-1])
    return start, was[start : len(was) - rest], now[start : len(now) - rest]


def _n_common_leading(one: str, other: str) -> int:
    """Count the leading characters that are equal, by halving."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if one[low:middle] == other[low:middle] else (low, middle - 1)
    return low


def texts_of(change: Change) -> tuple[str, str]:
    """Return the text of both sides."""
    return "\n".join(map(text_of, change.was)), "\n".join(map(text_of, change.now))


class FormatChange(enum.Enum):
    """A difference of form between equal values; of several, the first names the change."""

    NUMBERS = enum.auto()
    """`1` and `1.0`."""
    ORDER = enum.auto()
    """Keys, or the blanks of a JSON text."""
    UNICODE = enum.auto()
    """Escapes, composed and decomposed letters."""
    BLANKS = enum.auto()
    """White space of a text."""


def format_change(change: Change) -> FormatChange | None:
    """Return the difference of form of a change on the messages level; None where its content differs."""
    pairs = paired_blocks(change) if change.level == "messages" else []
    kinds: set[FormatChange] = set()
    for pair in pairs:
        changes = _format_changes_of_blocks(*pair)
        if not changes:
            return None
        kinds |= changes
    return next((kind for kind in FormatChange if kind in kinds), None)


def _format_changes_of_blocks(was: Block, now: Block) -> set[FormatChange] | None:
    if was.role != now.role or was.type != now.type:
        return None
    return format_changes(orjson.loads(was.body), orjson.loads(now.body))


def format_changes(was: Json, now: Json) -> set[FormatChange] | None:
    """Return the differences of form between two JSON values; None where their content differs.

    >>> format_changes({"a": 1, "b": 2}, {"b": 2, "a": 1.0}) == {FormatChange.ORDER, FormatChange.NUMBERS}
    True
    """
    if isinstance(was, dict) and isinstance(now, dict):
        order = {FormatChange.ORDER} if list(was) != list(now) else set[FormatChange]()
        return _united([(was[key], now[key]) for key in was], order) if was.keys() == now.keys() else None
    if isinstance(was, list) and isinstance(now, list):
        return _united(list(zip(was, now, strict=True)), set()) if len(was) == len(now) else None
    if isinstance(was, str) and isinstance(now, str):
        return _format_changes_of_texts(was, now)
    if was == now and isinstance(was, bool) == isinstance(now, bool):
        return {FormatChange.NUMBERS} if type(was) is not type(now) else set()
    return None


def _united(pairs: list[tuple[Json, Json]], kinds: set[FormatChange]) -> set[FormatChange] | None:
    for pair in pairs:
        changes = format_changes(*pair)
        if changes is None:
            return None
        kinds = kinds | changes
    return kinds


def _format_changes_of_texts(was: str, now: str) -> set[FormatChange] | None:
    if was == now:
        return set()
    if _composed(was) == _composed(now):
        return {FormatChange.UNICODE}
    inner = _format_changes_of_json(was, now)
    if inner is not None:
        return inner or {FormatChange.ORDER}
    return {FormatChange.BLANKS} if "".join(was.split()) == "".join(now.split()) else None


def _format_changes_of_json(was: str, now: str) -> set[FormatChange] | None:
    """Compare two texts that hold a JSON object or array, perhaps between equal words; None where they do not, or differ."""
    start = _OPENING.search(was)
    if start is None or not now.startswith(was[: start.start()]):
        return None
    try:
        (one, end), (other, stop) = (_DECODER.raw_decode(text, start.start()) for text in (was, now))
    except (ValueError, RecursionError):
        return None  # no JSON: they are compared as texts
    return format_changes(one, other) if was[end:].strip() == now[stop:].strip() else None


_OPENING = re.compile(r"[{\[]")

_DECODER = json.JSONDecoder()

_ESCAPED = re.compile(r"(?:\\u[0-9a-fA-F]{4})+|\\/")


def _composed(text: str) -> str:
    return unicodedata.normalize("NFC", _ESCAPED.sub(lambda found: _unescaped(found[0]), text))


def _unescaped(text: str) -> str:
    """Replace escapes by their characters; those that stand for half a character stay."""
    if text == "\\/":
        return "/"
    units = b"".join(int(unit, 16).to_bytes(2, "big") for unit in text.split("\\u")[1:])
    return units.decode("utf-16-be", "surrogatepass")
