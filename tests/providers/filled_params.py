"""Values of the SDKs' request types: the least each takes, everything it takes, and every choice of every union in it.

Walks the annotations of a `TypedDict`, as `strict.py` does, and gives JSON that `strict.faults` has nothing to say
about."""

from __future__ import annotations

import collections.abc
import os
import types
import typing
from collections.abc import Iterator
from typing import Any

import typing_extensions
from openai._types import SequenceNotStr

from tests.providers.strict import fields_of

_LISTS = (list, collections.abc.Iterable, collections.abc.Sequence, SequenceNotStr)
_PLAIN: dict[Any, Any] = {
    str: "text",
    int: 3,
    float: 1.5,
    bool: True,
    object: {"b": None, "a": 1},
    Any: {"a": 1},
    type(None): None,
}
_FILES = (typing.IO, os.PathLike)
"""What the SDKs take in place of data, and read before they send."""
_DEEPEST = 7
"""Types may hold themselves: a list that deep is left empty."""


def filled(kind: Any, depth: int = 0) -> Any:
    """One value of `kind`: of a union the first choice that is not null."""
    return next(iter(variants(kind, depth)))


def variants(kind: Any, depth: int = 0) -> Iterator[Any]:
    """Values of `kind` in which every choice of every union occurs at least once."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Annotated, typing_extensions.Required, typing_extensions.NotRequired):
        yield from variants(arguments[0], depth)
    elif origin in (typing.Union, types.UnionType):
        for choice in sorted(_choices(kind), key=lambda choice: choice is type(None)):
            yield from variants(choice, depth)
    elif origin is typing.Literal:
        yield from arguments
    elif origin in _LISTS:
        yield [] if depth > _DEEPEST else [filled(choice, depth + 1) for choice in _choices(arguments[0])]
        for choice in _choices(arguments[0]) if depth == 1 else ():
            yield from ([value] for index, value in enumerate(variants(choice, depth)) if index)
    elif origin in (dict, collections.abc.Mapping):
        yield {"key": filled(arguments[1], depth + 1)}
    elif typing_extensions.is_typeddict(kind):
        yield from _dicts(kind, depth + 1)
    else:
        yield _PLAIN[kind]


def _choices(kind: Any) -> tuple[Any, ...]:
    is_union = typing.get_origin(kind) in (typing.Union, types.UnionType)
    return (
        tuple(choice for choice in typing.get_args(kind) if (typing.get_origin(choice) or choice) not in _FILES)
        if is_union
        else (kind,)
    )


def _dicts(kind: Any, depth: int) -> Iterator[Any]:
    """All fields, then the required ones alone, then each other choice of each field in turn."""
    fields = {name: hint for name, (hint, _) in fields_of(kind).items() if name != "extra_items"}
    first = {name: filled(hint, depth) for name, hint in fields.items()}
    yield first
    if depth > 2:
        return
    yield {name: first[name] for name, (_, is_required) in fields_of(kind).items() if is_required}
    for name, hint in fields.items():
        for index, value in enumerate(variants(hint, depth)):
            if index:
                yield {**first, name: value}
