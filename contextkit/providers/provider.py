"""The interface of an adapter (`Provider`) and the values it gives: `Reply`, `Turn`, `Parsed`.

Knows no field of an endpoint; opens no sockets.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from contextkit.cache.prompt import Prompt
from contextkit.cache.usage import Usage
from contextkit.canonical import Json
from contextkit.log.entry import Entry, Kind, Native
from contextkit.models import Model
from contextkit.prompt.breakpoints import Plan
from contextkit.prompt.prompt import Grammar, PromptLayout, RenderedBlock
from contextkit.providers.body_items import RenderedItems


@dataclass(frozen=True, slots=True)
class ReplyCall:
    """A tool call a model made."""

    id: str
    """The provider's id, which the result names."""
    name: str
    """The tool."""
    arguments: Json
    """As the model wrote them, keys in its order; a string where they were not JSON."""


@dataclass(frozen=True, slots=True)
class Reply:
    """One response, in neutral form and as received."""

    id: str
    """The provider's id of the response."""
    native: Native
    """As received: order, thinking, signatures, key order of arguments."""
    text: str
    """Its text, without thinking."""
    calls: tuple[ReplyCall, ...]
    """Calls to answer, in order."""
    stop: str
    """done, calls, truncated, paused, refused or overflow."""
    usage: Usage
    """The usage that the provider billed."""
    withheld: Mapping[str, str] = field(default_factory=dict)
    """Id of earlier reasoning that the provider left out of the prompt, or its place in the request → the reason."""
    is_renamed: bool = False
    """Whether calls have other ids than they came with, since several came with one."""


def assistant_body(
    wire: str, model: str, native_body: Json, text: str, calls: Iterable[ReplyCall], stop: str = ""
) -> dict[str, Json]:
    """Make the body of an `assistant` entry; without `stop` the reply ended by itself, or with its calls."""
    listed = [{"id": call.id, "name": call.name, "arguments": call.arguments} for call in calls]
    native = {"wire": wire, "model": model, "body": native_body}
    return {"native": native, "text": text, "calls": listed, "stop": stop or ("calls" if listed else "done")}


@dataclass(frozen=True, slots=True)
class Turn:
    """One turn of a request body, as the kind and body of a log entry."""

    kind: Kind
    """user, assistant or result."""
    body: Json
    """As in `log/entry.py`."""


@dataclass(frozen=True, slots=True)
class Parsed:
    """A parsed request body."""

    model: str
    """The model it names."""
    params: Mapping[str, Json]
    """Top-level fields that hold no blocks."""
    layout: PromptLayout
    """Its blocks and explicit breakpoints."""
    prompt: Prompt
    """The prompt that the cache sees."""
    items: RenderedItems
    """What a body that continues it need not render again."""


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
        """The row of its model."""
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
        """Beta features that the caller opted in to."""
        ...

    @property
    def telling(self) -> str:
        """The way the prompt announces a phase: a row of `providers/masking.py`."""
        ...

    @property
    def noticing(self) -> str:
        """The way the prompt reports an event: a row of `providers/notices.py`."""
        ...

    @property
    def announcing(self) -> str:
        """The way the prompt announces a late tool: a row of `providers/late_tools.py`."""
        ...

    @property
    def plan(self) -> Plan:
        """The breakpoints to place."""
        ...

    def render_static_prefix(self, system: Json, tools: Json, entry: int) -> Iterator[RenderedBlock]:
        """Render the tools and system levels, from neutral parts and definitions."""
        ...

    def render_entry(self, entry: Entry, *, keeps_thinking: bool = True) -> Iterator[RenderedBlock]:
        """Render one log entry; without thinking where the prefix before it has changed."""
        ...

    def prompt(self, layout: PromptLayout, params: Mapping[str, Json]) -> Prompt:
        """The prompt that the cache sees for a request."""
        ...

    def parse(self, body: Json) -> Parsed:
        """Parse a request body of this endpoint; raises `UnreadableRequest` with the place where it is none."""
        ...

    def turns(self, body: Json) -> tuple[Json, Json, list[Turn]]:
        """System parts, tool definitions and turns of a request body, for `Context.from_messages`."""
        ...

    def reply(self, response: Any) -> Reply:
        """Parse a response: the SDK's typed object or its dict. Raises `UnreadableReply` for anything else."""
        ...

    def is_complete(self, response: Mapping[str, Json]) -> bool:
        """Return whether a joined stream reached its end."""
        ...

    def usage(self, response: Mapping[str, Json]) -> Usage:
        """The usage of a response, also of a partial one."""
        ...

    def joined(self, events: Iterable[Any]) -> Mapping[str, Json]:
        """Join the events of a stream into a response, as a dict."""
        ...
