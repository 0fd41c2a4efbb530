"""Request bodies that begin with what the one before said, parsed from there on: of a conversation of n turns each
message is read once.

Takes bodies as bytes, gives what `orjson.loads` gives, in part the very objects it gave before: whoever changes one
makes a copy first. Knows no wire but the names of the lists that grow.

Why a part may be parsed alone: up to the end of a message the bytes are those of a body that was parsed, so the same
two brackets are open there, the body's and the list's. What follows, put behind those two brackets, is JSON where the
whole is, and means the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from json import JSONDecodeError, JSONDecoder
from typing import Any

import orjson

from contextkit.importers.source import load_json

RECENT = 24
"""Bodies kept, those used last in front: as many conversations may take turns."""
LEAST = 4096
"""Bytes; a smaller body is parsed at once."""
TRIES = 8
"""Places before the first difference that are tried for the end of a message."""
_NAMES = ("messages", "contents", "input")
_FRONT = 160
"""Bytes of a list by which two bodies may be of one conversation."""
_BLANKS = b" \t\r\n"
_UNSEEN, _NOWHERE = -1, 0


@dataclass(slots=True)
class _ParsedBody:
    """A body that was parsed."""

    raw: bytes
    fields: dict[str, Any]
    front: bytes
    """How it begins, some of its first message included."""
    name: str
    """Of the list that grows."""
    start: int
    """Where the list's first message stands."""
    close: int = _UNSEEN
    """Where the bracket stands that closes the list."""
    rest: bytes = b""
    """From that bracket on."""
    compact: tuple[bytes, list[bytes], bytes] | None = None
    """What it says without blanks, as the SDKs write it: before the list's messages, each of them, behind them; None
    where nobody asked."""


class GrowingBodies:
    """Remembers the latest bodies.

    >>> bodies = GrowingBodies()
    >>> bodies.parsed(b'{"model":"m","messages":[{"role":"user"}]}')
    {'model': 'm', 'messages': [{'role': 'user'}]}
    """

    __slots__ = ("_recent",)

    def __init__(self) -> None:
        self._recent: list[_ParsedBody] = []

    def parsed(self, raw: bytes) -> Any:
        """What `raw` says; raises `orjson.JSONDecodeError` as `orjson.loads` does."""
        if len(raw) < LEAST:
            return load_json(raw)
        for index, known in enumerate(self._recent):
            if raw.startswith(known.front) and (grown := _grown(known, raw)):
                self._recent.insert(0, self._recent.pop(index))
                self._recent[0] = grown
                return grown.fields
        fields = load_json(raw)
        start = _start(raw, fields) if isinstance(fields, dict) else None
        if start:
            self._recent = [_ParsedBody(raw, fields, raw[: start[1] + _FRONT], *start), *self._recent[: RECENT - 1]]
        return fields

    def compact(self, fields: dict[str, Any]) -> bytes:
        """The body without blanks, as the SDKs write it; of the one that was parsed last only what is new is spelled.

        Raises `TypeError` as `orjson.dumps` does.
        """
        known = self._recent[0] if self._recent and self._recent[0].fields is fields else None
        listed = fields.get(known.name) if known else None
        if known is None or not isinstance(listed, list):
            return orjson.dumps(fields)
        front, messages, rest = known.compact or _spelled(fields, known.name)
        known.compact = front, [*messages, *map(orjson.dumps, listed[len(messages) :])], rest
        return b"".join((front, b",".join(known.compact[1]), rest))


def _spelled(fields: dict[str, Any], name: str) -> tuple[bytes, list[bytes], bytes]:
    """What stands around the messages of a body, and none of them."""
    marked = orjson.dumps({key: [] if key == name else value for key, value in fields.items()})
    opening = orjson.dumps(name) + b":[]"
    names = list(fields)
    before = orjson.dumps({key: fields[key] for key in names[: names.index(name)]})
    at = len(before) - 1 + (len(before) > 2)
    return marked[: at + len(opening) - 1], [], marked[at + len(opening) - 1 :]


