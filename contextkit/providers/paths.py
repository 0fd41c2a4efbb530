"""The paths of model hosts: the endpoint that a request speaks, and requests that cost nothing.

A path is read as a lenient host reads it: percent-decoded, in any letter case, with doubled or trailing slashes. A budget
prices the requests of `wire_of`, lets pass those of `is_free`, and takes every other one for a call whose price nobody
knows: a host adds endpoints faster than a table does.
"""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import unquote

FOLLOWED: Final = frozenset({"anthropic_messages", "openai_chat", "openai_responses"})
"""Endpoints of the SDKs whose conversations are followed and whose responses are read while they pass."""
_WIRES: Final = tuple(
    (re.compile(pattern + "$"), wire)
    for pattern, wire in (
        ("/messages", "anthropic_messages"),
        ("/chat/completions", "openai_chat"),
        ("/completions", "openai_completions"),
        ("/responses", "openai_responses"),
        (":(?:stream)?generatecontent", "gemini"),
        (":(?:stream)?rawpredict", "vertex_raw"),
        ("/model/.+/converse(?:-stream)?", "bedrock_converse"),
        ("/model/.+/invoke(?:-with-response-stream)?", "bedrock_invoke"),
    )
)
"""End of the path of a model call → the endpoint there. `vertex_raw` is what a vendor's own endpoint takes (Claude's,
say), on Vertex AI; the legacy `openai_completions` is what vLLM, SGLang and llama.cpp serve as well. Bedrock: botocore
1.44, bedrock-runtime."""
_FREE: Final = re.compile(
    "(?:"
    "/count_tokens|/input_tokens|:(?:count|compute)tokens|/model/.+/count-tokens|/models/count-tokens:rawpredict|/tokenize|/detokenize|/apply-template"
    "|/files|/files/[^/]+|/uploads|/uploads/[^/]+/(?:parts|complete)|/skills|/skills/[^/]+/versions"
    "|/conversations/conv_[^/]+(?:/items)?"
    "|/threads|/threads/(?!runs$)[^/]+|/threads/[^/]+/messages(?:/[^/]+)?|/assistants|/assistants/[^/]+"
    "|/chat/completions/chatcmpl[^/]+|/moderations|/oauth/token|/event_logging(?:/v\\d+)?/batch"
    "|/(?:batches|responses|runs|uploads|jobs)/[^/]+/cancel|:cancel"
    ")$"
)
"""End of the path of a `POST` that no host bills: counting, uploading, storing, cancelling, logging in, telemetry."""
_LOOKS_UP: Final = frozenset({"GET", "HEAD", "OPTIONS", "DELETE"})
"""Methods that ask no model anything; a switch to another protocol (`Upgrade`) is not told by its method."""


def wire_of(method: str, target: str) -> str:
    """Return the endpoint that a request speaks; empty where it is no model call of a known one.

    `target` is a path, with or without its query.

    >>> wire_of("POST", "/v1/messages?beta=true"), wire_of("POST", "/v1//Mess%61ges/"), wire_of("GET", "/v1/models")
    ('anthropic_messages', 'anthropic_messages', '')
    >>> wire_of("POST", "/v1beta/models/gemini-2.5-pro:streamGenerateContent?alt=sse"), wire_of("POST", "/model/eu.amazon.nova-pro/invoke")
    ('gemini', 'bedrock_invoke')
    """
    if method.upper() != "POST":
        return ""
    path = _normalised(target)
    return "" if _FREE.search(path) else next((wire for pattern, wire in _WIRES if pattern.search(path)), "")


def is_free(method: str, target: str) -> bool:
    """Return whether a request costs nothing.

    >>> is_free("GET", "/v1/models"), is_free("POST", "/v1/messages/count_tokens"), is_free("POST", "/v1/messages/batches")
    (True, True, False)
    """
    return method.upper() in _LOOKS_UP or bool(_FREE.search(_normalised(target)))


def _normalised(target: str) -> str:
    """The path as a lenient host reads it, without the query, in small letters."""
    path, before = target.partition("?")[0].partition("#")[0], ""
    while path != before:
        path, before = unquote(path), path
    segments: list[str] = []
    for segment in path.lower().split("/"):
        if segment == "..":
            del segments[-1:]
        elif segment.strip() not in ("", "."):
            segments.append(segment.strip())
    return "/" + "/".join(segments)
