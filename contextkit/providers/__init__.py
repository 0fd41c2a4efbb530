"""A layout in a provider's words, and back; no sockets."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from contextkit.providers.anthropic.messages import AnthropicMessages as AnthropicMessages
    from contextkit.providers.bedrock.converse import BedrockConverse as BedrockConverse
    from contextkit.providers.gemini.generate import Gemini as Gemini
    from contextkit.providers.openai.chat import OpenAIChat as OpenAIChat
    from contextkit.providers.openai.responses import OpenAIResponses as OpenAIResponses
    from contextkit.providers.openai_compatible import OpenAICompatible as OpenAICompatible

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

__all__ = sorted(_PLACES)  # noqa: PLE0605 - one table, not two lists


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_PLACES[name]}"), name)
    globals()[name] = value
    return value
