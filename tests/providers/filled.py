"""An instance of any of the SDK's response types with every field set, its helper fields' values included.

Walks the annotations of a pydantic model, gives the JSON a server would send.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel

_PLAIN: dict[Any, Any] = {
    str: "text",
    int: 3,
    float: 1.5,
    bool: True,
    object: {"b": None, "a": 1},
    Any: {"a": 1},
    type(None): None,
}


def filled(kind: Any) -> Any:
    """One value of `kind`: of a union the first choice that is not null."""
    return next(iter(variants(kind)))


def variants(kind: Any) -> Iterator[Any]:
    """Values of `kind` in which every choice of every union occurs at least once."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is typing.Annotated:
        yield from variants(arguments[0])
    elif origin in (typing.Union, types.UnionType):
        for choice in sorted(arguments, key=lambda choice: choice is type(None)):
            yield from variants(choice)
    elif origin is typing.Literal:
        yield from arguments
    elif origin is list:
        yield list(variants(arguments[0]))
    elif origin is dict:
        yield {"key": filled(arguments[1])}
    elif isinstance(kind, type) and issubclass(kind, BaseModel):
        yield from _models(kind)
    else:
        yield _PLAIN[kind]


def _models(kind: type[BaseModel]) -> Iterator[Any]:
    """The first choice everywhere, then each other choice of each field in turn."""
    fields = {field.alias or name: field.annotation for name, field in kind.model_fields.items()}
    first = {name: filled(annotation) for name, annotation in fields.items()}
    yield first
    for name, annotation in fields.items():
        for index, value in enumerate(variants(annotation)):
            if index:
                yield {**first, name: value}
