"""What a JSON value must look like, as a tree: fields, those that must be there, and objects that name exactly one
thing.

Takes a shape and a value, gives the places that do not fit; knows no provider.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from contextkit.canonical import Json
from contextkit.server.refusals.refusal import Kind

Fields = Mapping[str, "Kind | Shape | tuple[Shape]"]
"""Field → what it holds; a tuple of one for a list of such objects."""


@dataclass(frozen=True, slots=True)
class Shape:
    """An object."""

    fields: Fields
    """All there are."""
    required: str = ""
    """Fields that must be there, divided by blanks."""
    one_of: str = ""
    """Fields of which exactly one must be there."""


def faults(
    value: Json, shape: Kind | Shape | tuple[Shape], path: str, open_fields: frozenset[str] = frozenset()
) -> Iterator[tuple[str, str]]:
    """(where, what is expected there) of everything that does not fit.

    A field nobody knows too, but in the objects at `open_fields`.

    >>> from contextkit.server.refusals.refusal import TEXT
    >>> list(faults({"b": 1}, Shape({"a": TEXT}, required="a"), "$"))
    [('$.b', 'no such field'), ('$.a', 'a value')]
    """
    if isinstance(shape, Kind):
        if not shape.holds(value):
            yield path, shape.words
    elif isinstance(shape, tuple):
        if not isinstance(value, list):
            yield path, "an array"
        for index, item in enumerate(value if isinstance(value, list) else ()):
            yield from faults(item, shape[0], f"{path}[{index}]", open_fields)
    else:
        yield from _object(value, shape, path, open_fields)


def _object(value: Json, shape: Shape, path: str, open_fields: frozenset[str]) -> Iterator[tuple[str, str]]:
    if not isinstance(value, dict):
        yield path, "an object"
        return
    for name, item in value.items():
        if name in shape.fields:
            yield from faults(item, shape.fields[name], f"{path}.{name}", open_fields)
        elif path not in open_fields:
            yield f"{path}.{name}", "no such field"
    yield from ((f"{path}.{name}", "a value") for name in shape.required.split() if name not in value)
    if shape.one_of and sum(name in value for name in shape.one_of.split()) != 1:
        yield path, f"exactly one of {', '.join(shape.one_of.split())}"
