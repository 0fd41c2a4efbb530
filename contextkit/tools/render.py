"""What a tool returned, as parts a provider takes.

Takes any value a tool may return, gives neutral parts (text, image, document, native); knows nothing of calls or the
log.
"""

from __future__ import annotations

import base64
import dataclasses
import inspect
import math
from collections import UserString
from collections.abc import Callable, Iterable, Iterator, Mapping, MappingView, Sequence
from collections.abc import Set as AbstractSet
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from pathlib import PurePath
from typing import Any, cast
from uuid import UUID

from contextkit.canonical import Json, canonical
from contextkit.errors import InvalidContent, ToolRefusal

NO_OUTPUT = "(no output)"
"""What stands for nothing: providers refuse a text block without a visible character."""
MAX_DEPTH = 200
"""Levels of nesting of a result that is read."""
MAX_ITEMS = 10_000
"""Items read from the iterators of one result: some have no end."""
_HUGE = 10**308
"""From here on `canonical` takes no integer."""
_MAX_GROUPS, _MAX_MEMBERS = 3, 20
"""Levels of exception groups, and members of each, that the model is told of."""

_PARTS: dict[str, tuple[frozenset[str], ...]] = {
    "text": (frozenset({"text"}),),
    "image": (frozenset({"media_type", "data"}), frozenset({"url"})),
    "document": (frozenset({"media_type", "data"}), frozenset({"url"})),
    "native": (frozenset({"wire", "block"}),),
}
"""Type of a part → the keys it has besides."""
_OPTIONAL = {"document": frozenset({"title"})}
"""Type of a part → the keys it may have."""


def render_result(
    value: object, binary: Callable[[bytes], Json] | None = None, *, sort_keys: bool = False
) -> list[Json]:
    """The parts of a result: text as it is, a list of parts as it is, data as JSON in its own order or with sorted keys,
    nothing as `(no output)`.

    What JSON cannot carry is written as text: NaN and infinities by name, lone surrogates escaped (`\\udc80`), bytes as
    UTF-8 text where they are text. `binary` gives the part for bytes that are no text; without it, and for bytes inside
    data, a text gives their size. Of an iterator at most `MAX_ITEMS` items are read.

    Raises `InvalidContent` for objects without a JSON form, for circles and for what is nested deeper than `MAX_DEPTH`
    levels. An exception that the value's own code raises (a generator that fails) passes through.

    >>> render_result({"pages": 3, "first": None})
    [{'type': 'text', 'text': '{"pages":3,"first":null}'}]
    >>> render_result(None), render_result(float("nan"))
    ([{'type': 'text', 'text': '(no output)'}], [{'type': 'text', 'text': 'NaN'}])
    """
    if isinstance(value, bytes | bytearray | memoryview):
        data = bytes(value)
        text = _decoded(data)
        if text is None:
            return [_described(data) if binary is None else binary(data)]
        value = text
    plain = plain_data(_with_base64(value) if isinstance(value, list | tuple) else value)
    return _visible(plain) if _is_parts(plain) else [{"type": "text", "text": _text(plain, sort_keys)}]


def render_error(error: BaseException) -> str:
    """The error as the model is told of it: type and message, no traceback.

    A tool's own words as they are, a group with its members.

    >>> render_error(KeyError("city"))
    "KeyError: 'city'"
    """
    return _error_text(error, 0)


def _error_text(error: BaseException, level: int) -> str:
    try:
        message = escaped(str(error))
    except Exception:  # noqa: BLE001 - an exception's own __str__ may fail
        message = ""
    if isinstance(error, ToolRefusal) and message.strip():
        return message
    name = escaped(type(error).__name__)
    text = f"{name}: {message}" if message else name
    if isinstance(error, BaseExceptionGroup) and level < _MAX_GROUPS:
        members = [f"- {_error_text(member, level + 1)}" for member in error.exceptions[:_MAX_MEMBERS]]
        text = "\n".join([text, *members])
    return text


@dataclasses.dataclass(frozen=True, slots=True)
class Tried:
    """What came of a call that was made more than once."""

    failures: tuple[BaseException, ...]
    """What went wrong before, in order; kept, since a model learns from it."""
    value: object
    """What the last try gave: a value, or its exception."""