def _start(raw: bytes, fields: dict[str, Any]) -> tuple[str, int] | None:
    """The list that grows, and where its first message stands, as far as can be seen."""
    name = next((name for name in _NAMES if name in fields), "")
    at = raw.find(f'"{name}":'.encode()) + len(name) + 3
    while raw[at : at + 1] == b" ":
        at += 1
    return (name, at + 1) if name and raw[at : at + 1] == b"[" else None


def _grown(known: _ParsedBody, raw: bytes) -> _ParsedBody | None:
    """`raw` as what `known` said and more; None where they share too little, or not whole messages."""
    if known.close == _UNSEEN:
        known.close = _close(known)
        known.rest = known.raw[known.close :]
    stop = len(raw) - len(known.rest)
    if known.close == _NOWHERE or stop < known.start or not raw.endswith(known.rest):
        return None
    n, cut = _shared(known, raw, stop)
    new = raw[cut:stop].lstrip(_BLANKS)
    if cut * 2 < stop or (new and (new[:1] != b"," or not n)):
        return None
    try:
        said = load_json(b"[%b]" % new[1:])
    except orjson.JSONDecodeError:
        return None
    fields = {**known.fields, known.name: [*known.fields[known.name][:n], *said]}
    compact = known.compact and (known.compact[0], known.compact[1][:n], known.compact[2])
    return _ParsedBody(raw, fields, known.front, known.name, known.start, stop, known.rest, compact)


def _shared(known: _ParsedBody, raw: bytes, stop: int) -> tuple[int, int]:
    """How many whole messages both begin with, and where the last of them ends."""
    said, most = len(known.fields[known.name]), min(known.close, stop)
    if most == known.close and raw.startswith(known.raw[: known.close]):
        return said, known.close
    at = _n_same(known.raw, raw, known.start, most)
    opening = known.raw[
        known.start : known.raw.find(b":", known.start) + 2
    ]  # how a message begins, so how the others do
    between = (b"}, " if opening.endswith(b" ") else b"},") + opening[:-1]
    for _ in range(TRIES):
        at = known.raw.rfind(between, known.start, at) + 1
        if not at:
            break
        try:
            return said - len(load_json(b"[%b]" % known.raw[at : known.close].lstrip(b", "))), at
        except orjson.JSONDecodeError:
            continue  # the end of a part of a message
    return 0, 0


def _n_same(one: bytes, other: bytes, least: int, most: int) -> int:
    """How many leading bytes agree, between `least` and `most`.

    Looked for from the end, where two bodies of a conversation differ.
    """
    low, back = most, 512
    while low > least and not other.startswith(one[:low]):
        most, low, back = low, max(least, low - back), back * 8
    while low < most:
        middle = (low + most + 1) // 2
        low, most = (middle, most) if one[low:middle] == other[low:middle] else (low, middle - 1)
    return low


def _close(known: _ParsedBody) -> int:
    """Where the list of a body is closed; nowhere where that is not the list which stands there under its name."""
    given = known.fields[known.name]
    text, at, n = (
        known.raw[known.start :].decode("latin-1"),
        0,
        0,
    )  # a character a byte: brackets and quotes stand where they stood
    try:
        while (at := _next(text, at)) < len(text) and text[at] != "]":
            at, n = _READER.raw_decode(text, at)[1], n + 1
        after = list(load_json(b'{"":[' + known.raw[known.start + at :]))[1:]
    except (orjson.JSONDecodeError, JSONDecodeError):
        return _NOWHERE
    names = list(known.fields)
    is_it = isinstance(given, list) and len(given) == n and names[names.index(known.name) + 1 :] == after
    return known.start + at if is_it else _NOWHERE


def _next(text: str, at: int) -> int:
    while text[at : at + 1] in (",", " ", "\t", "\r", "\n"):
        at += 1
    return at


_READER = JSONDecoder(strict=False)
