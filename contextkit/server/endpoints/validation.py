"""Requests of the local provider, the refusal of one, and the checks that yield refusals; for every endpoint."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain

from contextkit.canonical import Json
from contextkit.models import Model
from contextkit.providers.provider import Parsed
from contextkit.server.endpoints.notices import Notice
from contextkit.server.endpoints.signatures import Place


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
class ReceivedRequest:
    """A request before it is parsed."""

    headers: Mapping[str, str]
    """Lower-case names; never kept."""
    body: Mapping[str, Json]
    """The JSON object, what the server keeps of its conversation included."""
    body_as_sent: Mapping[str, Json] | None = None
    """The body as it came, where `body` holds more."""
    is_strict: bool = False
    """Whether the server refuses fields that the endpoint does not know."""


@dataclass(frozen=True, slots=True)
class ParsedRequest:
    """A request that was parsed."""

    received: ReceivedRequest
    """As it came."""
    parsed: Parsed
    """Its layout and the prompt that is cached."""
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
    """Return whether objects and arrays stand in one another more than `levels` deep.

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


RequestCheck = Callable[[ReceivedRequest], Iterator[Refusal]]
"""A check that needs no understanding."""
PromptCheck = Callable[[ParsedRequest], Iterator[Refusal]]
"""A check of a request whose shape is known to be right."""


def require_key(refusal: Refusal, *headers: str) -> RequestCheck:
    """Make the check that one of these headers holds a key; its value is not checked."""

    def check(received: ReceivedRequest) -> Iterator[Refusal]:
        if not any(map(received.headers.get, headers)):
            yield refusal

    return check


def require_fit(refusal: Refusal) -> PromptCheck:
    """Make the check that a prompt fits into the model's window."""

    def check(request: ParsedRequest) -> Iterator[Refusal]:
        if request.parsed.prompt.n_tokens > request.model.window_tokens:
            yield refusal

    return check


def first(found: Iterable[Iterator[Refusal]]) -> Refusal | None:
    """The first refusal of several checks, run one after another and only as far as needed."""
    return next(chain.from_iterable(found), None)