def answer(
    value: object,
    is_error: bool = False,
    binary: Callable[[bytes], Json] | None = None,
    *,
    sort_keys: bool = False,
) -> dict[str, Json]:
    """`content` and `is_error` of a result; never raises for what a tool returned.

    An exception is always an error, and earlier tries stand in front. A value that cannot be rendered (`render_result`)
    is an error too, whose text says what happened and that the call was made.

    >>> answer(ValueError("no such file"))
    {'content': [{'type': 'text', 'text': 'ValueError: no such file'}], 'is_error': True}
    """
    kind = type(value)  # `isinstance` asks the value's own `__class__`, which may raise
    if issubclass(kind, Tried):
        tried = cast("Tried", value)
        last = answer(tried.value, is_error, binary, sort_keys=sort_keys)
        tries = [f"Try {number} failed: {render_error(error)}" for number, error in enumerate(tried.failures, 1)]
        return {**last, "content": [{"type": "text", "text": "\n".join(tries)}, *last["content"]]}
    if issubclass(kind, BaseException):
        return {"content": [{"type": "text", "text": render_error(cast("BaseException", value))}], "is_error": True}
    try:
        return {"content": render_result(value, binary, sort_keys=sort_keys), "is_error": bool(is_error)}
    except InvalidContent as fault:
        return unrenderable(fault)
    except RecursionError:
        return unrenderable(InvalidContent("it is nested too deep, or a circle"))
    except Exception as fault:  # noqa: BLE001 - the value's own code: an iterator, a property, a serializer
        return unrenderable(fault)


def unrenderable(fault: Exception) -> dict[str, Json]:
    """The answer to a call that was made and whose result cannot be sent."""
    why = escaped(str(fault)) if isinstance(fault, InvalidContent) else f"reading it failed with {render_error(fault)}"
    text = f"The tool ran and its result cannot be sent: {why}"
    return {"content": [{"type": "text", "text": text}], "is_error": True}


def _text(plain: Json, sort_keys: bool) -> str:
    text = plain if isinstance(plain, str) else "" if plain is None else canonical(plain, sort=sort_keys).decode()
    return text if text.strip() else NO_OUTPUT


def _visible(parts: list[Json]) -> list[Json]:
    """The parts without texts that show nothing, which providers refuse."""
    return [part for part in parts if part["type"] != "text" or part["text"].strip()] or [
        {"type": "text", "text": NO_OUTPUT}
    ]


def _with_base64(items: Sequence[Any]) -> list[Any]:
    """A list of parts whose images and documents have bytes for data, with base64 in their place."""
    return [
        {**item, "data": base64.b64encode(item["data"]).decode()}
        if isinstance(item, dict)
        and item.get("type") in ("image", "document")
        and isinstance(item.get("data"), bytes | bytearray)
        else item
        for item in items
    ]


def _is_parts(plain: Json) -> bool:
    return isinstance(plain, list) and bool(plain) and all(map(_is_part, plain))


def _is_part(item: Json) -> bool:
    """Exactly the form of a part: data that merely has a `type`, or holds no text where a part does, is data."""
    keys = item.keys() if isinstance(item, dict) else set()
    kind = item["type"] if "type" in keys else None
    has_form = isinstance(kind, str) and keys - {"type"} - _OPTIONAL.get(kind, frozenset()) in _PARTS.get(kind, ())
    return has_form and all(isinstance(item[key], dict if key == "block" else str) for key in keys)


def escaped(text: str) -> str:
    """Text that UTF-8 can carry: lone surrogates as backslash escapes, as Python prints them.

    >>> escaped("caf\\udce9")
    'caf\\\\udce9'
    """
    plain = str.__str__(text)
    return plain if plain.isascii() else plain.encode("utf-8", "backslashreplace").decode()


def plain_data(value: object) -> Json:
    """The JSON form of a value a tool returned: dicts, lists, texts, finite numbers, booleans and None, in their own
    order.

    Raises what `render_result` raises.
    """
    return _Reader().read(value, 0)


class _Reader:
    """Reads one value; counts the items it takes from iterators, which may have no end."""

    __slots__ = ("_n_left",)

    def __init__(self) -> None:
        self._n_left = MAX_ITEMS

    def read(self, value: Any, level: int) -> Json:
        """`value` as JSON data, found `level` levels below the result."""
        if level > MAX_DEPTH:
            raise InvalidContent(f"it is nested deeper than {MAX_DEPTH} levels, or a circle")
        for kinds, form in _FORMS:
            if isinstance(value, kinds):
                return form(self, value, level)
        return self._read_object(value, level)

    def members(self, value: Mapping[Any, Any], level: int) -> Json:
        """A mapping with texts as keys; a list of pairs where two keys have the same text."""
        pairs = [(_key(key), self.read(item, level + 1)) for key, item in value.items()]
        members = dict(pairs)
        return members if len(members) == len(pairs) else [list(pair) for pair in pairs]

    def items(self, value: Iterable[Any], level: int) -> list[Json]:
        """The items of a list."""
        return [self.read(item, level + 1) for item in value]

    def iterated(self, value: Iterable[Any], level: int) -> list[Json]:
        """What an iterator, a range or a view gives, and a remark where there is more than is read."""
        items: list[Json] = []
        for item in value:
            if self._n_left <= 0:
                items.append(f"(only the first {MAX_ITEMS:,} items were read)")
                break
            self._n_left -= 1
            items.append(self.read(item, level + 1))
        return items

    def _read_object(self, value: Any, level: int) -> Json:
        """Objects known by what they offer: pydantic models, dataclasses, attrs classes, arrays and their scalars."""
        kind = type(value)
        if isinstance(value, type):
            raise _formless(value)
        if callable(getattr(kind, "model_dump", None)):
            return self.read(_dumped(value), level + 1)
        if dataclasses.is_dataclass(value):
            fields = [field.name for field in dataclasses.fields(value)]
            return self.members({name: getattr(value, name) for name in fields}, level)
        if isinstance(attributes := getattr(kind, "__attrs_attrs__", None), tuple):
            return self.members({one.name: getattr(value, one.name) for one in attributes}, level)
        if hasattr(kind, "dtype") and callable(getattr(kind, "tolist", None)):
            return self._read_array(value, level)
        raise _formless(value)

    def _read_array(self, value: Any, level: int) -> Json:
        """A numpy array or scalar, a tensor, a series: as Python's own numbers and lists."""
        native = value.tolist()
        if type(native) is type(value):  # some scalars (longdouble) have no Python form
            return escaped(str(value))
        return self.read(native, level + 1)


