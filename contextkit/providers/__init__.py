"""A layout in a provider's words, and back; no sockets."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from contextkit.canonical import Json
from contextkit.providers.anthropic.messages import AnthropicMessages as AnthropicMessages
from contextkit.providers.anthropic.messages import parse as parse_messages
from contextkit.providers.bedrock.converse import BedrockConverse as BedrockConverse
from contextkit.providers.bedrock.converse import parse as parse_converse
from contextkit.providers.gemini.generate import Gemini as Gemini
from contextkit.providers.gemini.generate import parse as parse_gemini
from contextkit.providers.openai.chat import OpenAIChat as OpenAIChat
from contextkit.providers.openai.chat import parse as parse_chat
from contextkit.providers.openai.responses import OpenAIResponses as OpenAIResponses
from contextkit.providers.openai.responses import parse as parse_responses
from contextkit.providers.openai_compatible import OpenAICompatible as OpenAICompatible
from contextkit.providers.provider import Parsed

PARSERS: Mapping[str, Callable[[Json], Parsed]] = {
    "anthropic_messages": parse_messages,
    "openai_chat": parse_chat,
    "openai_responses": parse_responses,
    "bedrock_converse": parse_converse,
    "gemini": parse_gemini,
}
"""Wire → what reads a request body of it."""
