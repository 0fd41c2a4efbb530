"""The body reader and the parser of each endpoint, and recognition of the endpoint of a body.

What reads recordings needs the reader of a body, seldom its parser: each is imported when it is asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Protocol, TypeVar

from contextkit.canonical import Json
from contextkit.providers.body import BodyReader, has_chat_messages

if TYPE_CHECKING:
    from contextkit.providers.body_items import RenderedItems
    from contextkit.providers.provider import Parsed

__all__ = ["BODIES", "PARSERS", "ParseBody", "endpoint_of", "has_billing_header_in_prompt", "reader_for", "reader_of"]

T = TypeVar("T")


class ParseBody(Protocol):
    """Parses a request body of one endpoint."""

    def __call__(self, body: Json, *, near: Iterable[RenderedItems] = ()) -> Parsed:
        """Parse `body`; leading items that it shares with an earlier body of `near` are not rendered again.

        Raises `UnreadableRequest` where it is not of the endpoint.
        """
        ...


class _Loaded(Mapping[str, T]):
    """Values by endpoint, each imported when it is asked for."""

    def __init__(self, **places: str) -> None:
        self._places = places
        self._values: dict[str, T] = {}

    def __getitem__(self, endpoint: str) -> T:
        value = self._values.get(endpoint)
        if value is None:
            module, _, name = self._places[endpoint].partition(":")
            value = self._values[endpoint] = getattr(import_module(f"contextkit.providers.{module}"), name)
        return value

    def __contains__(self, endpoint: object) -> bool:
        return endpoint in self._places

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)


BODIES: Mapping[str, BodyReader] = _Loaded(
    gemini="gemini.body:BODY",
    bedrock_converse="bedrock.body:BODY",
    openai_responses="openai.body:RESPONSES_BODY",
    anthropic_messages="anthropic.body:BODY",
    openai_chat="openai.body:CHAT_BODY",
)
"""Endpoint → what recognises and cuts its bodies, in the order their `is_body` is asked: any other body with `messages`
is OpenAI Chat's."""
PARSERS: Mapping[str, ParseBody] = _Loaded(
    anthropic_messages="anthropic.messages:parse",
    openai_chat="openai.chat:parse",
    openai_responses="openai.responses:parse",
    bedrock_converse="bedrock.converse:parse",
    gemini="gemini.generate:parse",
)
"""Endpoint → what reads a request body of it as a prompt."""
_PREFIXES_OF_CHAT = ("openai", "openrouter", "litellm")
"""Providers that take OpenAI Chat bodies for Claude too."""


def has_billing_header_in_prompt(endpoint: str, model: str) -> bool:
    """Return whether the host of a model renders Claude Code's billing header; only Claude's own hosts take it out.

    >>> has_billing_header_in_prompt("anthropic_messages", "gemma-4-26b")
    True
    """
    return endpoint == "anthropic_messages" and model not in ("", "None") and "claude" not in model.lower()


def reader_for(endpoint: str, model: str) -> BodyReader:
    """The reader of an endpoint's bodies, as the host of a model renders them."""
    if has_billing_header_in_prompt(endpoint, model):
        from contextkit.providers.anthropic.body import ELSEWHERE

        return ELSEWHERE
    return BODIES[endpoint]


def reader_of(fields: Mapping[str, Json], hint: str) -> BodyReader | None:
    """The reader of a body, None where it is no model call.

    `hint` (provider and model, in lower case) decides where the keys of the body do not.
    """
    is_claude = "claude" in hint and not hint.startswith(_PREFIXES_OF_CHAT)
    if (
        is_claude
        and "messages" in fields
        and "max_tokens" in fields
        and not has_chat_messages(fields)
        and not BODIES["bedrock_converse"].is_body(fields)
    ):
        return BODIES["anthropic_messages"]
    return next((body for body in BODIES.values() if body.is_body(fields)), None)


def endpoint_of(fields: Mapping[str, Json], hint: str) -> str:
    """Key in `BODIES` of a body's endpoint, empty where it is no model call."""
    body = reader_of(fields, hint)
    return body.endpoint if body else ""
