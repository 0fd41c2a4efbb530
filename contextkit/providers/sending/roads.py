"""How a request reaches an SDK that takes no prepared bytes: boto3 and google-genai write their own, from keyword
arguments.

Takes a body and a client, gives the typed call. What leaves has the meaning of `request.body`, in the SDK's spelling.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from contextkit.errors import UsageError
from contextkit.providers.blockwise.raw import RAW, unpacked

Fields = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Road:
    """The typed methods of one SDK."""

    client: str
    """As it is made, for errors."""
    keywords: Callable[[Fields, Mapping[str, str]], Fields]
    """(body, extra headers) → keyword arguments."""
    method: Callable[[Any], Any]
    """Client → the method, None for what is no client."""
    amethod: Callable[[Any], Any]
    """The same for `await`; None where the SDK has none, and a thread makes the call."""
    streaming: Callable[[Any], Any]
    """Client → the method that streams."""
    events: Callable[[Any], Any]
    """What that method returned → its events."""


def _converse(body: Fields, headers: Mapping[str, str]) -> Fields:
    if headers:
        raise UsageError(
            "boto3 takes no headers for one call: leave extra_headers out, or register a handler of its events"
        )
    keywords: Fields = unpacked(body, RAW["bedrock_converse"])
    return keywords


def _generate(body: Fields, headers: Mapping[str, str]) -> Fields:
    given: Fields = unpacked(body, RAW["gemini"])
    beside = {name: value for name, value in given.items() if name not in ("model", "contents", "generationConfig")}
    options = {"httpOptions": {"headers": dict(headers)}} if headers else {}
    return {
        "model": given["model"],
        "contents": given["contents"],
        "config": {**beside, **given.get("generationConfig", {}), **options},
    }


def _at(*path: str) -> Callable[[Any], Any]:
    def find(client: Any) -> Any:
        for name in path:
            client = getattr(client, name, None)
        return client

    return find


ROADS: Mapping[str, Road] = {
    "bedrock_converse": Road(
        'boto3.client("bedrock-runtime")',
        _converse,
        _at("converse"),
        lambda client: None,
        _at("converse_stream"),
        lambda response: response["stream"],
    ),
    "gemini": Road(
        "genai.Client()",
        _generate,
        _at("models", "generate_content"),
        _at("aio", "models", "generate_content"),
        _at("models", "generate_content_stream"),
        lambda response: response,
    ),
}
"""Wire → its road; every other wire takes prepared bytes (`providers/request.py`)."""


def called(find: Callable[[Any], Any], road: Road, client: Any) -> Callable[..., Any]:
    """The method of `client`; raises `UsageError` for what is no client of this SDK."""
    method = find(client)
    if not callable(method):
        raise UsageError(f"{type(client).__name__} is no client for this request: pass {road.client}")
    found: Callable[..., Any] = method
    return found
