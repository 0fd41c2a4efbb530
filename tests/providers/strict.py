"""The SDKs' request types as an oracle: does a JSON body fit one, with no key too many?

Walks the annotations of a `TypedDict` (`MessageCreateParams`, `CompletionCreateParams`, `ResponseCreateParams`) beside
a JSON value. An iterable must be a list, at every depth; an unknown key is a fault, as is a missing required one."""

from __future__ import annotations

import collections.abc
import types
import typing
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

import typing_extensions
from openai._types import SequenceNotStr

_UNIONS = (typing.Union, types.UnionType)
_LISTS = (list, collections.abc.Iterable, collections.abc.Sequence, collections.abc.Collection, SequenceNotStr)
_MAPPINGS = (dict, collections.abc.Mapping)
_PLAIN: dict[Any, Callable[[Any], bool]] = {
    str: lambda value: isinstance(value, str),
    bool: lambda value: isinstance(value, bool),
    int: lambda value: isinstance(value, int) and not isinstance(value, bool),
    float: lambda value: isinstance(value, int | float) and not isinstance(value, bool),
    type(None): lambda value: value is None,
    object: lambda value: True,
    Any: lambda value: True,
}


def faults(kind: Any, value: Any, path: str = "$") -> list[str]:
    """Where `value` is not of `kind`; empty when it is."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Annotated, typing_extensions.Required, typing_extensions.NotRequired):
        return faults(arguments[0], value, path)
    if origin in _UNIONS:
        return _closest([faults(choice, value, path) for choice in _likely(arguments, value)])
    if origin is typing.Literal:
        return (
            []
            if any(type(value) is type(choice) and value == choice for choice in arguments)
            else [f"{path}: {value!r} not in {arguments}"]
        )
    if origin in _LISTS:
        return _list_faults(arguments[0], value, path)
    if origin in _MAPPINGS:
        return _mapping_faults(arguments[1], value, path)
    if typing_extensions.is_typeddict(kind):
        return _dict_faults(kind, value, path)
    fits = _PLAIN.get(kind)
    return (
        []
        if fits is not None and fits(value)
        else [f"{path}: {type(value).__name__} is no {getattr(kind, '__name__', kind)}"]
    )


def _likely(choices: tuple[Any, ...], value: Any) -> Iterable[Any]:
    """Choices that do not say another `type` than the value does; all, where none is left."""
    kind = value.get("type") if isinstance(value, dict) else None
    return (
        [choice for choice in choices if kind in (_types(choice) or (kind,))] or choices
        if isinstance(kind, str)
        else choices
    )


@cache
def _types(choice: Any) -> tuple[Any, ...]:
    """What a TypedDict must say as its `type`; empty where it says none."""
    hint = (
        fields_of(choice)["type"][0] if typing_extensions.is_typeddict(choice) and "type" in fields_of(choice) else None
    )
    while hint is not None and typing.get_origin(hint) is not typing.Literal:
        hint = next(iter(typing.get_args(hint)), None)
    return typing.get_args(hint)


def _closest(choices: list[list[str]]) -> list[str]:
    """The fault of the choice that went furthest before it failed."""
    return [] if [] in choices else max(choices, key=lambda found: (found[0].count("."), -len(found)))


def _list_faults(kind: Any, value: Any, path: str) -> list[str]:
    if not isinstance(value, list):
        return [f"{path}: {type(value).__name__} is no list"]
    return [fault for index, item in enumerate(value) for fault in faults(kind, item, f"{path}.{index}")]


def _mapping_faults(kind: Any, value: Any, path: str) -> list[str]:
    if not isinstance(value, dict):
        return [f"{path}: {type(value).__name__} is no object"]
    return [fault for key, item in value.items() for fault in faults(kind, item, f"{path}.{key}")]


def _dict_faults(kind: Any, value: Any, path: str) -> list[str]:
    if not isinstance(value, dict):
        return [f"{path}: {type(value).__name__} is no object"]
    fields = fields_of(kind)
    found = [f"{path}.{key}: no such key in {kind.__name__}" for key in value if key not in fields]
    found += [
        f"{path}.{key}: missing in {kind.__name__}"
        for key, (_, is_required) in fields.items()
        if is_required and key not in value
    ]
    return found + [
        fault for key, item in value.items() if key in fields for fault in faults(fields[key][0], item, f"{path}.{key}")
    ]


@cache
def fields_of(kind: Any) -> dict[str, tuple[Any, bool]]:
    """Key → its annotation, and whether it must be there."""
    hints = typing_extensions.get_type_hints(kind, include_extras=True)
    required = {True: typing_extensions.NotRequired, False: typing_extensions.Required}[kind.__total__]
    return {key: (hint, (typing.get_origin(hint) is required) != kind.__total__) for key, hint in hints.items()}
