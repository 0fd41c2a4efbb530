"""What a refusal is, and the small words the tables of refusals are written in.

Takes parsed bodies, gives the first thing that is wrong with them; knows no provider.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain

from contextkit.canonical import Json
from contextkit.models import Model
from contextkit.providers.provider import Parsed
from contextkit.server.notices import Notice
from contextkit.server.signatures import Place


@dataclass(frozen=True, slots=True)
class Refusal:
    """One error a provider would answer with."""

    status: int
    """HTTP status: it decides which exception the SDK raises."""
    type: str
    """The provider's word for the kind of error."""
    message: str
    """The provider's words; no prompt text."""
    param: str | None = None
    """The field that is wrong, where the provider names it apart."""
    code: str | None = None
    """A finer word than `type`, where the provider has one."""
    retry_after: float | None = None
    """Seconds the client is asked to wait."""


@dataclass(frozen=True, slots=True)
class Sent:
    """A request before anybody understood it."""

    headers: Mapping[str, str]
    """Lower-case names; never kept."""
    body: Mapping[str, Json]
    """The JSON object, what the server keeps of its conversation included."""
    said: Mapping[str, Json] | None = None
    """As it came, where `body` holds more."""
    is_strict: bool = False
    """Whether the server refuses fields that the endpoint does not know."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A request that was understood."""

    sent: Sent
    """As it came."""
    parsed: Parsed
    """What the cache sees of it."""
    model: Model
    """The row of the model asked."""
    places: tuple[Place, ...]
    """Where its thinking stands; empty for models that do not look."""
    continues: bool
    """Whether it ends with the words of a turn this server paused."""
    dropped: tuple[int, ...] = ()
    """Which of its thinking was left out, since it no longer holds."""
    notices: tuple[Notice, ...] = ()
    """What of it was accepted on an assumption."""


MOST_LEVELS = 254
"""Levels of nesting that are read; what a provider takes is less and not published."""


def is_nested_deeper(value: Json, levels: int) -> bool:
    """Whether objects and arrays stand in one another more than `levels` deep.

    >>> is_nested_deeper([[1]], 2), is_nested_deeper([[[]]], 2)
    (False, True)
    """
    layer = [value]
    for _ in range(levels):
        layer = [
            item
            for held in layer
            if isinstance(held, dict | list)
            for item in (held.values() if isinstance(held, dict) else held)
        ]
        if not layer:
            return False
    return any(isinstance(held, dict | list) for held in layer)


Early = Callable[[Sent], Iterator[Refusal]]
"""A check that needs no understanding."""
Late = Callable[[Asked], Iterator[Refusal]]
"""A check of a request whose shape is known to be right."""


def first(found: Iterable[Iterator[Refusal]]) -> Refusal | None:
    """The first refusal of several checks, run one after another and only as far as needed."""
    return next(chain.from_iterable(found), None)


@dataclass(frozen=True, slots=True)
class Kind:
    """What a field must be."""

    words: str
    """As an error message says it."""
    holds: Callable[[Json], bool]
    """Whether a value is one."""


def one_of(*words: str) -> Kind:
    """One of a few strings."""
    return Kind(" or ".join(f"'{word}'" for word in words), lambda value: isinstance(value, str) and value in words)


def _is_number(value: Json) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


TEXT = Kind("a valid string", lambda value: isinstance(value, str))
FLAG = Kind("a valid boolean", lambda value: isinstance(value, bool))
WHOLE = Kind("a valid integer", lambda value: isinstance(value, int) and not isinstance(value, bool))
NUMBER = Kind("a valid number", _is_number)
OBJECT = Kind("an object", lambda value: isinstance(value, dict))
ARRAY = Kind("a valid array", lambda value: isinstance(value, list))
TEXTS = Kind(
    "an array of strings", lambda value: isinstance(value, list) and all(isinstance(item, str) for item in value)
)
TEXT_OR_ARRAY = Kind("a valid string or array", lambda value: isinstance(value, str | list))
TEXT_OR_OBJECT = Kind("a valid string or object", lambda value: isinstance(value, str | dict))
ANYTHING = Kind("a JSON value", lambda value: True)


def kinds(**fields: tuple[Kind, str]) -> dict[str, Kind]:
    """A table field → kind from one row a kind: `numbers=(NUMBER, "temperature top_p")`."""
    return {name: kind for kind, names in fields.values() for name in names.split()}


def misfits(value: Mapping[str, Json], fields: Mapping[str, Kind]) -> Iterator[tuple[str, Kind]]:
    """Fields of `value` that are not of their kind; null is as good as absent, and fields outside the table pass."""
    return (
        (name, fields[name])
        for name, item in value.items()
        if item is not None and name in fields and not fields[name].holds(item)
    )


def missing(value: Mapping[str, Json], names: Iterable[str]) -> Iterator[str]:
    """Names that are absent or null."""
    return (name for name in names if value.get(name) is None)


def unknown(sent: Sent, fields: Mapping[str, Kind]) -> Iterator[str]:
    """Top-level fields that no table knows, of a request to a strict server.

    Any other server accepts them (`server/notices.py`).
    """
    return (name for name in sent.body if sent.is_strict and name not in fields)
