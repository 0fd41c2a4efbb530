"""What the local provider must be told to bill a request: how it is understood, which cache it meets, what is kept of
it.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from contextkit.cache.prefix_cache import Lease, PrefixCache
from contextkit.cache.usage import Usage
from contextkit.canonical import Json
from contextkit.ledger.calls import Outline, Tokens
from contextkit.models import Model
from contextkit.providers.provider import Parsed
from contextkit.server.refusals.refusal import Asked, Sent
from contextkit.server.replies import Part
from contextkit.server.wires.wire import Wire


@dataclass(frozen=True, slots=True)
class Said:
    """The size of a reply."""

    n_tokens: int
    """All of it."""
    n_thinking: int
    """The thinking in it."""
    ids: array[int]
    """Its tokens where they have names, else none."""


class Books(Protocol):
    """One way to bill."""

    def spoken(self, wire: Wire) -> Wire:
        """The endpoint as it is spoken here."""
        ...

    def provider(self, wire: Wire, model: Model) -> str:
        """What the ledger calls whoever bills."""
        ...

    def understood(self, wire: Wire, sent: Sent) -> tuple[Model, Parsed]:
        """A request body; raises `UnknownModel` or `UnreadableRequest`."""
        ...

    def seen(self, wire: Wire, asked: Asked) -> Any:
        """What the cache is asked with."""
        ...

    def cache(self, wire: Wire, asked: Asked) -> PrefixCache[Any]:
        """The cache it is asked of."""
        ...

    def said(self, wire: Wire, asked: Asked, parts: tuple[Part, ...]) -> Said:
        """What a reply comes to."""
        ...

    def ended(self, cache: PrefixCache[Any], lease: Lease, said: Said, output: int, now: float) -> Usage:
        """The response is complete: the whole bill."""
        ...

    def dropped(self, cache: PrefixCache[Any], lease: Lease, now: float) -> Usage:
        """The response never began: the bill."""
        ...

    def recorded(self, session: str, asked: Asked, seen: Any, said: Said | None) -> Outline | Tokens:
        """What the ledger keeps of the prompt."""
        ...

    def billed(self, lease: Lease) -> Callable[[Json], dict[str, Json]]:
        """OpenAI's counters → the fields of a response that tell the bill."""
        ...

    def reset(self) -> None:
        """Forget everything."""
        ...
