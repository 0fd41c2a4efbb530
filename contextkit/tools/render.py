"""What a tool returned, as parts a provider takes.

Takes any value a tool may return, gives neutral parts (text, image, document, native); knows nothing of calls or the log.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from datetime import date, datetime, time
from decimal import Decimal
from enum import Enum
from functools import singledispatch
from pathlib import PurePath
from typing import Any
from uuid import UUID

from contextkit.canonical import Json, canonical
from contextkit.errors import InvalidContent, NotSerialisable, ToolRefusal

NO_OUTPUT = "(no output)"
"""What stands for nothing: providers refuse a text block without a visible character."""

_PARTS: dict[str, tuple[frozenset[str], ...]] = {
    "text": (frozenset({"text"}),),
    "image": (frozenset({"media_type", "data"}), frozenset({"url"})),
    "document": (frozenset({"media_type", "data"}), frozenset({"url"})),
    "native": (frozenset({"wire", "block"}),),
}
"""Type of a part → the keys it has besides."""
_OPTIONAL = {"document": frozenset({"title"})}
"""Type of a part → the keys it may have."""


def render_result(value: object) -> list[Json]:
    """The parts of a result: text as it is, a list of parts as it is, data as JSON in its own order, nothing as `(no output)`.

    Raises `InvalidContent` for bytes and for objects that have no JSON form, saying what to return instead.

    >>> render_result({"pages": 3, "first": None})
    [{'type': 'text', 'text': '{"pages":3,"first":null}'}]
    >>> render_result(None)
    [{'type': 'text', 'text': '(no output)'}]
    """
    try:
        plain = _plain(value)
        parts = _visible(plain) if _is_parts(plain) else [{"type": "text", "text": _text(plain)}]
        canonical(parts)
    except NotSerialisable as error:
        raise InvalidContent(f"a tool's result cannot be sent: {error}") from error
    except RecursionError:
        raise InvalidContent("a tool's result cannot be sent: it is nested too deep, or a circle") from None
    return parts


def render_error(error: BaseException) -> str:
    """The error as the model is told of it: type and message, no traceback; a tool's own words as they are.

    >>> render_error(KeyError("city"))
    "KeyError: 'city'"
    """
    message = str(error).encode("utf-8", "backslashreplace").decode()
    if isinstance(error, ToolRefusal):
        return message
    return f"{type(error).__name__}: {message}" if message else type(error).__name__


@dataclasses.dataclass(frozen=True, slots=True)
class Tried:
    """What came of a call that was made more than once."""

    failures: tuple[BaseException, ...]
    """What went wrong before, in order; kept, since a model learns from it."""
    value: object
    """What the last try gave: a value, or its exception."""


def answer(value: object, is_error: bool = False) -> dict[str, Json]:
    """`content` and `is_error` of a result; an exception is always an error, and earlier tries stand in front.

    >>> answer(ValueError("no such file"))
    {'content': [{'type': 'text', 'text': 'ValueError: no such file'}], 'is_error': True}
    """
    if isinstance(value, Tried):
        last = answer(value.value, is_error)
        tries = [f"Try {number} failed: {render_error(error)}" for number, error in enumerate(value.failures, 1)]
        return {**last, "content": [{"type": "text", "text": "\n".join(tries)}, *last["content"]]}
    if isinstance(value, BaseException):
        return {"content": [{"type": "text", "text": render_error(value)}], "is_error": True}
    return {"content": render_result(value), "is_error": is_error}


def _text(plain: Json) -> str:
    text = plain if isinstance(plain, str) else "" if plain is None else canonical(plain).decode()
    return text if text.strip() else NO_OUTPUT


def _visible(parts: list[Json]) -> list[Json]:
    """The parts without texts that show nothing, which providers refuse."""
    return [part for part in parts if part["type"] != "text" or part["text"].strip()] or [{"type": "text", "text": NO_OUTPUT}]


def _is_parts(plain: Json) -> bool:
    return isinstance(plain, list) and bool(plain) and all(map(_is_part, plain))


def _is_part(item: Json) -> bool:
    """Exactly the form of a part: data that merely has a `type`, or holds no text where a part does, is data."""
    keys = item.keys() if isinstance(item, dict) else set()
    kind = item["type"] if "type" in keys else None
    has_form = isinstance(kind, str) and keys - {"type"} - _OPTIONAL.get(kind, frozenset()) in _PARTS.get(kind, ())
    return has_form and all(isinstance(item[key], dict if key == "block" else str) for key in keys)


@singledispatch
def _plain(value: Any) -> Json:
    """The JSON form of a value a tool returned."""
    is_instance = not isinstance(value, type)
    if is_instance and hasattr(value, "model_dump"):
        return _plain(value.model_dump(mode="json", by_alias=True))
    if is_instance and dataclasses.is_dataclass(value):
        return {field.name: _plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    raise InvalidContent(
        f"a tool returned {type(value).__name__}, which has no JSON form; return text, None, numbers, dicts and lists of these, "
        "a dataclass, a pydantic model, or a list of parts"
    )


@_plain.register(bytes | bytearray | memoryview)
def _(value: bytes) -> Json:
    raise InvalidContent(
        'a tool returned bytes; decode text (value.decode()), return an image as [{"type": "image", "media_type": "image/png", '
        '"data": base64 text}], or write a file and return its path'
    )


@_plain.register(type(None))
@_plain.register(bool)
@_plain.register(int)
@_plain.register(float)
def _(value: Json) -> Json:
    return value


@_plain.register
def _(value: str) -> Json:
    return str.__str__(value)


@_plain.register
def _(value: Enum) -> Json:
    return _plain(value.value)


@_plain.register(datetime | date | time)
def _(value: date) -> Json:
    return value.isoformat()


@_plain.register(Decimal)
@_plain.register(UUID)
@_plain.register(PurePath)
def _(value: object) -> Json:
    return str(value)


@_plain.register(Mapping)
def _(value: Mapping[Any, Any]) -> Json:
    return {_plain(key) if isinstance(key, str | Enum) else key: _plain(item) for key, item in value.items()}


@_plain.register(list | tuple)
def _(value: list[Any]) -> Json:
    return [_plain(item) for item in value]


@_plain.register(set | frozenset)
def _(value: set[Any]) -> Json:
    """Sorted: a set's own order changes with PYTHONHASHSEED."""
    return sorted(map(_plain, value), key=canonical)
