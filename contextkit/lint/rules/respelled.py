"""The same thing spelled otherwise: keys in another order, other blanks, other escapes, other digits for one number.

Takes a change on the messages level, says which of these it is, None where words or values differ; knows no hazard.
"""

from __future__ import annotations

import enum
import json
import re
import unicodedata

import orjson

from contextkit.canonical import Json
from contextkit.lint.requests.rule import Change
from contextkit.lint.rules.shapes import paired
from contextkit.prompt.block import Block


class Respelling(enum.Enum):
    """What differs; where several do, the first of them names it."""

    NUMBERS = enum.auto()
    """`1` and `1.0`."""
    ORDER = enum.auto()
    """Keys, or the blanks of a JSON text."""
    UNICODE = enum.auto()
    """Escapes, composed and decomposed letters."""
    BLANKS = enum.auto()
    """White space of a text."""


def respelling(change: Change) -> Respelling | None:
    """What a change on the messages level spelled otherwise, None where it says something else."""
    pairs = paired(change) if change.level == "messages" else []
    kinds: set[Respelling] = set()
    for pair in pairs:
        found = _of_blocks(*pair)
        if not found:
            return None
        kinds |= found
    return next((kind for kind in Respelling if kind in kinds), None)


def _of_blocks(was: Block, now: Block) -> set[Respelling] | None:
    if was.role != now.role or was.type != now.type:
        return None
    return between(orjson.loads(was.body), orjson.loads(now.body))


def between(was: Json, now: Json) -> set[Respelling] | None:
    """How two JSON values are spelled apart, empty where they are not, None where they differ.

    >>> between({"a": 1, "b": 2}, {"b": 2, "a": 1.0}) == {Respelling.ORDER, Respelling.NUMBERS}
    True
    """
    if isinstance(was, dict) and isinstance(now, dict):
        order = {Respelling.ORDER} if list(was) != list(now) else set[Respelling]()
        return _joined([(was[key], now[key]) for key in was], order) if was.keys() == now.keys() else None
    if isinstance(was, list) and isinstance(now, list):
        return _joined(list(zip(was, now, strict=True)), set()) if len(was) == len(now) else None
    if isinstance(was, str) and isinstance(now, str):
        return _of_texts(was, now)
    if was == now and isinstance(was, bool) == isinstance(now, bool):
        return {Respelling.NUMBERS} if type(was) is not type(now) else set()
    return None


def _joined(pairs: list[tuple[Json, Json]], kinds: set[Respelling]) -> set[Respelling] | None:
    for pair in pairs:
        found = between(*pair)
        if found is None:
            return None
        kinds = kinds | found
    return kinds


def _of_texts(was: str, now: str) -> set[Respelling] | None:
    if was == now:
        return set()
    if _composed(was) == _composed(now):
        return {Respelling.UNICODE}
    inner = _of_json(was, now)
    if inner is not None:
        return inner or {Respelling.ORDER}
    return {Respelling.BLANKS} if "".join(was.split()) == "".join(now.split()) else None


def _of_json(was: str, now: str) -> set[Respelling] | None:
    """Of two texts that hold a JSON object or array, perhaps between equal words; None where they do not, or differ."""
    start = _OPENING.search(was)
    if start is None or not now.startswith(was[: start.start()]):
        return None
    try:
        (one, end), (other, stop) = (_DECODER.raw_decode(text, start.start()) for text in (was, now))
    except (ValueError, RecursionError):
        return None  # no JSON: they are compared as texts
    return between(one, other) if was[end:].strip() == now[stop:].strip() else None


_OPENING = re.compile(r"[{\[]")
_DECODER = json.JSONDecoder()


_ESCAPED = re.compile(r"(?:\\u[0-9a-fA-F]{4})+|\\/")


def _composed(text: str) -> str:
    return unicodedata.normalize("NFC", _ESCAPED.sub(lambda found: _unescaped(found[0]), text))


def _unescaped(text: str) -> str:
    """Characters for escapes; those that stand for half a character stay."""
    if text == "\\/":
        return "/"
    units = b"".join(int(unit, 16).to_bytes(2, "big") for unit in text.split("\\u")[1:])
    return units.decode("utf-16-be", "surrogatepass")