def _dumped(model: Any) -> Any:
    """A pydantic model as data.

    In Python's types where its own JSON form fails (bytes that are no text, lone surrogates).
    """
    try:
        return model.model_dump(mode="json", by_alias=True)
    except ValueError:
        return model.model_dump(by_alias=True)


def _formless(value: object) -> InvalidContent:
    if inspect.iscoroutine(value):
        value.close()  # nobody will await it
    return InvalidContent(
        f"it is of type {escaped(type(value).__name__)}, which has no JSON form; the tool should return text, None, numbers, dicts and "
        "lists of these, a dataclass, a pydantic model, bytes, or a list of parts"
    )


def _integer(value: int) -> Json:
    """The integer.

    From 309 digits on, where readers that use doubles take it for infinity, as text, in base 16 where it is very long.
    """
    if -_HUGE < value < _HUGE:
        return int.__pos__(value)
    try:
        return int.__repr__(value)
    except ValueError:  # sys.set_int_max_str_digits
        return hex(value)


def _number(value: float) -> Json:
    """The number; NaN and the infinities as text, by the names JavaScript and Python's json give them."""
    number = float.__pos__(value)
    if math.isfinite(number):
        return number
    return "NaN" if math.isnan(number) else "Infinity" if number > 0 else "-Infinity"


def _key(key: object) -> str:
    """A key of a mapping as text, as json.dumps writes it.

    Keys of other types by their JSON form, or as Python prints them.
    """
    if isinstance(key, str):
        return escaped(key.value if isinstance(key, Enum) else key)
    plain = plain_data(key)
    return plain if isinstance(plain, str) else canonical(plain).decode()


def _enum(reader: _Reader, member: Enum, level: int) -> Json:
    """The member's value; its name where the value has no JSON form."""
    try:
        return reader.read(member.value, level + 1)
    except InvalidContent:
        return escaped(member.name)


def _decoded(data: bytes) -> str | None:
    """Bytes as text; None where they are none: no UTF-8, or with a NUL, which no text has."""
    try:
        return None if b"\0" in data else data.decode()
    except UnicodeDecodeError:
        return None


def _described(data: bytes) -> Json:
    return {"type": "text", "text": _size_of(data)}


def _size_of(data: bytes) -> str:
    return f"({len(data):,} bytes of binary data)"


def _raw(data: bytes) -> str:
    """Bytes inside data: as text, or their size."""
    text = _decoded(data)
    return _size_of(data) if text is None else text


def _sorted(reader: _Reader, value: Iterable[Any], level: int) -> Json:
    """The items of a set, sorted: a set's own order changes with PYTHONHASHSEED."""
    return sorted(reader.items(value, level), key=canonical)


_Form = Callable[[_Reader, Any, int], Json]
_FORMS: tuple[tuple[Any, _Form], ...] = (
    ((type(None), bool), lambda reader, value, level: value),
    (Enum, _enum),
    (str, lambda reader, value, level: escaped(value)),
    (int, lambda reader, value, level: _integer(value)),
    (float, lambda reader, value, level: _number(value)),
    ((bytes, bytearray, memoryview), lambda reader, value, level: _raw(bytes(value))),
    ((datetime, date, time), lambda reader, value, level: value.isoformat()),
    (
        (Decimal, UUID, PurePath, Fraction, complex, timedelta, UserString),
        lambda reader, value, level: escaped(str(value)),
    ),
    (BaseException, lambda reader, value, level: render_error(value)),
    ((list, tuple), _Reader.items),
    (Mapping, _Reader.members),
    (MappingView, _Reader.iterated),
    (AbstractSet, _sorted),
    ((Sequence, Iterator), _Reader.iterated),
)
"""Types → how a value of them is read; the first that fits counts."""
