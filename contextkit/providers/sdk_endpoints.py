"""The typed methods of the SDKs that take prepared bytes: the types of their replies, and the parameters they declare.

An SDK is imported when its endpoint is asked about.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any

from contextkit.canonical import Json


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where the SDK keeps what one wire's typed method uses; `module:name`, imported on first use."""

    result: str
    """Type of a reply."""
    event: str
    """Type of a stream's events."""
    sdk: str
    """Module with `Stream` and `AsyncStream`."""
    method: str
    """The typed method, whose signature says what is a field and what goes under `extra_body`."""
    streaming: Mapping[str, Json]
    """Body fields that ask for a stream."""
    untimed_tokens: int | None
    """Above this `max_tokens` the typed method refuses not to stream (anthropic/_base_client.py, an hour per 128,000
    tokens)."""


ENDPOINTS: dict[str, Endpoint] = {
    "anthropic_messages": Endpoint(
        "anthropic.types:Message",
        "anthropic.types:RawMessageStreamEvent",
        "anthropic",
        "anthropic.resources.messages:Messages",
        {"stream": True},
        21_333,
    ),
    "openai_chat": Endpoint(
        "openai.types.chat:ChatCompletion",
        "openai.types.chat:ChatCompletionChunk",
        "openai",
        "openai.resources.chat.completions:Completions",
        {"stream": True, "stream_options": {"include_usage": True}},
        None,
    ),
    "openai_responses": Endpoint(
        "openai.types.responses:Response",
        "openai.types.responses:ResponseStreamEvent",
        "openai",
        "openai.resources.responses:Responses",
        {"stream": True},
        None,
    ),
}


@cache
def load(place: str) -> Any:
    """Import `module:name`."""
    module, name = place.split(":")
    return getattr(import_module(module), name)


@cache
def method_fields(wire: str) -> frozenset[str]:
    """Return the parameters of an endpoint's typed method that are fields of the body. Raises `ImportError` without the SDK."""
    method = load(ENDPOINTS[wire].method).create
    return frozenset(inspect.signature(method).parameters) - {
        "self",
        "extra_headers",
        "extra_query",
        "extra_body",
        "timeout",
    }


def declared_fields(wire: str) -> frozenset[str] | None:
    """The parameters that the installed SDK declares for an endpoint; None without the SDK."""
    try:
        if wire == "gemini":
            fields = load("google.genai.types:GenerateContentConfig").model_fields
            return frozenset({"generationConfig", *fields, *(field.alias for field in fields.values() if field.alias)})
        if wire == "bedrock_converse":
            service = load("botocore.loaders:Loader")().load_service_model("bedrock-runtime", "service-2")
            return frozenset(service["shapes"]["ConverseRequest"]["members"])
        return method_fields(wire) if wire in ENDPOINTS else None
    except ImportError:
        return None
