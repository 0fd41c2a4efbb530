"""One value, one byte string: compact UTF-8 JSON that comes out the same on every machine and every road.

Takes JSON values (dict, list, tuple, str, int, float, bool, None), gives bytes; and back. Knows nothing of prompts.

Order is kept by default: the order of a schema's properties, or of arguments a model wrote, is meaning. `sort=True` gives the
one order of RFC 8785 (by UTF-16 code unit) to what we compose ourselves. Numbers keep their JSON type: `1` stays an integer of any
size, `1.0` stays a float, and a float prints its shortest form that reads back to itself (`1e-7`).
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from typing import Any

import orjson

from contextkit.errors import NotSerialisable

Json = Any
"""A JSON value: dict with string keys, list or tuple, str, int, float, bool, None."""

_SMALL = 2**63
"""orjson writes integers below this; larger ones are written by us, digit for digit."""
_LONG_NUMBER = re.compile(rb"\d{19}")
"""Only a number this long can lose digits in orjson's reader."""


def canonical(value: Json, *, sort: bool = False) -> bytes:
    """The bytes of `value`: compact, UTF-8, no NaN, no key twice.

    Raises `NotSerialisable` with the path of the first value that has no single JSON form.

    >>> canonical({"b": 1e-7, "a": [10**20, "é"]})
    b'{"b":1e-7,"a":[100000000000000000000,"\\xc3\\xa9"]}'
    >>> canonical({"b": 1, "a": 2}, sort=True)
    b'{"a":2,"b":1}'
    """
    has_long_integers = _check(value, "$")
    if sort:
        value = _sorted(value)
    return _write(value) if has_long_integers else orjson.dumps(value)


def parse(data: bytes | str) -> Json:
    """The value of JSON text, integers exact at any size.

    Raises `NotSerialisable` for what is not JSON (NaN, lone surrogates, a torn text).

    >>> parse(b'{"a":100000000000000000000}')
    {'a': 100000000000000000000}
    """
    raw = data.encode("utf-8", "surrogatepass") if isinstance(data, str) else data
    try:
        value = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        raise NotSerialisable(f"line {error.lineno} column {error.colno}", f"not JSON ({error.msg})") from None
    return json.loads(raw) if _LONG_NUMBER.search(raw) else value


def _check(value: Json, path: str) -> bool:
    """Whether an integer beyond 64 bits is inside; raises at the first value that JSON cannot carry."""
    check = _CHECKS.get(type(value))
    if check is None:
        raise NotSerialisable(path, f"{type(value).__name__} has no JSON form; pass dict, list, str, int, float, bool or None")
    return check(value, path)


def _check_text(value: str, path: str) -> bool:
    if not value.isascii():
        try:
            value.encode("utf-8")
        except UnicodeEncodeError:
            raise NotSerialisable(path, "a lone surrogate has no UTF-8 form") from None
    return False


def _check_float(value: float, path: str) -> bool:
    if not math.isfinite(value):
        raise NotSerialisable(path, f"{value} has no JSON form")
    return False


def _check_dict(value: dict[str, Json], path: str) -> bool:
    found = False
    for key, item in value.items():
        if type(key) is not str:
            raise NotSerialisable(path, f"a key of type {type(key).__name__} has no JSON form, keys are strings;")
        _check_text(key, f"{path}.<key>")
        found |= _check(item, f"{path}.{key}")
    return found


def _check_list(value: list[Json], path: str) -> bool:
    found = False
    for index, item in enumerate(value):
        found |= _check(item, f"{path}[{index}]")
    return found


_CHECKS: dict[type, Callable[[Any, str], bool]] = {
    dict: _check_dict,
    list: _check_list,
    tuple: _check_list,
    str: _check_text,
    float: _check_float,
    int: lambda value, path: not -_SMALL <= value < _SMALL,
    bool: lambda value, path: False,
    type(None): lambda value, path: False,
}


def _sorted(value: Json) -> Json:
    if isinstance(value, dict):
        return {key: _sorted(value[key]) for key in sorted(value, key=lambda key: key.encode("utf-16-be"))}
    return [_sorted(item) for item in value] if isinstance(value, list | tuple) else value


def _write(value: Json) -> bytes:
    """What orjson would write, with integers of any size."""
    if isinstance(value, dict):
        return b"{" + b",".join(orjson.dumps(key) + b":" + _write(item) for key, item in value.items()) + b"}"
    if isinstance(value, list | tuple):
        return b"[" + b",".join(map(_write, value)) + b"]"
    return str(value).encode() if type(value) is int else orjson.dumps(value)
