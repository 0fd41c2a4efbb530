"""All codecs by endpoint, and the recognition of a body whose endpoint nobody names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module

from contextkit.canonical import Json
from contextkit.providers.body import has_chat_messages
from contextkit.providers.codec import Codec

__all__ = ["CODECS", "codec_of", "endpoint_of"]

_MODULES = {
    "gemini": "gemini.rendering",
    "gemini_interactions": "gemini_interactions.rendering",
    "bedrock_converse": "bedrock.rendering",
    "openai_responses": "openai.responses_rendering",
    "anthropic_messages": "anthropic.rendering",
    "openai_chat": "openai.chat_rendering",
}
"""Endpoint → the module of `contextkit.providers` that holds its `CODEC`."""


class _Codecs(Mapping[str, Codec]):
    """Codecs by endpoint, each imported on first use: linting source needs none of them."""

    def __init__(self) -> None:
        self._codecs: dict[str, Codec] = {}

    def __getitem__(self, endpoint: str) -> Codec:
        codec = self._codecs.get(endpoint)
        if codec is None:
            codec = import_module(f"contextkit.providers.{_MODULES[endpoint]}").CODEC
            self._codecs[endpoint] = codec
        return codec

    def __iter__(self) -> Iterator[str]:
        return iter(_MODULES)

    def __len__(self) -> int:
        return len(_MODULES)


CODECS: Mapping[str, Codec] = _Codecs()
"""Endpoint → its codec, in the order their `is_body` is asked: any other body with `messages` is OpenAI Chat's."""
_PREFIXES_OF_CHAT = ("openai", "openrouter", "litellm")
"""Providers that take OpenAI Chat bodies for Claude too."""


def codec_of(fields: Mapping[str, Json], hint: str) -> Codec | None:
    """The codec of a body, None where it is no model call.

    `hint` (provider and model, in lower case) decides where the keys of the body do not.
    """
    is_claude = "claude" in hint and not hint.startswith(_PREFIXES_OF_CHAT)
    if (
        is_claude
        and "messages" in fields
        and "max_tokens" in fields
        and not has_chat_messages(fields)
        and not CODECS["bedrock_converse"].is_body(fields)
    ):
        return CODECS["anthropic_messages"]
    return next((codec for codec in CODECS.values() if codec.is_body(fields)), None)


def endpoint_of(fields: Mapping[str, Json], hint: str) -> str:
    """Key in `CODECS` of a body's endpoint, empty where it is no model call."""
    codec = codec_of(fields, hint)
    return codec.name if codec else ""
