"""What an adapter is: a conversation in a provider's words, and back; no sockets.

Every adapter is two tables, kind → blocks and block → piece, read in both directions. What they share stands here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from contextkit.cache.prompt import Prompt
from contextkit.cache.usage import Usage
from contextkit.canonical import Json
from contextkit.layout.breakpoints import Plan
from contextkit.layout.layout import Layout
from contextkit.layout.segment import Piece
from contextkit.layout.track import Grammar
from contextkit.log.entry import Entry, Kind, Native
from contextkit.models import Model


@dataclass(frozen=True, slots=True)
class ReplyCall:
    """A tool call a model made."""

    id: str
    """The provider's id, answered by it."""
    name: str
    """The tool."""
    arguments: Json
    """What the model wrote, in its order; a string where it was not JSON."""


@dataclass(frozen=True, slots=True)
class Reply:
    """One response, in neutral words and in the provider's own."""

    id: str
    """The provider's id of the response."""
    native: Native
    """As received: order, thinking, signatures, key order of arguments."""
    text: str
    """What was said, without thinking."""
    calls: tuple[ReplyCall, ...]
    """Calls to answer, in order."""
    stop: str
    """done, calls, truncated, paused, refused or overflow."""
    usage: Usage
    """What the provider billed."""
    withheld: Mapping[str, str] = field(default_factory=dict)
    """Id of earlier reasoning that the model was not shown, or where it stood in the request → why."""


def kept(wire: str, model: str, said: Json, text: str, calls: Iterable[ReplyCall], stop: str = "") -> dict[str, Json]:
    """What a model said as the body of an `assistant` entry; without `stop` it ended, with its calls or by itself."""
    listed = [{"id": call.id, "name": call.name, "arguments": call.arguments} for call in calls]
    native = {"wire": wire, "model": model, "body": said}
    return {"native": native, "text": text, "calls": listed, "stop": stop or ("calls" if listed else "done")}


@dataclass(frozen=True, slots=True)
class Turn:
    """One thing said, found in somebody's request body: the kind and body of a log entry to be."""

    kind: Kind
    """user, assistant or result."""
    body: Json
    """As in `log/entry.py`."""


@dataclass(frozen=True, slots=True)
class Parsed:
    """A request body, understood."""

    model: str
    """The model it asks."""
    params: Mapping[str, Json]
    """Top-level fields that are not segments."""
    layout: Layout
    """Its segments and explicit marks."""
    prompt: Prompt
    """What the cache sees."""


class Provider(Protocol):
    """One endpoint and model, with its parameters."""

    wire: str
    """The endpoint: `anthropic_messages`, `openai_chat`, `openai_responses`."""
    name: str
    """Who bills: `anthropic`, `openai`."""
    path: str
    """Where requests go, below the client's base URL."""
    template: int
    """Version of the templates; stored in the log, so that an upgrade cannot move a prefix."""
    grammar: Grammar
    """How the wire is written and counted."""

    @property
    def model(self) -> Model:
        """The row of the model asked."""
        ...

    @property
    def params(self) -> Mapping[str, Json]:
        """Top-level fields of every request."""
        ...

    @property
    def headers(self) -> Mapping[str, str]:
        """Extra headers of every request."""
        ...

    @property
    def betas(self) -> tuple[str, ...]:
        """Beta features the caller has opted in to."""
        ...

    @property
    def telling(self) -> str:
        """How a phase is told in the prompt: a row of `masking/mechanisms.py`."""
        ...

    @property
    def noticing(self) -> str:
        """How it is told an event: a row of `providers/changes/mechanisms.py`."""

    @property
    def announcing(self) -> str:
        """How a tool that comes late is announced: a row of `late/mechanisms.py`."""
        ...

    @property
    def plan(self) -> Plan:
        """What to mark."""
        ...

    def head(self, system: Json, tools: Json, entry: int) -> Iterator[Piece]:
        """Pieces of the tools and system levels, from neutral parts and definitions."""
        ...

    def pieces(self, entry: Entry, *, keeps_thinking: bool = True) -> Iterator[Piece]:
        """Pieces of one log entry; without thinking where what stood before it has changed."""
        ...

    def prompt(self, layout: Layout, params: Mapping[str, Json]) -> Prompt:
        """What the cache sees of a request."""
        ...

    def parse(self, body: Json) -> Parsed:
        """A request body of this endpoint, understood; `UnreadableRequest` says where it is not."""
        ...

    def turns(self, body: Json) -> tuple[Json, Json, list[Turn]]:
        """System parts, tool definitions and turns of a request body, for `Context.from_messages`."""
        ...

    def reply(self, response: Any) -> Reply:
        """A response of this endpoint: the SDK's typed object or its dict. `UnreadableReply` otherwise."""
        ...

    def is_complete(self, response: Mapping[str, Json]) -> bool:
        """Whether a joined stream reached its end."""
        ...

    def usage(self, response: Mapping[str, Json]) -> Usage:
        """What a response, even a partial one, says it is billed."""
        ...

    def joined(self, events: Iterable[Any]) -> Mapping[str, Json]:
        """The response that a complete stream of events amounts to, as a dict."""
        ...
