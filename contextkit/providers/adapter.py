"""What adapters have in common apart from rendering: a model's row, parameters, the ways to announce changes, and how
responses are read.

`chosen_model` warns once, at the user's own line, where a model's rules are assumed or the model is another provider's.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, Self, cast

from contextkit.cache.usage import Usage, served
from contextkit.canonical import Json
from contextkit.errors import UsageError
from contextkit.models import AssumedModelWarning, Model, assumption, model_named
from contextkit.prompt.prompt import Grammar
from contextkit.providers.late_tools import announcing
from contextkit.providers.masking import Endpoint, telling
from contextkit.providers.notices import noticing
from contextkit.providers.parameters import apart, check_fields, check_names, merged
from contextkit.providers.provider import Provider, Reply
from contextkit.providers.reply_form import lowered
from contextkit.providers.usage import endpoint_usage
from contextkit.terminal import sanitize

_PACKAGE = str(Path(__file__).resolve().parents[1])


def chosen_model(name: str, provider: str) -> Model:
    """Return `model_named(name, provider)`.

    Warns with `AssumedModelWarning`, at the user's own line, where its rules are assumed, and where the model is one of
    another provider.
    """
    row = model_named(name, provider)
    text = _misplacement(row, provider) or (assumption(row) if row.is_assumed else "")
    if text:
        warnings.warn(sanitize(text), AssumedModelWarning, stacklevel=_users_level())
    return row


_CLASSES = {
    "anthropic": "AnthropicMessages",
    "openai": "OpenAIResponses or OpenAIChat",
    "google": "Gemini",
    "aws": "BedrockConverse",
}
"""Provider of a model → the classes that send to it."""


def _misplacement(row: Model, provider: str) -> str:
    """Return the warning for a model that its class's provider does not have; empty if it has it.

    Claude on Bedrock is also behind Anthropic's endpoint.
    """
    if row.provider == provider or row.provider not in _CLASSES or (row.provider, provider) == ("aws", "anthropic"):
        return ""
    return (
        f"{row.name!r} is a model of {row.provider}, and this class sends to {provider}: use {_CLASSES[row.provider]}, "
        "unless a gateway behind your base_url serves it"
    )


def _users_level() -> int:
    """Count the frames from `chosen_model` to the first one outside this package, as `warnings.warn` does."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        level, frame = level + 1, frame.f_back
    return level


@dataclass(frozen=True, slots=True)
class Answering:
    """How one endpoint answers."""

    reply: Callable[[Any], Reply]
    """A response."""
    is_complete: Callable[[Mapping[str, Json]], bool]
    """Whether a joined stream reached its end."""
    joined: Callable[[Iterable[Any]], Mapping[str, Json]]
    """What a stream's events amount to."""
    counters: str = "usage"
    """Field of a response that holds the counters."""


class Adapter:
    """One endpoint and model."""

    answering: ClassVar[Answering]
    wire: str
    name: str
    grammar: Grammar
    template = 1
    betas: tuple[str, ...] = ()
    headers: Mapping[str, str] = MappingProxyType({})
    least_output: ClassVar[int] = 0
    """The least a reply may be limited to, in tokens."""
    takes_own_fields: ClassVar[bool] = False
    """Whether the host takes parameters that the SDK does not declare."""

    _arguments: tuple[tuple[Any, ...], Mapping[str, Any]] = ((), MappingProxyType({}))
    """What it was made with."""

    def __new__(cls, *args: Any, **keywords: Any) -> Self:
        """Keep what it is made with, for `with_model`."""
        adapter = super().__new__(cls)
        adapter._arguments = args, keywords
        return adapter

    def __init__(self, endpoint: Endpoint, params: Mapping[str, Json], model_field: str = "model") -> None:
        """`model_field` names the model in a body.

        Raises `UsageError` for what is no parameter, and for no form of a reply.
        """
        self.model, self.betas = endpoint.model, endpoint.betas
        plain, extra, headers = apart(params)
        self.output, fields = lowered(self.wire, plain)
        self.params: Mapping[str, Json] = {model_field: self.model.name, **fields, **extra}
        check_fields(self.params, self.wire, self.grammar, self.least_output)
        if not self.takes_own_fields:
            check_names((name for name in fields if fields[name] is not None), self.wire)
        if self.params[model_field] != self.model.name:
            raise UsageError(
                f"{model_field}: the model is {self.model.name}, the first argument; leave {model_field} out of the fields"
            )
        self.headers = merged(self.headers, headers)
        asked = Endpoint(self.wire, self.model, self.betas)
        self.telling, self.announcing = telling(endpoint).name, announcing(asked).name
        self.noticing = noticing(asked).name

    def reply(self, response: Any) -> Reply:
        """Parse what the typed method returned, its dict, or a joined stream."""
        return self.answering.reply(response)

    def is_complete(self, response: Mapping[str, Json]) -> bool:
        """Return whether the model came to an end, its own or a limit's."""
        return self.answering.is_complete(response)

    def usage(self, response: Mapping[str, Json]) -> Usage:
        """Read the usage of a response."""
        return served(endpoint_usage(self.wire, response.get(self.answering.counters)), response)

    def joined(self, events: Iterable[Any]) -> Mapping[str, Json]:
        """Join stream events into a response."""
        return self.answering.joined(events)


def with_model(provider: Provider, name: str) -> Provider:
    """An adapter for another model of the same endpoint, made with the same arguments otherwise.

    Raises `UsageError` for what is no name, for a provider that is none of this package's, and where the model does not
    take a parameter.
    """
    if not isinstance(name, str) or not name:
        raise UsageError(f"model={name!r}: the name of a model")
    if not isinstance(provider, Adapter):
        raise UsageError(f"model= needs an adapter of contextkit, not {type(provider).__name__}: give provider=…")
    positional, keywords = provider._arguments
    keywords = {key: value for key, value in keywords.items() if key != "model"}
    make: Callable[..., Any] = type(provider)
    return cast(Provider, make(name, *positional[1:], **keywords))
