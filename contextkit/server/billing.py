"""What the local provider needs to bill a request: how it is parsed, which cache it meets, what the ledger keeps of it."""

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
from contextkit.server.endpoints.codec import Codec
from contextkit.server.endpoints.validation import ParsedRequest, ReceivedRequest
from contextkit.server.scripted import Part


@dataclass(frozen=True, slots=True)
class ReplySize:
    """The size of a reply."""

    n_tokens: int
    """All of it."""
    n_thinking: int
    """The thinking in it."""
    ids: array[int]
    """Its tokens where they have names, else none."""


class Books(Protocol):
    """One way to bill."""

    def adapted(self, codec: Codec) -> Codec:
        """The endpoint as it is spoken here."""
        ...

    def provider(self, codec: Codec, model: Model) -> str:
        """Return the ledger's name of the provider that bills."""
        ...

    def parse_request(self, codec: Codec, received: ReceivedRequest) -> tuple[Model, Parsed]:
        """A request body; raises `UnknownModel` or `UnreadableRequest`."""
        ...

    def cache_prompt(self, codec: Codec, request: ParsedRequest) -> Any:
        """Return the prompt that the cache takes."""
        ...

    def cache(self, codec: Codec, request: ParsedRequest) -> PrefixCache[Any]:
        """The cache it is asked of."""
        ...

    def reply_size(self, codec: Codec, request: ParsedRequest, parts: tuple[Part, ...]) -> ReplySize:
        """Measure a reply."""
        ...

    def ended(self, cache: PrefixCache[Any], lease: Lease, reply_size: ReplySize, output: int, now: float) -> Usage:
        """The response is complete: the whole bill."""
        ...

    def dropped(self, cache: PrefixCache[Any], lease: Lease, now: float) -> Usage:
        """The response never began: the bill."""
        ...

    def recorded(
        self, session: str, request: ParsedRequest, cache_prompt: Any, reply_size: ReplySize | None
    ) -> Outline | Tokens:
        """Return what the ledger stores of the prompt."""
        ...

    def billed(self, lease: Lease) -> Callable[[Json], dict[str, Json]]:
        """OpenAI's counters → the fields of a response that tell the bill."""
        ...

    def reset(self) -> None:
        """Forget everything."""
        ...
