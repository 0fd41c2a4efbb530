"""The codecs of the endpoints that the local provider answers."""

from __future__ import annotations

from contextkit.server.endpoints import (
    anthropic_rendering,
    bedrock_rendering,
    gemini_rendering,
    openai_chat_rendering,
    openai_responses_rendering,
)

MESSAGES = anthropic_rendering.CODEC
CHAT = openai_chat_rendering.CODEC
RESPONSES = openai_responses_rendering.CODEC
CONVERSE = bedrock_rendering.CODEC
GENERATE = gemini_rendering.CODEC
CODECS = {codec.name: codec for codec in (MESSAGES, CHAT, RESPONSES, CONVERSE, GENERATE)}
"""Endpoint → its codec."""
COUNT, COUNTED = anthropic_rendering.COUNT, anthropic_rendering.COUNTED
INVOKE, MANTLE, PREDICT = anthropic_rendering.INVOKE, anthropic_rendering.MANTLE, anthropic_rendering.PREDICT
COMPACT, INPUT_TOKENS = openai_responses_rendering.COMPACT_CODEC, openai_responses_rendering.INPUT_TOKENS_CODEC
MESSAGE = openai_responses_rendering.MESSAGE_CODEC
