"""Values of the types two more SDKs have for requests: botocore's shapes, and the pydantic models of google-genai.

Gives the JSON of the wire, base64 where the SDK takes bytes: the least each takes, everything it takes, and every
choice of every union."""

from __future__ import annotations

import enum
import re
import types
import typing
from collections.abc import Iterator
from datetime import datetime
from typing import Any

from pydantic import BaseModel

BASE64 = "aGk="
FREE: dict[str, Any] = {
    "b": 2,
    "a": {"data": "not-base_64!", "bytes": "none", "snake_case": [True], "cache_control": None},
}
"""What an author or a model may write where the wire takes any object: it must not be taken for the wire's own fields.
"""
_DEEPEST = 4
"""Levels at which every choice is taken; below, the first."""
_BOTTOM = 8
"""A model that holds itself (Schema) is empty at this level."""

# ---- botocore

_TEXTS = ("text", "s3://bucket/file.pdf", "123456789012")
"""One of these fits every pattern of the service."""


def of_shape(shape: Any, depth: int = 0) -> Iterator[Any]:
    """Values of a shape of botocore's service model."""
    kind = shape.type_name
    if kind == "structure":
        yield from [FREE] if getattr(shape, "is_document_type", False) else _structures(shape, depth + 1)
    elif kind == "list":
        members = [list(of_shape(member, depth + 1)) for member in _alone(shape.member)]
        yield [values[0] for values in members]
        yield from ([value] for values in members for value in values[1:] if depth <= _DEEPEST)
    elif kind == "map":
        yield {"key": next(of_shape(shape.value, depth + 1))}
    elif kind == "string":
        pattern = shape.metadata.get("pattern", ".*")
        yield from shape.enum or [next(text for text in _TEXTS if re.fullmatch(pattern, text))]
    else:
        yield {"blob": BASE64, "boolean": True, "integer": 3, "float": 1.5}[kind]


def _alone(shape: Any) -> list[Any]:
    """A union as one shape for each of its members, so that a list of it holds them all."""
    return [_Only(shape, name) for name in shape.members] if getattr(shape, "is_tagged_union", False) else [shape]


class _Only:
    """A union of which one member is taken."""

    type_name = "structure"
    is_tagged_union = True

    def __init__(self, shape: Any, name: str) -> None:
        self.members = {name: shape.members[name]}


def _structures(shape: Any, depth: int) -> Iterator[Any]:
    if getattr(shape, "is_tagged_union", False):
        for name, member in shape.members.items():
            values = of_shape(member, depth)
            yield from ({name: value} for value in values) if depth <= _DEEPEST else [{name: next(values)}]
        return
    first = {name: next(of_shape(member, depth)) for name, member in shape.members.items()}
    yield first
    if depth <= _DEEPEST:
        yield {name: first[name] for name in shape.required_members} or first
        for name, member in shape.members.items():
            yield from ({**first, name: value} for index, value in enumerate(of_shape(member, depth)) if index)


# ---- google-genai

_PLAIN: dict[Any, Any] = {
    str: "text",
    int: 3,
    float: 1.5,
    bool: True,
    bytes: BASE64,
    Any: FREE,
    datetime: "2026-01-01T00:00:00Z",
}


def of_model(kind: Any, depth: int = 0) -> Iterator[Any]:
    """Values of an annotation of `google.genai.types`; what is optional is there."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        for choice in (choice for choice in arguments if choice is not type(None)):
            yield from of_model(choice, depth)
    elif origin is typing.Literal:
        yield from arguments
    elif origin is list:
        yield [next(of_model(arguments[0], depth + 1))]
    elif origin is dict:
        yield FREE if arguments[1] is Any else {"snake_case": next(of_model(arguments[1], depth + 1))}
    elif isinstance(kind, type) and issubclass(kind, enum.Enum):
        yield from (choice.value for choice in kind)
    elif isinstance(kind, type) and issubclass(kind, BaseModel):
        yield from _models(kind, depth + 1)
    else:
        yield _PLAIN[kind]


def _models(kind: type[BaseModel], depth: int) -> Iterator[Any]:
    fields = {field.alias or name: field.annotation for name, field in kind.model_fields.items() if depth < _BOTTOM}
    first = {name: next(of_model(annotation, depth)) for name, annotation in fields.items()}
    yield first
    for name, annotation in fields.items() if depth <= _DEEPEST else ():
        yield from ({**first, name: value} for index, value in enumerate(of_model(annotation, depth)) if index)


def alone(kind: type[BaseModel]) -> Iterator[tuple[str, Any]]:
    """(field, value) of each field of a model, in all its values."""
    for name, info in kind.model_fields.items():
        yield from ((info.alias or name, value) for value in of_model(info.annotation))
