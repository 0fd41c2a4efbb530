"""One server for a whole module, and the real SDK clients pointed at it; every test starts from a reset."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import anthropic
import httpx2
import openai
import pytest

from contextkit.server import LocalServer

CLAUDE, GPT = "claude-sonnet-5-5", "gpt-6.1-sol"
HEAD = "You are careful. " * 300
"""Long enough to be cached by every model used here."""


@pytest.fixture(scope="session")
def running() -> Iterator[LocalServer]:
    with LocalServer(now=1000.0) as server:
        yield server


@pytest.fixture
def server(running: LocalServer) -> LocalServer:
    running.reset()
    return running


@pytest.fixture
def claude(server: LocalServer) -> Iterator[anthropic.Anthropic]:
    with anthropic.Anthropic(base_url=server.url, api_key="any", max_retries=0) as client:
        yield client


@pytest.fixture
def gpt(server: LocalServer) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="any", max_retries=0) as client:
        yield client


@pytest.fixture
def http(server: LocalServer) -> Iterator[httpx2.Client]:
    with httpx2.Client(base_url=server.url, timeout=30.0) as client:  # the first request may load an SDK
        yield client


ALL_PARTS: list[dict[str, Any]] = [
    {"type": "thinking", "thinking": "Let me see. " * 8},
    {"type": "text", "text": "Zwölf Sätze 🙂. " * 8},
    {"type": "call", "name": "search", "arguments": {"query": "gpu", "n": 10**20, "a": [1.5, None, {"z": 1, "b": 2}]}},
    {"type": "call", "name": "search", "arguments": {}},
]


def saying(text: str = "ok", **more: Any) -> dict[str, Any]:
    """A script that says `text`."""
    return {"parts": [{"type": "text", "text": text}], **more}


def asking(*messages: dict[str, Any], **more: Any) -> dict[str, Any]:
    """The arguments of `client.messages.create`."""
    system = [{"type": "text", "text": HEAD, "cache_control": {"type": "ephemeral"}}]
    return {
        "model": CLAUDE,
        "max_tokens": 100,
        "system": system,
        "messages": list(messages) or [{"role": "user", "content": "hello"}],
        **more,
    }
