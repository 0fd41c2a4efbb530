"""Whether arguments fit a schema somebody wrote by hand.

Takes a JSON Schema and what a model wrote; gives the first place where it does not fit, in words for the model. Looks
at what decides whether a call can be made (types, what is required, what is listed) and passes over what it does not
know (`$ref`, `anyOf`, formats): nothing that fits is ever refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import chain
from typing import Any

from contextkit.canonical import Json

_TYPES: Mapping[str, Callable[[Json], bool]] = {
    "object": lambda value: isinstance(value, Mapping),
    "array": lambda value: isinstance(value, list | tuple),
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
    "null": lambda value: value is None,
    "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
    "integer": lambda value: (
        value.is_integer() if isinstance(value, float) else isinstance(value, int) and not isinstance(value, bool)
    ),
}
_WORDS = {
    "object": "a JSON object",
    "array": "a list",
    "string": "text",
    "boolean": "true or false",
    "null": "null",
    "number": "a number",
    "integer": "an integer",
}
"""Type → as a model is told of it."""


def misfit(schema: Json, value: Json, path: str = "") -> str | None:
    """The first place where `value` does not fit, None where there is none.

    >>> schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    >>> misfit(schema, {"n": "many"}), misfit(schema, {}), misfit(schema, {"n": 2.0})
    ('n: must be an integer, not text', 'n: is required and was not given', None)
    """
    return next(_misfits(schema, value, path), None)


def _misfits(schema: Json, value: Json, path: str) -> Iterator[str]:
    if not isinstance(schema, Mapping) or "$ref" in schema or (schema.get("nullable") is True and value is None):
        return iter(())
    return chain.from_iterable(
        check(schema[word], value, path, schema) for word, check in _CHECKS.items() if word in schema
    )


def _type(given: Json, value: Json, path: str, schema: Mapping[str, Json]) -> Iterator[str]:
    names = [given] if isinstance(given, str) else given
    if (
        isinstance(names, list)
        and all(name in _TYPES for name in names)
        and not any(_TYPES[name](value) for name in names)
    ):
        yield f"{_at(path)}: must be {' or '.join(_WORDS[name] for name in names)}, not {_called(value)}"


def _enum(given: Json, value: Json, path: str, schema: Mapping[str, Json]) -> Iterator[str]:
    if isinstance(given, list) and not any(_same(value, one) for one in given):
        yield f"{_at(path)}: must be one of {', '.join(map(repr, given))}"


def _required(given: Json, value: Json, path: str, schema: Mapping[str, Json]) -> Iterator[str]:
    if isinstance(given, list) and isinstance(value, Mapping):
        yield from (f"{_at(path, name)}: is required and was not given" for name in given if name not in value)


def _properties(given: Json, value: Json, path: str, schema: Mapping[str, Json]) -> Iterator[str]:
    if isinstance(given, Mapping) and isinstance(value, Mapping):
        for name in given:
            if name in value:
                yield from _misfits(given[name], value[name], _at(path, name))


def _additional(given: Json, value: Json, path: str, schema: Mapping[str, Json]) -> Iterator[str]:
    known = schema.get("properties", {})
    if (
        given is False
        and "patternProperties" not in schema
        and isinstance(value, Mapping)
        and isinstance(known, Mapping)
    ):
        yield from (f"{_at(path, name)}: is not a parameter of this tool" for name in value if name not in known)


def _items(given: Json, value: Json, path: str, schema: Mapping[str, Json]) -> Iterator[str]:
    if isinstance(value, list | tuple) and "prefixItems" not in schema:
        for index, item in enumerate(value):
            yield from _misfits(given, item, f"{path}[{index}]")


_CHECKS: Mapping[str, Callable[[Any, Json, str, Mapping[str, Json]], Iterator[str]]] = {
    "type": _type,
    "enum": _enum,
    "required": _required,
    "properties": _properties,
    "additionalProperties": _additional,
    "items": _items,
}


def _called(value: Json) -> str:
    return next((_WORDS[name] for name, holds in _TYPES.items() if holds(value)), type(value).__name__)


def _at(path: str, name: str = "") -> str:
    """Where something stands, as the arguments of a function are named; the whole of them, where nothing is named."""
    return ".".join(part for part in (path, name) if part) or "arguments"


def _same(one: Json, other: Json) -> bool:
    return bool(one == other) and isinstance(one, bool) == isinstance(other, bool)
