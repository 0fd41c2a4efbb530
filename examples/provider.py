"""Where the examples send their requests: the real provider when its key is set, else a local one that bills like it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import anthropic
import openai

from contextkit.server import LocalServer


@contextmanager
def anthropic_client(replies: list[Any], client: type[Any] = anthropic.Anthropic) -> Iterator[Any]:
    """A client of Anthropic's SDK; without ANTHROPIC_API_KEY it talks to a local provider that answers with `replies`."""
    if os.environ.get("ANTHROPIC_API_KEY"):
        yield client()
        return
    print("ANTHROPIC_API_KEY is not set: using the local provider with scripted replies")
    with LocalServer(replies) as server:
        yield client(base_url=server.url, api_key="local")


@contextmanager
def openai_client(replies: list[Any]) -> Iterator[openai.OpenAI]:
    """A client of OpenAI's SDK; without OPENAI_API_KEY it talks to a local provider that answers with `replies`."""
    if os.environ.get("OPENAI_API_KEY"):
        yield openai.OpenAI()
        return
    print("OPENAI_API_KEY is not set: using the local provider with scripted replies")
    with LocalServer(replies) as server:
        yield openai.OpenAI(base_url=f"{server.url}/v1", api_key="local")


def says(text: str) -> Any:
    """A scripted reply of text."""
    return {"parts": [{"type": "text", "text": text}]}


def asks(*calls: tuple[str, dict[str, Any]]) -> Any:
    """A scripted reply that calls tools."""
    return {"parts": [{"type": "call", "name": name, "arguments": arguments} for name, arguments in calls]}


SYSTEM = "You are a careful assistant. Use the tools you have; say what you did in one sentence. " * 40
"""Long enough to be cached: shorter prompts are below every model's minimum."""
