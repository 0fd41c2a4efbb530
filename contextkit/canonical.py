"""One value, one byte string: compact UTF-8 JSON that comes out the same on every machine and every road.

Takes JSON values (dict, list, tuple, str, int, float, bool, None), gives bytes; and back. Knows nothing of prompts.

Order is kept by default: the order of a schema's properties, or of arguments a model wrote, is meaning. `sort=True`
gives the one order of RFC 8785 (by UTF-16 code unit) to what we compose ourselves. Numbers keep their JSON type: `1`
stays an integer, exact up to 308 digits, `1.0` stays a float, and a float prints its shortest form that reads back to
itself (`1e-7`).

orjson writes nearly everything. Left to `_spell`, which also knows the path, is what orjson refuses although JSON can
say it (integers beyond 64 bits, nesting beyond 254 levels), what it says although JSON cannot (NaN, an enum, a UUID),
and what it has said differently from release to release (floats with an exponent).
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import orjson

from contextkit.errors import NotSerialisable

Json = Any
"""A JSON value: dict with string keys, list or tuple, str, int, float, bool, None."""

MAX_DEPTH = 1024
"""Levels of nesting written; orjson reads exactly as many."""

_INTEGER_LIMIT = 10**308
"""From here on an integer is infinity to readers that use doubles, orjson among them: written, it could not be read
back."""
_EXACT = 2.0**63
"""orjson reads an integer beyond 64 bits as a float; every such float is at least this large."""
_ASTRAL = re.compile(rb"[\xf0-\xf4]")
"""Starts a character beyond U+FFFF: only with one can code-point order differ from UTF-16 order."""
_ORDINARY = frozenset({str, int, bool, type(None)})
"""Leaves that orjson writes in one way only, or refuses."""
_PLAIN_KEY = re.compile(r"[\w-]+")
_HUGE = f"an integer of more than {len(str(_INTEGER_LIMIT)) - 1} digits cannot be read back; pass it as a string"


def canonical(value: Json, *, sort: bool = False) -> bytes:
    """The bytes of `value`: compact, UTF-8, no NaN, no key twice.

    Raises `NotSerialisable` with the path of the first value that has no single JSON form.

    >>> canonical({"b": 1e-7, "a": [10**20, "é"]})
    b'{"b":1e-7,"a":[100000000000000000000,"\\xc3\\xa9"]}'
    >>> canonical({"b": 1, "a": 2}, sort=True)
    b'{"a":2,"b":1}'
    """
    try:
        written = orjson.dumps(value, option=orjson.OPT_SORT_KEYS if sort else None)
    except TypeError:  # a long integer or deep nesting, which we can write, or a fault, whose path we can tell
        return _spell(value, sort)
    # of a float with an exponent the spelling has changed from release to release
    is_faithful = all(type(leaf) is float and (1e-4 <= abs(leaf) < 1e16 or leaf == 0) for leaf in _unusual(value))
    is_ordered = not sort or _ASTRAL.search(written) is None
    if not is_faithful or not is_ordered:
        return _spell(value, sort)
    return bytes(memoryview(written))  # a copy: orjson's own keeps the room it wrote in, several times what it wrote


def parse(data: bytes | str) -> Json:
    """The value of JSON text, integers exact; of a key that stands twice the last value counts, as in every SDK.

    Raises `NotSerialisable` for what is not JSON (NaN, lone surrogates, invalid UTF-8, a torn text).

    >>> parse(b'{"a":100000000000000000000}')
    {'a': 100000000000000000000}
    """
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise NotSerialisable(f"line {error.lineno} column {error.colno}", f"not JSON ({error.msg})") from None
    try:  # what orjson writes as it stands has lost no digit, and writing is faster than looking at each leaf
        if type(data) is bytes and orjson.dumps(value) == data:
            return value
    except TypeError:  # nesting that orjson reads and does not write
        pass
    may_have_lost_digits = any(type(leaf) is float and abs(leaf) >= _EXACT for leaf in _unusual(value))
    return _parse_exactly(data) if may_have_lost_digits else value


def parse_object(data: bytes | str) -> dict[str, Json]:
    """Parse a JSON object; empty for anything else.

    >>> parse_object(b'{"a":1}'), parse_object(b"[1]"), parse_object(b"{")
    ({'a': 1}, {}, {})
    """
    try:
        value = parse(data)
    except NotSerialisable:
        return {}
    return value if isinstance(value, dict) else {}


def _parse_exactly(data: bytes | str) -> Json:
    """What the standard reader makes of text that orjson found to be JSON: slower, integers of any size."""
    try:
        return json.loads(data)
    except RecursionError:
        raise NotSerialisable("$", "nested too deep to be read beside an integer beyond 64 bits") from None


def _unusual(value: Json) -> list[Json]:
    """The leaves that are not text, integer, boolean or null; `value` must be free of circles."""
    unusual: list[Json] = []
    pending: list[Iterable[Json]] = [(value,)]
    for children in pending:
        if _ORDINARY.issuperset(map(type, children)):
            continue
        for child in children:
            kind = type(child)
            if kind is dict:
                pending.append(child.values())
            elif kind is list or kind is tuple:
                pending.append(child)
            elif kind not in _ORDINARY:
                unusual.append(child)
    return unusual


_Child = tuple[bytes, str, Json]
"""What stands before a value (comma, key), its path, the value."""


def _spell(value: Json, sort: bool) -> bytes:
    """What orjson would write, with long integers and deep nesting; raises at the first value that JSON cannot carry."""
    written: list[bytes] = []
    unfinished: list[tuple[Iterator[_Child], bytes]] = [(iter([(b"", "$", value)]), b"")]
    while unfinished:
        children, closing = unfinished[-1]
        for lead, path, child in children:
            container = _CONTAINERS.get(type(child))
            if container is None:
                written.append(lead + _leaf(child, path))
                continue
            if len(unfinished) > MAX_DEPTH:
                raise NotSerialisable(
                    path[:60] + "…", f"nested deeper than {MAX_DEPTH} levels, or a circle, has no JSON form"
                )
            opening, closing_of_child, list_children = container
            written.append(lead + opening)
            unfinished.append((list_children(child, path, sort), closing_of_child))
            break
        else:
            written.append(closing)
            unfinished.pop()
    return b"".join(written)


def _members(value: dict[str, Json], path: str, sort: bool) -> Iterator[_Child]:
    for key in value:
        if type(key) is not str:
            raise NotSerialisable(path, f"a key of type {type(key).__name__} has no JSON form, keys are strings;")
    comma = b""
    steps = {key: f".{key}" if _PLAIN_KEY.fullmatch(key) else f"[{json.dumps(key)}]" for key in value}
    names = {key: _leaf(key, path + step) for key, step in steps.items()}
    for key in sorted(value, key=lambda key: key.encode("utf-16-be")) if sort else value:
        yield comma + names[key] + b":", path + steps[key], value[key]
        comma = b","


def _elements(value: list[Json], path: str, sort: bool) -> Iterator[_Child]:
    return ((b"," if index else b"", f"{path}[{index}]", item) for index, item in enumerate(value))


_CONTAINERS: dict[type, tuple[bytes, bytes, Callable[[Any, str, bool], Iterator[_Child]]]] = {
    dict: (b"{", b"}", _members),
    list: (b"[", b"]", _elements),
    tuple: (b"[", b"]", _elements),
}


def _leaf(value: Json, path: str) -> bytes:
    write = _LEAVES.get(type(value))
    if write is None:
        raise NotSerialisable(
            path, f"{type(value).__name__} has no JSON form; pass dict, list, str, int, float, bool or None"
        )
    return write(value, path)


def _text(value: str, path: str) -> bytes:
    try:
        return orjson.dumps(value)
    except TypeError:
        raise NotSerialisable(path, "a lone surrogate has no UTF-8 form") from None


def _integer(value: int, path: str) -> bytes:
    if not -_INTEGER_LIMIT < value < _INTEGER_LIMIT:
        raise NotSerialisable(path, _HUGE)
    return str(value).encode()


def _float(value: float, path: str) -> bytes:
    if not math.isfinite(value):
        raise NotSerialisable(path, f"{value} has no JSON form")
    return repr(value).replace("e-0", "e-").encode()


_LEAVES: dict[type, Callable[[Any, str], bytes]] = {
    str: _text,
    float: _float,
    int: _integer,
    bool: lambda value, path: b"true" if value else b"false",
    type(None): lambda value, path: b"null",
}
