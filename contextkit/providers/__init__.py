"""A layout in a provider's words, and back; no sockets."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from contextkit.canonical import Json
    from contextkit.providers.anthropic.messages import AnthropicMessages as AnthropicMessages
    from contextkit.providers.bedrock.converse import BedrockConverse as BedrockConverse
    from contextkit.providers.gemini.generate import Gemini as Gemini
    from contextkit.providers.openai.chat import OpenAIChat as OpenAIChat
    from contextkit.providers.openai.responses import OpenAIResponses as OpenAIResponses
    from contextkit.providers.openai_compatible import OpenAICompatible as OpenAICompatible
    from contextkit.providers.provider import Parsed

    PARSERS: Mapping[str, Callable[[Json], Parsed]]
    """Wire → what reads a request body of it."""

_PLACES = {
    "AnthropicMessages": "anthropic.messages",
    "BedrockConverse": "bedrock.converse",
    "Gemini": "gemini.generate",
    "OpenAIChat": "openai.chat",
    "OpenAICompatible": "openai_compatible",
    "OpenAIResponses": "openai.responses",
}
"""Public name → the module it lives in; imported on first use, so that whoever needs one adapter does not wait for all.
"""
_WIRES = {
    "anthropic_messages": "anthropic.messages",
    "openai_chat": "openai.chat",
    "openai_responses": "openai.responses",
    "bedrock_converse": "bedrock.converse",
    "gemini": "gemini.generate",
    "gemini_interactions": "gemini_interactions.body",
}
"""Wire → the module that parses its bodies."""

__all__ = sorted(_PLACES)  # noqa: PLE0605 - one table, not two lists


def __getattr__(name: str) -> Any:
    if name == "PARSERS":
        value: Any = {wire: _module(place).parse for wire, place in _WIRES.items()}
    elif name in _PLACES:
        value = getattr(_module(_PLACES[name]), name)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def _module(place: str) -> Any:
    return import_module(f"{__name__}.{place}")
