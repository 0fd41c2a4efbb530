"""Where the examples send their requests: the real provider when its key is set, else a local one that bills like it."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import anthropic
import openai

from contextkit.server import LocalServer


@contextmanager
def anthropic_client(replies: list[Any]) -> Iterator[anthropic.Anthropic]:
    """A client of Anthropic's SDK; without ANTHROPIC_API_KEY it talks to a local provider that answers with `replies`."""
    if os.environ.get("ANTHROPIC_API_KEY"):
        with anthropic.Anthropic() as made:
            yield made
        return
    print("ANTHROPIC_API_KEY is not set: using the local provider with scripted replies")
    with LocalServer(replies) as server, anthropic.Anthropic(base_url=server.url, api_key="local") as made:
        yield made


@asynccontextmanager
async def async_anthropic_client(replies: list[Any]) -> AsyncIterator[anthropic.AsyncAnthropic]:
    """The asynchronous client, of the same providers."""
    if os.environ.get("ANTHROPIC_API_KEY"):
        async with anthropic.AsyncAnthropic() as made:
            yield made
        return
    print("ANTHROPIC_API_KEY is not set: using the local provider with scripted replies")
    with LocalServer(replies) as server:
        async with anthropic.AsyncAnthropic(base_url=server.url, api_key="local") as made:
            yield made


@contextmanager
def openai_client(replies: list[Any]) -> Iterator[openai.OpenAI]:
    """A client of OpenAI's SDK; without OPENAI_API_KEY it talks to a local provider that answers with `replies`."""
    if os.environ.get("OPENAI_API_KEY"):
        with openai.OpenAI() as made:
            yield made
        return
    print("OPENAI_API_KEY is not set: using the local provider with scripted replies")
    with LocalServer(replies) as server, openai.OpenAI(base_url=f"{server.url}/v1", api_key="local") as made:
        yield made


def says(text: str) -> Any:
    """A scripted reply of text."""
    return {"parts": [{"type": "text", "text": text}]}


def asks(*calls: tuple[str, dict[str, Any]]) -> Any:
    """A scripted reply that calls tools."""
    return {"parts": [{"type": "call", "name": name, "arguments": arguments} for name, arguments in calls]}


SYSTEM = "You are a careful assistant. Use the tools you have; say what you did in one sentence. " * 40
"""Long enough to be cached: shorter prompts are below every model's minimum."""
